//! Migrations on each store: in a batch, on two nodes, and rehearsed.

use std::collections::BTreeMap;

use lockkeeper_model::{Action, Command, Kind, Migrate, Refusal};
use serde_json::json;

use super::support::{Fault, House, WORKFLOW, command, event, key, keyed, name, put, queued};

/// What was `review` is `checking`, and a note is `jot`.
fn renamed() -> String {
    WORKFLOW.replace("review", "checking").replace("note:", "jot:")
}

fn migrate(id: &str, to_version: Option<i64>, map: &[(&str, &str)]) -> Command {
    let state_map: BTreeMap<String, String> =
        map.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect();
    command(id, Action::Migrate(Migrate { to_version, state_map, reason: "renamed".to_owned(), run: None }), "root")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_follows_a_migration_is_judged_by_the_new_version() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    put(&house.engine, "case", &renamed()).await;
    let first = house.held_note().await;
    let batch: Vec<_> = [
        event("a", "jot", "bob"),
        keyed(migrate("a", None, &[]), "m"),
        event("a", "jot", "bob"),
        event("a", "note", "bob"),
        keyed(migrate("a", None, &[]), "m"),
        migrate("a", Some(2), &[]),
        migrate("a", Some(1), &[]),
        event("a", "note", "bob"),
        migrate("a", Some(9), &[]),
    ]
    .into_iter()
    .map(|command| {
        let engine = house.engine.clone();
        queued(Box::pin(async move { engine.send(command, None).await }))
    })
    .collect();
    house.store.release();
    first.await.unwrap();
    let mut answers = Vec::new();
    for answer in batch {
        answers.push(answer.await.unwrap());
    }
    let names: Vec<&str> = answers.iter().map(name).collect();
    let by_old_and_new = ["unknown_event", "applied", "applied", "unknown_event", "applied", "already_applied"];
    assert_eq!(names[..6], by_old_and_new);
    assert_eq!(names[6..], ["applied", "applied", "unknown_workflow"]);
    assert!(answers[4].replayed);
    let history = house.history("a").await;
    let versions: Vec<_> = history.iter().map(|item| item.entry.definition_version).collect();
    assert_eq!(versions, [1, 1, 2, 2, 1, 1]);
    assert_eq!(history.iter().filter(|item| item.entry.kind == Kind::Migrate).count(), 2);
    lockkeeper_model::history::check(history.iter().map(|item| (item.version, &item.entry))).unwrap();
    // The other node has it from the store.
    assert_eq!(name(&house.other.send(event("a", "note", "cyd"), None).await), "applied");
}

/// The newest version is that of the moment in which it is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_migration_to_the_newest_version_is_decided_again_where_there_is_a_newer() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    put(&house.engine, "case", &renamed()).await;
    let other = house.other.clone();
    house.store.next(Fault::Before(Box::new(move || {
        Box::pin(async move { put(&other, "case", &renamed().replace("quorum: 2", "quorum: 3")).await })
    })));
    let answer = house.engine.send(migrate("a", None, &[]), None).await;
    assert_eq!(name(&answer), "applied");
    assert_eq!(house.other.instance(&key("a"), false).await.unwrap().definition_version, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rehearsal_says_what_would_happen_and_does_nothing() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    house.engine.send(event("a", "review", "bob"), None).await.result.unwrap();
    house.engine.send(event("a", "approve", "bob"), None).await.result.unwrap();
    // This node has seen no other version; the primary tells.
    put(&house.other, "case", &renamed()).await;
    let refused = house.engine.rehearse(&migrate("a", None, &[])).await;
    assert!(matches!(refused, Err(Refusal::NotMigratable { .. })), "{refused:?}");
    let would = house.engine.rehearse(&migrate("a", None, &[("review", "checking")])).await.unwrap();
    assert_eq!((would.version, would.state.as_str()), (4, "checking"));
    assert_eq!(would.migration.as_ref().unwrap().votes_dropped, ["bob"]);
    assert_eq!(house.other.instance(&key("a"), false).await.unwrap().version, 3);
    let done = house.engine.send(migrate("a", None, &[("review", "checking")]), None).await.result.unwrap();
    assert_eq!(done, would);
    assert_eq!(house.engine.rehearse(&event("a", "approve", "bob")).await.unwrap_err().outcome(), "malformed");
    let missing = house.engine.rehearse(&migrate("none", None, &[])).await;
    assert_eq!(missing.unwrap_err().outcome(), "unknown_instance");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_runs_migrate_while_others_move_them() {
    let house = House::new().await;
    for n in 0..20 {
        house.start(&format!("i{n}"), json!({})).await;
    }
    put(&house.engine, "case", &renamed()).await;
    let mut tasks = Vec::new();
    for n in 0..20 {
        let (engine, other, id) = (house.engine.clone(), house.other.clone(), format!("i{n}"));
        tasks.push(tokio::spawn(async move {
            let (moved, migrated) =
                tokio::join!(other.send(event(&id, "note", "bob"), None), engine.send(migrate(&id, None, &[]), None));
            // The other node's note came first, or it is no event of the new version.
            assert!(matches!(name(&moved), "applied" | "unknown_event"), "{moved:?}");
            assert_eq!(name(&migrated), "applied");
            let again = other.send(event(&id, "jot", "bob"), None).await;
            assert_eq!(name(&again), "applied", "{again:?}");
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}
