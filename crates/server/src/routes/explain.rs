//! How an instance's commands commit, and why.

use axum::Json;
use axum::extract::State;

use crate::app::AppState;
use crate::explanation::ExplanationView;
use crate::path::InstancePath;
use crate::problem::Problem;
use crate::views::ProblemView;

/// How commands to an instance commit on this node: rung, since when and why, rates, waits.
#[utoipa::path(
    get, path = "/v1/workflows/{workflow}/instances/{id}/explain", operation_id = "explain_instance", tag = "instances",
    params(
        ("workflow" = String, Path, description = "[a-z][a-z0-9_-]{0,63}"),
        ("id" = String, Path, description = "The instance's id, percent-encoded")
    ),
    responses(
        (status = 200, description = "What this node knows", body = ExplanationView),
        (status = 404, description = "`unknown_workflow`, `unknown_instance`; some known are named",
         body = ProblemView, content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    InstancePath(key): InstancePath,
) -> Result<Json<ExplanationView>, Problem> {
    let told = state.engine.explain(&key).await?;
    Ok(Json(ExplanationView::new(&state.node, &key, state.engine.clock().now(), told)))
}
