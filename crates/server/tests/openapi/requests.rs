//! Requests to every operation, and what they are answered.

use reqwest::Method;
use serde_json::{Value, json};

/// A request and the status that it has.
pub(crate) struct Request {
    pub(crate) method: Method,
    /// As the document writes it.
    pub(crate) template: &'static str,
    pub(crate) path: &'static str,
    pub(crate) body: Option<Value>,
    pub(crate) status: u16,
}

const WORKFLOW: &str = "/v1/workflows/{workflow}";
const INSTANCES: &str = "/v1/workflows/{workflow}/instances";
const INSTANCE: &str = "/v1/workflows/{workflow}/instances/{id}";
const HISTORY: &str = "/v1/workflows/{workflow}/instances/{id}/history";
const EXPLAIN: &str = "/v1/workflows/{workflow}/instances/{id}/explain";
const PURGE: &str = "/v1/workflows/{workflow}/purge";
const EVENTS: &str = "/v1/workflows/{workflow}/instances/{id}/events";
const TERMINATE: &str = "/v1/workflows/{workflow}/instances/{id}/terminate";
const MIGRATE: &str = "/v1/workflows/{workflow}/instances/{id}/migrate";
const CANCEL: &str = "/v1/workflows/{workflow}/instances/{id}/cancel";

/// What the second try of `ann` is called, by the token `admin`: it must not change, for clients on all nodes.
const LEASE: &str = "938519437bb78c169f4c968ca84d0cf5";

fn get(template: &'static str, path: &'static str, status: u16) -> Request {
    Request { method: Method::GET, template, path, body: None, status }
}

fn post(template: &'static str, path: &'static str, body: Value, status: u16) -> Request {
    Request { method: Method::POST, template, path, body: Some(body), status }
}

fn event(body: Value, status: u16) -> Request {
    post(EVENTS, "/v1/workflows/item/instances/i/events", body, status)
}

/// In order, on the workflow and the instance of [`crate::running`].
pub(crate) fn requests() -> Vec<Request> {
    let mut requests = reads();
    requests.extend(moves());
    requests.extend(ends());
    requests.extend(locks());
    requests.extend(tokens());
    requests
}

fn reads() -> Vec<Request> {
    vec![
        get("/healthz", "/healthz", 200),
        get("/readyz", "/readyz", 200),
        get("/openapi.json", "/openapi.json", 200),
        get("/v1/events", "/v1/events?after=nowhere", 400),
        get("/v1/events", "/v1/events?after=9-9-9-9-9", 410),
        get("/v1/workflows", "/v1/workflows", 200),
        get("/v1/workflows", "/v1/workflows?limit=0", 400),
        get(WORKFLOW, "/v1/workflows/item", 200),
        get(WORKFLOW, "/v1/workflows/item?version=1", 200),
        get(WORKFLOW, "/v1/workflows/nothing", 404),
        get(WORKFLOW, "/v1/workflows/Bad", 400),
        get(INSTANCES, "/v1/workflows/item/instances", 200),
        get(INSTANCES, "/v1/workflows/item/instances?status=running&state=draft&q=i&limit=1", 200),
        get(INSTANCES, "/v1/workflows/nothing/instances", 404),
        get(INSTANCE, "/v1/workflows/item/instances/i", 200),
        get(INSTANCE, "/v1/workflows/item/instances/i?stale=ok", 200),
        get(INSTANCE, "/v1/workflows/item/instances/nobody", 404),
        get(HISTORY, "/v1/workflows/item/instances/i/history", 200),
        get(HISTORY, "/v1/workflows/item/instances/i/history?limit=1&cursor=0&wait_ms=1", 200),
        get(HISTORY, "/v1/workflows/item/instances/nobody/history", 404),
        get(EXPLAIN, "/v1/workflows/item/instances/i/explain", 200),
        get(EXPLAIN, "/v1/workflows/item/instances/nobody/explain", 404),
    ]
}

