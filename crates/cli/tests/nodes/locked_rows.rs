//! A row that a third session has locked: each command is told what its definition says, and all else goes on (M19).

use std::time::{Duration, Instant};

use lockkeeper_testbed::Session;
use serde_json::{Value, json};
use tokio::task::{JoinSet, block_in_place};

use crate::support::api::Api;
use crate::support::call::{Answer, Call};
use crate::support::history::history;
use crate::support::world::World;

/// Far below `lock_timeout` where it is not set, and far above what anything takes that does not wait.
const AT_ONCE: Duration = Duration::from_secs(4);

/// Atomic requests in each order.
const BATCHES: usize = 6;

fn workflow(name: &str, concurrency: &str) -> String {
    format!(
        "workflow: {name}\ninitial: active\nconcurrency: {{{concurrency}}}\nstates:\n  active:\n    on:\n      \
         take: {{guard: data.on_hand >= event.quantity, assign: {{on_hand: data.on_hand - event.quantity}}}}\n      \
         put: {{assign: {{on_hand: data.on_hand + event.quantity}}}}\n"
    )
}

/// Two nodes with a workflow and its instances `a` to `d`.
async fn begin(name: &str, concurrency: &str) -> World {
    let world = World::of_two();
    let api = world.api();
    api.put(name, &workflow(name, concurrency)).await;
    for id in ["a", "b", "c", "d"] {
        api.start(name, &json!({ "id": id, "data": { "on_hand": 100 } })).await;
    }
    world
}

/// Locks the row of an instance, until the session rolls back or is dropped.
fn lock(world: &World, workflow: &str, id: &str) -> Session {
    let session = Session::open(&world.store.database().url());
    session.execute("BEGIN");
    let row = format!("SELECT id FROM lockkeeper.records WHERE space = '{workflow}' AND id = '{id}' FOR UPDATE");
    assert_eq!(session.execute(&row), id);
    session
}

fn take(workflow: &str, id: &str) -> Call {
    Call::send(workflow, id, &json!({ "event": "take", "data": { "quantity": 1 } }))
}

async fn timed(api: &Api, call: &Call) -> (Answer, Duration) {
    let begin = Instant::now();
    (api.call(call).await, begin.elapsed())
}

/// While `a` is locked both nodes answer so; meanwhile `b` moves on both; afterwards `a` does.
async fn while_it_is_locked(concurrency: &str, check: impl Fn(&Answer, Duration)) {
    let world = begin("stock", concurrency).await;
    let session = block_in_place(|| lock(&world, "stock", "a"));
    for number in 0..2 {
        let api = world.node(number).api();
        let (answer, passed) = timed(&api, &take("stock", "a")).await;
        check(&answer, passed);
        let (other, passed) = timed(&api, &take("stock", "b")).await;
        assert_eq!(other.outcome(), "applied", "other instances go on: {other:?}");
        assert!(passed < AT_ONCE, "they do not wait: {passed:?}");
    }
    block_in_place(|| session.execute("ROLLBACK"));
    for number in 0..2 {
        assert_eq!(world.node(number).api().call(&take("stock", "a")).await.outcome(), "applied");
    }
    let api = world.api();
    assert_eq!(history(&api, "stock", "a").await.len(), 3, "what was refused left nothing");
    assert_eq!(api.instance("stock", "a").await["data"]["on_hand"], json!(98));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_is_told_after_its_time_how_long_it_was() {
    while_it_is_locked("strategy: pessimistic, lock_timeout: 200ms", |answer, passed| {
        let problem = answer.problem(409, "lock_timeout");
        let waited = problem["waited_ms"].as_u64().unwrap();
        assert!((195..2_000).contains(&waited), "{problem}");
        assert!(passed >= Duration::from_millis(195) && passed < AT_ONCE, "{passed:?}");
        assert_eq!(problem["retryable"], json!(true));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_wait_is_told_at_once() {
    while_it_is_locked("strategy: pessimistic, on_locked: nowait", |answer, passed| {
        let problem = answer.problem(409, "lock_timeout");
        assert_eq!(problem["waited_ms"], json!(0), "{problem}");
        assert!(passed < AT_ONCE, "{passed:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_passes_over_is_told_that_it_is_busy() {
    while_it_is_locked("strategy: pessimistic, on_locked: skip_locked", |answer, passed| {
        let detail = answer.detail(429, "busy");
        assert!(detail.contains("skip_locked"), "{detail}");
        assert!(passed < AT_ONCE, "{passed:?}");
    })
    .await;
}

/// M19: batches in opposite orders on two nodes, over a row that is locked; other rows go on, and nothing is torn.
#[tokio::test(flavor = "multi_thread")]
async fn batches_over_a_locked_row_neither_lock_up_nor_hold_others() {
    let world = begin("stock", "strategy: adaptive").await;
    let session = block_in_place(|| lock(&world, "stock", "b"));
    let mut batches = JoinSet::new();
    for number in 0..2 * BATCHES {
        let one = |id: &str| json!({ "workflow": "stock", "id": id, "event": "take", "data": { "quantity": 1 } });
        let mut moves = vec![one("a"), one("b"), one("c")];
        if number % 2 == 1 {
            moves.reverse();
        }
        let call = Call::post("/v1/transitions", &json!({ "moves": moves })).key(format!("batch-{number}"));
        let api = world.node(number).api();
        batches.spawn(async move { applied(&api, &call).await });
    }
    // Meanwhile, on both nodes.
    for number in 0..20 {
        let (other, passed) = timed(&world.node(number).api(), &take("stock", "d")).await;
        assert_eq!(other.outcome(), "applied", "{other:?}");
        assert!(passed < AT_ONCE, "{passed:?}");
    }
    block_in_place(|| session.execute("ROLLBACK"));
    for failed in batches.join_all().await {
        assert_eq!(failed, None, "all are applied in the end");
    }
    let api = world.api();
    for (id, left) in [("a", 100 - 2 * BATCHES), ("b", 100 - 2 * BATCHES), ("c", 100 - 2 * BATCHES), ("d", 80)] {
        assert_eq!(api.instance("stock", id).await["data"]["on_hand"], json!(left), "{id}");
        assert_eq!(history(&api, "stock", id).await.len(), 101 - left, "{id}");
    }
}

/// Sends a request under its key until it takes effect; None: it did.
async fn applied(api: &Api, call: &Call) -> Option<Value> {
    const TIMES_MAX: usize = 50;
    let mut last = None;
    for _ in 0..TIMES_MAX {
        let answer = api.call(call).await;
        if answer.status == 200 {
            return None;
        }
        // Each of these has written nothing.
        let body = answer.json();
        let again =
            matches!(body["outcome"].as_str(), Some("conflict" | "lock_timeout" | "not_applied" | "unavailable"));
        assert!(again, "{body}");
        last = Some(body);
    }
    last
}
