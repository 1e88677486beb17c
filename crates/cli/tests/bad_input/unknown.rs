//! Unknown names: the answer names those that are known.

use serde_json::{Value, json};

use crate::begin;
use crate::support::call::{Call, instance};

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_workflow_is_told_with_those_that_are_known() {
    let (_store, _server, api) = begin().await;
    let paths = ["", "/instances", "/instances/i", "/instances/i/history"];
    let mut calls: Vec<Call> = paths.iter().map(|path| Call::get(format!("/v1/workflows/itme{path}"))).collect();
    calls.extend([
        Call::start("itme", &json!({})),
        Call::send("itme", "i", &json!({ "event": "submit" })),
        Call::post(instance("itme", "i", "/cancel"), &json!({ "reason": "r" })),
        Call::post("/v1/transitions", &json!({ "moves": [{ "workflow": "itme", "id": "i", "event": "submit" }] })),
    ]);
    for call in calls {
        let problem = api.call(&call).await.problem(404, "unknown_workflow");
        assert_eq!((&problem["workflow"], &problem["known"]), (&json!("itme"), &json!(["item"])), "{call:?}");
        assert!(problem["detail"].as_str().unwrap().contains("item"), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_instance_is_told_with_some_that_are_known() {
    let (_store, _server, api) = begin().await;
    let calls = [
        Call::get(instance("item", "j", "")),
        Call::get(instance("item", "j", "?stale=ok")),
        Call::get(instance("item", "j", "/history")),
        Call::get(instance("item", "j", "/history?wait_ms=20000")),
        Call::send("item", "j", &json!({ "event": "submit" })),
        Call::send("item", "j", &json!({ "event": "submit" })).key("k"),
        Call::post(instance("item", "j", "/terminate"), &json!({ "reason": "r" })),
        Call::post("/v1/transitions", &json!({ "moves": [{ "workflow": "item", "id": "j", "event": "submit" }] })),
    ];
    for call in calls {
        let problem = api.call(&call).await.problem(404, "unknown_instance");
        let named = (&problem["workflow"], &problem["id"], &problem["known"]);
        assert_eq!(named, (&json!("item"), &json!("j"), &json!(["i"])), "{call:?}");
    }
    for number in 0..20 {
        api.start("item", &json!({ "id": format!("n-{number}") })).await;
    }
    let problem = api.get(&instance("item", "j", "")).await.problem(404, "unknown_instance");
    assert_eq!(problem["known"].as_array().map(Vec::len), Some(10), "some, not all: {problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_event_or_state_is_told_with_those_that_are_known() {
    let (_store, _server, api) = begin().await;
    let problem = api.send("item", "i", &json!({ "event": "sbmit" })).await.problem(422, "unknown_event");
    assert_eq!((&problem["what"], &problem["name"]), (&json!("event"), &json!("sbmit")));
    let known = sorted(&problem["known"]);
    assert_eq!(known, ["add", "approve", "finish", "reject", "set", "submit"]);
    let problem = api.send("item", "i", &json!({ "to": "finished" })).await.problem(422, "unknown_event");
    assert_eq!((&problem["what"], &problem["name"]), (&json!("state"), &json!("finished")));
    assert_eq!(sorted(&problem["known"]), ["done", "draft", "review"]);
    // One that exists, in another state.
    let problem = api.send("item", "i", &json!({ "event": "approve" })).await.problem(409, "state_mismatch");
    let told = (&problem["expected"], &problem["actual"], &problem["reason"]);
    assert_eq!(told, (&json!("review"), &json!("draft"), &json!("not_enabled")));
    api.send("item", "i", &json!({ "event": "submit" })).await.ok();
    let problem = api.send("item", "i", &json!({ "to": "done" })).await.problem(422, "ambiguous_target");
    assert_eq!(sorted(&problem["events"]), ["approve", "finish"]);
    // A `from` that no state has can never hold.
    let problem = api.send("item", "i", &json!({ "event": "submit", "from": "nowhere" })).await;
    assert!(matches!(problem.status, 409 | 422), "{problem:?}");
}

fn sorted(names: &Value) -> Vec<String> {
    let mut names: Vec<String> = names.as_array().unwrap().iter().map(|n| n.as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_value_of_a_filter_finds_nothing_or_is_refused() {
    let (_store, _server, api) = begin().await;
    let list = |query: &str| format!("/v1/workflows/item/instances?{query}");
    assert_eq!(api.get(&list("state=nowhere")).await.ok()["items"], json!([]));
    assert_eq!(api.get(&list("q=nobody")).await.ok()["items"], json!([]));
    let answer = api.get(&list("status=runing")).await;
    assert_eq!(answer.status, 400, "a status that cannot be is a mistake of the sender: {answer:?}");
    api.get(&list("sate=draft")).await.problem(400, "malformed");
    api.get(&instance("item", "i", "?stale=yes")).await.problem(400, "malformed");
}
