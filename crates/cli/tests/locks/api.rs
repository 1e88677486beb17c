//! The routes, as a careful and a careless client use them.

use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::support::api::Api;
use crate::support::call::{Answer, Call};
use crate::support::raw;
use crate::support::world::{World, in_both_worlds};

async fn post(api: &Api, path: &str, body: &Value) -> Answer {
    api.call(&Call::post(path, body)).await
}

async fn acquire(api: &Api, resource: &str, body: &Value) -> Answer {
    post(api, &format!("/v1/locks/{resource}/acquire"), body).await
}

fn ask(owner: &str, attempt: &str) -> Value {
    json!({ "owner": owner, "attempt": attempt, "ttl_ms": 60_000 })
}

/// Two nodes, one lease: any node serves it.
async fn an_attempt_is_one_lease_wherever_it_is_sent(world: World) {
    let (first, second) = (world.node(0).api(), world.node(1).api());
    let lease = acquire(&first, "r", &ask("ann", "1")).await.ok();
    let again = acquire(&second, "r", &ask("ann", "1")).await.ok();
    assert_eq!((&lease["lease"], &lease["fence"]), (&again["lease"], &again["fence"]));
    let valid = lease["valid_ms"].as_u64().unwrap();
    assert!((50_000..60_000).contains(&valid), "{lease}");
    acquire(&second, "r", &ask("ann", "2")).await.problem(409, "held");
    let name = json!({ "lease": lease["lease"] });
    let renewed = post(&second, "/v1/locks/r/renew", &name).await.ok();
    assert!(renewed["valid_ms"].as_u64().unwrap() > 50_000, "{renewed}");
    assert_eq!(post(&second, "/v1/locks/r/release", &name).await.ok()["outcome"], "released");
    // Sent again to the node that released it, it is answered as before.
    assert_eq!(post(&second, "/v1/locks/release", &name).await.ok()["outcome"], "released");
    let nobodys = json!({ "lease": "0".repeat(32) });
    assert_eq!(post(&first, "/v1/locks/release", &nobodys).await.ok()["outcome"], "already_lost");
    let lost = post(&first, "/v1/locks/renew", &name).await.problem(409, "fenced");
    assert_eq!((&lost["code"], &lost["lease"]), (&json!("LK0010"), &lease["lease"]));
    let next = acquire(&second, "r", &ask("bob", "1")).await.ok();
    assert!(next["fence"].as_i64() > lease["fence"].as_i64(), "fences grow");
}

async fn several_names_are_had_all_or_none(world: World) {
    let api = world.api();
    let several = |owner: &str, names: &[&str]| {
        let claims: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        json!({ "resources": claims, "owner": owner, "attempt": "1", "ttl_ms": 60_000 })
    };
    let lease = post(&api, "/v1/locks/acquire", &several("ann", &["b", "a", "b"])).await.ok();
    let fences = lease["fences"].as_object().unwrap();
    assert_eq!(fences.keys().collect::<Vec<_>>(), ["a", "b"]);
    let held = post(&api, "/v1/locks/acquire", &several("bob", &["c", "b"])).await.problem(409, "held");
    assert_eq!((&held["resource"], &held["holder"]), (&json!("b"), &json!("ann")));
    acquire(&api, "c", &ask("eve", "1")).await.ok();
    // Released by who saw no answer.
    let given = json!({ "owner": "ann", "attempt": "1" });
    assert_eq!(post(&api, "/v1/locks/release", &given).await.ok()["outcome"], "released");
    let late = post(&api, "/v1/locks/acquire", &several("ann", &["a", "b"])).await;
    assert_eq!(late.problem(409, "key_reused")["ended"], true, "it was barred");
}

async fn shared_and_permits_are_held_by_several(world: World) {
    let api = world.api();
    let with = |owner: &str, field: &str, value: Value| {
        let mut body = ask(owner, field);
        body[field] = value;
        body
    };
    let first = acquire(&api, "s", &with("ann", "mode", json!("shared"))).await.ok();
    let second = acquire(&api, "s", &with("bob", "mode", json!("shared"))).await.ok();
    assert_eq!(first["fence"], second["fence"], "neither fences the other");
    acquire(&api, "s", &ask("eve", "1")).await.problem(409, "held");
    for owner in ["ann", "bob", "eve"] {
        acquire(&api, "p", &with(owner, "permits", json!(3))).await.ok();
    }
    acquire(&api, "p", &with("joe", "permits", json!(3))).await.problem(409, "held");
    let listed = api.get("/v1/locks").await.ok();
    assert_eq!(listed["items"][0]["holders"].as_array().map(Vec::len), Some(3));
    assert_eq!(listed["items"][0]["holders"][0]["permits"], 3);
    let page = api.get("/v1/locks?limit=1").await.ok();
    let next = page["next_cursor"].as_str().unwrap();
    let page = api.get(&format!("/v1/locks?limit=1&cursor={next}")).await.ok();
    assert_eq!((&page["items"][0]["resource"], &page["next_cursor"]), (&json!("s"), &Value::Null));
}

