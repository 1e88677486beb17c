//! Tokens are made, listed and revoked.

use serde_json::json;

use super::{Guarded, create};
use crate::support::call::Call;
use crate::support::server::Store;

#[tokio::test(flavor = "multi_thread")]
async fn with_tokens_every_request_needs_one() {
    let guarded = Guarded::begin().await;
    let paths =
        ["/v1/workflows", "/v1/workflows/purchase", "/v1/tokens", "/v1/workflows/purchase/instances", "/nowhere"];
    for path in paths {
        for secret in [None, Some("lk_0000"), Some(""), Some("Bearer")] {
            let mut call = Call::get(path);
            if let Some(secret) = secret {
                call = call.token(secret);
            }
            let answer = guarded.api.call(&call).await;
            answer.problem(401, "unauthenticated");
            assert_eq!(answer.headers["www-authenticate"], "Bearer", "{path}");
        }
    }
    let basic = Call::get("/v1/workflows").header("Authorization", format!("Basic {}", guarded.admin));
    guarded.api.call(&basic).await.problem(401, "unauthenticated");
    guarded.call(Call::get("/v1/workflows"), &guarded.admin).await.ok();
    let lower = Call::get("/v1/workflows").header("Authorization", format!("bearer {}", guarded.admin));
    assert_eq!(guarded.api.call(&lower).await.status, 200, "the scheme's case does not matter (RFC 9110, 11.1)");
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_open_and_says_nothing_of_anybodys_work() {
    let guarded = Guarded::begin().await;
    for path in ["/", "/healthz", "/readyz", "/openapi.json"] {
        let answer = guarded.api.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        for secret in ["purchase", guarded.store.dir().to_str().unwrap()] {
            // The document's examples may name any workflow.
            assert!(path == "/openapi.json" || !answer.text.contains(secret), "{path} names {secret}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_admin_makes_lists_and_revokes() {
    let guarded = Guarded::begin().await;
    let plain = guarded.token("ann", &["finance", "act_as"]).await;
    let calls = [
        Call::post("/v1/tokens", &json!({ "name": "x", "roles": ["admin"] })),
        Call::get("/v1/tokens"),
        Call::new(reqwest::Method::DELETE, "/v1/tokens/admin"),
    ];
    for call in calls {
        let problem = guarded.call(call.clone(), &plain).await.problem(403, "not_permitted");
        assert_eq!(problem["roles"], json!(["admin"]), "{call:?}");
    }
    let list = guarded.call(Call::get("/v1/tokens"), &guarded.admin).await;
    let items = list.ok()["items"].clone();
    let names: Vec<_> = items.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["admin", "ann"]);
    assert!(!list.text.contains(&plain) && !list.text.contains("lk_"), "no secret is listed: {}", list.text);
}

/// Whoever may put a definition, or end a run and begin it anew under another one, needs no approval.
#[tokio::test(flavor = "multi_thread")]
async fn with_admins_only_nobody_else_leads_past_the_rules() {
    let ways = || {
        let ended = |what: &str| {
            Call::post(format!("/v1/workflows/purchase/instances/po-1/{what}"), &json!({ "reason": "it is in my way" }))
        };
        [
            Call::put("purchase", &super::PURCHASE.replace(", approval: {quorum: 2, roles: [finance]}", "")),
            Call::put("another", "{workflow: another, initial: a, states: {a: {type: final}}}"),
            ended("terminate"),
            ended("cancel"),
            Call::start("purchase", &json!({ "id": "po-1", "conflict_policy": "terminate_existing" })),
            Call::new(reqwest::Method::DELETE, "/v1/locks/door"),
        ]
    };
    let guarded = Guarded::with(Store::new(), &["--admins-only"]).await;
    let plain = guarded.token("eve", &["finance", "act_as"]).await;
    let before = guarded.history().await;
    for call in ways() {
        let problem = guarded.call(call.clone(), &plain).await.problem(403, "not_permitted");
        assert_eq!(problem["roles"], json!(["admin"]), "{call:?}");
    }
    assert_eq!(guarded.history().await, before);
    // What the rules allow they may do, and an admin may do all.
    let note = Call::send("purchase", "po-1", &json!({ "event": "note", "data": { "text": "x" } }));
    guarded.call(note, &plain).await.ok();
    guarded.call(Call::start("purchase", &json!({ "id": "po-2" })), &plain).await.ok();
    for call in ways() {
        let status = guarded.call(call.clone(), &guarded.admin).await.status;
        // Both ends are of one run.
        assert!([200, 201, 409].contains(&status), "{status}: {call:?}");
    }
    let guarded = Guarded::begin().await;
    let plain = guarded.token("eve", &[]).await;
    let put = guarded.call(ways()[1].clone(), &plain).await;
    assert_eq!(put.status, 201, "without the flag any token may");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_admin_purges() {
    let guarded = Guarded::begin().await;
    let plain = guarded.token("ann", &["finance", "act_as"]).await;
    for (target, dry) in [("purchase", true), ("purchase", false), ("purchase/po-1", false), ("nothing", true)] {
        let mut args = vec!["purge", target, "--closed-before", "30d"];
        args.extend(dry.then_some("--dry-run"));
        let said = guarded.server.cli().token(&plain).run(&[&["-o", "json"], args.as_slice()].concat());
        let problem = said.failed_json(1);
        assert_eq!((&problem["outcome"], &problem["roles"]), (&json!("not_permitted"), &json!(["admin"])), "{args:?}");
        let none = guarded.server.cli().run(&args);
        assert!(none.failed(1).contains("unauthenticated"), "{none:?}");
    }
    let body = json!({ "closed_before_ms": 1_000, "dry_run": true });
    let purge = Call::post("/v1/workflows/purchase/purge", &body);
    guarded.call(purge.clone(), &plain).await.problem(403, "not_permitted");
    guarded.call(purge, &guarded.admin).await.ok();
    let admin = guarded.server.cli().token(&guarded.admin);
    assert_eq!(admin.run(&["purge", "purchase", "--closed-before", "30d"]).ok(), "purged 0 instances with 0 changes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_is_worth_nothing_at_once() {
    let guarded = Guarded::begin().await;
    let secret = guarded.token("ann", &[]).await;
    guarded.call(Call::get("/v1/workflows"), &secret).await.ok();
    let cli = guarded.server.cli().token(&guarded.admin);
    assert_eq!(cli.run(&["token", "revoke", "ann"]).ok(), "revoked: ann");
    guarded.call(Call::get("/v1/workflows"), &secret).await.problem(401, "unauthenticated");

    let again = guarded.call(Call::new(reqwest::Method::DELETE, "/v1/tokens/ann"), &guarded.admin).await;
    assert!(again.detail(404, "not_found").contains("admin"), "names those that are active");
    let table = cli.run(&["token", "ls"]);
    assert!(table.ok().lines().any(|line| line.starts_with("ann ") && line.ends_with("revoked")), "{table:?}");
    // The name can be had again, with a new secret; the old one stays dead.
    let new = cli.run(&["token", "create", "--name", "ann"]);
    guarded.call(Call::get("/v1/workflows"), new.ok()).await.ok();
    guarded.call(Call::get("/v1/workflows"), &secret).await.problem(401, "unauthenticated");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_lives_on_in_the_store_as_a_hash_only() {
    let guarded = Guarded::begin().await;
    let secret = guarded.token("ann", &["finance"]).await;
    guarded.call(Call::get("/v1/workflows"), &secret).await.ok();
    let Guarded { store, server, admin, .. } = guarded;
    let ended = server.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    for file in std::fs::read_dir(store.dir()).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        for secret in [&secret, &admin] {
            let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!found, "{} gives a token away", path.display());
        }
    }
    assert!(!ended.log.contains(&secret), "the log gives a token away");
    let server = store.serve();
    assert_eq!(
        server.api().call(&Call::get("/v1/workflows").token(&secret)).await.status,
        200,
        "it outlives a restart"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_roles_are_checked() {
    let guarded = Guarded::begin().await;
    let bodies = [
        json!({}),
        json!({ "name": "" }),
        json!({ "name": "a\nb" }),
        json!({ "name": "x".repeat(129) }),
        json!({ "name": "x", "roles": [""] }),
        json!({ "name": "x", "roles": "admin" }),
        json!({ "name": "x", "rolls": [] }),
        json!({ "name": "admin" }),
    ];
    for body in bodies {
        guarded.call(Call::post("/v1/tokens", &body), &guarded.admin).await.problem(400, "malformed");
    }
}

/// Without tokens, the first one would lock everybody out half-way: it is made with the server stopped.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_token_is_made_while_the_server_is_stopped() {
    let store = Store::new();
    let server = store.serve();
    let said = server.cli().run(&["token", "create", "--name", "x"]);
    assert!(said.failed(1).contains("not_permitted (LK0003)") && said.err.contains("--store"), "{said:?}");
    let url = store.url();
    let said = store.cli().run(&["token", "create", "--name", "x", "--store", &url]);
    let pid = server.program.pid().to_string();
    assert!(said.failed(1).contains(&pid), "it names the process that has the store: {said:?}");
    server.kill();
    let secret = create(&store, "x", "admin");
    let server = store.serve();
    server.api().call(&Call::get("/v1/workflows")).await.problem(401, "unauthenticated");
    server.api().call(&Call::get("/v1/workflows").token(&secret)).await.ok();
    // By the store itself, an administrator who lost the token finds in again.
    server.kill();
    let list = store.cli().run(&["token", "ls", "--store", &url, "-o", "json"]).json();
    assert_eq!(list["items"][0]["name"], "x");
    assert_eq!(store.cli().run(&["token", "revoke", "x", "--store", &url]).ok(), "revoked: x");
    let server = store.serve();
    server.api().call(&Call::get("/v1/workflows").token(&secret)).await.problem(401, "unauthenticated");
}
