//! Idempotency keys over HTTP (M7, M20): under one key a command takes effect at most once, and says so.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod support;

use std::sync::Arc;

use serde_json::{Value, json};
use support::api::Api;
use support::call::{Answer, Call, instance};
use support::history::history;
use support::world::{World, in_both_worlds};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const SENDERS: usize = 64;

const STOCK: &str = "
workflow: stock
initial: active
states:
  active:
    on:
      take: {guard: data.on_hand >= event.quantity, assign: {on_hand: data.on_hand - event.quantity}}
      put: {assign: {on_hand: data.on_hand + event.quantity}}
      retire: retired
  retired: {type: final}
";

async fn begin(world: &World, on_hand: i64) -> Api {
    let api = world.api();
    api.put("stock", STOCK).await;
    for id in ["a", "b"] {
        api.start("stock", &json!({ "id": id, "data": { "on_hand": on_hand } })).await;
    }
    api
}

fn event(id: &str, event: &str, quantity: i64) -> Call {
    Call::send("stock", id, &json!({ "event": event, "data": { "quantity": quantity }, "actor": "ann" }))
}

async fn on_hand(api: &Api, id: &str) -> Value {
    api.instance("stock", id).await["data"]["on_hand"].clone()
}

/// Sends one call from many connections at once, to the nodes in turn.
async fn at_once(world: &World, call: Call, senders: usize) -> Vec<Answer> {
    let barrier = Arc::new(Barrier::new(senders));
    let mut sending = JoinSet::new();
    for sender in 0..senders {
        let (api, barrier, call) = (world.node(sender).api(), barrier.clone(), call.clone());
        sending.spawn(async move {
            api.get("/healthz").await.ok();
            barrier.wait().await;
            api.call(&call).await
        });
    }
    sending.join_all().await
}

async fn one_key_sent_by_many_at_once_has_one_effect(world: World) {
    let api = begin(&world, 100).await;
    let answers = at_once(&world, event("a", "take", 5).key("order-1"), SENDERS).await;
    for answer in &answers {
        assert_eq!((answer.status, answer.json()), (200, answers[0].json()), "one outcome for all");
    }
    assert_eq!(answers[0].outcome(), "applied");
    let replayed = answers.iter().filter(|answer| answer.replayed()).count();
    assert_eq!(replayed, SENDERS - 1, "all but the first");
    assert_eq!(on_hand(&api, "a").await, 95);
    let rows = history(&api, "stock", "a").await;
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[1].key.as_deref(), rows[1].version), (Some("order-1"), answers[0].version()));
}

async fn a_replay_is_the_first_outcome_however_much_later(world: World) {
    let api = begin(&world, 10).await;
    let first = api.call(&event("a", "take", 1).key("k")).await;
    for _ in 0..5 {
        assert_eq!(api.call(&event("a", "put", 1)).await.outcome(), "applied");
    }
    assert!(!first.replayed(), "{first:?}");
    let again = api.call(&event("a", "take", 1).key("k")).await;
    assert!(again.replayed());
    assert_eq!(again.json(), first.json());
    // Neither a closed run nor a new process changes it.
    assert_eq!(api.call(&event("a", "retire", 0)).await.outcome(), "applied");
    let world = world.restart();
    let again = world.api().call(&event("a", "take", 1).key("k")).await;
    assert!(again.replayed());
    assert_eq!(again.json(), first.json());
}

