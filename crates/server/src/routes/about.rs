//! What the server says of itself.

use askama::Template;
use axum::Json;
use axum::extract::State;
use axum::response::{Html, IntoResponse, Response};
use lockkeeper_model::Refusal;

use crate::app::AppState;
use crate::limits::PAGE_WORKFLOWS;
use crate::problem::Problem;
use crate::views::ProblemView;

/// The API as an OpenAPI 3.1 document.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "get_openapi", tag = "about",
    responses(
        (status = 200, description = "OpenAPI 3.1", body = Object),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(crate::openapi())
}

#[derive(Template)]
#[template(path = "about.html")]
struct Page {
    version: &'static str,
    store: String,
    uptime: String,
    tokens_required: bool,
    workflows: Vec<(String, i64, String)>,
    more: bool,
}

/// A page that says what runs here.
#[utoipa::path(
    get, path = "/", operation_id = "get_page", tag = "about",
    responses(
        (status = 200, description = "A page", body = String, content_type = "text/html"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn page(State(state): State<AppState>) -> Result<Response, Problem> {
    let tokens_required = state.gate.tokens_required;
    // Without a token nobody learns what runs here.
    let (workflows, more) = if tokens_required {
        (Vec::new(), false)
    } else {
        let page = state.engine.workflows(None, PAGE_WORKFLOWS).await?;
        let item = |(name, version, put_at): (String, i64, lockkeeper_model::Timestamp)| {
            (name, version, put_at.format("%Y-%m-%d %H:%M UTC").to_string())
        };
        (page.items.into_iter().map(item).collect(), page.next.is_some())
    };
    let store = if tokens_required { String::new() } else { state.engine.store().describe() };
    let page = Page {
        version: env!("CARGO_PKG_VERSION"),
        store,
        uptime: uptime(state.started.elapsed().as_secs()),
        tokens_required,
        workflows,
        more,
    };
    let html = page.render().map_err(|error| Refusal::Unavailable { detail: error.to_string() })?;
    let headers = [
        ("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
    ];
    Ok((headers, Html(html)).into_response())
}

fn uptime(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86400, seconds / 3600 % 24),
    }
}
