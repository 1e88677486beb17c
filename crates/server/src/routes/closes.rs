//! Ends of runs from outside their definition.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use lockkeeper_model::{Action, Close, Command, InstanceKey};
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::AppState;
use crate::auth::{ActorBody, Caller};
use crate::body::{self, Key};
use crate::path::InstancePath;
use crate::problem::Problem;
use crate::views::{self, ProblemView, SuccessView};

/// Which run to end, and why.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CloseBody {
    /// The run that the sender means; none: the current one.
    run: Option<Uuid>,
    /// Why; recorded in the history.
    reason: String,
    /// Who acts, where it is not the token's principal.
    actor: Option<ActorBody>,
}

/// Ends the run at once: status `terminated`.
#[utoipa::path(
    post, path = "/v1/workflows/{workflow}/instances/{id}/terminate",
    operation_id = "terminate_instance", tag = "instances",
    params(
        ("workflow" = String, Path, description = "[a-z][a-z0-9_-]{0,63}"),
        ("id" = String, Path, description = "The instance's id, percent-encoded"),
        ("Idempotency-Key" = Option<String>, Header, description = "Sent again with the same key, it takes effect once")
    ),
    request_body = CloseBody,
    responses(
        (status = 200, description = "`applied`", body = SuccessView),
        (status = 409, description = "`already_closed`, `state_mismatch` (another run), `conflict`, `lock_timeout`",
         body = ProblemView, content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn terminate(
    State(state): State<AppState>,
    caller: Caller,
    InstancePath(instance): InstancePath,
    Key(key): Key,
    body::Json(body): body::Json<CloseBody>,
) -> Result<Response, Problem> {
    close(&state, &caller, instance, key, body, Action::Terminate).await
}

/// Ends the run on request: status `canceled`.
#[utoipa::path(
    post, path = "/v1/workflows/{workflow}/instances/{id}/cancel", operation_id = "cancel_instance", tag = "instances",
    params(
        ("workflow" = String, Path, description = "[a-z][a-z0-9_-]{0,63}"),
        ("id" = String, Path, description = "The instance's id, percent-encoded"),
        ("Idempotency-Key" = Option<String>, Header, description = "Sent again with the same key, it takes effect once")
    ),
    request_body = CloseBody,
    responses(
        (status = 200, description = "`applied`", body = SuccessView),
        (status = 409, description = "`already_closed`, `state_mismatch` (another run), `conflict`, `lock_timeout`",
         body = ProblemView, content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn cancel(
    State(state): State<AppState>,
    caller: Caller,
    InstancePath(instance): InstancePath,
    Key(key): Key,
    body::Json(body): body::Json<CloseBody>,
) -> Result<Response, Problem> {
    close(&state, &caller, instance, key, body, Action::Cancel).await
}

async fn close(
    state: &AppState,
    caller: &Caller,
    instance: InstanceKey,
    idempotency_key: Option<String>,
    body: CloseBody,
    action: fn(Close) -> Action,
) -> Result<Response, Problem> {
    state.gate.past_rules(caller)?;
    let keyed = idempotency_key.is_some();
    let action = action(Close { run: body.run, reason: body.reason });
    let command = Command { instance, action, actor: caller.actor(body.actor)?, idempotency_key };
    views::answer(StatusCode::OK, state.engine.send(command, None).await, keyed)
}
