//! Whoever waits on one node hears of changes made on another.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::support::call::{Call, instance};
use crate::support::world::World;

const COUNTER: &str = "
workflow: counter
initial: counting
states:
  counting: {on: {count: {assign: {n: data.n + 1}}, stop: stopped}}
  stopped: {type: final}
";

/// Other nodes look every 500 ms; far below the 20 s for which is asked.
const HEARD_WITHIN: Duration = Duration::from_secs(5);

async fn begin() -> World {
    let world = World::of_two();
    let api = world.api();
    api.put("counter", COUNTER).await;
    api.start("counter", &json!({ "id": "c", "data": { "n": 0 } })).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_is_waited_for_brings_what_another_node_wrote() {
    let world = begin().await;
    let (writer, reader) = (world.node(0).api(), world.node(1).api());
    for version in 2..5_i64 {
        let path = instance("counter", "c", &format!("/history?cursor={}&wait_ms=20000", version - 1));
        let count = json!({ "event": "count" });
        let begin = Instant::now();
        let (page, answer) = tokio::join!(reader.get(&path), writer.send("counter", "c", &count));
        assert_eq!(answer.outcome(), "applied");
        assert_eq!(page.ok()["items"][0]["version"], json!(version), "{page:?}");
        assert!(begin.elapsed() < HEARD_WITHIN, "after {:?}", begin.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_on_one_node_follows_what_happens_on_another() {
    let world = begin().await;
    let (writer, cli) = (world.node(0).api(), world.node(1).cli());
    let watching = spawn_blocking(move || cli.run(&["watch", "counter/c", "--until-closed", "-o", "json"]));
    for event in ["count", "count", "stop"] {
        let answer = writer.call(&Call::send("counter", "c", &json!({ "event": event }))).await;
        assert_eq!(answer.outcome(), "applied");
    }
    let said = tokio::time::timeout(HEARD_WITHIN * 2, watching).await.expect("the watch ends").unwrap();
    let lines: Vec<Value> = said.ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<&str> = lines[1..].iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["count", "count", "stop"], "{said:?}");
}
