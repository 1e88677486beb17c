//! What the server takes is what the document says that it takes.

use serde_json::{Value, json};

use crate::document::document;
use crate::requests::requests;
use crate::running::Running;
use crate::schemas::Schema;

/// The schema of a request's body.
fn schema(document: &Value, method: &str, template: &str) -> Schema {
    let path = template.replace('/', "~1");
    Schema::at(document, &format!("/paths/{path}/{method}/requestBody/content/application~1json/schema"))
}

#[test]
fn bodies_that_are_taken_are_as_documented() {
    let document = document();
    for request in requests().iter().filter(|request| request.status < 400) {
        if let Some(body) = &request.body {
            let method = request.method.as_str().to_ascii_lowercase();
            let problems = schema(&document, &method, request.template).problems(body);
            assert!(problems.is_empty(), "{method} {}: {problems:?}\n{body}", request.path);
        }
    }
}

/// What breaks the schema is refused, and the other way round.
#[tokio::test]
async fn bodies_that_are_not_as_documented_are_refused() {
    let (running, document) = (Running::start().await, document());
    let event = "/v1/workflows/{workflow}/instances/{id}/events";
    let start = "/v1/workflows/{workflow}/instances";
    let cancel = "/v1/workflows/{workflow}/instances/{id}/cancel";
    let bodies = [
        (event, json!({ "event": 7 })),
        (event, json!({ "event": "set", "evnt": "set" })),
        (event, json!({ "event": "set", "data": [] })),
        (event, json!({ "event": "set", "expected_version": "1" })),
        (event, json!({ "event": "set", "actor": { "roles": [] } })),
        (event, json!({ "event": "set", "actor": { "id": "admin", "rolls": [] } })),
        (event, json!({ "event": "set", "actor": 7 })),
        (event, json!({ "event": "set", "wait_ms": -1 })),
        (start, json!({ "id": 7 })),
        (start, json!({ "data": "x" })),
        (start, json!({ "ident": "x" })),
        (start, json!({ "reuse_policy": 7 })),
        (start, json!({ "reuse_policy": "never" })),
        (start, json!({ "conflict_policy": "Fail" })),
        (event, json!({ "event": "set", "mode": "later" })),
        (start, json!({ "conflict_policy": ["fail"] })),
        ("/v1/workflows/{workflow}/instances/{id}/migrate", json!({ "to_version": 1 })),
        ("/v1/workflows/{workflow}/instances/{id}/migrate", json!({ "reason": "r", "state_map": { "a": 1 } })),
        (cancel, json!({})),
        (cancel, json!({ "reason": "r", "why": "r" })),
        ("/v1/transitions", json!({ "moves": {} })),
        ("/v1/transitions", json!({ "atomic": true })),
        ("/v1/transitions", json!({ "moves": ["x"] })),
        ("/v1/locks/acquire", json!({ "resources": ["a"], "owner": "o", "attempt": "1", "ttl_ms": 1000 })),
        ("/v1/locks/acquire", json!({ "resources": [{ "name": "a" }], "owner": "o", "ttl_ms": 1000 })),
        ("/v1/locks/{resource}/acquire", json!({ "owner": "o" })),
        ("/v1/locks/{resource}/acquire", json!({ "owner": "o", "ttl_ms": -1 })),
        ("/v1/locks/{resource}/acquire", json!({ "owner": "o", "ttl_ms": 0.4 })),
        ("/v1/locks/{resource}/acquire", json!({ "owner": "o", "ttl_ms": 1000, "mode": "alone" })),
        ("/v1/locks/{resource}/acquire", json!({ "owner": "o", "ttl_ms": 1000, "wait": 1 })),
        ("/v1/locks/renew", json!({})),
        ("/v1/locks/release", json!({ "lease": 7 })),
        ("/v1/tokens", json!({ "roles": [] })),
        ("/v1/tokens", json!({ "name": "x", "roles": [7] })),
        ("/v1/tokens", json!({ "name": "x", "admin": true })),
    ];
    let mut differ = Vec::new();
    for (template, body) in bodies {
        let path = template.replace("{workflow}", "item").replace("{id}", "i").replace("{resource}", "r");
        let answer = running.post(&path, &body).await;
        let is_documented = schema(&document, "post", template).problems(&body).is_empty();
        if answer.status != 400 || is_documented {
            differ.push(format!("{path} {body}: answered {}, documented {is_documented}", answer.status));
        }
    }
    assert_eq!(differ, [""; 0]);
}
