//! The one judge.

mod acts;
mod close;
mod data;
mod fire;
mod migrate;
mod send;
mod start;
mod visit;

use crate::command::{Action, Close};
use crate::definition::machine::{Machine, State, Transition};
use crate::expression::{Expression, Scope};
use crate::instance::{Status, Vote};
use crate::outcome::SuccessKind;
use crate::{Command, Data, Definition, EndedRun, Entry, Instance, Kind, Refusal, Success, Timestamp};

/// What a command comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The record changes by exactly one version.
    Change(Box<Change>),
    /// The record changes by two versions at once: one run ends and the next one begins.
    Replace {
        /// The end of the run; what it answers nobody has asked for.
        ended: Box<Change>,
        /// The start of the next, with the answer.
        started: Box<Change>,
    },
    /// Success without a change: `already_applied`, or a vote that was counted before.
    Stay(Success),
}

/// One version of an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The instance after the change.
    pub instance: Instance,
    /// What the history says of it.
    pub entry: Entry,
    /// The answer, once it is committed.
    pub success: Success,
}

/// What a command is judged by, beside the instance itself.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The version of the definition that the run is on, and for a start the version that it shall be on.
    pub definition: &'a Definition,
    /// The run that a start's `request_id` began and that is no longer the current one, if there is such a run.
    pub begun_before: Option<EndedRun>,
    /// The version of the definition that a migration leads to.
    pub target: Option<&'a Definition>,
}

impl<'a> From<&'a Definition> for Known<'a> {
    fn from(definition: &'a Definition) -> Self {
        Self { definition, begun_before: None, target: None }
    }
}

/// Judges one command on one instance at one instant: the same arguments always give the same decision.
///
/// `current` is the instance as it is, open or closed; none: the id has never been used. As a rule a definition is all
/// that has to be `known`.
///
/// # Errors
/// A [`Refusal`]; the instance is as it was.
pub fn decide<'a>(
    known: impl Into<Known<'a>>,
    current: Option<&Instance>,
    command: &Command,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let known = known.into();
    let definition = known.definition;
    match &command.action {
        Action::Start(start) => start::start(&known, current, command, start, now),
        Action::Send(send) => send::send(definition, existing(current)?, command, send, now),
        Action::Terminate(close) => closing(current, command, close, now, Status::Terminated, Kind::Terminate),
        Action::Cancel(close) => closing(current, command, close, now, Status::Canceled, Kind::Cancel),
        Action::Migrate(migrate) => migrate::migrate(&known, existing(current)?, command, migrate, now),
        Action::Fire(fire) => fire::fire(definition, existing(current)?, command, fire, now),
    }
}

fn closing(
    current: Option<&Instance>,
    command: &Command,
    close: &Close,
    now: Timestamp,
    status: Status,
    kind: Kind,
) -> Result<Decision, Refusal> {
    let change = close::close(existing(current)?, command, close, now, status, kind)?;
    Ok(Decision::Change(Box::new(change)))
}

fn existing(current: Option<&Instance>) -> Result<&Instance, Refusal> {
    current.ok_or_else(|| malformed("the instance does not exist: start it first"))
}

fn malformed(detail: impl Into<String>) -> Refusal {
    Refusal::Malformed { detail: detail.into() }
}

/// The version after `version`.
fn next_version(version: i64) -> Result<i64, Refusal> {
    version.checked_add(1).ok_or_else(|| malformed("the version counter of this id is exhausted: use another id"))
}

/// Whose votes these are, each hand once.
fn hands<'v>(votes: impl IntoIterator<Item = &'v Vote>) -> Vec<String> {
    let mut hands: Vec<String> = Vec::new();
    for vote in votes {
        if !hands.contains(&vote.actor) {
            hands.push(vote.actor.clone());
        }
    }
    hands
}

/// The status of a run that is in `state`.
fn status_in(state: &State) -> Status {
    state.ends_as.unwrap_or(Status::Running)
}

/// Begins a visit of the state at `target`: whatever belonged to the one before ends with it, also if it is the same state.
/// How it was entered is the caller's to say.
fn enter(instance: &mut Instance, machine: &Machine, target: usize, now: Timestamp) {
    let state = &machine.states[target];
    let left = std::mem::replace(&mut instance.state, state.name.clone());
    instance.status = status_in(state);
    instance.end_visit();
    instance.timers = state.timers(now);
    if instance.status.is_closed() {
        instance.deadline = None;
    }
    // What is known only from somewhere on would lead back to what comes later.
    if !(instance.path_known || machine.has_returns()) {
        instance.path.clear();
        let begins = left == machine.states[machine.initial].name;
        if !begins {
            instance.path_known = target == machine.initial;
            return;
        }
    }
    instance.path_known = true;
    if target == machine.initial {
        // Where every run begins, none has passed anything.
        instance.path.clear();
        return;
    }
    if left != instance.state {
        instance.path.push(left);
    }
    // The way here, without its loops: as long as there are states, at most.
    if let Some(at) = instance.path.iter().position(|passed| *passed == instance.state) {
        instance.path.truncate(at);
    }
}

/// The data after the transition's assigns, all of which see the data before; none where nothing is assigned.
fn assigned(machine: &Machine, transition: &Transition, scope: &Scope<'_>) -> Result<Option<Data>, Refusal> {
    if transition.assigns.is_empty() {
        return Ok(None);
    }
    let evaluate = |(field, expression): &(String, Expression)| match expression.evaluate(scope) {
        Ok(value) => Ok((field.clone(), value)),
        Err(detail) => Err(guard_error(expression, detail)),
    };
    let values: Vec<_> = transition.assigns.iter().map(evaluate).collect::<Result<_, _>>()?;
    let mut data = scope.data.clone();
    data.extend(values);
    data::check_kept("the data after this event", &data)?;
    let Some(schema) = machine.schema() else { return Ok(Some(data)) };
    schema.check(data).map(Some).map_err(|wrong| Refusal::GuardError {
        expression: transition
            .assigns
            .iter()
            .map(|(field, value)| format!("{field}: {}", value.text()))
            .collect::<Vec<_>>()
            .join(", "),
        detail: format!("the data after this event is not as the workflow's schema has it: {wrong}"),
    })
}

fn guard_error(expression: &Expression, detail: String) -> Refusal {
    Refusal::GuardError { expression: expression.text().to_owned(), detail }
}

/// The answer about `instance` as it stands.
fn success(command: &Command, instance: &Instance, outcome: SuccessKind) -> Success {
    Success {
        outcome,
        id: command.instance.id.as_str().to_owned(),
        run: instance.run,
        version: instance.version,
        state: instance.state.clone(),
        status: instance.status,
        approval: None,
        migration: None,
    }
}
