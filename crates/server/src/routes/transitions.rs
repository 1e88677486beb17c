//! Moves of several instances.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use lockkeeper_engine::limits::MOVES_MAX;
use lockkeeper_engine::{Answer, AtomicFailure};
use lockkeeper_model::{Command, InstanceKey, Refusal};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use utoipa::ToSchema;

use crate::app::AppState;
use crate::auth::Caller;
use crate::body::{self, Key};
use crate::problem::{self, Problem, malformed};
use crate::routes::events::EventBody;
use crate::views::{ProblemView, SuccessView, mark_replayed};

/// Several moves.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TransitionsBody {
    /// All or nothing (the default), or each for itself.
    #[serde(default = "yes")]
    atomic: bool,
    /// 1 to 100 moves, each `{workflow, id}` with the fields of an event. No instance may be named twice.
    #[schema(value_type = Vec<Object>)]
    moves: Vec<Map<String, Value>>,
    /// How long the sender waits for the answer, in milliseconds: at most 30,000 (the default).
    wait_ms: Option<u64>,
}

fn yes() -> bool {
    true
}

/// What came of the moves.
#[derive(Serialize, ToSchema)]
pub(crate) struct TransitionsView {
    atomic: bool,
    /// In the order of the request: what an event would be answered, with `workflow` and `id`; a refused move's
    /// problem document carries its `status`.
    #[schema(value_type = Vec<Object>)]
    results: Vec<Value>,
    /// The first move that was refused.
    failed_index: Option<usize>,
}

/// Sends events to several instances, all or nothing or each for itself.
///
/// Atomic: a vote short of its quorum counts as not applied, and nothing is recorded. An idempotency key stands for the
/// whole request.
#[utoipa::path(
    post, path = "/v1/transitions", operation_id = "send_transitions", tag = "instances",
    params(("Idempotency-Key" = Option<String>, Header, description = "Sent again with the same key, the moves take effect once")),
    request_body = TransitionsBody,
    responses(
        (status = 200, description = "Atomic: all took effect. Otherwise: each result says", body = TransitionsView),
        (status = 409, description = "Atomic: none took effect; `failed_index` and `results` say why",
         body = ProblemView, content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn send(
    State(state): State<AppState>,
    caller: Caller,
    Key(key): Key,
    body::Json(body): body::Json<TransitionsBody>,
) -> Result<Response, Problem> {
    if body.moves.is_empty() || body.moves.len() > MOVES_MAX {
        return Err(malformed(format!("{} moves are given; 1 to {MOVES_MAX} are allowed", body.moves.len())));
    }
    let wait = body.wait_ms.map(Duration::from_millis);
    let mut commands = Vec::with_capacity(body.moves.len());
    for (index, one) in body.moves.into_iter().enumerate() {
        let command = command(one, &caller, key.clone());
        commands.push(command.map_err(|problem| at_index(problem, index))?);
    }
    named_once(&commands)?;
    if body.atomic { atomic(&state, commands, wait).await } else { each(&state, commands, wait).await }
}

fn command(mut one: Map<String, Value>, caller: &Caller, key: Option<String>) -> Result<Command, Problem> {
    let mut text = |field: &str| match one.remove(field) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(malformed(format!("a move needs `{field}`, a string"))),
    };
    let instance = InstanceKey::new(&text("workflow")?, &text("id")?)?;
    let event: EventBody = serde_json::from_value(Value::Object(one))
        .map_err(|error| malformed(format!("the move is not as expected: {error}")))?;
    let (command, wait) = event.command(instance, caller, key)?;
    if wait.is_some() {
        return Err(malformed("`wait_ms` belongs to the request, not to a move"));
    }
    Ok(command)
}

fn at_index(problem: Problem, index: usize) -> Problem {
    match problem {
        Problem::Refused(refusal) => {
            Problem::Detailed(refusal, Map::from_iter([("failed_index".to_owned(), json!(index))]))
        }
        other => other,
    }
}

fn named_once(commands: &[Command]) -> Result<(), Problem> {
    let mut keys: Vec<_> = commands.iter().map(|command| &command.instance).collect();
    keys.sort_unstable();
    match keys.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(malformed(format!("{} is named twice; an instance may be named once", twice[0]))),
        None => Ok(()),
    }
}

async fn atomic(state: &AppState, commands: Vec<Command>, wait: Option<Duration>) -> Result<Response, Problem> {
    let keys: Vec<InstanceKey> = commands.iter().map(|command| command.instance.clone()).collect();
    match state.engine.send_atomic(commands, wait).await {
        Ok(answer) => {
            let results = keys.iter().zip(answer.successes);
            let results = results.map(|(key, success)| result(key, Ok(success))).collect();
            let view = TransitionsView { atomic: true, results, failed_index: None };
            let mut response = Json(view).into_response();
            mark_replayed(&mut response, answer.replayed);
            Ok(response)
        }
        Err(AtomicFailure { failed_index, refusal }) => {
            let others = Refusal::NotApplied { detail: "another move of the request could not be".to_owned() };
            let results: Vec<Value> = keys
                .iter()
                .enumerate()
                .map(|(place, key)| {
                    let one = if failed_index.is_none_or(|failed| failed == place) { &refusal } else { &others };
                    result(key, Err(one.clone()))
                })
                .collect();
            let more = json!({ "atomic": true, "failed_index": failed_index, "results": results });
            let Value::Object(more) = more else { return Err(refusal.into()) };
            Err(Problem::Detailed(refusal, more))
        }
    }
}

async fn each(state: &AppState, commands: Vec<Command>, wait: Option<Duration>) -> Result<Response, Problem> {
    let keys: Vec<InstanceKey> = commands.iter().map(|command| command.instance.clone()).collect();
    // Dropped with the request: then the commands not yet committed are taken back.
    let mut sending = JoinSet::new();
    for (place, command) in commands.into_iter().enumerate() {
        let engine = state.engine.clone();
        sending.spawn(async move { (place, engine.send(command, wait).await) });
    }
    let mut answers: Vec<Option<Answer>> = keys.iter().map(|_| None).collect();
    while let Some(joined) = sending.join_next().await {
        if let Ok((place, answer)) = joined {
            answers[place] = Some(answer);
        }
    }
    let lost = || Refusal::Unknown { detail: "the node stopped working on it; read the history".to_owned() };
    let answers = answers.into_iter().map(|answer| answer.unwrap_or_else(|| lost().into()));
    let answers: Vec<Answer> = answers.collect();
    let failed_index = answers.iter().position(|answer| answer.result.is_err());
    let results = keys.iter().zip(answers).map(|(key, answer)| {
        let mut one = result(key, answer.result);
        // The header would speak for all of them.
        if answer.replayed
            && let Value::Object(fields) = &mut one
        {
            fields.insert("replayed".to_owned(), json!(true));
        }
        one
    });
    let results = results.collect();
    Ok(Json(TransitionsView { atomic: false, results, failed_index }).into_response())
}

/// One move's result, naming its instance.
fn result(key: &InstanceKey, result: Result<lockkeeper_model::Success, Refusal>) -> Value {
    let mut value = match result {
        Ok(success) => json!(SuccessView::from(success)),
        Err(refusal) => Value::Object(problem::document(&refusal)),
    };
    if let Value::Object(fields) = &mut value {
        fields.insert("workflow".to_owned(), json!(key.workflow));
        fields.insert("id".to_owned(), json!(key.id));
    }
    value
}
