//! Renewals and releases.

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, Utc};
use lockkeeper_locks::{LeaseId, Release, RenewError};
use lockkeeper_model::Refusal;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::claims::lease_of;
use super::milliseconds_until;
use crate::app::AppState;
use crate::auth::Caller;
use crate::body;
use crate::closed::ReleaseName;
use crate::lock_problem::LockProblem;
use crate::path::ResourcePath;
use crate::problem::{Problem, malformed};
use crate::views::ProblemView;

/// Which lease to renew.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenewBody {
    /// Its name, as the grant gave it.
    lease: String,
}

/// Which lease to give back: by its name, or, where no grant was seen, by the owner and attempt that asked for it.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseBody {
    /// Its name, as the grant gave it.
    lease: Option<String>,
    /// Who asked for it.
    owner: Option<String>,
    /// The client's own name for its try.
    attempt: Option<String>,
}

/// A lease that was renewed.
#[derive(Serialize, ToSchema)]
pub(crate) struct RenewedView {
    /// How long it may be used from this answer's sending; a careful client counts from before its request.
    valid_ms: u64,
}

/// What became of a release.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReleasedView {
    /// `released`; `already_lost`: it was not held any more, or never.
    #[schema(value_type = ReleaseName, example = "released")]
    outcome: &'static str,
    /// Since when it was lost, where that is known.
    since: Option<DateTime<Utc>>,
}

/// Renews a lease for its time to live from now. Never makes one.
#[utoipa::path(
    post, path = "/v1/locks/renew", operation_id = "renew_locks", tag = "locks",
    request_body = RenewBody,
    responses(
        (status = 200, description = "Renewed", body = RenewedView),
        (status = 409, description = "`fenced`: it is not held any more", body = ProblemView,
         content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn renew_several(
    State(state): State<AppState>,
    body::Json(body): body::Json<RenewBody>,
) -> Result<Json<RenewedView>, Problem> {
    renew(&state, None, &body).await
}

/// Renews a lease for its time to live from now. Never makes one.
#[utoipa::path(
    post, path = "/v1/locks/{resource}/renew", operation_id = "renew_lock", tag = "locks",
    params(("resource" = String, Path, description = "The name, percent-encoded")),
    request_body = RenewBody,
    responses(
        (status = 200, description = "Renewed", body = RenewedView),
        (status = 409, description = "`fenced`: it is not held any more", body = ProblemView,
         content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn renew_one(
    State(state): State<AppState>,
    ResourcePath(resource): ResourcePath,
    body::Json(body): body::Json<RenewBody>,
) -> Result<Json<RenewedView>, Problem> {
    renew(&state, Some(resource), &body).await
}

async fn renew(state: &AppState, resource: Option<String>, body: &RenewBody) -> Result<Json<RenewedView>, Problem> {
    let lease = lease(&body.lease)?;
    match state.locks.renew(lease).await {
        Ok(renewal) => Ok(Json(RenewedView { valid_ms: milliseconds_until(renewal.valid_until()) })),
        Err(RenewError::Lost { since }) => Err(LockProblem::lost(lease, resource, since).into()),
        Err(error @ RenewError::Unavailable(_)) => Err(Refusal::Unavailable { detail: error.to_string() }.into()),
    }
}

/// Gives a lease back, or a place in the queue.
#[utoipa::path(
    post, path = "/v1/locks/release", operation_id = "release_locks", tag = "locks",
    request_body = ReleaseBody,
    responses(
        (status = 200, description = "`released`, `already_lost`", body = ReleasedView),
        (status = 504, description = "`unknown`: send it again", body = ProblemView,
         content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn release_several(
    State(state): State<AppState>,
    caller: Caller,
    body::Json(body): body::Json<ReleaseBody>,
) -> Result<Json<ReleasedView>, Problem> {
    release(&state, &caller, &body).await
}

/// Gives a lease back, or a place in the queue.
#[utoipa::path(
    post, path = "/v1/locks/{resource}/release", operation_id = "release_lock", tag = "locks",
    params(("resource" = String, Path, description = "The name, percent-encoded")),
    request_body = ReleaseBody,
    responses(
        (status = 200, description = "`released`, `already_lost`", body = ReleasedView),
        (status = 504, description = "`unknown`: send it again", body = ProblemView,
         content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn release_one(
    State(state): State<AppState>,
    caller: Caller,
    _resource: ResourcePath,
    body::Json(body): body::Json<ReleaseBody>,
) -> Result<Json<ReleasedView>, Problem> {
    release(&state, &caller, &body).await
}

async fn release(state: &AppState, caller: &Caller, body: &ReleaseBody) -> Result<Json<ReleasedView>, Problem> {
    let lease = match (&body.lease, &body.owner, &body.attempt) {
        (Some(name), None, None) => lease(name)?,
        (None, Some(owner), Some(attempt)) => lease_of(caller, owner, attempt)?,
        _ => return Err(malformed("name the lease by `lease`, or by `owner` and `attempt`")),
    };
    // Barred: a request that was sent before, and that nobody waits for any more, is to get nothing.
    match state.locks.release(lease, true).await {
        Ok(Release::Released) => Ok(Json(ReleasedView { outcome: "released", since: None })),
        Ok(Release::AlreadyLost { since }) => Ok(Json(ReleasedView { outcome: "already_lost", since })),
        Err(error) => Err(LockProblem::unconfirmed(&error).into()),
    }
}

fn lease(name: &str) -> Result<LeaseId, Problem> {
    name.parse().map_err(|_| malformed("`lease` is no lease's name: send it as the grant gave it"))
}
