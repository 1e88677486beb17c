//! Ending a run from outside the definition: terminate and cancel.

use super::{Change, malformed, next_version, success};
use crate::command::Close;
use crate::instance::Status;
use crate::limits::REASON_BYTES_MAX;
use crate::outcome::{MismatchReason, SuccessKind};
use crate::{Command, Data, Entry, Instance, Kind, Refusal, Timestamp};

/// Ends the run with `status`. The state stays what it was.
pub(super) fn close(
    current: &Instance,
    command: &Command,
    close: &Close,
    now: Timestamp,
    status: Status,
    kind: Kind,
) -> Result<Change, Refusal> {
    check_reason(&close.reason, "the run is ended")?;
    check_run(current, close.run)?;
    if current.status.is_closed() {
        return Err(Refusal::AlreadyClosed { run: current.run, status: current.status });
    }
    let mut instance = Instance {
        version: next_version(current.version)?,
        status,
        updated_at: now,
        deadline: None,
        ..current.clone()
    };
    instance.end_visit();
    let entry = Entry {
        kind,
        event: None,
        from: Some(current.state.clone()),
        to: current.state.clone(),
        actor: command.actor.clone(),
        at: now,
        run: current.run,
        definition_version: current.definition_version,
        from_definition_version: None,
        key: command.idempotency_key.clone(),
        after: None,
        data: Data::new(),
        reason: Some(close.reason.clone()),
        approved_by: Vec::new(),
        votes_dropped: Vec::new(),
        on_behalf_of: None,
        subject: None,
    };
    let success = success(command, &instance, SuccessKind::Applied);
    Ok(Change { instance, entry, success })
}

/// Refuses a reason that is none, or too long; `what` it is to explain.
pub(super) fn check_reason(reason: &str, what: &str) -> Result<(), Refusal> {
    if reason.trim().is_empty() {
        return Err(malformed(format!("a reason is needed: write why {what}")));
    }
    if reason.len() > REASON_BYTES_MAX {
        let bytes = reason.len();
        return Err(malformed(format!("the reason has {bytes} bytes; at most {REASON_BYTES_MAX} are allowed")));
    }
    Ok(())
}

/// Refuses a command that means another run.
pub(super) fn check_run(current: &Instance, run: Option<uuid::Uuid>) -> Result<(), Refusal> {
    match run {
        Some(run) if run != current.run => Err(Refusal::StateMismatch {
            expected: run.to_string(),
            actual: current.run.to_string(),
            reason: MismatchReason::Run,
            ended: None,
        }),
        _ => Ok(()),
    }
}
