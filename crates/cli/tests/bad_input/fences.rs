//! Fences that no lock has given, and those of a lock that was lost.

use serde_json::{Value, json};

use crate::begin;
use crate::support::call::Call;

#[tokio::test(flavor = "multi_thread")]
async fn fences_that_no_lock_gives_are_malformed() {
    let (_store, _server, api) = begin().await;
    let many: serde_json::Map<String, Value> = (0..17).map(|n| (format!("r{n}"), json!(1))).collect();
    let wrong = [
        json!({ "r": 0 }),
        json!({ "r": -1 }),
        json!({ "r": 1_i64 << 53 }),
        json!({ "r": i64::MAX }),
        json!({ "r": u64::MAX }),
        json!({ "r": 1.5 }),
        json!({ "r": "1" }),
        json!({ "r": null }),
        json!({ "": 1 }),
        json!({ "..": 1 }),
        json!({ "a\nb": 1 }),
        json!({ "x".repeat(513): 1 }),
        json!(["r", 1]),
        json!(1),
        Value::Object(many),
        // A day and more ahead of any lock.
        json!({ "r": (1_i64 << 53) - 1 }),
    ];
    for fences in wrong {
        api.send("item", "i", &json!({ "event": "submit", "fences": fences })).await.problem(400, "malformed");
        let one = json!({ "workflow": "item", "id": "i", "event": "submit", "fences": fences });
        api.call(&Call::post("/v1/transitions", &json!({ "moves": [one] }))).await.problem(400, "malformed");
    }
    assert_eq!(api.instance("item", "i").await["version"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_holder_is_told_so_through_every_door() {
    let (_store, server, api) = begin().await;
    let set =
        |fence: i64| json!({ "event": "set", "data": { "value": fence }, "fences": { "inventory/sku=1": fence } });
    assert_eq!(api.send("item", "i", &set(8)).await.outcome(), "applied");
    assert_eq!(api.send("item", "i", &set(8)).await.outcome(), "applied");
    let problem = api.send("item", "i", &set(7)).await.problem(409, "fenced");
    for (field, expected) in [
        ("code", json!("LK0010")),
        ("retryable", json!(false)),
        ("resource", json!("inventory/sku=1")),
        ("fence", json!(7)),
        ("last", json!(8)),
    ] {
        assert_eq!(problem[field], expected, "{problem}");
    }
    for atomic in [true, false] {
        let mut one = set(7);
        one["workflow"] = json!("item");
        one["id"] = json!("i");
        let answer = api.call(&Call::post("/v1/transitions", &json!({ "moves": [one], "atomic": atomic }))).await;
        let told = if atomic { answer.problem(409, "fenced") } else { answer.ok() };
        assert_eq!((&told["failed_index"], &told["results"][0]["outcome"]), (&json!(0), &json!("fenced")), "{told}");
    }
    let cli = server.cli();
    let send = |fence: &str| cli.run(&["send", "item/i", "set", "--data", r#"{"value": 1}"#, "--fence", fence]);
    let late = send("inventory/sku=1=7");
    assert!(late.failed(1).starts_with("error: fenced (LK0010): the fence 7 of \"inventory/sku=1\""), "{late:?}");
    send("inventory/sku=1=9").ok();
    assert_eq!(api.instance("item", "i").await["version"], 4);
}