fn moves() -> Vec<Request> {
    let instances = "/v1/workflows/item/instances";
    let ann = json!({ "id": "ann", "roles": ["act_as"] });
    let moves = json!([{ "workflow": "item", "id": "i", "event": "set", "data": { "value": [1, "x", null] } }]);
    vec![
        post(INSTANCES, instances, json!({ "id": "j", "data": { "value": 1 }, "actor": "ann" }), 201),
        post(INSTANCES, instances, json!({}), 201),
        post(INSTANCES, instances, json!({ "id": "j" }), 409),
        post(INSTANCES, instances, json!({ "id": ".." }), 400),
        event(json!({ "event": "set", "data": { "value": { "deep": 1.5 } } }), 200),
        event(json!({ "event": "nosuch" }), 422),
        event(json!({ "event": "approve" }), 409),
        event(json!({ "event": "submit", "actor": "ann" }), 403),
        event(json!({ "event": "submit", "expected_version": 99 }), 409),
        event(json!({}), 400),
        post("/v1/transitions", "/v1/transitions", json!({ "moves": moves }), 200),
        post("/v1/transitions", "/v1/transitions", json!({ "atomic": false, "moves": moves, "wait_ms": 9000 }), 200),
        event(json!({ "event": "submit", "from": "draft", "mode": "sync", "wait_ms": 1000 }), 200),
        post("/v1/transitions", "/v1/transitions", json!({ "moves": moves }), 409),
        post("/v1/transitions", "/v1/transitions", json!({ "atomic": false, "moves": moves }), 200),
        post("/v1/transitions", "/v1/transitions", json!({ "moves": [] }), 400),
        post(PURGE, "/v1/workflows/item/purge", json!({ "closed_before_ms": 1_000, "dry_run": true }), 200),
        post(PURGE, "/v1/workflows/item/purge", json!({ "closed_before_ms": 0 }), 200),
        post(PURGE, "/v1/workflows/item/purge", json!({ "closed_before_ms": u64::MAX }), 400),
        post(PURGE, "/v1/workflows/nothing/purge", json!({ "closed_before_ms": 1_000 }), 404),
        event(json!({ "event": "reject", "data": { "sure": false } }), 422),
        event(json!({ "event": "reject" }), 422),
        event(json!({ "event": "approve", "actor": ann }), 200),
        get(INSTANCE, "/v1/workflows/item/instances/i", 200),
        event(json!({ "event": "approve", "to": "done" }), 200),
        event(json!({ "event": "approve" }), 200),
        get(EXPLAIN, "/v1/workflows/item/instances/i/explain", 200),
        get(HISTORY, "/v1/workflows/item/instances/i/history", 200),
    ]
}

fn ends() -> Vec<Request> {
    let reason = || json!({ "reason": "no longer needed" });
    vec![
        post(CANCEL, "/v1/workflows/item/instances/j/cancel", json!({ "reason": "" }), 400),
        post(CANCEL, "/v1/workflows/item/instances/j/cancel", reason(), 200),
        post(CANCEL, "/v1/workflows/item/instances/j/cancel", reason(), 409),
        post(TERMINATE, "/v1/workflows/item/instances/j/terminate", reason(), 409),
        post(INSTANCES, "/v1/workflows/item/instances", json!({ "id": "j" }), 201),
        post(INSTANCES, "/v1/workflows/item/instances", json!({ "id": "j", "conflict_policy": "use_existing" }), 200),
        post(MIGRATE, "/v1/workflows/item/instances/j/migrate", json!({ "reason": "" }), 400),
        post(MIGRATE, "/v1/workflows/item/instances/j/migrate", reason(), 200),
        post(MIGRATE, "/v1/workflows/item/instances/nobody/migrate", reason(), 404),
        post(TERMINATE, "/v1/workflows/item/instances/j/terminate", reason(), 200),
        post(MIGRATE, "/v1/workflows/item/instances/j/migrate", reason(), 409),
        post(TERMINATE, "/v1/workflows/item/instances/nobody/terminate", reason(), 404),
        get(HISTORY, "/v1/workflows/item/instances/j/history", 200),
        get(INSTANCES, "/v1/workflows/item/instances", 200),
    ]
}

