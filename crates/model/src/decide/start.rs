//! Beginning a run.

use std::sync::Arc;

use super::data::check_sent;
use super::{Change, Decision, next_version, status_in, success};
use crate::command::Start;
use crate::instance::Entered;
use crate::outcome::SuccessKind;
use crate::{Command, Definition, Entry, Instance, Kind, Refusal, Timestamp};

/// A new run, where none is running. The version goes on from the last run's.
pub(super) fn start(
    definition: &Definition,
    current: Option<&Instance>,
    command: &Command,
    start: &Start,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    if let Some(running) = current.filter(|instance| !instance.status.is_closed()) {
        return Err(Refusal::AlreadyRunning { run: running.run });
    }
    check_sent("data", &start.data)?;
    let decided_on = current.map_or(0, |instance| instance.version);
    let machine = definition.machine();
    let state = &machine.states[machine.initial];
    let instance = Instance {
        version: next_version(decided_on)?,
        run: start.run,
        definition_version: definition.version(),
        state: state.name.clone(),
        status: status_in(state),
        data: Arc::new(start.data.clone()),
        started_by: command.actor.id.clone(),
        started_at: now,
        updated_at: now,
        entered: Entered { event: None, from: None, decided_on },
        votes: Vec::new(),
        delegations: Vec::new(),
        additions: Vec::new(),
        path: Vec::new(),
        undo: None,
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
        key: command.idempotency_key.clone(),
        data: start.data.clone(),
        reason: None,
        approved_by: Vec::new(),
        on_behalf_of: None,
        subject: None,
    };
    let success = success(command, &instance, SuccessKind::Started);
    Ok(Decision::Change(Box::new(Change { instance, entry, success })))
}
