//! Getting leases.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use lockkeeper_engine::limits::DEADLINE_MAX;
use lockkeeper_locks::{AcquireError, Ask, Clock, Grant, RenewError, SystemClock};
use lockkeeper_model::Refusal;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::claims::{Asker, ClaimBody, ModeBody, Peer, claim};
use super::{HandBack, milliseconds, milliseconds_until};
use crate::app::AppState;
use crate::auth::Caller;
use crate::body;
use crate::lock_problem::LockProblem;
use crate::path::ResourcePath;
use crate::problem::{Problem, malformed};
use crate::views::ProblemView;

/// A lease on several names.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcquireAllBody {
    /// 1 to 100 names; one that is given twice is asked for once, in the stricter mode.
    #[serde(deserialize_with = "body::objects")]
    resources: Vec<ClaimBody>,
    /// Who asks, for people and for finding deadlocks: one flow of work (a job, a thread), which waits for one thing at
    /// a time.
    owner: String,
    /// The client's own name for this try. Sent again with the same, it is the same lease; each lease needs its own.
    attempt: String,
    /// How long the lease lives from its grant and from each renewal, in milliseconds: 1 to 86,400,000.
    ttl_ms: u64,
    /// How long to wait for it, in milliseconds; 0 or absent: not at all. At most 30,000 are waited in one request.
    wait_ms: Option<u64>,
    /// Where the owner is, for people; absent: the address that the request comes from.
    host: Option<String>,
}

/// A lease on one name.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcquireBody {
    /// Who asks, for people and for finding deadlocks: one flow of work (a job, a thread), which waits for one thing at
    /// a time.
    owner: String,
    /// The client's own name for this try. Sent again with the same, it is the same lease; each lease needs its own.
    /// Absent: a random one, and a client that sees no answer cannot ask for the same again.
    attempt: Option<String>,
    /// How long the lease lives from its grant and from each renewal, in milliseconds: 1 to 86,400,000.
    ttl_ms: u64,
    /// How long to wait for it, in milliseconds; 0 or absent: not at all. At most 30,000 are waited in one request.
    wait_ms: Option<u64>,
    /// `exclusive` (the default) or `shared`.
    mode: Option<ModeBody>,
    /// Instead of a mode: one of so many that may hold it at once, 1 to 999.
    permits: Option<u32>,
    /// Where the owner is, for people; absent: the address that the request comes from.
    host: Option<String>,
}

/// A lease on one name that was granted.
#[derive(Serialize, ToSchema)]
pub(crate) struct LeaseView {
    /// Its name, for renewals and the release: whoever knows it can renew and end it.
    lease: String,
    /// The fencing token, below 2^53; null: the lock service has none.
    fence: Option<i64>,
    /// How long it may be used from this answer's sending; a careful client counts from before its request.
    valid_ms: u64,
}

/// A lease on several names that was granted.
#[derive(Serialize, ToSchema)]
pub(crate) struct LeasesView {
    /// Its name, for renewals and the release: whoever knows it can renew and end it.
    lease: String,
    /// The fencing token of each name, below 2^53; null: the lock service has none.
    #[schema(value_type = Object)]
    fences: BTreeMap<String, Option<i64>>,
    /// How long it may be used from this answer's sending; a careful client counts from before its request.
    valid_ms: u64,
}

