//! What happened to an instance.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use lockkeeper_model::Refusal;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::app::AppState;
use crate::body::Params;
use crate::path::InstancePath;
use crate::problem::{Problem, malformed};
use crate::routes::page_limit;
use crate::views::{HistoryView, ProblemView};

/// Which part of the history.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryParams {
    /// Items of the page: 1 to 1,000 (default 50).
    limit: Option<usize>,
    /// Only changes after this version. `next_cursor` of an earlier page is one.
    cursor: Option<String>,
    /// While there is nothing after `cursor`, wait for it so many milliseconds (at most 25,000).
    wait_ms: Option<u64>,
}

/// One page of a history, oldest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct HistoryList {
    items: Vec<HistoryView>,
    /// The oldest version that is kept: 1, unless changes before it were purged. After a purge of all, the version that comes
    /// next.
    #[schema(example = 1)]
    oldest_version: i64,
    /// None: that was all until now. To follow on, give the last item's version as `cursor`.
    next_cursor: Option<String>,
}

/// The committed changes of an instance, one for each version.
#[utoipa::path(
    get, path = "/v1/workflows/{workflow}/instances/{id}/history", operation_id = "get_history", tag = "instances",
    params(
        ("workflow" = String, Path, description = "[a-z][a-z0-9_-]{0,63}"),
        ("id" = String, Path, description = "The instance's id, percent-encoded"),
        HistoryParams
    ),
    responses(
        (status = 200, description = "One page", body = HistoryList),
        (status = 404, description = "`unknown_workflow`, `unknown_instance`; some known are named",
         body = ProblemView, content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    InstancePath(key): InstancePath,
    Params(params): Params<HistoryParams>,
) -> Result<Json<HistoryList>, Problem> {
    let after = match params.cursor.as_deref() {
        None | Some("") => 0,
        Some(cursor) => cursor
            .parse::<i64>()
            .ok()
            .filter(|version| *version >= 0)
            .ok_or_else(|| malformed(format!("the cursor {cursor:?} is not one of a history: give a version")))?,
    };
    let limit = page_limit(params.limit)?;
    let wait = Duration::from_millis(params.wait_ms.unwrap_or(0));
    // Whoever only waits for news must not hold up the end of the server.
    let page = state.stopping.run_until_cancelled(state.engine.history(&key, after, limit, wait)).await;
    let page = page.ok_or_else(|| Refusal::Unavailable { detail: "this node is shutting down".to_owned() })??;
    Ok(Json(HistoryList {
        oldest_version: page.oldest,
        next_cursor: page.more.then(|| page.last.to_string()),
        items: page.items.into_iter().map(HistoryView::from).collect(),
    }))
}
