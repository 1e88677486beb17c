//! What is asked for, as bodies say it.

use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use lockkeeper_locks::{Ask, Claim, LeaseId, Mode};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::auth::Caller;
use crate::problem::{Problem, malformed};

/// How a name is to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ModeBody {
    /// Alone.
    Exclusive,
    /// Together with others that share it.
    Shared,
}

/// One of several names.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimBody {
    /// The name: 1 to 512 bytes without control characters, not `.` or `..`.
    name: String,
    /// `exclusive` (the default) or `shared`.
    mode: Option<ModeBody>,
    /// Instead of a mode: one of so many that may hold it at once, 1 to 999.
    permits: Option<u32>,
}

impl ClaimBody {
    pub(super) fn claim(self) -> Result<Claim, Problem> {
        claim(&self.name, self.mode, self.permits)
    }
}

/// The claim on one name.
pub(super) fn claim(resource: &str, mode: Option<ModeBody>, permits: Option<u32>) -> Result<Claim, Problem> {
    let mode = match (mode, permits) {
        (Some(_), Some(_)) => {
            return Err(malformed(format!("{resource:?}: give `mode` or `permits`, not both")));
        }
        (_, Some(permits)) => Mode::Permits(permits),
        (Some(ModeBody::Shared), None) => Mode::Shared,
        (Some(ModeBody::Exclusive) | None, None) => Mode::Exclusive,
    };
    Ok(Claim { resource: resource.into(), mode })
}

/// Who asks, and from where.
pub(super) struct Asker<'a> {
    pub(super) caller: &'a Caller,
    pub(super) owner: &'a str,
    /// None: where the connection comes from.
    pub(super) host: Option<&'a str>,
    pub(super) peer: &'a Peer,
}

impl Asker<'_> {
    /// The checked ask under the client's own name for this try.
    pub(super) fn ask(&self, attempt: &str, claims: Vec<Claim>, ttl_ms: u64) -> Result<Ask, Problem> {
        let lease = lease_of(self.caller, self.owner, attempt)?;
        let host = self.host.unwrap_or(&self.peer.0);
        let ttl = Duration::from_millis(ttl_ms);
        Ask::new(lease, self.owner, host, claims, ttl).map_err(|bad| malformed(bad.to_string()))
    }
}

/// The lease that a try is called by. Another principal's try of the same name is another.
pub(super) fn lease_of(caller: &Caller, owner: &str, attempt: &str) -> Result<LeaseId, Problem> {
    lockkeeper_model::names::check_text("attempt", attempt, lockkeeper_model::limits::KEY_BYTES_MAX)?;
    let principal = match caller {
        Caller::Local => "",
        Caller::Principal(token) => &token.name,
    };
    // Neither has control characters: two pairs never look alike.
    Ok(LeaseId::of_attempt(&format!("{principal}\n{owner}"), attempt))
}

/// Where a request comes from, for people.
pub(crate) struct Peer(String);

impl<S: Send + Sync> FromRequestParts<S> for Peer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let address = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip().to_string());
        Ok(Self(address.unwrap_or_else(|| "unknown".to_owned())))
    }
}
