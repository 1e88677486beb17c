//! Definitions.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use lockkeeper_engine::{DefinitionText, KeptFor, WorkflowRetention};
use lockkeeper_model::{Format, Problem as DefinitionProblem, Refusal};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::app::AppState;
use crate::auth::Caller;
use crate::body::{Params, Raw};
use crate::closed::FormatName;
use crate::path::WorkflowPath;
use crate::problem::{Problem, malformed};
use crate::routes::page_limit;
use crate::views::ProblemView;

/// A definition that was put.
#[derive(Serialize, ToSchema)]
pub(crate) struct PutView {
    workflow: String,
    /// The definition's version; the same text again keeps its version.
    version: i64,
    /// What is doubtful in it, each with line, column, path, message and remedy.
    #[schema(value_type = Vec<Object>)]
    warnings: Vec<DefinitionProblem>,
}

/// Checks and keeps a definition.
///
/// YAML or JSON, told apart by the content type; without one, a text that begins with `{` is JSON.
#[utoipa::path(
    put, path = "/v1/workflows/{workflow}", operation_id = "put_workflow", tag = "workflows",
    params(("workflow" = String, Path, description = "[a-z][a-z0-9_-]{0,63}")),
    request_body(content((String = "application/yaml"), (Object = "application/json"))),
    responses(
        (status = 200, description = "The same text was there already", body = PutView),
        (status = 201, description = "A new version", body = PutView),
        (status = 422, description = "`invalid_definition`: what is wrong, where, and what to write",
         body = ProblemView, content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn put(
    State(state): State<AppState>,
    caller: Caller,
    WorkflowPath(workflow): WorkflowPath,
    headers: HeaderMap,
    Raw(bytes): Raw,
) -> Result<Response, Problem> {
    state.gate.past_rules(&caller)?;
    let text =
        String::from_utf8(bytes.into()).map_err(|error| malformed(format!("the definition is not UTF-8: {error}")))?;
    let format = format(&headers, &text)?;
    let actor = caller.actor(None)?;
    let put = DefinitionText { format, text, actor, at: state.engine.clock().now() };
    let put = state.engine.put_definition(&workflow, put).await?;
    let status = if put.created { StatusCode::CREATED } else { StatusCode::OK };
    let view = PutView { workflow: workflow.to_string(), version: put.version, warnings: put.warnings };
    Ok((status, Json(view)).into_response())
}

fn format(headers: &HeaderMap, text: &str) -> Result<Format, Problem> {
    let content_type = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or("").to_ascii_lowercase());
    let essence = content_type.as_deref().map(|value| value.split(';').next().unwrap_or("").trim());
    match essence {
        Some("application/json") => Ok(Format::Json),
        Some("application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml") => Ok(Format::Yaml),
        // What clients send that were not told: go by the text.
        None | Some("" | "text/plain" | "application/octet-stream" | "application/x-www-form-urlencoded") => {
            Ok(if text.trim_start().starts_with('{') { Format::Json } else { Format::Yaml })
        }
        Some(other) => Err(malformed(format!("the content type {other:?}: send application/yaml or application/json"))),
    }
}

/// Which version.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct VersionParams {
    /// None: the newest.
    version: Option<i64>,
}

/// How long the instances of a workflow are kept.
#[derive(Serialize, ToSchema)]
pub(crate) struct RetentionView {
    /// Closed instances, after their last change, in milliseconds; null: for ever.
    closed_ms: Option<u64>,
    /// Who says so: `definition`, or `server` (`serve --retention-closed`, as this node was started).
    #[schema(example = "definition")]
    closed_by: &'static str,
    /// Changes in histories, in milliseconds; null: for ever.
    history_ms: Option<u64>,
    /// Who says so: `definition`, or `server` (`serve --retention-history`, as this node was started).
    #[schema(example = "server")]
    history_by: &'static str,
}

impl From<WorkflowRetention> for RetentionView {
    fn from(WorkflowRetention { closed, history }: WorkflowRetention) -> Self {
        let ms = |kept: KeptFor| kept.time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let by = |kept: KeptFor| if kept.by_definition { "definition" } else { "server" };
        Self { closed_ms: ms(closed), closed_by: by(closed), history_ms: ms(history), history_by: by(history) }
    }
}

/// A definition as it was put.
#[derive(Serialize, ToSchema)]
pub(crate) struct WorkflowView {
    workflow: String,
    version: i64,
    /// `yaml` or `json`.
    #[schema(value_type = FormatName, example = "yaml")]
    format: Format,
    /// The text, byte for byte.
    text: String,
    initial: String,
    /// The names of its states, in the order of the text.
    states: Vec<String>,
    /// How long its instances are kept. The newest version counts for all of them, whichever is asked for here; null: this node
    /// cannot read it, and purges nothing.
    retention: Option<RetentionView>,
    put_by: String,
    put_at: DateTime<Utc>,
}

/// A definition, the newest version or another.
#[utoipa::path(
    get, path = "/v1/workflows/{workflow}", operation_id = "get_workflow", tag = "workflows",
    params(("workflow" = String, Path, description = "[a-z][a-z0-9_-]{0,63}"), VersionParams),
    responses(
        (status = 200, description = "The definition", body = WorkflowView),
        (status = 404, description = "No such workflow or version; the known are named",
         body = ProblemView, content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    WorkflowPath(workflow): WorkflowPath,
    Params(params): Params<VersionParams>,
) -> Result<Json<WorkflowView>, Problem> {
    let (version, put) = state.engine.definition_text(&workflow, params.version).await?;
    let definition = state.engine.definition_of(&workflow, version).await?;
    let retention = match state.engine.retention_of(&workflow).await {
        Ok(retention) => Some(retention),
        Err(Refusal::InvalidDefinition { .. }) => None,
        Err(refusal) => return Err(refusal.into()),
    };
    Ok(Json(WorkflowView {
        workflow: workflow.to_string(),
        version,
        format: put.format,
        text: put.text,
        initial: definition.initial().to_owned(),
        states: definition.state_names().map(str::to_owned).collect(),
        retention: retention.map(RetentionView::from),
        put_by: put.actor.id,
        put_at: put.at,
    }))
}

/// Where to go on, and how far.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageParams {
    /// Items of the page: 1 to 1,000 (default 50).
    pub(crate) limit: Option<usize>,
    /// `next_cursor` of an earlier page.
    pub(crate) cursor: Option<String>,
}

/// A workflow in a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct WorkflowItem {
    workflow: String,
    /// The newest version.
    version: i64,
    put_at: DateTime<Utc>,
}

/// One page of workflows.
#[derive(Serialize, ToSchema)]
pub(crate) struct WorkflowList {
    items: Vec<WorkflowItem>,
    next_cursor: Option<String>,
}

/// The workflows, by name.
#[utoipa::path(
    get, path = "/v1/workflows", operation_id = "list_workflows", tag = "workflows",
    params(PageParams),
    responses(
        (status = 200, description = "One page", body = WorkflowList),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    Params(params): Params<PageParams>,
) -> Result<Json<WorkflowList>, Problem> {
    let cursor = params.cursor.filter(|cursor| !cursor.is_empty());
    let page = state.engine.workflows(cursor, page_limit(params.limit)?).await?;
    let item = |(workflow, version, put_at)| WorkflowItem { workflow, version, put_at };
    Ok(Json(WorkflowList { items: page.items.into_iter().map(item).collect(), next_cursor: page.next }))
}
