//! Why there is no lease, as problems.

use axum::http::StatusCode;
use chrono::{DateTime, SecondsFormat, Utc};
use lockkeeper_locks::{AcquireError, HeldBy, LeaseId, Unconfirmed};
use serde_json::{Map, Value, json};

/// What is answered where there is no lease.
#[derive(Debug)]
pub(crate) struct LockProblem {
    pub(crate) code: &'static str,
    pub(crate) outcome: &'static str,
    pub(crate) status: StatusCode,
    pub(crate) detail: String,
    /// Whether the very same request may succeed when sent again, and does no harm.
    pub(crate) retryable: bool,
    pub(crate) fields: Map<String, Value>,
}

impl LockProblem {
    fn conflict(code: &'static str, outcome: &'static str, retryable: bool, detail: String, fields: Value) -> Self {
        let fields = match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        Self { code, outcome, status: StatusCode::CONFLICT, detail, retryable, fields }
    }

    /// A lease that had run out before it could be handed over.
    pub(crate) fn too_late(waited_ms: u64) -> Self {
        let detail = "the lease had run out when it was granted: ask for a longer ttl_ms".to_owned();
        Self::conflict("LK0012", "lock_timeout", true, detail, json!({ "waited_ms": waited_ms }))
    }

    /// A lease that is not held any more.
    pub(crate) fn lost(lease: LeaseId, resource: Option<String>, since: Option<DateTime<Utc>>) -> Self {
        let detail =
            "the lease is not held any more: it has expired, was given back, or was taken by force; what was done \
                      under it is refused where its fence is checked"
                .to_owned();
        let fields = json!({ "lease": lease.to_string(), "resource": resource, "since": since });
        Self::conflict("LK0010", "fenced", false, detail, fields)
    }

    /// A change that may or may not have been made.
    pub(crate) fn unconfirmed(error: &Unconfirmed) -> Self {
        let detail = format!("{error}; send it again");
        let status = StatusCode::GATEWAY_TIMEOUT;
        Self { code: "LK0024", outcome: "unknown", status, detail, retryable: true, fields: Map::new() }
    }
}

impl From<AcquireError> for LockProblem {
    fn from(error: AcquireError) -> Self {
        let detail = error.to_string();
        match error {
            AcquireError::Held(held_by) => Self::conflict("LK0011", "held", true, detail, in_the_way(&held_by)),
            AcquireError::LockTimeout { waited, held_by } => {
                let mut fields = in_the_way(&held_by);
                fields["waited_ms"] = json!(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX));
                Self::conflict("LK0012", "lock_timeout", true, detail, fields)
            }
            AcquireError::Deadlock { cycle } => {
                let fields = json!({ "cycle": cycle.to_vec() });
                Self::conflict("LK0013", "deadlock", true, detail, fields)
            }
            AcquireError::Reused { ended } => {
                Self::conflict("LK0016", "key_reused", false, detail, json!({ "ended": ended }))
            }
            AcquireError::Busy { resource, waiters } => {
                let fields = json!({ "resource": resource, "waiters": waiters });
                let busy = Self::conflict("LK0022", "busy", true, detail, fields);
                Self { status: StatusCode::TOO_MANY_REQUESTS, ..busy }
            }
            AcquireError::Unsupported(detail) => {
                let bad = Self::conflict("LK0001", "malformed", false, detail, Value::Null);
                Self { status: StatusCode::BAD_REQUEST, ..bad }
            }
            AcquireError::Unavailable(_) => {
                let away = Self::conflict("LK0023", "unavailable", true, detail, Value::Null);
                Self { status: StatusCode::SERVICE_UNAVAILABLE, ..away }
            }
        }
    }
}

fn in_the_way(held_by: &HeldBy) -> Value {
    let HeldBy { resource, owner, host, since, holds } = held_by;
    json!({
        "resource": resource,
        "holder": owner,
        "host": host,
        "since": since.to_rfc3339_opts(SecondsFormat::Millis, true),
        // Otherwise it is kept for them, who wait first.
        "holds": holds,
    })
}
