//! Acting as another, and what the history says of who acted.

use serde_json::{Value, json};

use super::Guarded;
use crate::support::call::Call;
use crate::support::server::Store;

#[tokio::test(flavor = "multi_thread")]
async fn a_token_acts_as_itself() {
    let guarded = Guarded::begin().await;
    let ann = guarded.token("ann", &["finance"]).await;
    let answer = guarded.approve(&ann, None).await.ok();
    assert_eq!(answer["approval"]["voters"], json!(["ann"]));
    // Naming oneself is no acting as another, and no second person.
    for actor in [json!("ann"), json!({ "id": "ann" }), json!({ "id": "ann", "roles": ["finance"] })] {
        let again = guarded.approve(&ann, Some(actor.clone())).await.ok();
        assert_eq!((&again["outcome"], &again["version"]), (&json!("pending_approval"), &answer["version"]), "{actor}");
    }
    let row = guarded.history().await[1].clone();
    assert_eq!((&row["actor"], &row["roles"], &row["unverified"]), (&json!("ann"), &json!(["finance"]), &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn acting_as_another_needs_a_role() {
    let guarded = Guarded::begin().await;
    let ann = guarded.token("ann", &["finance"]).await;
    for actor in [json!("bob"), json!({ "id": "bob", "roles": ["finance"] }), json!("anonymous")] {
        let problem = guarded.approve(&ann, Some(actor.clone())).await.problem(403, "not_permitted");
        assert_eq!(problem["roles"], json!(["act_as"]), "{actor}");
    }
    let start = Call::start("purchase", &json!({ "id": "po-2", "actor": "bob" }));
    guarded.call(start, &ann).await.problem(403, "not_permitted");
    let cancel = json!({ "reason": "r", "actor": "bob" });
    let cancel = Call::post("/v1/workflows/purchase/instances/po-1/cancel", &cancel);
    guarded.call(cancel, &ann).await.problem(403, "not_permitted");
    let moves = json!([{ "workflow": "purchase", "id": "po-1", "event": "note", "actor": "bob" }]);
    let batch = Call::post("/v1/transitions", &json!({ "moves": moves }));
    assert_eq!(guarded.call(batch, &ann).await.problem(403, "not_permitted")["failed_index"], 0);
    assert_eq!(guarded.history().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_are_lent_only_by_those_who_have_them() {
    let guarded = Guarded::begin().await;
    let desk = guarded.token("desk", &["act_as", "finance"]).await;
    let admin = json!({ "id": "bob", "roles": ["finance", "manager"] });
    let problem = guarded.approve(&desk, Some(admin)).await.problem(403, "not_permitted");
    assert_eq!(problem["roles"], json!(["manager"]));
    // Without roles, the other has none: the token's own are not passed on silently.
    let problem = guarded.approve(&desk, Some(json!("bob"))).await.problem(403, "not_permitted");
    assert_eq!(problem["roles"], json!(["finance"]));
    // One's own name does not lend more either.
    let oneself = json!({ "id": "desk", "roles": ["manager"] });
    guarded.approve(&desk, Some(oneself)).await.problem(403, "not_permitted");

    let voter = |id: &str| Some(json!({ "id": id, "roles": ["finance"] }));
    guarded.approve(&desk, voter("bob")).await.ok();
    // The principal itself is another person than the one it acted as; the one is the same on every token.
    let bob = guarded.token("bob", &["finance"]).await;
    let again = guarded.approve(&bob, None).await.ok();
    assert_eq!(again["approval"]["voters"], json!(["bob"]), "bob has voted by the desk already");
    assert_eq!(guarded.approve(&desk, voter("eve")).await.ok()["outcome"], "applied");
    let rows = guarded.history().await;
    assert_eq!(rows[2]["approved_by"], json!(["bob", "eve"]));
    assert!(rows[1..].iter().all(|row| row["unverified"].is_null()), "a token stood behind each: {rows:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_takes_the_token_and_the_actor() {
    let guarded = Guarded::begin().await;
    let desk = guarded.token("desk", &["act_as", "finance"]).await;
    let cli = guarded.server.cli();
    let said = cli.run(&["get", "purchase/po-1"]);
    assert!(said.failed(1).contains("unauthenticated (LK0002)") && said.err.contains("LOCKKEEPER_TOKEN"), "{said:?}");
    let cli = cli.token(&desk);
    let said = cli.run(&["send", "purchase/po-1", "approve", "--as", "bob", "--as-roles", "finance"]);
    assert_eq!(said.ok(), "pending_approval: purchase/po-1 is in review, version 2; 1 of 2 votes: bob");
    let said = cli.run(&["send", "purchase/po-1", "approve"]);
    assert_eq!(said.ok(), "applied: purchase/po-1 is in approved, version 3, completed");
    let said = cli.run(&["send", "purchase/po-1", "approve", "--as", "eve", "--as-roles", "admin"]);
    assert!(said.failed(1).contains("not_permitted (LK0003)"), "{said:?}");
    let said = cli.run(&["history", "purchase/po-1"]);
    assert!(said.ok().contains("bob (finance)") && !said.err.contains("unverified"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tokens_actors_are_believed_and_marked() {
    let store = Store::new();
    let server = store.serve();
    let api = server.api();
    api.put("purchase", super::PURCHASE).await;
    api.start("purchase", &json!({ "id": "po-1" })).await;
    let note = json!({ "event": "note", "data": { "text": "x" }, "actor": { "id": "ann", "roles": ["b", "a", "b"] } });
    api.send("purchase", "po-1", &note).await.ok();
    let rows = api.get("/v1/workflows/purchase/instances/po-1/history").await.ok()["items"].clone();
    assert_eq!((&rows[0]["actor"], &rows[0]["unverified"]), (&json!("anonymous"), &json!(true)));
    let who = (&rows[1]["actor"], &rows[1]["roles"], &rows[1]["unverified"]);
    assert_eq!(who, (&json!("ann"), &json!(["a", "b"]), &json!(true)));
    // What happened before there were tokens stays marked when there are.
    assert_eq!(server.stop().code, Some(0));
    let admin = super::create(&store, "admin", "admin");
    let server = store.serve();
    let api = server.api();
    let cancel = Call::post("/v1/workflows/purchase/instances/po-1/cancel", &json!({ "reason": "r" })).token(&admin);
    api.call(&cancel).await.ok();
    let path = "/v1/workflows/purchase/instances/po-1/history";
    let rows = api.call(&Call::get(path).token(&admin)).await.ok()["items"].clone();
    let marks: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["unverified"] == json!(true)).collect();
    assert_eq!(marks, [true, true, false]);
}