async fn a_wait_that_ends_says_who_is_in_the_way(world: World) {
    let api = world.api();
    acquire(&api, "r", &ask("ann", "1")).await.ok();
    let mut waits = ask("bob", "1");
    waits["wait_ms"] = json!(200);
    waits["host"] = json!("far away");
    let begin = Instant::now();
    let problem = acquire(&api, "r", &waits).await.problem(409, "lock_timeout");
    assert!(begin.elapsed() >= Duration::from_millis(200));
    assert!(problem["waited_ms"].as_u64().unwrap() >= 200, "{problem}");
    assert_eq!((&problem["holder"], &problem["code"]), (&json!("ann"), &json!("LK0012")));
    assert!(problem["since"].as_str().unwrap().ends_with('Z') && problem["host"].is_string(), "{problem}");
}

/// L4: nobody else waits for one that is not there. One that can ask again keeps its place until it is known to be gone.
async fn a_client_that_goes_while_it_waits_gives_up(world: World) {
    let api = world.node(1).api();
    let lease = acquire(&api, "r", &ask("ann", "1")).await.ok();
    let mut waits = ask("bob", "1");
    waits["wait_ms"] = json!(25_000);
    waits["attempt"] = json!(null);
    let address = world.node(0).address();
    let mut waiting = raw::connect(address);
    let head = raw::request("POST /v1/locks/r/acquire", address, "", &waits.to_string());
    waiting.write_all(&head).unwrap();
    await_waiters(&api, 1).await;
    drop(waiting);
    await_waiters(&api, 0).await;
    post(&api, "/v1/locks/r/release", &json!({ "lease": lease["lease"] })).await.ok();
    acquire(&api, "r", &ask("eve", "1")).await.ok();
}

/// However long it took, a client gets the time to live that it asked for.
async fn whoever_waited_has_its_time_to_live(world: World) {
    let api = world.node(1).api();
    let lease = acquire(&api, "r", &ask("ann", "1")).await.ok();
    let mut waits = ask("bob", "1");
    (waits["ttl_ms"], waits["wait_ms"]) = (json!(1_500), json!(25_000));
    let bob = tokio::spawn({
        let api = world.node(0).api();
        async move { acquire(&api, "r", &waits).await.ok() }
    });
    await_waiters(&api, 1).await;
    // Later than its last ask by most of the time until its next.
    tokio::time::sleep(Duration::from_millis(450)).await;
    post(&api, "/v1/locks/r/release", &json!({ "lease": lease["lease"] })).await.ok();
    let granted = bob.await.unwrap();
    assert!(granted["valid_ms"].as_u64().unwrap() > 1_300, "{granted}");
}

/// Nobody can ask again for what has no name.
async fn a_wait_without_an_attempt_leaves_no_place_behind(world: World) {
    let api = world.api();
    let lease = acquire(&api, "r", &ask("ann", "1")).await.ok();
    let nameless = json!({ "owner": "bob", "ttl_ms": 600_000, "wait_ms": 100 });
    for _ in 0..3 {
        acquire(&api, "r", &nameless).await.problem(409, "lock_timeout");
    }
    await_waiters(&api, 0).await;
    post(&api, "/v1/locks/r/release", &json!({ "lease": lease["lease"] })).await.ok();
    acquire(&api, "r", &ask("eve", "1")).await.ok();
}

/// A connection that breaks says nothing about its client: whoever asks again, wherever, has what it had.
async fn a_broken_connection_costs_an_attempt_nothing(world: World) {
    let api = world.node(1).api();
    let lease = acquire(&api, "r", &ask("ann", "1")).await.ok();
    let mut waits = ask("bob", "1");
    waits["wait_ms"] = json!(25_000);
    let address = world.node(0).address();
    let mut waiting = raw::connect(address);
    let head = raw::request("POST /v1/locks/r/acquire", address, "", &waits.to_string());
    waiting.write_all(&head).unwrap();
    await_waiters(&api, 1).await;
    post(&api, "/v1/locks/r/release", &json!({ "lease": lease["lease"] })).await.ok();
    // Bob asks again on another node before the first notices that he has gone.
    let again = acquire(&api, "r", &waits).await.ok();
    drop(waiting);
    let renewed = post(&api, "/v1/locks/r/renew", &json!({ "lease": again["lease"] })).await.ok();
    assert!(renewed["valid_ms"].as_u64().unwrap() > 0, "{renewed}");
    acquire(&api, "r", &ask("eve", "1")).await.problem(409, "held");
    post(&api, "/v1/locks/r/renew", &json!({ "lease": again["lease"] })).await.ok();
}

