//! What answers look like.

use axum::Json;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use lockkeeper_engine::{Answer, HistoryItem};
use lockkeeper_model::outcome::Migration;
use lockkeeper_model::{Definition, Entry, Instance, InstanceKey, Kind, Status, Success, Timer};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::approvals::{ApprovalView, HandoverView, OpenApprovalView};
use crate::closed::{OutcomeName, StatusName};
use crate::problem::Problem;

/// A command that succeeded, and where the instance stands since.
#[derive(Serialize, ToSchema)]
pub(crate) struct SuccessView {
    /// `started`, `attached`, `applied`, `already_applied`, `pending_approval`, or `dry_run`: nothing was done.
    #[schema(value_type = OutcomeName, example = "applied")]
    outcome: &'static str,
    id: String,
    run: Uuid,
    version: i64,
    state: String,
    /// `running`, `completed`, `failed`, `canceled`, `terminated` or `timed_out`.
    #[schema(value_type = StatusName, example = "running")]
    status: &'static str,
    /// How far the approval is, with `pending_approval`.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<ApprovalView>,
    /// What a migration did, or would do.
    #[serde(skip_serializing_if = "Option::is_none")]
    migration: Option<MigrationView>,
}

/// What a migration did to a run, or would do.
#[derive(Serialize, ToSchema)]
pub(crate) struct MigrationView {
    from_version: i64,
    to_version: i64,
    from_state: String,
    to_state: String,
    /// Who had voted in the visit: their votes are void.
    votes_dropped: Vec<String>,
    /// Votes that were in other hands: they are their owners' again.
    delegations_dropped: Vec<HandoverView>,
    /// Who had been added, and is asked for no more.
    added_dropped: Vec<String>,
    /// States that `state_map` names and neither version has.
    unknown_states: Vec<String>,
    /// Timers of the visit after it.
    timers: usize,
}

impl From<Migration> for MigrationView {
    fn from(migration: Migration) -> Self {
        Self {
            from_version: migration.from_version,
            to_version: migration.to_version,
            from_state: migration.from_state,
            to_state: migration.to_state,
            votes_dropped: migration.votes_dropped,
            delegations_dropped: migration.delegations_dropped.into_iter().map(HandoverView::from).collect(),
            added_dropped: migration.added_dropped,
            unknown_states: migration.unknown_states,
            timers: migration.timers,
        }
    }
}

/// An instance as last committed.
#[derive(Serialize, ToSchema)]
pub(crate) struct InstanceView {
    workflow: String,
    id: String,
    run: Uuid,
    /// Counts every committed change of the id; never starts again.
    version: i64,
    state: String,
    /// `running`, `completed`, `failed`, `canceled`, `terminated` or `timed_out`.
    #[schema(value_type = StatusName, example = "running")]
    status: &'static str,
    #[schema(value_type = Object)]
    data: Value,
    started_by: String,
    started_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    /// The version of the definition that this run is on.
    definition_version: i64,
    /// Events that may lead on from here, guards aside.
    open_events: Vec<String>,
    /// The approvals of the current state, and how far each is.
    approvals: Vec<OpenApprovalView>,
    /// What happens by itself if the instance stays in its state, in the order in which it is due.
    timers: Vec<TimerView>,
    /// When the run is ended by its execution timeout.
    deadline: Option<DateTime<Utc>>,
}

/// A timer of the current visit.
#[derive(Serialize, ToSchema)]
pub(crate) struct TimerView {
    /// Its time as the definition says it.
    #[schema(example = "72h")]
    after: String,
    /// The state it leads to; none: it stays, or a guard chooses.
    target: Option<String>,
    /// When it fires, by the store's clock.
    due: DateTime<Utc>,
    /// How often it was due and its guard or an assign could not be evaluated; the history says why.
    #[serde(skip_serializing_if = "Option::is_none")]
    failures: Option<u32>,
}

