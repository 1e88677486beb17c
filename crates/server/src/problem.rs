//! Errors as RFC 9457 problem details, with `code`, `outcome` and `retryable`.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lockkeeper_model::Refusal;
use serde_json::{Map, Value, json};

use crate::limits::RETRY_AFTER_SECONDS;
use crate::lock_problem::LockProblem;

/// What a handler may fail with.
#[derive(Debug)]
pub(crate) enum Problem {
    Refused(Refusal),
    /// No such route, or no such token.
    NotFound(String),
    /// The route exists, for another method.
    MethodNotAllowed,
    /// What was meant is no more, and cannot come back.
    Gone(String),
    /// Refused, with more to say about it.
    Detailed(Refusal, Map<String, Value>),
    /// There is no lease.
    Lock(Box<LockProblem>),
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<LockProblem> for Problem {
    fn from(problem: LockProblem) -> Self {
        Self::Lock(Box::new(problem))
    }
}

impl From<lockkeeper_model::NameError> for Problem {
    fn from(error: lockkeeper_model::NameError) -> Self {
        Self::Refused(Refusal::Malformed { detail: error.to_string() })
    }
}

impl Problem {
    /// The refusal of a command: one whose fate is unknown may be sent again only under a key.
    pub(crate) fn of_command(refusal: Refusal, keyed: bool) -> Self {
        if keyed && matches!(refusal, Refusal::Unknown { .. }) {
            return Self::Detailed(refusal, Map::from_iter([("retryable".to_owned(), json!(true))]));
        }
        Self::Refused(refusal)
    }
}

/// `malformed`, in short.
pub(crate) fn malformed(detail: impl Into<String>) -> Problem {
    Problem::Refused(Refusal::Malformed { detail: detail.into() })
}

/// The status of a refusal (API, table of outcomes).
pub(crate) fn status(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::Malformed { .. } => StatusCode::BAD_REQUEST,
        Refusal::Unauthenticated { .. } => StatusCode::UNAUTHORIZED,
        Refusal::NotPermitted { .. } => StatusCode::FORBIDDEN,
        Refusal::UnknownWorkflow { .. } | Refusal::UnknownVersion { .. } | Refusal::UnknownInstance { .. } => {
            StatusCode::NOT_FOUND
        }
        Refusal::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        Refusal::StateMismatch { .. }
        | Refusal::VersionMismatch { .. }
        | Refusal::Conflict { .. }
        | Refusal::Fenced { .. }
        | Refusal::LockTimeout { .. }
        | Refusal::LeaseTimeout { .. }
        | Refusal::AlreadyRunning { .. }
        | Refusal::AlreadyClosed { .. }
        | Refusal::KeyReused { .. }
        | Refusal::ActRefused { .. }
        | Refusal::NotMigratable { .. }
        | Refusal::NotApplied { .. } => StatusCode::CONFLICT,
        Refusal::GuardRejected { .. }
        | Refusal::GuardError { .. }
        | Refusal::UnknownEvent { .. }
        | Refusal::AmbiguousTarget { .. }
        | Refusal::InvalidDefinition { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        Refusal::Busy { .. } => StatusCode::TOO_MANY_REQUESTS,
        Refusal::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
        Refusal::Unknown { .. } => StatusCode::GATEWAY_TIMEOUT,
    }
}

/// The problem document of a refusal.
pub(crate) fn document(refusal: &Refusal) -> Map<String, Value> {
    let outcome = refusal.outcome();
    let mut document = base(refusal.code(), outcome, status(refusal), refusal.to_string(), refusal.is_retryable());
    document.extend(details(refusal));
    document
}

fn base(code: &str, outcome: &str, status: StatusCode, detail: String, retryable: bool) -> Map<String, Value> {
    let mut document = Map::new();
    document.insert("type".into(), json!(format!("urn:lockkeeper:error:{code}")));
    document.insert("title".into(), json!(outcome.replace('_', " ")));
    document.insert("status".into(), json!(status.as_u16()));
    document.insert("detail".into(), json!(detail));
    document.insert("code".into(), json!(code));
    document.insert("outcome".into(), json!(outcome));
    document.insert("retryable".into(), json!(retryable));
    document
}

/// What the API promises with each outcome, beyond the common fields.
fn details(refusal: &Refusal) -> Map<String, Value> {
    let details = match refusal {
        Refusal::NotPermitted { roles, .. } => json!({ "roles": roles }),
        Refusal::UnknownWorkflow { workflow, known } => json!({ "workflow": workflow, "known": known }),
        Refusal::UnknownVersion { workflow, version, newest } => {
            json!({ "workflow": workflow, "version": version, "newest": newest })
        }
        Refusal::UnknownInstance { workflow, id, known } => json!({ "workflow": workflow, "id": id, "known": known }),
        Refusal::TooLarge { what, limit, actual } => json!({ "what": what, "limit": limit, "actual": actual }),
        Refusal::StateMismatch { expected, actual, reason, ended: None } => {
            json!({ "expected": expected, "actual": actual, "reason": reason })
        }
        Refusal::StateMismatch { expected, actual, reason, ended: Some(status) } => {
            json!({ "expected": expected, "actual": actual, "reason": reason, "run_status": status })
        }
        Refusal::VersionMismatch { expected, actual } => json!({ "expected": expected, "actual": actual }),
        Refusal::Conflict { current, attempts, strategy } => {
            json!({ "current": current, "attempts": attempts, "strategy": strategy })
        }
        Refusal::Fenced { resource, fence, last } => json!({ "resource": resource, "fence": fence, "last": last }),
        Refusal::LockTimeout { waited_ms } => json!({ "waited_ms": waited_ms }),
        Refusal::LeaseTimeout { resource, waited_ms, .. } => json!({ "resource": resource, "waited_ms": waited_ms }),
        Refusal::AlreadyRunning { run } => json!({ "run": run }),
        Refusal::AlreadyClosed { run, status } => json!({ "run": run, "run_status": status }),
        Refusal::NotMigratable { state, states, .. } => json!({ "state": state, "states": states }),
        Refusal::KeyReused { key } => json!({ "key": key }),
        Refusal::GuardRejected { guard } => json!({ "guard": guard }),
        Refusal::GuardError { expression, .. } => json!({ "expression": expression }),
        Refusal::UnknownEvent { what, name, known } => json!({ "what": what, "name": name, "known": known }),
        Refusal::AmbiguousTarget { events, .. } => json!({ "events": events }),
        Refusal::ActRefused { reason, .. } => json!({ "reason": reason }),
        Refusal::InvalidDefinition { problems } => json!({ "problems": problems }),
        Refusal::Malformed { .. }
        | Refusal::Unauthenticated { .. }
        | Refusal::NotApplied { .. }
        | Refusal::Busy { .. }
        | Refusal::Unavailable { .. }
        | Refusal::Unknown { .. } => Value::Null,
    };
    match details {
        Value::Object(details) => details,
        _ => Map::new(),
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, document, retry) = match self {
            Self::Refused(refusal) => (status(&refusal), document(&refusal), retries(&refusal)),
            Self::Detailed(refusal, more) => {
                let mut document = document(&refusal);
                document.extend(more);
                (status(&refusal), document, retries(&refusal))
            }
            Self::Lock(problem) => {
                let LockProblem { code, outcome, status, detail, retryable, fields } = *problem;
                let mut document = base(code, outcome, status, detail, retryable);
                document.extend(fields);
                (status, document, matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE))
            }
            Self::NotFound(detail) => {
                let status = StatusCode::NOT_FOUND;
                (status, base("LK0026", "not_found", status, detail, false), false)
            }
            Self::Gone(detail) => (StatusCode::GONE, base("LK0034", "gone", StatusCode::GONE, detail, false), false),
            Self::MethodNotAllowed => {
                let status = StatusCode::METHOD_NOT_ALLOWED;
                let detail = "this path exists for other methods; /openapi.json lists them".to_owned();
                (status, base("LK0027", "method_not_allowed", status, detail, false), false)
            }
        };
        let mut response = (status, Json(document)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if retry {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

fn retries(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Busy { .. } | Refusal::Unavailable { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_fence_is_a_conflict_that_names_the_newer_one() {
        let document = document(&Refusal::Fenced { resource: "r".to_owned(), fence: 7, last: 8 });
        for (field, expected) in [
            ("status", json!(409)),
            ("code", json!("LK0010")),
            ("outcome", json!("fenced")),
            ("retryable", json!(false)),
            ("resource", json!("r")),
            ("fence", json!(7)),
            ("last", json!(8)),
        ] {
            assert_eq!(document[field], expected, "{field}");
        }
    }

    #[test]
    fn a_locked_row_is_a_conflict_that_says_how_long_it_was_waited_for() {
        let document = document(&Refusal::LockTimeout { waited_ms: 5_000 });
        for (field, expected) in [
            ("status", json!(409)),
            ("code", json!("LK0012")),
            ("title", json!("lock timeout")),
            ("outcome", json!("lock_timeout")),
            ("retryable", json!(true)),
            ("waited_ms", json!(5_000)),
        ] {
            assert_eq!(document[field], expected, "{field}");
        }
    }
}
