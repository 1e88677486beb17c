//! M2: one person votes through every door at once, and is counted once.

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::crowd::at_once;
use crate::support::api::Api;
use crate::support::call::Call;
use crate::support::history::history;
use crate::support::world::{World, in_both_worlds};

/// Votes by each door.
const TIMES: usize = 8;

const PURCHASE: &str = "
workflow: purchase
initial: review
states:
  review: {on: {approve: {target: approved, approval: {quorum: 2, roles: [finance]}}}}
  approved: {type: final}
";

fn voter(id: &str) -> Value {
    json!({ "id": id, "roles": ["finance"] })
}

fn vote(id: &str) -> Call {
    Call::send("purchase", "po-1", &json!({ "event": "approve", "actor": voter(id) }))
}

fn batch(id: &str, atomic: bool) -> Call {
    let moves = json!([{ "workflow": "purchase", "id": "po-1", "event": "approve", "actor": voter(id) }]);
    Call::post("/v1/transitions", &json!({ "atomic": atomic, "moves": moves }))
}

async fn begin(world: &World) -> Api {
    let api = world.api();
    api.put("purchase", PURCHASE).await;
    api.start("purchase", &json!({ "id": "po-1", "actor": "zoe" })).await;
    api
}

async fn one_person_is_counted_once_on_every_door(world: World) {
    let api = begin(&world).await;
    let by_cli: Vec<_> = (0..TIMES)
        .map(|time| {
            let cli = world.cli(time);
            spawn_blocking(move || {
                cli.run(&["send", "purchase/po-1", "approve", "--as", "ann", "--as-roles", "finance", "-o", "json"])
            })
        })
        .collect();
    let calls = (0..TIMES).flat_map(|_| [vote("ann"), batch("ann", false)]).collect();
    for answer in at_once(&world, calls).await {
        let body = answer.ok();
        let one = if body["results"].is_null() { &body } else { &body["results"][0] };
        check_pending(one);
    }
    for said in by_cli {
        check_pending(&said.await.unwrap().json());
    }
    let rows = history(&api, "purchase", "po-1").await;
    let kinds: Vec<(&str, &str)> = rows.iter().map(|row| (row.kind.as_str(), row.actor.as_str())).collect();
    assert_eq!(kinds, [("start", "zoe"), ("vote", "ann")], "{} votes were sent", 3 * TIMES);

    let second = api.call(&vote("bob")).await;
    assert_eq!((second.outcome().as_str(), second.version()), ("applied", 3), "{second:?}");
    let rows = history(&api, "purchase", "po-1").await;
    assert_eq!(rows[2].raw["approved_by"], json!(["ann", "bob"]));
    assert_eq!(api.call(&vote("ann")).await.outcome(), "already_applied");
}

fn check_pending(one: &Value) {
    assert_eq!((&one["outcome"], &one["version"]), (&json!("pending_approval"), &json!(2)), "{one}");
    let approval = &one["approval"];
    assert_eq!((&approval["quorum"], &approval["voters"]), (&json!(2), &json!(["ann"])));
}

/// A vote short of its quorum is no move: all or nothing is nothing.
async fn a_vote_in_an_atomic_request_is_not_recorded(world: World) {
    let api = begin(&world).await;
    let problem = api.call(&batch("ann", true)).await.problem(409, "not_applied");
    assert_eq!(problem["failed_index"], json!(0));
    assert_eq!(history(&api, "purchase", "po-1").await.len(), 1);
    // The vote that fills the quorum is a move.
    api.call(&vote("ann")).await.ok();
    let filled = api.call(&batch("bob", true)).await.ok();
    assert_eq!(filled["results"][0]["outcome"], "applied", "{filled}");
}

async fn roles_are_asked_for_on_every_door(world: World) {
    let api = begin(&world).await;
    let actor = json!({ "id": "eve", "roles": ["intern"] });
    let body = json!({ "event": "approve", "actor": actor });
    let problem = api.send("purchase", "po-1", &body).await.problem(403, "not_permitted");
    assert_eq!(problem["roles"], json!(["finance"]));
    let moves = json!([{ "workflow": "purchase", "id": "po-1", "event": "approve", "actor": actor }]);
    for atomic in [true, false] {
        let answer = api.call(&Call::post("/v1/transitions", &json!({ "atomic": atomic, "moves": moves }))).await;
        let result = answer.json()["results"][0].clone();
        assert_eq!((&result["outcome"], &result["status"]), (&json!("not_permitted"), &json!(403)), "{answer:?}");
    }
    let said = world.cli(0).run(&["send", "purchase/po-1", "approve", "--as", "eve", "--as-roles", "intern"]);
    assert!(said.failed(1).starts_with("error: not_permitted (LK0003): "), "{said:?}");
    assert_eq!(history(&api, "purchase", "po-1").await.len(), 1);
}

in_both_worlds!(
    one_person_is_counted_once_on_every_door,
    a_vote_in_an_atomic_request_is_not_recorded,
    roles_are_asked_for_on_every_door,
);