/// One committed change.
#[derive(Serialize, ToSchema)]
pub(crate) struct HistoryView {
    version: i64,
    /// What happened: `start`, `move`, `vote`, `delegate`, `add_approver`, `recall`, `terminate`, `cancel`, `migrate`, `timer` or
    /// `timed_out`; or what a later release has written, by the name that it has there.
    #[schema(value_type = String, example = "move")]
    kind: Kind,
    event: Option<String>,
    /// For `timer`: how long after the state was entered it was due, as the definition says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "72h")]
    after: Option<String>,
    from: Option<String>,
    to: String,
    actor: String,
    roles: Vec<String>,
    /// The token that acted as this actor, where it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<String>,
    /// The actor was believed without a token.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unverified: bool,
    at: DateTime<Utc>,
    run: Uuid,
    definition_version: i64,
    /// The version of the definition before a migration.
    #[serde(skip_serializing_if = "Option::is_none")]
    from_definition_version: Option<i64>,
    /// The idempotency key that the command came with.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The data that was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    data: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Everybody whose vote filled the quorum.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    approved_by: Vec<String>,
    /// Whose votes this has made void: by new data, or by a migration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    votes_dropped: Vec<String>,
    /// Whose vote was cast, where its owner had handed it over.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_behalf_of: Option<String>,
    /// Whom it is about: who got a vote, who was added as an approver; the same where that was taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
}

/// A problem document (RFC 9457); outcomes add fields of their own.
#[derive(Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what crate::problem writes, for the OpenAPI document")]
pub(crate) struct ProblemView {
    /// A page about the code.
    r#type: String,
    title: String,
    status: u16,
    /// What happened, and what to do.
    detail: String,
    /// One page for each in docs/errors.
    #[schema(example = "LK0007")]
    code: String,
    #[schema(example = "state_mismatch")]
    outcome: String,
    /// Whether the very same request may succeed when sent again.
    retryable: bool,
    #[serde(flatten)]
    more: RefusalFields,
}

/// What outcomes tell besides; which of them an outcome has is on its page in docs/errors.
#[derive(Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what crate::problem writes, for the OpenAPI document")]
pub(crate) struct RefusalFields {
    /// Any of these roles would do.
    roles: Option<Vec<String>>,
    workflow: Option<String>,
    id: Option<String>,
    /// The version of a workflow that was asked for.
    version: Option<i64>,
    /// The newest version of it.
    newest: Option<i64>,
    /// Some names that exist.
    known: Option<Vec<String>>,
    /// What is too large, or is not known.
    what: Option<String>,
    limit: Option<u64>,
    /// The state, or the version, that the sender expected.
    expected: Option<Value>,
    /// What it is instead; of what is too large, its size.
    actual: Option<Value>,
    reason: Option<Value>,
    /// How the run has ended.
    run_status: Option<String>,
    run: Option<Uuid>,
    current: Option<Value>,
    attempts: Option<u32>,
    strategy: Option<String>,
    resource: Option<String>,
    fence: Option<i64>,
    last: Option<i64>,
    waited_ms: Option<u64>,
    state: Option<String>,
    states: Option<Value>,
    key: Option<String>,
    guard: Option<Value>,
    expression: Option<Value>,
    name: Option<String>,
    events: Option<Vec<String>>,
    /// What is wrong with a definition, each with its place.
    problems: Option<Vec<Value>>,
    /// Of several moves, the one that was refused.
    failed_index: Option<usize>,
    /// Whether several moves were to take effect together.
    atomic: Option<bool>,
    /// What each of several moves came to.
    results: Option<Vec<Value>>,
    lease: Option<String>,
    /// Since when another has the lock, or had it.
    since: Option<Value>,
    /// Who has the lock, or waits for it first.
    holder: Option<Value>,
    host: Option<Value>,
    /// Whether that one has it.
    holds: Option<bool>,
    waiters: Option<Value>,
    /// Who waits for whom.
    cycle: Option<Value>,
    /// How the lease of this attempt has ended.
    ended: Option<Value>,
}