async fn a_key_belongs_to_one_command_of_one_actor(world: World) {
    let api = begin(&world, 10).await;
    api.call(&event("a", "take", 1).key("k")).await.ok();
    let by = |actor: Value, rest: Value| {
        let mut body = json!({ "event": "take", "data": { "quantity": 1 }, "actor": actor });
        body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        Call::send("stock", "a", &body).key("k")
    };
    let others = [
        ("other data", event("a", "take", 2).key("k")),
        ("another event", event("a", "put", 1).key("k")),
        ("a condition", by(json!("ann"), json!({ "from": "active" }))),
        ("another actor", by(json!("bob"), json!({}))),
        ("other roles", by(json!({ "id": "ann", "roles": ["x"] }), json!({}))),
        (
            "another door",
            Call::post(instance("stock", "a", "/terminate"), &json!({ "reason": "r", "actor": "ann" })).key("k"),
        ),
        ("a start", Call::start("stock", &json!({ "id": "a", "actor": "ann" })).key("k")),
    ];
    for (what, call) in others {
        let answer = api.call(&call).await;
        assert_eq!((answer.status, answer.outcome().as_str()), (409, "key_reused"), "{what}: {answer:?}");
        assert_eq!(answer.problem(409, "key_reused")["key"], "k", "{what}");
    }
    // How long to wait is no part of the command; nor is the order of its fields.
    let same = r#"{"actor":{"roles":[],"id":"ann"},"wait_ms":9000,"mode":"sync","data":{"quantity":1},"event":"take"}"#;
    let same = api.call(&Call::send("stock", "a", &json!({})).text(same).key("k")).await;
    assert!(same.replayed() && same.status == 200, "{same:?}");
    assert_eq!(history(&api, "stock", "a").await.len(), 2);
    assert_eq!(on_hand(&api, "a").await, 9);
}

async fn two_commands_under_one_key_at_once_are_one_effect(world: World) {
    let api = begin(&world, 100).await;
    for round in 0..10 {
        let key = format!("round-{round}");
        let (api_1, api_2) = (world.node(0).api(), world.node(1).api());
        let (take, put) = (event("a", "take", 1).key(&key), event("a", "put", 1).key(&key));
        let answers = tokio::join!(api_1.call(&take), api_2.call(&put));
        let mut outcomes = [answers.0.outcome(), answers.1.outcome()];
        outcomes.sort();
        assert_eq!(outcomes, ["applied", "key_reused"], "{answers:?}");
    }
    assert_eq!(history(&api, "stock", "a").await.len(), 11);
}

async fn a_key_is_one_of_its_instance(world: World) {
    let api = begin(&world, 10).await;
    for id in ["a", "b"] {
        let answer = api.call(&event(id, "take", 1).key("k")).await;
        assert_eq!((answer.outcome().as_str(), answer.replayed()), ("applied", false), "{id}");
    }
    // Key by key as sent: the case counts, blanks within too.
    for key in ["K", "k k", "k%20k", &"k".repeat(256)] {
        let answer = api.call(&event("a", "take", 1).key(key)).await;
        assert_eq!((answer.outcome().as_str(), answer.replayed()), ("applied", false), "{key}");
    }
}

/// M7: what was refused keeps no key; told no success, it may be tried again.
async fn a_refused_command_keeps_no_key(world: World) {
    let api = begin(&world, 1).await;
    let take = event("a", "take", 5).key("k");
    api.call(&take).await.problem(422, "guard_rejected");
    api.call(&event("a", "put", 9)).await.ok();
    let answer = api.call(&take).await;
    assert_eq!((answer.outcome().as_str(), answer.replayed()), ("applied", false));
    assert!(api.call(&take).await.replayed());
    assert_eq!(on_hand(&api, "a").await, 5);
    // Nor does one that was refused before it came to the instance.
    api.call(&event("nobody", "take", 1).key("k")).await.problem(404, "unknown_instance");
    api.start("stock", &json!({ "id": "nobody", "data": { "on_hand": 1 } })).await;
    assert_eq!(api.call(&event("nobody", "take", 1).key("k")).await.outcome(), "applied");
}

