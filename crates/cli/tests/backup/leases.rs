//! Whoever held a lock before a restore is late after it.

use serde_json::json;
use tokio::task::block_in_place;

use crate::COUNTER;
use crate::support::call::Call;
use crate::support::server::Store;

async fn a_lease_of_before_is_gone_and_its_fence_is_late(target: Store) {
    let store = Store::new();
    let server = block_in_place(|| store.serve());
    let api = server.api();
    api.put("counter", COUNTER).await;
    api.start("counter", &json!({ "id": "c", "data": { "n": 0 } })).await;
    let ask = json!({ "owner": "before", "ttl_ms": 3_600_000 });
    let lease = api.call(&Call::post("/v1/locks/r/acquire", &ask)).await.ok();
    let fence = lease["fence"].as_i64().unwrap();
    let count = json!({ "event": "count", "fences": { "r": fence } });
    api.send("counter", "c", &count).await.ok();
    let file = store.dir().join("backup").display().to_string();
    block_in_place(|| {
        server.cli().run(&["backup", &file]).ok();
        target.cli().run(&["restore", &file, "--store", &target.url()]).ok();
    });
    let server = block_in_place(|| target.serve());
    let api = server.api();
    let late = api.send("counter", "c", &count).await.problem(409, "fenced");
    assert_eq!(late["fence"], json!(fence));
    assert_eq!(api.get("/v1/locks").await.ok()["items"], json!([]), "nobody holds it");
    let ask = json!({ "owner": "after", "ttl_ms": 60_000 });
    let lease = api.call(&Call::post("/v1/locks/r/acquire", &ask)).await.ok();
    let newer = lease["fence"].as_i64().unwrap();
    assert!(newer > fence);
    api.send("counter", "c", &json!({ "event": "count", "fences": { "r": newer } })).await.ok();
    // The feed's places of before mean nothing.
    api.get("/v1/events?after=0-0-1-0-0").await.problem(410, "gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_file() {
    a_lease_of_before_is_gone_and_its_fence_is_late(Store::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_database() {
    a_lease_of_before_is_gone_and_its_fence_is_late(Store::shared()).await;
}