impl From<Success> for SuccessView {
    fn from(success: Success) -> Self {
        Self {
            outcome: outcome_name(&success),
            id: success.id,
            run: success.run,
            version: success.version,
            state: success.state,
            status: success.status.as_str(),
            migration: success.migration.map(|migration| MigrationView::from(*migration)),
            approval: success.approval.map(|approval| ApprovalView::from(*approval)),
        }
    }
}

impl SuccessView {
    /// What a command would be answered that was not carried out.
    pub(crate) fn rehearsed(success: Success) -> Self {
        let changes = success.migration.is_some();
        let view = Self::from(success);
        if changes { Self { outcome: "dry_run", ..view } } else { view }
    }
}

fn outcome_name(success: &Success) -> &'static str {
    use lockkeeper_model::SuccessKind;
    match success.outcome {
        SuccessKind::Started => "started",
        SuccessKind::Attached => "attached",
        SuccessKind::Applied => "applied",
        SuccessKind::AlreadyApplied => "already_applied",
        SuccessKind::PendingApproval => "pending_approval",
    }
}

impl InstanceView {
    pub(crate) fn new(key: &InstanceKey, instance: &Instance, definition: &Definition) -> Self {
        let open_events = match instance.status {
            Status::Running => definition.open_events(&instance.state).into_iter().map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        Self {
            workflow: key.workflow.to_string(),
            id: key.id.to_string(),
            run: instance.run,
            version: instance.version,
            state: instance.state.clone(),
            status: instance.status.as_str(),
            data: Value::Object((*instance.data).clone()),
            started_by: instance.started_by.clone(),
            started_at: instance.started_at,
            updated_at: instance.updated_at,
            definition_version: instance.definition_version,
            open_events,
            approvals: definition.approvals(&key.id, instance).into_iter().map(OpenApprovalView::from).collect(),
            timers: instance.timers.iter().map(|timer| timer_view(instance, timer, definition)).collect(),
            deadline: instance.deadline,
        }
    }
}

fn timer_view(instance: &Instance, timer: &Timer, definition: &Definition) -> TimerView {
    let (after, target) = definition.timer(instance, timer).unwrap_or(("?", None));
    TimerView {
        after: after.to_owned(),
        target: target.map(str::to_owned),
        due: timer.due,
        failures: Some(timer.failures).filter(|failures| *failures > 0),
    }
}

impl From<HistoryItem> for HistoryView {
    fn from(item: HistoryItem) -> Self {
        let Entry {
            kind,
            event,
            from,
            to,
            actor,
            at,
            run,
            definition_version,
            from_definition_version,
            key,
            after,
            data,
            reason,
            approved_by,
            votes_dropped,
            on_behalf_of,
            subject,
        } = item.entry;
        Self {
            version: item.version,
            kind,
            event,
            after,
            from,
            to,
            actor: actor.id,
            roles: actor.roles,
            via: actor.via,
            unverified: !actor.verified,
            at,
            run,
            definition_version,
            from_definition_version,
            key,
            data: (!data.is_empty()).then_some(Value::Object(data)),
            reason,
            approved_by,
            votes_dropped,
            on_behalf_of,
            subject,
        }
    }
}

/// The answer to a command: `status` where it succeeded, the refusal's own where not. `keyed`: it came with an
/// idempotency key, so that it may be sent again even where its fate is unknown.
pub(crate) fn answer(status: StatusCode, answer: Answer, keyed: bool) -> Result<Response, Problem> {
    let success = answer.result.map_err(|refusal| Problem::of_command(refusal, keyed))?;
    let mut response = (status, Json(SuccessView::from(success))).into_response();
    mark_replayed(&mut response, answer.replayed);
    Ok(response)
}

/// Tells that an answer is the first outcome again.
pub(crate) fn mark_replayed(response: &mut Response, replayed: bool) {
    if replayed {
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
}
