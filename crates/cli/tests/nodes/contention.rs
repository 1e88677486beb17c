//! An instance that two nodes write at once goes to the row lock, and `explain` says so with its numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::api::Api;
use crate::support::call::instance;
use crate::support::history::history;
use crate::support::world::World;

const COUNTER: &str = "
workflow: counter
initial: counting
states:
  counting: {on: {count: {assign: {n: data.n + 1}}}}
";

/// Clients of each node: enough that both always have something to commit.
const CLIENTS: usize = 8;

/// Far above what it takes.
const UP_WITHIN: Duration = Duration::from_secs(40);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

async fn explain(api: &Api) -> Value {
    api.get(&instance("counter", "c", "/explain")).await.ok()
}

/// Sends command after command; returns how many were applied.
async fn count(api: Api, stop: Arc<AtomicBool>) -> usize {
    let mut applied = 0;
    while !stop.load(Ordering::Relaxed) {
        let answer = api.send("counter", "c", &json!({ "event": "count" })).await;
        assert_eq!(answer.outcome(), "applied", "adaptive commands never end in a conflict: {answer:?}");
        applied += 1;
    }
    applied
}

/// What each node says once one of them has gone up.
async fn until_one_is_up(world: &World) -> Vec<Value> {
    let begin = Instant::now();
    loop {
        let mut told = Vec::new();
        for number in 0..2 {
            told.push(explain(&world.node(number).api()).await);
        }
        if told.iter().any(|told| told["rung"] == "row_lock") {
            return told;
        }
        assert!(begin.elapsed() < UP_WITHIN, "both are optimistic after {:?}: {told:#?}", begin.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_two_nodes_write_goes_up_to_the_row_lock() {
    let world = World::of_two();
    let api = world.api();
    api.put("counter", COUNTER).await;
    api.start("counter", &json!({ "id": "c", "data": { "n": 0 } })).await;
    let before = explain(&world.node(0).api()).await;
    assert_eq!((&before["rung"], &before["since"]), (&json!("optimistic"), &Value::Null), "{before}");

    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for number in 0..2 * CLIENTS {
        clients.spawn(count(world.node(number).api(), stop.clone()));
    }
    let told = until_one_is_up(&world).await;
    let number = told.iter().position(|told| told["rung"] == "row_lock").unwrap();
    check_story(&told[number]);
    let told_to_people = world.cli(number).run(&["explain", "counter/c"]);
    assert!(told_to_people.ok().contains("  rung         row lock since 2"), "{told_to_people:?}");
    assert!(told_to_people.ok().contains("  up to the row lock: "), "{told_to_people:?}");
    let nodes: Vec<&str> = told.iter().map(|told| told["node"].as_str().unwrap()).collect();
    assert_ne!(nodes[0], nodes[1], "each says who it is");

    stop.store(true, Ordering::Relaxed);
    let applied: usize = clients.join_all().await.into_iter().sum();
    assert_eq!(api.instance("counter", "c").await["data"]["n"], json!(applied));
    assert_eq!(history(&api, "counter", "c").await.len(), 1 + applied);
    let switch = &told[number]["switches"][0];
    println!(
        "{applied} moves by two nodes; up after {} of {} tries were contended",
        switch["contended"], switch["tries"]
    );
}

/// The last switch has the numbers that led to it.
fn check_story(told: &Value) {
    let switches = told["switches"].as_array().unwrap();
    let last = switches.last().unwrap_or_else(|| panic!("no switch: {told}"));
    assert_eq!((&last["from"], &last["to"]), (&json!("optimistic"), &json!("row_lock")), "{told}");
    assert_eq!((&last["at"], &last["reason"]), (&told["since"], &told["reason"]), "{told}");
    assert_eq!((&last["escalate_above"], &last["dwell_ms"]), (&json!(0.05), &json!(30_000)), "{told}");
    let number = |name: &str| last[name].as_f64().unwrap();
    match last["reason"].as_str() {
        Some("score") => assert!(number("score") > 0.05 && number("contended") > 1.0, "{told}"),
        Some("exhausted") => {}
        _ => panic!("not a reason to go up: {told}"),
    }
    assert!(number("contended") <= number("tries"), "{told}");
    assert!(told["tries"].as_f64().unwrap() >= 1.0 && told["score"].as_f64().unwrap() > 0.0, "{told}");
    assert!(told["dwell_left_ms"].as_u64().unwrap() > 0, "{told}");
    assert!(told["may_come_down_in_ms"].as_u64() >= told["dwell_left_ms"].as_u64(), "{told}");
    assert!(told["waits"]["round_trip"]["mean_ms"].as_f64().unwrap() > 0.0, "{told}");
}
