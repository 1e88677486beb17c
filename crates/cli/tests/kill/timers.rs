//! `kill -9` of nodes while timers fire: each fires exactly once.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::task::block_in_place;

use crate::support::api::Api;
use crate::support::call::instance;
use crate::support::history::history;
use crate::support::seed::seed;
use crate::support::server::Store;

/// Each visit ends by itself, a hundred times; then the run does.
const RELAY: &str = "
workflow: relay
initial: ping
states:
  ping: {after: {1ms: [{target: pong, guard: data.n < 100, assign: {n: data.n + 1}}, done]}}
  pong: {after: {1ms: [{target: ping, guard: data.n < 100, assign: {n: data.n + 1}}, done]}}
  done: {type: final}
";

/// The start, a hundred moves, and the one that ends it.
const VERSIONS: u64 = 102;

const RELAYS: u64 = 40;

async fn begin(api: &Api) {
    api.put("relay", RELAY).await;
    for id in 0..RELAYS {
        api.start("relay", &json!({ "id": id.to_string(), "data": { "n": 0 } })).await;
    }
}

/// Waits until an instance has come to a version.
async fn comes_to(api: &Api, id: u64, version: u64) {
    let path = instance("relay", &id.to_string(), &format!("/history?cursor={}&limit=1&wait_ms=25000", version - 1));
    for _ in 0..4 {
        if !api.get(&path).await.ok()["items"].as_array().unwrap().is_empty() {
            return;
        }
    }
    panic!("relay/{id} does not come to version {version}");
}

async fn each_fired_once(api: &Api) {
    for id in 0..RELAYS {
        comes_to(api, id, VERSIONS).await;
        let id = id.to_string();
        let last = api.instance("relay", &id).await;
        assert_eq!(
            (&last["version"], &last["data"]["n"], &last["state"]),
            (&json!(VERSIONS), &json!(100), &json!("done"))
        );
        assert_eq!(last["timers"], json!([]));
        let rows = history(api, "relay", &id).await;
        assert!(rows[1..].iter().all(|row| row.kind == "timer" && row.actor == "timer" && row.raw["after"] == "1ms"));
        assert!(rows.windows(2).all(|pair| pair[1].version == pair[0].version + 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_killed_at_it_goes_on_where_it_was() {
    const KILLS: u64 = 5;
    let mut random = StdRng::seed_from_u64(seed());
    let store = Store::new();
    let mut server = block_in_place(|| store.serve());
    begin(&server.api()).await;
    for kill in 1..=KILLS {
        // Wherever the others are by then.
        comes_to(&server.api(), random.random_range(0..RELAYS), kill * VERSIONS / (KILLS + 1)).await;
        block_in_place(|| server.kill());
        server = block_in_place(|| store.serve());
    }
    each_fired_once(&server.api()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_node_had_in_hand_another_fires() {
    let mut random = StdRng::seed_from_u64(seed());
    let store = Store::shared();
    let (killed, other) = block_in_place(|| (store.serve(), store.serve()));
    begin(&killed.api()).await;
    comes_to(&killed.api(), random.random_range(0..RELAYS), VERSIONS / 2).await;
    block_in_place(|| killed.kill());
    each_fired_once(&other.api()).await;
}
