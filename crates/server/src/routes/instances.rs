//! Instances: start, look, list.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use lockkeeper_engine::InstanceQuery;
use lockkeeper_model::{Action, Command, Data, InstanceId, InstanceKey, Start, Status};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::app::AppState;
use crate::auth::{ActorBody, Caller};
use crate::body::{self, Key, Params};
use crate::path::{InstancePath, WorkflowPath};
use crate::problem::{Problem, malformed};
use crate::routes::{not_built, page_limit};
use crate::views::{self, InstanceView, ProblemView, SuccessView};

/// What begins a run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartBody {
    /// The id; none: drawn by the server (under an idempotency key always the same one).
    id: Option<String>,
    /// The first data.
    #[serde(default)]
    #[schema(value_type = Object)]
    data: Data,
    /// Only `allow_duplicate` in this version: an id that has ended may run again.
    #[schema(example = "allow_duplicate")]
    reuse_policy: Option<String>,
    /// Only `fail` in this version: an id that is running is refused.
    #[schema(example = "fail")]
    conflict_policy: Option<String>,
    /// Not in this version.
    request_id: Option<String>,
    /// Not in this version.
    execution_timeout_ms: Option<u64>,
    /// Who acts, where it is not the token's principal.
    actor: Option<ActorBody>,
}

/// Begins a run.
#[utoipa::path(
    post, path = "/v1/workflows/{workflow}/instances", operation_id = "start_instance", tag = "instances",
    params(
        ("workflow" = String, Path, description = "[a-z][a-z0-9_-]{0,63}"),
        ("Idempotency-Key" = Option<String>, Header, description = "Sent again with the same key, a start takes effect once")
    ),
    request_body = StartBody,
    responses(
        (status = 201, description = "`started`", body = SuccessView),
        (status = 409, description = "`already_running`, `conflict`, `lock_timeout`, `key_reused`",
         body = ProblemView, content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn start(
    State(state): State<AppState>,
    caller: Caller,
    WorkflowPath(workflow): WorkflowPath,
    Key(key): Key,
    body::Json(body): body::Json<StartBody>,
) -> Result<Response, Problem> {
    only("reuse_policy", body.reuse_policy.as_deref(), "allow_duplicate")?;
    only("conflict_policy", body.conflict_policy.as_deref(), "fail")?;
    not_built("request_id", body.request_id.is_some())?;
    not_built("execution_timeout_ms", body.execution_timeout_ms.is_some())?;
    let keyed = key.is_some();
    let id = match (body.id, &key) {
        (Some(id), _) => InstanceId::new(&id)?,
        (None, Some(key)) => InstanceId::new(&id_under_key(workflow.as_str(), key).to_string())?,
        (None, None) => InstanceId::new(&Uuid::now_v7().to_string())?,
    };
    let command = Command {
        instance: InstanceKey { workflow, id },
        action: Action::Start(Start { run: Uuid::new_v4(), data: body.data }),
        actor: caller.actor(body.actor)?,
        idempotency_key: key,
    };
    let location = location(&command.instance);
    let mut response = views::answer(StatusCode::CREATED, state.engine.send(command, None).await, keyed)?;
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

fn only(field: &str, given: Option<&str>, built: &str) -> Result<(), Problem> {
    match given {
        Some(value) if value != built => {
            Err(malformed(format!("`{field}`: only `{built}` is in this version, not {value:?}")))
        }
        _ => Ok(()),
    }
}

/// A start without an id, sent again under the same key, must find the same instance: the id is a UUIDv5 of the key
/// (RFC 9562, section 5.5), the workflow's name making it distinct.
fn id_under_key(workflow: &str, key: &str) -> Uuid {
    const NAMESPACE: Uuid = Uuid::from_u128(0x8c1f_51a2_7a3e_4a0b_9a54_6c6f_636b_6b65);
    Uuid::new_v5(&NAMESPACE, format!("{workflow}/{key}").as_bytes())
}

fn location(key: &InstanceKey) -> String {
    let mut location = format!("/v1/workflows/{}/instances/", key.workflow);
    for byte in key.id.as_str().bytes() {
        // RFC 3986, section 2.3: unreserved characters stand for themselves.
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => location.push(char::from(byte)),
            _ => location.push_str(&format!("%{byte:02X}")),
        }
    }
    location
}

/// How current the answer must be.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StaleParams {
    /// `ok`: what this node saw last will do.
    stale: Option<String>,
}

/// An instance as last committed.
#[utoipa::path(
    get, path = "/v1/workflows/{workflow}/instances/{id}", operation_id = "get_instance", tag = "instances",
    params(
        ("workflow" = String, Path, description = "[a-z][a-z0-9_-]{0,63}"),
        ("id" = String, Path, description = "The instance's id, percent-encoded"),
        StaleParams
    ),
    responses(
        (status = 200, description = "The instance", body = InstanceView),
        (status = 404, description = "`unknown_workflow`, `unknown_instance`; some known are named",
         body = ProblemView, content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    InstancePath(key): InstancePath,
    Params(params): Params<StaleParams>,
) -> Result<Json<InstanceView>, Problem> {
    let stale_ok = match params.stale.as_deref() {
        None => false,
        Some("ok") => true,
        Some(other) => return Err(malformed(format!("stale is {other:?}; only `ok` is allowed"))),
    };
    let instance = state.engine.instance(&key, stale_ok).await?;
    let definition = state.engine.definition_of(&key.workflow, instance.definition_version).await?;
    Ok(Json(InstanceView::new(&key, &instance, &definition)))
}

/// Which instances.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Only those in this state.
    state: Option<String>,
    /// Only those of this status.
    #[param(value_type = Option<String>)]
    status: Option<Status>,
    /// Only those whose id contains this.
    q: Option<String>,
    /// Items of the page: 1 to 1,000 (default 50). A search may give fewer and still have a `next_cursor`.
    limit: Option<usize>,
    /// `next_cursor` of an earlier page.
    cursor: Option<String>,
}

/// One page of instances.
#[derive(Serialize, ToSchema)]
pub(crate) struct InstanceList {
    items: Vec<InstanceView>,
    next_cursor: Option<String>,
}

/// Instances of a workflow, newest first.
#[utoipa::path(
    get, path = "/v1/workflows/{workflow}/instances", operation_id = "list_instances", tag = "instances",
    params(("workflow" = String, Path, description = "[a-z][a-z0-9_-]{0,63}"), ListParams),
    responses(
        (status = 200, description = "One page", body = InstanceList),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    WorkflowPath(workflow): WorkflowPath,
    Params(params): Params<ListParams>,
) -> Result<Json<InstanceList>, Problem> {
    let query = InstanceQuery {
        state: params.state,
        status: params.status.map(|status| status.as_str().to_owned()),
        contains: params.q.filter(|q| !q.is_empty()),
        cursor: params.cursor.filter(|cursor| !cursor.is_empty()),
        limit: page_limit(params.limit)?,
    };
    let page = state.engine.instances(&workflow, query).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for (id, instance) in page.items {
        let key = InstanceKey { workflow: workflow.clone(), id: InstanceId::new(&id)? };
        let definition = state.engine.definition_of(&workflow, instance.definition_version).await?;
        items.push(InstanceView::new(&key, &instance, &definition));
    }
    Ok(Json(InstanceList { items, next_cursor: page.next }))
}
