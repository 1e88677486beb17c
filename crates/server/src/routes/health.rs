//! Whether the server is alive, and whether it can work.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::app::AppState;
use crate::problem::Problem;
use crate::views::ProblemView;

/// The process runs and answers.
#[utoipa::path(
    get, path = "/healthz", operation_id = "get_healthz", tag = "health",
    responses(
        (status = 200, description = "Alive", body = Object),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn alive() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// The store takes writes, and the server is not shutting down.
#[utoipa::path(
    get, path = "/readyz", operation_id = "get_readyz", tag = "health",
    responses(
        (status = 200, description = "Ready", body = Object),
        (status = 503, description = "`unavailable`", body = ProblemView, content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn ready(State(state): State<AppState>) -> Result<Json<Value>, Problem> {
    state.engine.ready().await?;
    Ok(Json(json!({ "status": "ok" })))
}