async fn a_start_without_an_id_is_one_instance_under_its_key(world: World) {
    let api = begin(&world, 1).await;
    let start = Call::start("stock", &json!({ "data": { "on_hand": 3 }, "actor": "ann" })).key("mail-8c1f");
    let answers = at_once(&world, start.clone(), SENDERS / 4).await;
    for answer in &answers {
        assert_eq!((answer.status, answer.json()), (201, answers[0].json()), "one outcome for all");
        assert_eq!(answer.headers["location"], answers[0].headers["location"].as_bytes());
    }
    assert_eq!(answers.iter().filter(|answer| answer.replayed()).count(), answers.len() - 1);
    let id = answers[0].json()["id"].as_str().unwrap().to_owned();
    assert_eq!(history(&api, "stock", &id).await.len(), 1);
    assert_eq!(api.get(answers[0].headers["location"].to_str().unwrap()).await.ok()["id"], json!(id));

    let other = Call::start("stock", &json!({ "data": { "on_hand": 4 }, "actor": "ann" })).key("mail-8c1f");
    api.call(&other).await.problem(409, "key_reused");
    let another = api.call(&start.clone().key("ignored")).await;
    another.problem(400, "malformed");
    let without = Call::start("stock", &json!({ "data": { "on_hand": 3 }, "actor": "ann" }));
    let (one, two) = (api.call(&without).await.ok(), api.call(&without).await.ok());
    assert_ne!(one["id"], two["id"], "without a key each start is its own");
}

async fn a_key_stands_for_a_whole_atomic_request(world: World) {
    let api = begin(&world, 10).await;
    let take = |id: &str, quantity: i64| json!({ "workflow": "stock", "id": id, "event": "take", "data": { "quantity": quantity }, "actor": "ann" });
    let request = |moves: Value| Call::post("/v1/transitions", &json!({ "moves": moves })).key("batch-1");
    let both = request(json!([take("a", 1), take("b", 2)]));
    let first = api.call(&both).await;
    assert_eq!((first.status, first.replayed()), (200, false), "{first:?}");
    let again = api.call(&both).await;
    assert!(again.replayed(), "{again:?}");
    assert_eq!(again.json(), first.json());
    api.call(&request(json!([take("a", 1), take("b", 3)]))).await.problem(409, "key_reused");
    assert_eq!((on_hand(&api, "a").await, on_hand(&api, "b").await), (json!(9), json!(8)));
    // One that fails takes no effect anywhere, and leaves no key.
    let too_much = Call::post("/v1/transitions", &json!({ "moves": [take("a", 1), take("b", 100)] })).key("batch-2");
    assert_eq!(api.call(&too_much).await.problem(422, "guard_rejected")["failed_index"], 1);
    assert_eq!(on_hand(&api, "a").await, 9);
    api.call(&event("b", "put", 100)).await.ok();
    assert_eq!(api.call(&too_much).await.status, 200);
}

/// Each move of a request that is not atomic has its own effect; its key is the instance's.
async fn a_key_holds_for_each_move_of_a_request_that_is_not_atomic(world: World) {
    let api = begin(&world, 10).await;
    let take = |id: &str| json!({ "workflow": "stock", "id": id, "event": "take", "data": { "quantity": 6 } });
    let moves = json!([take("a"), take("b")]);
    let both = Call::post("/v1/transitions", &json!({ "atomic": false, "moves": moves })).key("batch-1");
    let first = api.call(&both).await.ok();
    let mut again = api.call(&both).await.ok();
    for result in again["results"].as_array_mut().unwrap() {
        assert_eq!(result.as_object_mut().unwrap().remove("replayed"), Some(json!(true)), "each is marked");
    }
    assert_eq!(first, again);
    assert_eq!((on_hand(&api, "a").await, on_hand(&api, "b").await), (json!(4), json!(4)));
}

in_both_worlds!(
    one_key_sent_by_many_at_once_has_one_effect,
    a_replay_is_the_first_outcome_however_much_later,
    a_key_belongs_to_one_command_of_one_actor,
    two_commands_under_one_key_at_once_are_one_effect,
    a_key_is_one_of_its_instance,
    a_refused_command_keeps_no_key,
    a_start_without_an_id_is_one_instance_under_its_key,
    a_key_stands_for_a_whole_atomic_request,
    a_key_holds_for_each_move_of_a_request_that_is_not_atomic,
);
