//! What is counted and timed.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use lockkeeper_model::Refusal;

use crate::app::AppState;
use crate::problem::Problem;
use crate::views::ProblemView;

/// OpenMetrics 1.0, which Prometheus reads.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What this node counts and times, for Prometheus.
#[utoipa::path(
    get, path = "/metrics", operation_id = "get_metrics", tag = "health",
    responses(
        (status = 200, description = "OpenMetrics 1.0", body = String, content_type = "application/openmetrics-text"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(State(state): State<AppState>) -> Result<Response, Problem> {
    let text = state.metrics.text(&state.engine).map_err(|error| Refusal::Unavailable { detail: error.to_string() })?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}
