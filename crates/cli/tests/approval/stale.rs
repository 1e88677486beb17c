//! What was read earlier proves nothing: state, version and guard are checked under the commit.

use serde_json::{Value, json};

use crate::crowd::at_once;
use crate::support::api::Api;
use crate::support::call::Call;
use crate::support::history::history;
use crate::support::server::{Server, Store};

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

async fn begin(data: Value) -> (Store, Server, Api) {
    let store = Store::new();
    let server = store.serve();
    let api = server.api();
    api.put("item", ITEM).await;
    api.start("item", &json!({ "id": "i", "data": data })).await;
    (store, server, api)
}

/// M3: A loads, B moves, A fires on its stale copy.
#[tokio::test(flavor = "multi_thread")]
async fn a_stale_state_or_version_is_refused() {
    let (_store, _server, api) = begin(json!({ "on_hand": 5 })).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_sees_the_data_at_the_commit() {
    let (_store, server, api) = begin(json!({ "on_hand": 5 })).await;
    assert_eq!(api.instance("item", "i").await["data"]["on_hand"], 5);
    let take = |quantity: i64| Call::send("item", "i", &json!({ "event": "take", "data": { "quantity": quantity } }));
    assert_eq!(api.call(&take(3)).await.outcome(), "applied");
    let problem = api.call(&take(5)).await.problem(422, "guard_rejected");
    assert_eq!(problem["guard"], "data.on_hand >= event.quantity");
    // Two who both saw 2.
    let answers = at_once(server.url(), vec![take(2), take(2)]).await;
    let taken = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(taken, 1, "{answers:?}");
    assert_eq!(api.instance("item", "i").await["data"]["on_hand"], 0);
}

/// M4: two branches write different data keys from one snapshot.
#[tokio::test(flavor = "multi_thread")]
async fn different_fields_written_at_once_both_survive() {
    let (_store, server, api) = begin(json!({ "kept": "as it was" })).await;
    for round in 0..ROUNDS {
        let version = api.instance("item", "i").await["version"].clone();
        let write = |event: &str| Call::send("item", "i", &json!({ "event": event, "data": { "value": round } }));
        for answer in at_once(server.url(), vec![write("left"), write("right")]).await {
            assert_eq!(answer.outcome(), "applied", "{answer:?}");
        }
        let instance = api.instance("item", "i").await;
        assert_eq!(instance["data"], json!({ "kept": "as it was", "left": round, "right": round }));
        assert_eq!(instance["version"].as_i64(), version.as_i64().map(|version| version + 2));
    }
    history(&api, "item", "i").await;
}
