//! Beginning a run: whether an id may run, or run again, and which run a retried start has begun already.

use std::sync::Arc;
use std::time::Duration;

use super::data::check_sent;
use super::{Change, Decision, Known, close, malformed, next_version, status_in, success};
use crate::command::{Close, Start};
use crate::duration;
use crate::instance::Entered;
use crate::limits::{REQUEST_ID_BYTES_MAX, TIMER_MAX};
use crate::names::check_text;
use crate::outcome::SuccessKind;
use crate::{Command, ConflictPolicy, Entry, Instance, Kind, Refusal, ReusePolicy, Status, Timestamp};

/// A new run, as far as the policies allow it. The version goes on from the last run's.
///
/// The order is part of the contract: what cannot be understood at all, then whether this very request has begun a run
/// before, then the policies.
pub(super) fn start(
    known: &Known<'_>,
    current: Option<&Instance>,
    command: &Command,
    start: &Start,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    check(start)?;
    let Some(current) = current else { return begin(known, 0, command, start, now).map(Decision::Change) };
    if start.request_id.is_some() && start.request_id == current.request_id {
        return begun_already(current, command);
    }
    if let Some(ended) = known.begun_before {
        return Err(Refusal::AlreadyClosed { run: ended.run, status: ended.status });
    }
    if !current.status.is_closed() {
        return beside(known, current, command, start, now);
    }
    match start.reuse_policy {
        ReusePolicy::AllowDuplicateFailedOnly if current.status == Status::Completed => Err(closed(current)),
        ReusePolicy::RejectDuplicate => Err(closed(current)),
        ReusePolicy::AllowDuplicate | ReusePolicy::AllowDuplicateFailedOnly => {
            begin(known, current.version, command, start, now).map(Decision::Change)
        }
    }
}

/// Refuses what would be wrong on every instance.
fn check(start: &Start) -> Result<(), Refusal> {
    if start.reuse_policy == ReusePolicy::RejectDuplicate && start.conflict_policy == ConflictPolicy::TerminateExisting
    {
        return Err(malformed(
            "`reuse_policy: reject_duplicate` with `conflict_policy: terminate_existing` makes no sense: the id may not run \
             again, so there is no run to terminate one for; write `conflict_policy: fail` or `use_existing`, or \
             `reuse_policy: allow_duplicate`",
        ));
    }
    if let Some(request) = &start.request_id {
        check_text("request_id", request, REQUEST_ID_BYTES_MAX).map_err(|error| malformed(error.to_string()))?;
    }
    check_timeout(start)?;
    check_sent("data", &start.data)
}

/// The answer to a start that has begun the current run: that run, or that it is over. A retry must not begin another.
fn begun_already(current: &Instance, command: &Command) -> Result<Decision, Refusal> {
    match current.status {
        Status::Running => Ok(Decision::Stay(success(command, current, SuccessKind::Started))),
        _ => Err(closed(current)),
    }
}

/// A start while another run is going on.
fn beside(
    known: &Known<'_>,
    current: &Instance,
    command: &Command,
    start: &Start,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    match start.conflict_policy {
        ConflictPolicy::Fail => Err(Refusal::AlreadyRunning { run: current.run }),
        ConflictPolicy::UseExisting => Ok(Decision::Stay(success(command, current, SuccessKind::Attached))),
        ConflictPolicy::TerminateExisting => {
            let reason = format!("run {} was started in its place (terminate_existing)", start.run);
            let mut ended =
                close::close(current, command, &Close { run: None, reason }, now, Status::Terminated, Kind::Terminate)?;
            // The key is that of the start.
            ended.entry.key = None;
            let started = begin(known, ended.instance.version, command, start, now)?;
            Ok(Decision::Replace { ended: Box::new(ended), started })
        }
    }
}

fn closed(current: &Instance) -> Refusal {
    Refusal::AlreadyClosed { run: current.run, status: current.status }
}

/// The run as it begins, on an id that is at version `decided_on`.
fn begin(
    known: &Known<'_>,
    decided_on: i64,
    command: &Command,
    start: &Start,
    now: Timestamp,
) -> Result<Box<Change>, Refusal> {
    let definition = known.definition;
    let machine = definition.machine();
    let data = match machine.schema() {
        Some(schema) => schema
            .check(start.data.clone())
            .map_err(|wrong| malformed(format!("the data is not as the workflow's schema has it: {wrong}")))?,
        None => start.data.clone(),
    };
    let state = &machine.states[machine.initial];
    let status = status_in(state);
    let instance = Instance {
        version: next_version(decided_on)?,
        run: start.run,
        definition_version: definition.version(),
        state: state.name.clone(),
        status,
        data: Arc::new(data),
        started_by: command.actor.id.clone(),
        started_at: now,
        updated_at: now,
        entered: Entered { event: None, from: None, decided_on, at: Some(now) },
        votes: Vec::new(),
        delegations: Vec::new(),
        additions: Vec::new(),
        path: Vec::new(),
        path_known: true,
        undo: None,
        timers: state.timers(now),
        fired: Vec::new(),
        deadline: deadline(start, now).filter(|_| !status.is_closed()),
        request_id: start.request_id.clone(),
    };
    let entry = Entry {
        kind: Kind::Start,
        event: None,
        from: None,
        to: state.name.clone(),
        actor: command.actor.clone(),
        at: now,
        run: start.run,
        definition_version: definition.version(),
        from_definition_version: None,
        key: command.idempotency_key.clone(),
        after: None,
        data: start.data.clone(),
        reason: None,
        approved_by: Vec::new(),
        votes_dropped: Vec::new(),
        on_behalf_of: None,
        subject: None,
    };
    let success = success(command, &instance, SuccessKind::Started);
    Ok(Box::new(Change { instance, entry, success }))
}

/// Refuses an execution timeout of no sense.
fn check_timeout(start: &Start) -> Result<(), Refusal> {
    match start.execution_timeout_ms {
        Some(ms) if ms == 0 || u128::from(ms) > TIMER_MAX.as_millis() => {
            let most = TIMER_MAX.as_millis();
            Err(malformed(format!(
                "`execution_timeout_ms` is {ms}; at least 1 and at most {most} (ten years) are allowed"
            )))
        }
        _ => Ok(()),
    }
}

/// When the run is ended at the latest.
fn deadline(start: &Start, now: Timestamp) -> Option<Timestamp> {
    start.execution_timeout_ms.map(|ms| duration::after(now, Duration::from_millis(ms)))
}
