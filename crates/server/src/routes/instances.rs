//! Instances: start, look, list.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use lockkeeper_engine::InstanceQuery;
use lockkeeper_model::{
    Action, Command, ConflictPolicy, Data, InstanceId, InstanceKey, ReusePolicy, Start, Status, SuccessKind,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::app::AppState;
use crate::auth::{ActorBody, Caller};
use crate::body::{self, Key, Params};
use crate::closed::{ConflictPolicyName, ReusePolicyName, StaleName, StatusName};
use crate::path::{InstancePath, WorkflowPath};
use crate::problem::{Problem, malformed};
use crate::routes::page_limit;
use crate::views::{self, InstanceView, ProblemView, SuccessView};

/// What begins a run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartBody {
    /// The id; none: drawn by the server (for a `request_id`, else under an idempotency key, always the same one).
    id: Option<String>,
    /// The first data.
    #[serde(default)]
    #[schema(value_type = Object)]
    data: Data,
    /// Whether the id may run again after its last run has ended: `allow_duplicate` (the default),
    /// `allow_duplicate_failed_only` (unless that run has completed) or `reject_duplicate`.
    #[schema(value_type = Option<ReusePolicyName>, example = "allow_duplicate")]
    reuse_policy: Option<ReusePolicy>,
    /// What happens while a run of the id has not ended: `fail` (the default; 409 `already_running`), `use_existing` (200
    /// `attached`) or `terminate_existing` (that run is terminated and the new one begins, in one commit; not with
    /// `reject_duplicate`).
    #[schema(value_type = Option<ConflictPolicyName>, example = "fail")]
    conflict_policy: Option<ConflictPolicy>,
    /// Names this start among those of the id, 1 to 256 bytes: sent again under the same name it begins nothing further.
    /// While its run goes on the answer is `started` with that run, afterwards 409 `already_closed`, whatever the policies.
    /// Remembered as long as the run is the id's last one, and for seven days after another has followed it. An
    /// `Idempotency-Key` that has taken effect is answered first.
    request_id: Option<String>,
    /// How long the run may last, 1 to 316224000000 (ten years): then it ends as `timed_out`, wherever it stands.
    #[schema(minimum = 1, maximum = 316_224_000_000_u64)]
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
        (status = 200, description = "`attached`: the run that had not ended", body = SuccessView),
        (status = 201, description = "`started`; by the same request before: with `Idempotency-Replayed: true`",
         body = SuccessView),
        (status = 409, description = "`already_running`, `already_closed`, `conflict`, `lock_timeout`, `key_reused`",
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
    if body.conflict_policy == Some(ConflictPolicy::TerminateExisting) {
        state.gate.past_rules(&caller)?;
    }
    let keyed = key.is_some();
    let drawn = |id: Uuid| InstanceId::new(&id.to_string());
    let id = match (body.id, &body.request_id, &key) {
        (Some(id), ..) => InstanceId::new(&id)?,
        (None, Some(request), _) => drawn(id_of(&REQUEST_NAMESPACE, workflow.as_str(), request))?,
        (None, None, Some(key)) => drawn(id_of(&KEY_NAMESPACE, workflow.as_str(), key))?,
        (None, None, None) => drawn(Uuid::now_v7())?,
    };
    let start = Start {
        run: Uuid::new_v4(),
        data: body.data,
        reuse_policy: body.reuse_policy.unwrap_or_default(),
        conflict_policy: body.conflict_policy.unwrap_or_default(),
        request_id: body.request_id,
        execution_timeout_ms: body.execution_timeout_ms,
    };
    let command = Command {
        instance: InstanceKey { workflow, id },
        action: Action::Start(start),
        actor: caller.actor(body.actor)?,
        idempotency_key: key,
    };
    let location = location(&command.instance);
    let answer = state.engine.send(command, None).await;
    let attached = answer.result.as_ref().is_ok_and(|success| success.outcome == SuccessKind::Attached);
    let status = if attached { StatusCode::OK } else { StatusCode::CREATED };
    let mut response = views::answer(status, answer, keyed)?;
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Ids of starts under an idempotency key.
const KEY_NAMESPACE: Uuid = Uuid::from_u128(0x8c1f_51a2_7a3e_4a0b_9a54_6c6f_636b_6b65);

/// Ids of starts with a `request_id`.
const REQUEST_NAMESPACE: Uuid = Uuid::from_u128(0x3d0e_92b7_1c46_4f5d_8e6a_6c6f_636b_6b65);

/// A start without an id, sent again under the same name, must find the same instance: the id is a UUIDv5 of the name
/// (RFC 9562, section 5.5), the workflow's name making it distinct.
fn id_of(namespace: &Uuid, workflow: &str, name: &str) -> Uuid {
    Uuid::new_v5(namespace, format!("{workflow}/{name}").as_bytes())
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
    #[param(value_type = Option<StaleName>, inline)]
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
    #[param(value_type = Option<StatusName>, inline)]
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
