//! Purging closed instances by hand.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use lockkeeper_engine::{PurgeQuery, PurgeStep};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::AppState;
use crate::auth::Caller;
use crate::body;
use crate::path::WorkflowPath;
use crate::problem::{Problem, malformed};
use crate::views::ProblemView;

/// Which closed instances to purge.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PurgeBody {
    /// Those whose last change is longer ago, in milliseconds. Whatever is given, one that has ended within the last two
    /// minutes stays: a node may still have to learn from its history whether a commit took place.
    closed_before_ms: u64,
    /// Only the instance with this id.
    id: Option<String>,
    /// Only count them.
    #[serde(default)]
    dry_run: bool,
    /// Go on after an earlier step.
    cursor: Option<String>,
}

/// What one step came to.
#[derive(Serialize, ToSchema)]
pub(crate) struct PurgeView {
    /// Instances that were purged, or would be.
    instances: usize,
    /// Changes that were forgotten.
    events: usize,
    /// Instances that were left, since they have ended within the last two minutes: ask again later.
    too_young: usize,
    /// Instances that were left, since they are damaged and cannot be read; the server's log names them.
    unreadable: usize,
    /// Where the next step goes on; none: that was all.
    next_cursor: Option<String>,
}

/// One step of purging closed instances: their histories and their data go. The version stays, and how the run ended: a
/// later start of the same id goes on above it. Asks for the role `admin`.
#[utoipa::path(
    post, path = "/v1/workflows/{workflow}/purge", operation_id = "purge_instances", tag = "operations",
    params(("workflow" = String, Path, description = "[a-z][a-z0-9_-]{0,63}")),
    request_body = PurgeBody,
    responses(
        (status = 200, description = "What this step came to", body = PurgeView),
        (status = 403, description = "`not_permitted`: the role `admin` is needed",
         body = ProblemView, content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn purge(
    State(state): State<AppState>,
    caller: Caller,
    WorkflowPath(workflow): WorkflowPath,
    body::Json(body): body::Json<PurgeBody>,
) -> Result<Json<PurgeView>, Problem> {
    caller.admin()?;
    let PurgeBody { closed_before_ms, id, dry_run, cursor } = body;
    let age = chrono::TimeDelta::from_std(Duration::from_millis(closed_before_ms)).ok();
    let before = age.and_then(|age| state.engine.clock().now().checked_sub_signed(age));
    let before = before.ok_or_else(|| malformed("closed_before_ms is longer ago than any time"))?;
    let step = state.engine.purge_closed(&PurgeQuery { workflow, id, before, dry_run, cursor }).await?;
    let PurgeStep { instances, events, too_young, unreadable, next } = step;
    Ok(Json(PurgeView { instances, events, too_young, unreadable, next_cursor: next }))
}
