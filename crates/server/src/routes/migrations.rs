//! Moving runs to another version of their definition.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use lockkeeper_model::{Action, Command, Migrate};
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::AppState;
use crate::auth::{ActorBody, Caller};
use crate::body::{self, Key};
use crate::path::InstancePath;
use crate::problem::Problem;
use crate::views::{self, ProblemView, SuccessView};

/// Which run to move, where to, and why.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MigrateBody {
    /// The run that the sender means; none: the current one.
    run: Option<Uuid>,
    /// The version of the definition to move to; none: the newest.
    to_version: Option<i64>,
    /// States of the run's version, each with the state of the other version that takes its place. A state that is not
    /// named is the one of its name.
    #[serde(default)]
    state_map: BTreeMap<String, String>,
    /// Nothing is written: the answer, with the outcome `dry_run`, says what would happen.
    #[serde(default)]
    dry_run: bool,
    /// Why; recorded in the history.
    reason: String,
    /// Who acts, where it is not the token's principal.
    actor: Option<ActorBody>,
}

/// Moves the run to another version of its definition (role `admin`). It goes on in the state of the same name, or in the
/// one that it is mapped to: none that is final, and none that is reached only by an approval if its own was not. Votes of
/// the visit are void, its timers are those of the new version.
#[utoipa::path(
    post, path = "/v1/workflows/{workflow}/instances/{id}/migrate",
    operation_id = "migrate_instance", tag = "instances",
    params(
        ("workflow" = String, Path, description = "[a-z][a-z0-9_-]{0,63}"),
        ("id" = String, Path, description = "The instance's id, percent-encoded"),
        ("Idempotency-Key" = Option<String>, Header, description = "Sent again with the same key, it takes effect once")
    ),
    request_body = MigrateBody,
    responses(
        (status = 200, description = "`applied`, `already_applied` (it is on that version), `dry_run`", body = SuccessView),
        (status = 404, description = "`unknown_workflow` (or no such version), `unknown_instance`",
         body = ProblemView, content_type = "application/problem+json"),
        (status = 409, description = "`not_migratable`, `already_closed`, `state_mismatch` (another run), `conflict`, \
         `lock_timeout`", body = ProblemView, content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn migrate(
    State(state): State<AppState>,
    caller: Caller,
    InstancePath(instance): InstancePath,
    Key(key): Key,
    body::Json(body): body::Json<MigrateBody>,
) -> Result<Response, Problem> {
    caller.admin()?;
    let keyed = key.is_some();
    let MigrateBody { run, to_version, state_map, dry_run, reason, actor } = body;
    let action = Action::Migrate(Migrate { run, to_version, state_map, reason });
    let command = Command { instance, action, actor: caller.actor(actor)?, idempotency_key: key };
    if dry_run {
        let success = state.engine.rehearse(&command).await?;
        return Ok(axum::Json(SuccessView::rehearsed(success)).into_response());
    }
    views::answer(StatusCode::OK, state.engine.send(command, None).await, keyed)
}
