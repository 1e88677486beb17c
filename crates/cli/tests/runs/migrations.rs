//! Migrations: one run, many runs, and what would happen.

use serde_json::{Value, json};

use crate::support::call::{Call, instance};
use crate::support::server::Store;
use crate::support::world::{World, in_both_worlds};

in_both_worlds!(a_run_is_moved, all_runs_are_moved);

const OLD: &str = "
workflow: doc
initial: draft
states:
  draft: {on: {submit: review}}
  review: {on: {approve: {target: done, approval: {quorum: 2}}}}
  done: {type: final}
";

/// `review` is called `checking`.
fn new() -> String {
    OLD.replace("review", "checking")
}

async fn a_run_is_moved(world: World) {
    let api = world.api();
    api.put("doc", OLD).await;
    api.start("doc", &json!({ "id": "i" })).await;
    api.send("doc", "i", &json!({ "event": "submit" })).await.ok();
    api.send("doc", "i", &json!({ "event": "approve", "actor": "bob" })).await.ok();
    api.put("doc", &new()).await;
    let migrate = |more: Value| {
        let mut body = json!({ "reason": "renamed", "actor": "root" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Call::post(instance("doc", "i", "/migrate"), &body)
    };
    let missing = api.call(&migrate(json!({}))).await.problem(409, "not_migratable");
    assert_eq!((&missing["code"], &missing["state"]), (&json!("LK0035"), &json!("review")));
    assert_eq!(missing["states"], json!(["draft", "checking"]));
    let map = json!({ "state_map": { "review": "checking" } });
    let mut dry = map.clone();
    dry["dry_run"] = json!(true);
    let rehearsed = api.call(&migrate(dry)).await.ok();
    assert_eq!((&rehearsed["outcome"], &rehearsed["version"]), (&json!("dry_run"), &json!(4)));
    assert_eq!(api.instance("doc", "i").await["version"], 3, "nothing was done");
    let moved = api.call(&migrate(map.clone()).key("k")).await;
    assert_eq!((moved.outcome().as_str(), moved.version(), moved.replayed()), ("applied", 4, false));
    let migration = &moved.json()["migration"];
    assert_eq!((&migration["from_version"], &migration["to_version"]), (&json!(1), &json!(2)));
    assert_eq!((&migration["from_state"], &migration["to_state"]), (&json!("review"), &json!("checking")));
    assert_eq!(migration["votes_dropped"], json!(["bob"]));
    assert_eq!(rehearsed["migration"], *migration, "as it was said");
    let again = api.call(&migrate(map.clone()).key("k")).await;
    assert!(again.replayed() && again.json() == moved.json());
    assert_eq!(api.call(&migrate(map.clone())).await.outcome(), "already_applied");
    let now = api.instance("doc", "i").await;
    assert_eq!(
        (&now["state"], &now["definition_version"], &now["version"]),
        (&json!("checking"), &json!(2), &json!(4))
    );
    let history = api.get(&instance("doc", "i", "/history")).await.ok();
    let entry = &history["items"][3];
    assert_eq!(
        (&entry["kind"], &entry["actor"], &entry["reason"]),
        (&json!("migrate"), &json!("root"), &json!("renamed"))
    );
    assert_eq!((&entry["from_definition_version"], &entry["definition_version"]), (&json!(1), &json!(2)));
    // Back again, by its number; and what there is not.
    let back = json!({ "to_version": 1, "state_map": { "checking": "review" } });
    assert_eq!(api.call(&migrate(back)).await.version(), 5);
    api.call(&migrate(json!({ "to_version": 9 }))).await.problem(404, "unknown_workflow");
    api.call(&migrate(json!({ "run": "00000000-0000-0000-0000-000000000000" }))).await.problem(409, "state_mismatch");
    api.call(&Call::post(instance("doc", "none", "/migrate"), &json!({ "reason": "r" })))
        .await
        .problem(404, "unknown_instance");
    api.call(&Call::post(instance("doc", "i", "/cancel"), &json!({ "reason": "r" }))).await.ok();
    api.call(&migrate(map)).await.problem(409, "already_closed");
}

async fn all_runs_are_moved(world: World) {
    let api = world.api();
    api.put("doc", OLD).await;
    for n in 0..5 {
        let id = format!("d-{n}");
        api.start("doc", &json!({ "id": id })).await;
        if n > 2 {
            api.send("doc", &id, &json!({ "event": "submit" })).await.ok();
        }
    }
    api.put("doc", &new()).await;
    let all = |more: &[&str]| {
        let mut args = vec!["migrate", "doc", "--all", "--reason", "renamed"];
        args.extend(more);
        world.cli(0).run(&args)
    };
    let outcomes = |text: &str| -> Vec<String> {
        let document: Value = serde_json::from_str(text).unwrap();
        let items = document["items"].as_array().unwrap();
        let mut all: Vec<String> = items
            .iter()
            .map(|item| format!("{} {}", item["id"].as_str().unwrap(), item["outcome"].as_str().unwrap()))
            .collect();
        all.sort_unstable();
        all
    };
    let map = ["--map", "review=checking", "-o", "json"];
    let dry = outcomes(all(&[&map[..], &["--dry-run"]].concat()).ok());
    assert_eq!(dry, ["d-0 dry_run", "d-1 dry_run", "d-2 dry_run", "d-3 dry_run", "d-4 dry_run"]);
    // Without the map two are refused, and the others moved.
    let table = all(&[]);
    assert!(table.code == Some(1) && table.err.contains("2 of 5"), "{table:?}");
    assert!(table.out.contains("not_migratable") && table.out.contains("1 > 2"), "{table:?}");
    let rest = outcomes(all(&map).ok());
    let expected = ["d-0 already_applied", "d-1 already_applied", "d-2 already_applied", "d-3 applied", "d-4 applied"];
    assert_eq!(rest, expected, "run again, it takes up what is left");
    for n in 0..5 {
        assert_eq!(api.instance("doc", &format!("d-{n}")).await["definition_version"], 2);
    }
    world.cli(0).run(&["migrate", "doc", "--reason", "r"]).failed(2);
    world.cli(0).run(&["migrate", "doc/d-0", "--all", "--reason", "r"]).failed(2);
}

/// A migration could pass by an approval: where there are tokens, it is for administrators.
#[tokio::test(flavor = "multi_thread")]
async fn with_tokens_only_administrators_migrate() {
    let store = Store::new();
    let secret = |name: &str, roles: &str| {
        let args = ["token", "create", "--name", name, "--roles", roles, "--store", &store.url()];
        store.cli().run(&args).ok().to_owned()
    };
    let (root, clerk) = (secret("root", "admin"), secret("clerk", "finance"));
    let server = store.serve();
    let api = server.api();
    for text in [OLD.to_owned(), OLD.replace("quorum: 2", "quorum: 1")] {
        api.call(&Call::put("doc", &text).token(&root)).await.ok();
        if text == OLD {
            api.call(&Call::start("doc", &json!({ "id": "i" })).token(&clerk)).await.ok();
        }
    }
    let call = |secret: &str| Call::post(instance("doc", "i", "/migrate"), &json!({ "reason": "r" })).token(secret);
    let refused = api.call(&call(&clerk)).await.problem(403, "not_permitted");
    assert_eq!(refused["roles"], json!(["admin"]));
    assert_eq!(api.call(&call(&root)).await.outcome(), "applied");
    let history = api.call(&Call::get(instance("doc", "i", "/history")).token(&root)).await.ok();
    assert_eq!(history["items"][1]["actor"], "root");
}
