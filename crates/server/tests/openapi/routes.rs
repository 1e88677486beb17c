//! Every documented operation is there; nothing else is.

use std::collections::BTreeSet;

use crate::document::{METHODS, document, operations};
use crate::running::Running;

/// The routes of the pinned interface that this version has.
const PINNED: [(&str, &str); 32] = [
    ("PUT", "/v1/workflows/{workflow}"),
    ("GET", "/v1/workflows/{workflow}"),
    ("GET", "/v1/workflows"),
    ("POST", "/v1/workflows/{workflow}/instances"),
    ("GET", "/v1/workflows/{workflow}/instances"),
    ("GET", "/v1/workflows/{workflow}/instances/{id}"),
    ("GET", "/v1/workflows/{workflow}/instances/{id}/history"),
    ("GET", "/v1/workflows/{workflow}/instances/{id}/explain"),
    ("POST", "/v1/workflows/{workflow}/instances/{id}/events"),
    ("POST", "/v1/workflows/{workflow}/instances/{id}/terminate"),
    ("POST", "/v1/workflows/{workflow}/instances/{id}/cancel"),
    ("POST", "/v1/workflows/{workflow}/instances/{id}/migrate"),
    ("POST", "/v1/transitions"),
    ("GET", "/v1/events"),
    ("POST", "/v1/locks/acquire"),
    ("POST", "/v1/locks/renew"),
    ("POST", "/v1/locks/release"),
    ("POST", "/v1/locks/{resource}/acquire"),
    ("POST", "/v1/locks/{resource}/renew"),
    ("POST", "/v1/locks/{resource}/release"),
    ("GET", "/v1/locks"),
    ("DELETE", "/v1/locks/{resource}"),
    ("GET", "/metrics"),
    ("POST", "/v1/backup"),
    ("POST", "/v1/workflows/{workflow}/purge"),
    ("POST", "/v1/tokens"),
    ("GET", "/v1/tokens"),
    ("DELETE", "/v1/tokens/{name}"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/openapi.json"),
    ("GET", "/"),
];

/// The path with names that may be there.
fn filled(path: &str) -> String {
    // A stream has no end: one that cannot begin has.
    let path = path.replace("/v1/events", "/v1/events?after=x");
    path.replace("{workflow}", "item").replace("{id}", "i").replace("{name}", "nobody").replace("{resource}", "r")
}

#[test]
fn what_is_pinned_is_documented_and_nothing_else_is() {
    let documented: BTreeSet<(String, String)> =
        operations(&document()).into_iter().map(|one| (one.method.to_string(), one.path)).collect();
    let pinned = PINNED.iter().map(|(method, path)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(documented, pinned);
}

#[tokio::test]
async fn what_is_documented_is_there() {
    let running = Running::start().await;
    for operation in operations(&document()) {
        let path = filled(&operation.path);
        let answer = running.send(operation.method.clone(), &path, None).await;
        let name = format!("{} {path}", operation.method);
        assert_ne!(answer.status, 405, "{name}: {answer:?}");
        // An unknown token is not found, too.
        let is_routing = answer.status == 404 && answer.text.contains("there is nothing at");
        assert!(!is_routing, "{name}: {answer:?}");
    }
}

#[tokio::test]
async fn other_methods_are_405() {
    let running = Running::start().await;
    let document = document();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in METHODS {
            if !item[method.as_str().to_ascii_lowercase()].is_null() {
                continue;
            }
            let answer = running.send(method.clone(), &filled(path), None).await;
            assert_eq!((answer.status, answer.media_type()), (405, "application/problem+json"), "{method} {path}");
            assert_eq!(answer.json()["code"], "LK0027");
            let allow = answer.headers.get("allow").map(|allow| allow.to_str().unwrap().to_owned());
            let allow = allow.unwrap_or_else(|| panic!("{method} {path}: no Allow (RFC 9110, 15.5.6)"));
            for allowed in allow.split(',').map(str::trim).filter(|allowed| *allowed != "HEAD") {
                assert!(!item[allowed.to_ascii_lowercase()].is_null(), "{path}: {allowed} is allowed, not documented");
            }
        }
    }
}

#[tokio::test]
async fn the_server_gives_the_document() {
    let running = Running::start().await;
    let answer = running.send_as(reqwest::Method::GET, "/openapi.json", None, None).await;
    assert_eq!((answer.status, answer.media_type()), (200, "application/json"));
    assert_eq!(answer.json(), document());
}
