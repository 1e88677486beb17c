//! Tokens, for administrators.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lockkeeper_model::Refusal;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::AppState;
use crate::auth::Caller;
use crate::body::{self, Params};
use crate::path::NamePath;
use crate::problem::Problem;
use crate::routes::page_limit;
use crate::routes::workflows::PageParams;
use crate::tokens::{Token, TokenError};
use crate::views::ProblemView;

/// A token to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateBody {
    /// The principal's id.
    name: String,
    /// The principal's roles.
    #[serde(default)]
    roles: Vec<String>,
}

/// A token that was made. Its secret is shown this once.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedView {
    name: String,
    roles: Vec<String>,
    /// The secret: send it as `Authorization: Bearer`.
    token: String,
}

/// One page of tokens, without their secrets.
#[derive(Serialize, ToSchema)]
pub(crate) struct TokenList {
    /// Each with `name`, `roles`, `created_at`, `created_by` and, where it was revoked, `revoked_at`.
    #[schema(value_type = Vec<Object>)]
    items: Vec<Token>,
    next_cursor: Option<String>,
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Refused(refusal) => refusal.into(),
            TokenError::NotFound { .. } => Self::NotFound(error.to_string()),
        }
    }
}

/// Makes a token (role `admin`). The first one is made with the server stopped: `lockkeeper token create --store URL`.
#[utoipa::path(
    post, path = "/v1/tokens", operation_id = "create_token", tag = "tokens",
    request_body = CreateBody,
    responses(
        (status = 201, description = "Made", body = CreatedView),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    caller: Caller,
    body::Json(body): body::Json<CreateBody>,
) -> Result<(StatusCode, Json<CreatedView>), Problem> {
    caller.admin()?;
    if !state.gate.tokens_required {
        let detail = "this server runs without tokens; stop it and make the first with `lockkeeper token create --name NAME \
                      --roles admin --store URL`, then start it again";
        return Err(Refusal::NotPermitted { detail: detail.to_owned(), roles: Vec::new() }.into());
    }
    let by = caller.actor(None)?;
    let (token, secret) = state.gate.tokens.create(&body.name, body.roles, &by.id).await?;
    Ok((StatusCode::CREATED, Json(CreatedView { name: token.name, roles: token.roles, token: secret })))
}

/// The tokens by name, revoked ones included (role `admin`).
#[utoipa::path(
    get, path = "/v1/tokens", operation_id = "list_tokens", tag = "tokens",
    params(PageParams),
    responses(
        (status = 200, description = "One page", body = TokenList),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    caller: Caller,
    Params(params): Params<PageParams>,
) -> Result<Json<TokenList>, Problem> {
    caller.admin()?;
    let cursor = params.cursor.filter(|cursor| !cursor.is_empty());
    let (items, next_cursor) = state.gate.tokens.list(page_limit(params.limit)?, cursor).await?;
    Ok(Json(TokenList { items, next_cursor }))
}

/// Revokes a token (role `admin`).
#[utoipa::path(
    delete, path = "/v1/tokens/{name}", operation_id = "revoke_token", tag = "tokens",
    params(("name" = String, Path, description = "The token's name, percent-encoded")),
    responses(
        (status = 200, description = "Revoked", body = Object),
        (status = 404, description = "No such token is active; the active are named",
         body = ProblemView, content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn revoke(
    State(state): State<AppState>,
    caller: Caller,
    NamePath(name): NamePath,
) -> Result<Json<Token>, Problem> {
    caller.admin()?;
    let token = state.gate.tokens.revoke(&name).await;
    state.gate.forget();
    Ok(Json(token?))
}
