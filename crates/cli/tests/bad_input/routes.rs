//! Unknown routes and wrong methods, as problem documents.

use reqwest::Method;
use serde_json::json;

use crate::begin;
use crate::support::call::{Call, instance};

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_route_is_404() {
    let (_store, _server, api) = begin().await;
    for path in
        ["/nowhere", "/v1", "/v1/", "/v1/workflow", "/v2/workflows", "/v1/workflows/item/instances/i/x", "/favicon.ico"]
    {
        let problem = api.get(path).await.problem(404, "not_found");
        assert_eq!(problem["code"], "LK0026");
        assert!(problem["detail"].as_str().unwrap().contains(path), "{problem}");
        api.call(&Call::post(path, &json!({}))).await.problem(404, "not_found");
    }
    for path in ["/v1/workflows/", "/v1/workflows/item/", "/v1/workflows/item/instances/"] {
        let answer = api.get(path).await;
        assert!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_method_is_405_and_names_the_right_ones() {
    let (_store, _server, api) = begin().await;
    let wrong = [
        (Method::DELETE, "/v1/workflows".to_owned(), "GET"),
        (Method::POST, "/v1/workflows/item".to_owned(), "PUT"),
        (Method::PUT, "/v1/workflows/item/instances".to_owned(), "POST"),
        (Method::DELETE, instance("item", "i", ""), "GET"),
        (Method::GET, instance("item", "i", "/events"), "POST"),
        (Method::POST, instance("item", "i", "/history"), "GET"),
        (Method::GET, instance("item", "i", "/cancel"), "POST"),
        (Method::GET, "/v1/transitions".to_owned(), "POST"),
        (Method::POST, "/healthz".to_owned(), "GET"),
        (Method::PATCH, "/".to_owned(), "GET"),
    ];
    for (method, path, right) in wrong {
        let answer = api.call(&Call::new(method.clone(), &path)).await;
        let problem = answer.problem(405, "method_not_allowed");
        assert_eq!(problem["code"], "LK0027");
        let allow = answer.headers.get("allow").map(|allow| allow.to_str().unwrap()).unwrap_or_default();
        assert!(allow.contains(right), "{method} {path}: Allow is {allow:?} (RFC 9110, 15.5.6: it must be there)");
    }
    let head = api.call(&Call::new(Method::HEAD, "/healthz")).await;
    assert_eq!((head.status, head.text.as_str()), (200, ""), "HEAD is GET without the body");
}