async fn await_waiters(api: &Api, count: u64) {
    let deadline = Instant::now() + crate::runner::WAIT_MAX;
    loop {
        let listed = api.get("/v1/locks").await.ok();
        if listed["items"][0]["waiters"] == json!(count) {
            return;
        }
        assert!(Instant::now() < deadline, "{count} should wait: {listed}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn owners_that_wait_in_a_circle_are_told(world: World) {
    let api = world.api();
    for (owner, resource) in [("ann", "a"), ("bob", "b")] {
        acquire(&api, resource, &ask(owner, "1")).await.ok();
    }
    let wait = |owner: &'static str, resource: &'static str| {
        let api = api.clone();
        let mut body = ask(owner, "2");
        body["wait_ms"] = json!(25_000);
        async move { acquire(&api, resource, &body).await }
    };
    let (ann, bob) = (tokio::spawn(wait("ann", "b")), tokio::spawn(wait("bob", "a")));
    // Whoever came last gives up; the other goes on waiting.
    let told = tokio::select! {
        told = ann => told.unwrap(),
        told = bob => told.unwrap(),
    };
    let problem = told.problem(409, "deadlock");
    let mut cycle: Vec<&str> = problem["cycle"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    cycle.sort_unstable();
    assert_eq!((cycle, &problem["code"]), (vec!["ann", "bob"], &json!("LK0013")));
}

async fn metrics_name_no_lock(world: World) {
    let api = world.node(0).api();
    let lease = acquire(&api, "secret-name", &ask("ann", "1")).await.ok();
    let name = json!({ "lease": lease["lease"] });
    post(&api, "/v1/locks/renew", &name).await.ok();
    acquire(&api, "secret-name", &ask("bob", "1")).await.problem(409, "held");
    post(&api, "/v1/locks/release", &name).await.ok();
    let answer = api.get("/metrics").await;
    for line in [
        "lockkeeper_lock_wait_seconds_count 1",
        "lockkeeper_lock_hold_seconds_count 1",
        "lockkeeper_lock_hand_off_seconds_count 0",
        "lockkeeper_lock_asks_total{outcome=\"granted\"} 1",
        "lockkeeper_lock_asks_total{outcome=\"held\"} 1",
        "lockkeeper_lock_renewals_total 1",
        "lockkeeper_lock_renewal_failures_total 0",
        "lockkeeper_lock_losses_total 0",
        "lockkeeper_lock_waiters 0",
        "# EOF",
    ] {
        assert!(answer.text.lines().any(|one| one == line), "{line}: {}", answer.text);
    }
    assert!(!answer.text.contains("secret") && !answer.text.contains("ann"), "{}", answer.text);
}

/// A shutdown does not wait for those who wait.
async fn a_server_that_stops_tells_those_who_wait(world: World) {
    let api = world.node(0).api();
    acquire(&api, "r", &ask("ann", "1")).await.ok();
    let mut waits = ask("bob", "1");
    waits["wait_ms"] = json!(25_000);
    let waiting = tokio::spawn({
        let api = api.clone();
        async move { acquire(&api, "r", &waits).await }
    });
    await_waiters(&world.node(1).api(), 1).await;
    let begin = Instant::now();
    let world = block_in_place(|| world.restart());
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    waiting.await.unwrap().problem(503, "unavailable");
    // Durable: it is held still.
    acquire(&world.api(), "r", &ask("eve", "1")).await.problem(409, "held");
}

in_both_worlds!(
    an_attempt_is_one_lease_wherever_it_is_sent,
    several_names_are_had_all_or_none,
    shared_and_permits_are_held_by_several,
    a_wait_that_ends_says_who_is_in_the_way,
    a_client_that_goes_while_it_waits_gives_up,
    a_broken_connection_costs_an_attempt_nothing,
    whoever_waited_has_its_time_to_live,
    a_wait_without_an_attempt_leaves_no_place_behind,
    owners_that_wait_in_a_circle_are_told,
    metrics_name_no_lock,
    a_server_that_stops_tells_those_who_wait,
);
