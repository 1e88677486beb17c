//! One HTTP request and its answer.

use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

/// A request, which can be sent any number of times.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Percent-encoded.
    pub(crate) path: String,
    pub(crate) body: Option<String>,
    pub(crate) headers: Vec<(&'static str, String)>,
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Call {
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), body: None, headers: Vec::new() }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(crate) fn post(path: impl Into<String>, body: &Value) -> Self {
        Self::new(Method::POST, path).text(body.to_string())
    }

    /// Puts a definition.
    pub(crate) fn put(workflow: &str, text: &str) -> Self {
        let call = Self::new(Method::PUT, format!("/v1/workflows/{workflow}")).text(text);
        call.header("Content-Type", "application/yaml")
    }

    /// Begins a run; `body` may carry `id`, `data` and `actor`.
    pub(crate) fn start(workflow: &str, body: &Value) -> Self {
        Self::post(format!("/v1/workflows/{workflow}/instances"), body)
    }

    /// Sends an event.
    pub(crate) fn send(workflow: &str, id: &str, body: &Value) -> Self {
        Self::post(instance(workflow, id, "/events"), body)
    }

    pub(crate) fn text(mut self, text: impl Into<String>) -> Self {
        self.body = Some(text.into());
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// With an idempotency key.
    pub(crate) fn key(self, key: impl Into<String>) -> Self {
        self.header("Idempotency-Key", key)
    }

    /// With a bearer token.
    pub(crate) fn token(self, secret: &str) -> Self {
        self.header("Authorization", format!("Bearer {secret}"))
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    /// The field `outcome`.
    pub(crate) fn outcome(&self) -> String {
        self.json()["outcome"].as_str().unwrap_or_else(|| panic!("no outcome: {self:?}")).to_owned()
    }

    pub(crate) fn version(&self) -> i64 {
        self.json()["version"].as_i64().unwrap_or_else(|| panic!("no version: {self:?}"))
    }

    /// Whether it is marked as a first outcome again.
    pub(crate) fn replayed(&self) -> bool {
        self.headers.get("idempotency-replayed").is_some_and(|value| value == "true")
    }

    /// The body of a success.
    pub(crate) fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "no success: {self:?}");
        self.json()
    }

    /// The body of a problem, which must be a whole one.
    pub(crate) fn problem(&self, status: u16, outcome: &str) -> Value {
        let problem = self.json();
        assert_eq!((self.status, problem["outcome"].as_str()), (status, Some(outcome)), "{}", self.text);
        let kind = self.headers.get("content-type").map(|value| value.to_str().unwrap());
        assert_eq!(kind, Some("application/problem+json"), "{self:?}");
        assert_eq!(problem["status"], json!(status), "{problem}");
        let code = problem["code"].as_str().unwrap_or_else(|| panic!("no code: {problem}"));
        assert!(code.len() == 6 && code.starts_with("LK"), "{problem}");
        assert!(problem["type"].as_str().is_some_and(|kind| kind.ends_with(code)), "{problem}");
        for field in ["title", "detail"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {problem}");
        }
        assert!(problem["retryable"].is_boolean(), "{problem}");
        assert_eq!(matches!(status, 429 | 503), self.headers.contains_key("retry-after"), "{self:?}");
        problem
    }

    /// The detail of a problem.
    pub(crate) fn detail(&self, status: u16, outcome: &str) -> String {
        self.problem(status, outcome)["detail"].as_str().unwrap().to_owned()
    }
}

/// The path of an instance, followed by `rest`.
pub(crate) fn instance(workflow: &str, id: &str, rest: &str) -> String {
    format!("/v1/workflows/{}/instances/{}{rest}", encode(workflow), encode(id))
}

/// `text` as one segment of a path: all but RFC 3986's unreserved characters encoded.
pub(crate) fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
