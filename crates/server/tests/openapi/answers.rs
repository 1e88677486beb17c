//! Real answers are as the document says.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::Value;

use crate::document::{document, operations};
use crate::requests::{Request, requests};
use crate::running::{Answer, Running};
use crate::schemas::Schema;

/// `~1` stands for `/` in a JSON pointer.
fn pointer(parts: &[&str]) -> String {
    parts.iter().map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1"))).collect()
}

/// Holds an answer against the operation that it is one of.
fn check(document: &Value, method: &Method, template: &str, answer: &Answer) {
    let what = format!("{method} {template} {}", answer.status);
    let lower = method.as_str().to_ascii_lowercase();
    let operation = pointer(&["paths", template, &lower, "responses"]);
    let responses = document.pointer(&operation).unwrap_or_else(|| panic!("{what} is not documented"));
    let status = answer.status.to_string();
    let status = if responses.get(&status).is_some() { status.as_str() } else { "default" };
    let response = responses.get(status).unwrap_or_else(|| panic!("{what} is not documented: {answer:?}"));
    let kind = answer.media_type();
    assert!(response["content"].get(kind).is_some(), "{what}: {kind} is not documented, but {}", response["content"]);
    if kind.ends_with("json") {
        let schema = operation.clone() + &pointer(&[status, "content", kind, "schema"]);
        let schema = Schema::at(document, &schema);
        if answer.status < 400 {
            schema.check(&what, &answer.json());
        } else {
            // Outcomes add fields of their own.
            assert_eq!(schema.problems(&answer.json()), [""; 0], "{what}: {answer:?}");
        }
    }
}

async fn send(running: &Running, request: &Request) -> Answer {
    let body = request.body.as_ref().map(Value::to_string);
    let answer = running.send(request.method.clone(), request.path, body).await;
    let Request { method, path, body, status, .. } = request;
    assert_eq!(answer.status, *status, "{method} {path} {body:?}: {answer:?}");
    answer
}

#[tokio::test]
async fn answers_are_as_their_schemas_say() {
    let (running, document) = (Running::start().await, document());
    let mut called = BTreeSet::new();
    for request in requests() {
        let answer = send(&running, &request).await;
        check(&document, &request.method, request.template, &answer);
        called.insert((request.method.to_string(), request.template.to_owned()));
    }
    // These two have no JSON of their own to send.
    called.insert(("PUT".to_owned(), "/v1/workflows/{workflow}".to_owned()));
    called.insert(("GET".to_owned(), "/".to_owned()));
    let all = operations(&document).into_iter().map(|one| (one.method.to_string(), one.path)).collect();
    assert_eq!(called, all, "an operation without an answer that was checked");
}

#[tokio::test]
async fn definitions_and_pages_are_as_they_say_too() {
    let (running, document) = (Running::start().await, document());
    let put = |text: &str| running.send(Method::PUT, "/v1/workflows/w", Some(text.to_owned()));
    let text = "workflow: w\ninitial: a\nstates: {a: {on: {stay: {}}}}\n";
    for (text, status) in [(text, 201), (text, 200), ("workflow: w\n", 422), ("workflow: [\n", 422)] {
        let answer = put(text).await;
        assert_eq!(answer.status, status, "{answer:?}");
        check(&document, &Method::PUT, "/v1/workflows/{workflow}", &answer);
    }
    let page = running.get("/").await;
    check(&document, &Method::GET, "/", &page);
    assert_eq!((page.status, page.media_type()), (200, "text/html"));
}

/// Each problem has all the fields that are promised, whatever refuses it.
#[tokio::test]
async fn problems_are_whole() {
    let (running, document) = (Running::start().await, document());
    let problem = Schema::named(&document, "ProblemView");
    let mut answers = vec![
        running.get("/nowhere").await,
        running.send(Method::PATCH, "/v1/workflows", None).await,
        running.send_as(Method::GET, "/v1/workflows", None, None).await,
        running.send_as(Method::GET, "/v1/workflows", None, Some("lk_0")).await,
        running.send(Method::POST, "/v1/transitions", Some("x".repeat(2_000_000))).await,
    ];
    for request in requests() {
        let answer = send(&running, &request).await;
        if answer.status >= 400 {
            answers.push(answer);
        }
    }
    let mut codes = BTreeSet::new();
    let schemas = &document["components"]["schemas"];
    let view = &schemas["ProblemView"];
    let parts = view["allOf"].as_array().into_iter().flatten().chain([view, &schemas["RefusalFields"]]);
    let documented: Vec<&str> =
        parts.filter_map(|part| part["properties"].as_object()).flatten().map(|(name, _)| name.as_str()).collect();
    for answer in &answers {
        let document = answer.json();
        assert_eq!(answer.media_type(), "application/problem+json", "{answer:?}");
        assert_eq!(problem.problems(&document), [""; 0], "{answer:?}");
        for field in ["type", "title", "status", "detail", "code", "outcome", "retryable"] {
            assert!(!document[field].is_null(), "{field}: {answer:?}");
        }
        assert_eq!(document["status"], answer.status, "{answer:?}");
        for field in document.as_object().unwrap().keys() {
            assert!(documented.contains(&field.as_str()), "{field} is told and not documented: {answer:?}");
        }
        codes.insert(document["code"].as_str().unwrap().to_owned());
    }
    assert!(codes.len() >= 15, "many kinds were seen: {codes:?}");
}

/// The results within a batch are what single events are answered, each with its instance.
#[tokio::test]
async fn results_of_a_batch_are_successes_and_problems() {
    let (running, document) = (Running::start().await, document());
    let moves = serde_json::json!([
        { "workflow": "item", "id": "i", "event": "set", "data": { "value": 1 } },
        { "workflow": "item", "id": "nobody", "event": "set" },
    ]);
    let answer = running.post("/v1/transitions", &serde_json::json!({ "atomic": false, "moves": moves })).await.json();
    assert_eq!(answer["failed_index"], 1);
    let schemas = [("SuccessView", 0), ("ProblemView", 1)];
    for (name, place) in schemas {
        let result = &answer["results"][place];
        assert_eq!(Schema::named(&document, name).problems(result), [""; 0], "{result}");
        assert_eq!((&result["workflow"], &result["id"]), (&moves[place]["workflow"], &moves[place]["id"]));
    }
    let none = running.post("/v1/transitions", &serde_json::json!({ "atomic": true, "moves": moves })).await;
    assert_eq!((none.status, &none.json()["failed_index"]), (404, &Value::from(1)), "{none:?}");
    assert_eq!(none.json()["results"][0]["outcome"], "not_applied", "{none:?}");
}
