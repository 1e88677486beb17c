//! Who holds what.

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, Utc};
use lockkeeper_locks::{Holder, LeaseQuery, Mode, ResourceView};
use lockkeeper_model::Refusal;
use serde::Serialize;
use utoipa::ToSchema;

use super::milliseconds;
use crate::app::AppState;
use crate::auth::Caller;
use crate::body::Params;
use crate::closed::{HoldModeName, ReleaseName};
use crate::lock_problem::LockProblem;
use crate::path::ResourcePath;
use crate::problem::Problem;
use crate::routes::page_limit;
use crate::routes::workflows::PageParams;
use crate::views::ProblemView;

/// One who holds a name.
#[derive(Serialize, ToSchema)]
pub(crate) struct HolderView {
    /// Who.
    owner: String,
    /// Where the owner is.
    host: String,
    /// `exclusive`, `shared` or `permits`.
    #[schema(value_type = HoldModeName, example = "exclusive")]
    mode: &'static str,
    /// How many may hold it at once, in the mode `permits`.
    permits: Option<u32>,
    /// The fencing token; null: the lock service has none.
    fence: Option<i64>,
    /// When it was granted.
    since: DateTime<Utc>,
    /// When it ends unless it is renewed, in milliseconds from now.
    expires_in_ms: u64,
    /// How far each renewal moves that, in milliseconds.
    ttl_ms: u64,
}

/// A name that is held or waited for.
#[derive(Serialize, ToSchema)]
pub(crate) struct LockView {
    /// The name.
    resource: String,
    /// Who holds it.
    holders: Vec<HolderView>,
    /// How many wait for it.
    waiters: u64,
}

/// One page of names.
#[derive(Serialize, ToSchema)]
pub(crate) struct LockList {
    items: Vec<LockView>,
    next_cursor: Option<String>,
}

/// Who was made to give a name up.
#[derive(Serialize, ToSchema)]
pub(crate) struct ForcedView {
    /// `released`; `already_lost`: nobody held it.
    #[schema(value_type = ReleaseName, example = "released")]
    outcome: &'static str,
    /// The name.
    resource: String,
    /// Who held it. Their leases are gone, with all other names that they held.
    holders: Vec<HolderView>,
}

/// The names that are held or waited for, sorted by bytes.
#[utoipa::path(
    get, path = "/v1/locks", operation_id = "list_locks", tag = "locks",
    params(PageParams),
    responses(
        (status = 200, description = "One page", body = LockList),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    Params(params): Params<PageParams>,
) -> Result<Json<LockList>, Problem> {
    let after = params.cursor.filter(|cursor| !cursor.is_empty());
    let query = LeaseQuery { after, limit: page_limit(params.limit)? };
    let page = state.locks.list(&query).await.map_err(|error| Refusal::Unavailable { detail: error.to_string() })?;
    let items = page.resources.into_iter().map(|view| lock_view(view, page.now)).collect();
    Ok(Json(LockList { items, next_cursor: page.next }))
}

/// Takes a name from all who hold it. They hear of it at their next renewal; until then their fences protect what checks
/// them.
///
/// Any token may do it, as any may end runs.
#[utoipa::path(
    delete, path = "/v1/locks/{resource}", operation_id = "force_release_lock", tag = "locks",
    params(("resource" = String, Path, description = "The name, percent-encoded; `%61cquire`, `%72enew` and `%72elease` \
                                                      where it is called like a route")),
    responses(
        (status = 200, description = "`released`, `already_lost`", body = ForcedView),
        (status = 504, description = "`unknown`: send it again", body = ProblemView,
         content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn force_release(
    State(state): State<AppState>,
    caller: Caller,
    ResourcePath(resource): ResourcePath,
) -> Result<Json<ForcedView>, Problem> {
    state.gate.past_rules(&caller)?;
    let forced = state.locks.force_release(&resource).await;
    let holders = forced.map_err(|error| LockProblem::unconfirmed(&error))?;
    tracing::warn!(resource, holders = holders.len(), "a lock was released by force");
    let outcome = if holders.is_empty() { "already_lost" } else { "released" };
    let now = Utc::now();
    let holders = holders.into_iter().map(|holder| holder_view(holder, now)).collect();
    Ok(Json(ForcedView { outcome, resource, holders }))
}

fn lock_view(view: ResourceView, now: DateTime<Utc>) -> LockView {
    let holders = view.holders.into_iter().map(|holder| holder_view(holder, now)).collect();
    LockView { resource: view.resource.to_string(), holders, waiters: view.waiters }
}

fn holder_view(holder: Holder, now: DateTime<Utc>) -> HolderView {
    let (mode, permits) = match holder.mode {
        Mode::Exclusive => ("exclusive", None),
        Mode::Shared => ("shared", None),
        Mode::Permits(permits) => ("permits", Some(permits)),
    };
    HolderView {
        owner: holder.owner.to_string(),
        host: holder.host.to_string(),
        mode,
        permits,
        fence: holder.fence,
        since: holder.since,
        // Over already: it has not been cleared away yet.
        expires_in_ms: (holder.expires - now).to_std().map(milliseconds).unwrap_or(0),
        ttl_ms: milliseconds(holder.ttl),
    }
}
