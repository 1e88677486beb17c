//! What was read earlier proves nothing: state, version and guard are checked under the commit.

use serde_json::{Value, json};

use crate::crowd::at_once;
use crate::support::api::Api;
use crate::support::call::{Call, instance};
use crate::support::history::history;
use crate::support::world::{World, in_both_worlds};

const ROUNDS: i64 = 25;

const ITEM: &str = "
workflow: item
initial: draft
states:
  draft:
    on:
      submit: review
      take: {guard: data.on_hand >= event.quantity, assign: {on_hand: data.on_hand - event.quantity}}
      left: {assign: {left: event.value}}
      right: {assign: {right: event.value}}
  review: {on: {approve: done, reject: draft}}
  done: {type: final}
";

async fn begin(world: &World, data: Value) -> Api {
    let api = world.api();
    api.put("item", ITEM).await;
    api.start("item", &json!({ "id": "i", "data": data })).await;
    api
}

/// M3: A loads, B moves, A fires on its stale copy.
async fn a_stale_state_or_version_is_refused(world: World) {
    let api = begin(&world, json!({ "on_hand": 5 })).await;
    let seen_by_a = api.instance("item", "i").await;
    assert_eq!(api.send("item", "i", &json!({ "event": "submit", "actor": "b" })).await.outcome(), "applied");

    let take = json!({ "event": "take", "data": { "quantity": 1 }, "from": seen_by_a["state"] });
    let problem = api.send("item", "i", &take).await.problem(409, "state_mismatch");
    assert_eq!((&problem["expected"], &problem["actual"]), (&json!("draft"), &json!("review")), "{problem}");
    let reject = json!({ "event": "reject", "expected_version": seen_by_a["version"] });
    let problem = api.send("item", "i", &reject).await.problem(409, "version_mismatch");
    assert_eq!((&problem["expected"], &problem["actual"]), (&json!(1), &json!(2)), "{problem}");
    let run = json!({ "event": "reject", "run": "00000000-0000-4000-8000-000000000000" });
    api.send("item", "i", &run).await.problem(409, "state_mismatch");
    assert_eq!(history(&api, "item", "i").await.len(), 2, "nothing of it was recorded");
}

async fn a_guard_sees_the_data_at_the_commit(world: World) {
    let api = begin(&world, json!({ "on_hand": 5 })).await;
    assert_eq!(api.instance("item", "i").await["data"]["on_hand"], 5);
    let take = |quantity: i64| Call::send("item", "i", &json!({ "event": "take", "data": { "quantity": quantity } }));
    assert_eq!(api.call(&take(3)).await.outcome(), "applied");
    let problem = api.call(&take(5)).await.problem(422, "guard_rejected");
    assert_eq!(problem["guard"], "data.on_hand >= event.quantity");
    // Two who both saw 2.
    let answers = at_once(&world, vec![take(2), take(2)]).await;
    let taken = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(taken, 1, "{answers:?}");
    assert_eq!(api.instance("item", "i").await["data"]["on_hand"], 0);
}

/// M4: two branches write different data keys from one snapshot.
async fn different_fields_written_at_once_both_survive(world: World) {
    let api = begin(&world, json!({ "kept": "as it was" })).await;
    for round in 0..ROUNDS {
        let version = api.instance("item", "i").await["version"].clone();
        let write = |event: &str| Call::send("item", "i", &json!({ "event": event, "data": { "value": round } }));
        for answer in at_once(&world, vec![write("left"), write("right")]).await {
            assert_eq!(answer.outcome(), "applied", "{answer:?}");
        }
        let instance = api.instance("item", "i").await;
        assert_eq!(instance["data"], json!({ "kept": "as it was", "left": round, "right": round }));
        assert_eq!(instance["version"].as_i64(), version.as_i64().map(|version| version + 2));
    }
    history(&api, "item", "i").await;
}

/// M17: what was decided on an earlier run says nothing of the current one, whose versions go on.
async fn a_command_for_an_earlier_run_is_refused(world: World) {
    let api = begin(&world, json!({ "on_hand": 9 })).await;
    let take = json!({ "event": "take", "data": { "quantity": 1 } });
    for _ in 0..3 {
        assert_eq!(api.send("item", "i", &take).await.outcome(), "applied");
    }
    let seen = api.instance("item", "i").await;
    let terminate = Call::post(instance("item", "i", "/terminate"), &json!({ "reason": "r" }));
    assert_eq!(api.call(&terminate).await.version(), 5);
    let second = api.start("item", &json!({ "id": "i", "data": { "on_hand": 9 } })).await;
    assert_eq!(second["version"], json!(6), "versions never begin again");
    let late = |more: Value| {
        let mut body = take.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Call::send("item", "i", &body)
    };
    // Whichever node is asked, and whatever it remembers.
    for number in 0..4 {
        let node = world.node(number).api();
        let problem = node.call(&late(json!({ "run": seen["run"] }))).await.problem(409, "state_mismatch");
        assert_eq!(problem["actual"], second["run"], "{problem}");
        for version in [4, 5] {
            let problem =
                node.call(&late(json!({ "expected_version": version }))).await.problem(409, "version_mismatch");
            assert_eq!(problem["actual"], json!(6), "{problem}");
        }
        let terminate = Call::post(instance("item", "i", "/terminate"), &json!({ "reason": "r", "run": seen["run"] }));
        node.call(&terminate).await.problem(409, "state_mismatch");
    }
    let rows = history(&api, "item", "i").await;
    assert_eq!((rows.len(), rows[5].raw["run"].clone()), (6, second["run"].clone()), "nothing of it was recorded");
}

in_both_worlds!(
    a_stale_state_or_version_is_refused,
    a_guard_sees_the_data_at_the_commit,
    different_fields_written_at_once_both_survive,
    a_command_for_an_earlier_run_is_refused,
);