/// Gets a lease on several names, all or none.
///
/// Whoever asks in whatever order, two of them never wait for each other. The place in the queue is kept for a third of
/// the time to live after `lock_timeout`, for who asks again with the same `attempt`. A client that sends no
/// attempt and closes its connection gives up.
#[utoipa::path(
    post, path = "/v1/locks/acquire", operation_id = "acquire_locks", tag = "locks",
    request_body = AcquireAllBody,
    responses(
        (status = 200, description = "Granted", body = LeasesView),
        (status = 409, description = "`held`, `lock_timeout`, `deadlock`, `key_reused` (the attempt has ended, or was for \
                                      others)", body = ProblemView, content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn several(
    State(state): State<AppState>,
    caller: Caller,
    peer: Peer,
    body::Json(body): body::Json<AcquireAllBody>,
) -> Result<Response, Problem> {
    let claims = body.resources.into_iter().map(ClaimBody::claim).collect::<Result<Vec<_>, _>>()?;
    let asker = Asker { caller: &caller, owner: &body.owner, host: body.host.as_deref(), peer: &peer };
    let ask = asker.ask(&body.attempt, claims, body.ttl_ms)?;
    let (grant, hand_back) = acquire(&state, &ask, body.wait_ms, true).await?;
    let names = ask.claims().iter().map(|claim| claim.resource.to_string());
    let view = LeasesView {
        lease: ask.lease().to_string(),
        fences: names.zip(grant.fences.iter().copied()).collect(),
        valid_ms: milliseconds_until(grant.valid_until()),
    };
    hand_back.answer(&view)
}

/// Gets a lease on one name.
///
/// The place in the queue is kept for a third of the time to live after `lock_timeout`, for who asks again with the same
/// `attempt`. A client that sends no attempt and closes its connection gives up.
#[utoipa::path(
    post, path = "/v1/locks/{resource}/acquire", operation_id = "acquire_lock", tag = "locks",
    params(("resource" = String, Path, description = "The name, percent-encoded")),
    request_body = AcquireBody,
    responses(
        (status = 200, description = "Granted", body = LeaseView),
        (status = 409, description = "`held`, `lock_timeout`, `deadlock`, `key_reused` (the attempt has ended, or was for \
                                      another)", body = ProblemView, content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn one(
    State(state): State<AppState>,
    caller: Caller,
    peer: Peer,
    ResourcePath(resource): ResourcePath,
    body::Json(body): body::Json<AcquireBody>,
) -> Result<Response, Problem> {
    let claim = claim(&resource, body.mode, body.permits)?;
    let asker = Asker { caller: &caller, owner: &body.owner, host: body.host.as_deref(), peer: &peer };
    let can_ask_again = body.attempt.is_some();
    let attempt = body.attempt.unwrap_or_else(|| Uuid::new_v4().to_string());
    let ask = asker.ask(&attempt, vec![claim], body.ttl_ms)?;
    let (grant, hand_back) = acquire(&state, &ask, body.wait_ms, can_ask_again).await?;
    let view = LeaseView {
        lease: ask.lease().to_string(),
        fence: grant.fences.first().copied().flatten(),
        valid_ms: milliseconds_until(grant.valid_until()),
    };
    hand_back.answer(&view)
}

/// A client counts from before its request, and expects to have the time to live that it asked for. Who had waited may have
/// been granted less, or some time ago; then the lease is renewed before it is told of it.
async fn whole(state: &AppState, ask: &Ask, grant: Grant) -> Result<Grant, Problem> {
    let left = grant.valid_until().since(SystemClock.now());
    if left >= ask.ttl() / 10 * 9 {
        return Ok(grant);
    }
    match state.locks.renew(ask.lease()).await {
        Ok(renewal) => Ok(Grant { asked: renewal.asked, usable: renewal.usable, ..grant }),
        // It is held for as long as it says.
        Err(RenewError::Unavailable(_)) => Ok(grant),
        Err(RenewError::Lost { .. }) => {
            let detail = "the lease was lost before it could be told; ask again".to_owned();
            Err(Refusal::Unavailable { detail }.into())
        }
    }
}

/// Waits for the lease. What is not handed over is given back, except where the client can ask for it again: it may have
/// done so already, elsewhere, when this node notices that the connection is gone; and what it got there is not to be
/// taken from it.
async fn acquire(
    state: &AppState,
    ask: &Ask,
    wait_ms: Option<u64>,
    can_ask_again: bool,
) -> Result<(Grant, HandBack), Problem> {
    let wait = Duration::from_millis(wait_ms.unwrap_or(0)).min(DEADLINE_MAX);
    let begun = SystemClock.now();
    let whose = (!can_ask_again).then(|| ask.lease());
    let hand_back = HandBack::new(state.locks.clone(), state.handing_back.clone(), whose);
    let asked = tokio::select! {
        biased;
        asked = state.locks.acquire(ask, wait) => asked,
        () = state.stopping.cancelled() => {
            Err(AcquireError::Unavailable("this node is shutting down".to_owned()))
        }
    };
    match asked {
        Ok(grant) if milliseconds_until(grant.valid_until()) > 0 => {
            let grant = whole(state, ask, grant).await?;
            Ok((grant, hand_back))
        }
        Ok(_) => {
            let waited_ms = milliseconds(SystemClock.now().since(begun));
            Err(LockProblem::too_late(waited_ms).into())
        }
        Err(AcquireError::Unavailable(detail)) => {
            Err(Refusal::Unavailable { detail: format!("the lock service is unavailable: {detail}") }.into())
        }
        Err(AcquireError::Unsupported(detail)) => {
            hand_back.forget();
            Err(malformed(detail))
        }
        // Its place in the queue is kept for who asks again; without an attempt nobody can, and it is given up.
        Err(error @ AcquireError::LockTimeout { .. }) => Err(LockProblem::from(error).into()),
        Err(error) => {
            hand_back.forget();
            Err(LockProblem::from(error).into())
        }
    }
}
