//! The document by itself: well formed by the rules of OpenAPI 3.1.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::Value;

/// Every method that a path could have.
pub(crate) const METHODS: [Method; 5] = [Method::GET, Method::PUT, Method::POST, Method::DELETE, Method::PATCH];

/// One documented operation.
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Value,
}

/// The document as the server gives it.
pub(crate) fn document() -> Value {
    serde_json::to_value(lockkeeper_server::openapi()).unwrap()
}

/// All that it documents.
pub(crate) fn operations(document: &Value) -> Vec<Operation> {
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in METHODS {
            let body = &item[method.as_str().to_ascii_lowercase()];
            if !body.is_null() {
                operations.push(Operation { method, path: path.clone(), body: body.clone() });
            }
        }
    }
    operations
}

/// The names in braces.
pub(crate) fn parameters_of(path: &str) -> Vec<&str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect()
}

#[test]
fn it_is_openapi_3_1_of_this_version() {
    let document = document();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1."), "{}", document["openapi"]);
    assert_eq!(document["info"]["title"], "Lockkeeper");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
}

/// OpenAPI 3.1, 4.8.10: "The id MUST be unique among all operations"; programs are generated from it.
#[test]
fn operation_ids_are_unique() {
    let document = document();
    let mut by_id: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for operation in operations(&document) {
        let id = operation.body["operationId"].as_str().expect("an operation has an id");
        by_id.entry(id.to_owned()).or_default().push(format!("{} {}", operation.method, operation.path));
    }
    by_id.retain(|_, operations| operations.len() > 1);
    assert!(by_id.is_empty(), "{by_id:#?}");
}

#[test]
fn path_parameters_are_declared() {
    for operation in operations(&document()) {
        let declared: Vec<&str> = operation.body["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|parameter| parameter["in"] == "path")
            .inspect(|parameter| assert_eq!(parameter["required"], true, "{}", operation.path))
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        assert_eq!(declared, parameters_of(&operation.path), "{} {}", operation.method, operation.path);
    }
}

#[test]
fn every_operation_says_what_it_does_and_how_it_fails() {
    for operation in operations(&document()) {
        let name = format!("{} {}", operation.method, operation.path);
        assert!(operation.body["summary"].as_str().is_some_and(|text| !text.is_empty()), "{name} has no summary");
        let responses = operation.body["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{name}");
        for (status, response) in responses {
            assert!(response["description"].as_str().is_some_and(|text| !text.is_empty()), "{name} {status}");
            let content = response["content"].as_object().unwrap_or_else(|| panic!("{name} {status} has no content"));
            let kinds: Vec<&str> = content.keys().map(String::as_str).collect();
            match status.starts_with('2') {
                true => assert_ne!(kinds, ["application/problem+json"], "{name} {status}"),
                false => assert_eq!(kinds, ["application/problem+json"], "{name} {status}: what is sent is a problem"),
            }
        }
        assert!(responses.contains_key("default"), "{name}: any may be refused (429, 503; 401 or 403 at the gate)");
    }
}

#[test]
fn headers_of_answers_are_told() {
    let document = document();
    let mut seen = std::collections::BTreeSet::new();
    for operation in operations(&document) {
        let name = format!("{} {}", operation.method, operation.path);
        let takes_key =
            operation.body["parameters"].as_array().into_iter().flatten().any(|p| p["name"] == "Idempotency-Key");
        for (status, response) in operation.body["responses"].as_object().unwrap() {
            let has = |header: &str| response["headers"][header]["schema"].is_object();
            assert_eq!(has("Idempotency-Replayed"), takes_key && status.starts_with('2'), "{name} {status}");
            assert!(has("Retry-After") || !["default", "429", "503"].contains(&status.as_str()), "{name} {status}");
            if has("Location") {
                seen.insert(format!("{name} {status}"));
            }
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["POST /v1/workflows/{workflow}/instances 201"]);
}

#[test]
fn every_reference_leads_somewhere() {
    fn check(document: &Value, value: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    let pointer = reference.strip_prefix('#').expect("a reference within the document");
                    assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
                }
                fields.values().for_each(|field| check(document, field));
            }
            Value::Array(items) => items.iter().for_each(|item| check(document, item)),
            _ => {}
        }
    }
    let document = document();
    check(&document, &document);
}

/// The names of a closed set, as the document has them.
fn closed_set(document: &Value, name: &str) -> Vec<String> {
    let names = document["components"]["schemas"][name]["enum"].as_array();
    let names = names.unwrap_or_else(|| panic!("{name} is no closed set"));
    names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// The sets are those that the model and the engine write.
#[test]
fn closed_sets_are_those_of_the_model() {
    use lockkeeper_engine::{Reason, Rung};
    use lockkeeper_model::definition::{OnLockLoss, OnLocked, Strategy};
    use lockkeeper_model::{ConflictPolicy, Format, ReusePolicy, Status, SuccessKind as S};
    fn names<T: serde::Serialize>(all: &[T]) -> Vec<String> {
        all.iter().map(|one| serde_json::to_value(one).unwrap().as_str().unwrap().to_owned()).collect()
    }
    let document = document();
    let mut outcomes = names(&[S::Started, S::Attached, S::Applied, S::AlreadyApplied, S::PendingApproval]);
    // A migration that is only tried is the server's own.
    outcomes.push("dry_run".to_owned());
    for (name, all) in [
        ("OutcomeName", outcomes),
        ("ReusePolicyName", names(&ReusePolicy::ALL)),
        ("ConflictPolicyName", names(&ConflictPolicy::ALL)),
        ("StatusName", names(&Status::ALL)),
        ("FormatName", names(&[Format::Yaml, Format::Json])),
        ("RungName", names(&[Rung::Optimistic, Rung::RowLock, Rung::Lease])),
        ("ReasonName", names(&[Reason::Score, Reason::Exhausted, Reason::Quiet, Reason::LocksGone])),
        (
            "StrategyName",
            [Strategy::Optimistic, Strategy::Pessimistic, Strategy::Distributed, Strategy::Adaptive]
                .map(|strategy| strategy.as_str().to_owned())
                .to_vec(),
        ),
        (
            "OnLockedName",
            [OnLocked::Wait, OnLocked::Nowait, OnLocked::SkipLocked].map(|what| what.as_str().to_owned()).to_vec(),
        ),
        ("OnLockLossName", [OnLockLoss::RowLock, OnLockLoss::Refuse].map(|what| what.as_str().to_owned()).to_vec()),
    ] {
        assert_eq!(closed_set(&document, name), all, "{name}");
    }
}

/// What its description counts up ("`a`, `b` or `c`") is no plain string.
#[test]
fn what_is_counted_up_is_a_closed_set() {
    fn counts_up(description: &str) -> bool {
        let first = description.split(['.', ';', ':']).next().unwrap_or_default();
        first.starts_with('`') && first.contains("` or `")
    }
    fn look(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                let is_text = fields.get("type").is_some_and(|kind| *kind == "string" || kind[0] == "string");
                let told = fields.get("description").and_then(Value::as_str).unwrap_or_default();
                if is_text && !fields.contains_key("enum") && counts_up(told) {
                    found.push(format!("{path}: {told}"));
                }
                fields.iter().for_each(|(name, field)| look(field, &format!("{path}/{name}"), found));
            }
            Value::Array(items) => items.iter().for_each(|item| look(item, path, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    look(&document(), "", &mut found);
    assert_eq!(found, [""; 0]);
}
