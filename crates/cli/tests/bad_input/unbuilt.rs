//! What the design names and this version does not have is refused by name: passing over it would be a promise.

use serde_json::json;

use crate::begin;
use crate::support::call::Call;

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_events_that_are_not_built_are_refused() {
    let (_store, _server, api) = begin().await;
    let fields = [("mode", json!("async")), ("mode", json!("later")), ("priority", json!(9)), ("priority", json!(0))];
    for (field, value) in fields {
        let mut event = json!({ "event": "submit" });
        event[field] = value.clone();
        let detail = api.send("item", "i", &event).await.detail(400, "malformed");
        assert!(detail.contains(&format!("`{field}`")), "{field}={value}: {detail}");
        let mut one = json!({ "workflow": "item", "id": "i", "event": "submit" });
        one[field] = value.clone();
        let answer = api.call(&Call::post("/v1/transitions", &json!({ "moves": [one] }))).await;
        assert!(answer.detail(400, "malformed").contains(&format!("`{field}`")), "{field}={value}: {answer:?}");
    }
    assert_eq!(api.instance("item", "i").await["version"], 1);
    assert_eq!(api.send("item", "i", &json!({ "event": "submit", "mode": "sync" })).await.outcome(), "applied");
}

/// Each field that DESIGN 7 has for definitions and this version has not.
#[tokio::test(flavor = "multi_thread")]
async fn blocks_of_definitions_that_are_not_built_are_refused() {
    let (_store, _server, api) = begin().await;
    let text = |top: &str, state: &str, way: &str| {
        format!(
            "workflow: w\ninitial: a\n{top}\nstates:\n  a:\n    {state}\n    on: {{go: {{target: b, {way}}}}}\n  b: {{type: final}}\n"
        )
    };
    let texts = [
        ("sla", text("sla: {lock_wait_p99: 500ms, on_breach: alert}", "", "")),
        ("consistency", text("consistency: available", "", "")),
        ("task", text("", "task: {queue: q}", "")),
        ("effects", text("", "effects: [{webhook: \"https://erp.example/po\"}]", "")),
        ("entry", text("", "entry: [x]", "")),
        ("effects", text("", "", "effects: [{webhook: \"https://erp.example/po\"}]")),
        ("priority", text("", "", "priority: 3")),
        ("parallel", text("", "type: parallel", "")),
    ];
    for (name, text) in texts {
        let problem = api.call(&Call::put("w", &text)).await.problem(422, "invalid_definition");
        let found = problem["problems"].as_array().unwrap().iter().any(|one| {
            let message = one["message"].as_str().unwrap();
            message.contains(name) && message.contains("not in this version") && one["line"].as_u64() > Some(0)
        });
        assert!(found, "{name}: {problem}");
    }
    api.get("/v1/workflows/w").await.problem(404, "unknown_workflow");
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_that_are_not_built_are_not_there() {
    let (_store, _server, api) = begin().await;
    for path in ["/v1/tickets/t", "/v1/dead-letters", "/v1/conflicts", "/v1/alerts"] {
        let detail = api.get(path).await.detail(404, "not_found");
        assert!(detail.contains(path) && detail.contains("/openapi.json"), "{detail}");
    }
    api.call(&Call::post("/v1/tasks/poll", &json!({}))).await.problem(404, "not_found");
}