fn locks() -> Vec<Request> {
    let ask = |owner: &str, ttl_ms: u64| json!({ "owner": owner, "attempt": "1", "ttl_ms": ttl_ms });
    let several =
        |resources: Value| json!({ "resources": resources, "owner": "ann", "attempt": "2", "ttl_ms": 60_000 });
    let given = json!({ "owner": "ann", "attempt": "2" });
    let nobodys = || json!({ "lease": "0".repeat(32) });
    let one = "/v1/locks/stock%2Fsku-1/acquire";
    let claims = json!([{ "name": "a" }, { "name": "b", "mode": "shared" }, { "name": "c", "permits": 3 }]);
    let mut waits = ask("bob", 60_000);
    waits["wait_ms"] = json!(1);
    let force = |status| Request {
        method: Method::DELETE,
        template: "/v1/locks/{resource}",
        path: "/v1/locks/stock%2Fsku-1",
        body: None,
        status,
    };
    vec![
        post("/v1/locks/{resource}/acquire", one, ask("ann", 60_000), 200),
        post("/v1/locks/{resource}/acquire", one, ask("ann", 60_000), 200),
        post("/v1/locks/{resource}/acquire", one, ask("bob", 60_000), 409),
        post("/v1/locks/{resource}/acquire", one, waits, 409),
        post("/v1/locks/{resource}/acquire", one, ask("bob", 0), 400),
        post("/v1/locks/acquire", "/v1/locks/acquire", several(claims), 200),
        post("/v1/locks/acquire", "/v1/locks/acquire", several(json!([{ "name": "other" }])), 409),
        post("/v1/locks/acquire", "/v1/locks/acquire", several(json!([])), 400),
        get("/v1/locks", "/v1/locks", 200),
        get("/v1/locks", "/v1/locks?limit=1&cursor=a", 200),
        get("/v1/locks", "/v1/locks?limit=0", 400),
        post("/v1/locks/renew", "/v1/locks/renew", json!({ "lease": LEASE }), 200),
        post("/v1/locks/renew", "/v1/locks/renew", json!({ "lease": "x" }), 400),
        post("/v1/locks/{resource}/renew", "/v1/locks/a/renew", json!({ "lease": LEASE }), 200),
        post("/v1/locks/{resource}/renew", "/v1/locks/a/renew", nobodys(), 409),
        post("/v1/locks/release", "/v1/locks/release", given.clone(), 200),
        post("/v1/locks/release", "/v1/locks/release", given, 200),
        post("/v1/locks/release", "/v1/locks/release", json!({ "owner": "ann" }), 400),
        post("/v1/locks/{resource}/release", "/v1/locks/a/release", nobodys(), 200),
        force(200),
        force(200),
        get("/metrics", "/metrics", 200),
    ]
}

fn tokens() -> Vec<Request> {
    let revoke = |status| Request {
        method: Method::DELETE,
        template: "/v1/tokens/{name}",
        path: "/v1/tokens/ci",
        body: None,
        status,
    };
    vec![
        Request { method: Method::POST, template: "/v1/backup", path: "/v1/backup", body: None, status: 200 },
        post("/v1/tokens", "/v1/tokens", json!({ "name": "ci", "roles": ["finance"] }), 201),
        post("/v1/tokens", "/v1/tokens", json!({ "name": "ci" }), 400),
        get("/v1/tokens", "/v1/tokens", 200),
        revoke(200),
        revoke(404),
        get("/v1/tokens", "/v1/tokens?limit=1", 200),
    ]
}
