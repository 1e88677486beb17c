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
