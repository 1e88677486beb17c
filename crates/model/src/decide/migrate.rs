//! Moving a run to another version of its definition.
//!
//! The run goes on in the state of the same name, or in the one that the sender maps it to. It is no way around a rule: it
//! ends no run, and a map leads past no approval. Whoever may migrate is the door's to say; who did is in the history.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::close::{check_reason, check_run};
use super::{Change, Decision, Known, enter, hands, malformed, next_version, success};
use crate::command::Migrate;
use crate::definition::machine::{Machine, State, Transition};
use crate::instance::{Delegation, Entered, Timer};
use crate::limits::STATES_MAX;
use crate::outcome::{Handover, Migration, SuccessKind};
use crate::{Command, Data, Definition, Entry, Instance, Kind, Refusal, Timestamp};

/// Judges `migrate` on `current`.
pub(super) fn migrate(
    known: &Known<'_>,
    current: &Instance,
    command: &Command,
    migrate: &Migrate,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    check_reason(&migrate.reason, "the run is moved to another version")?;
    if migrate.state_map.len() > STATES_MAX {
        return Err(malformed(format!("`state_map` has more than {STATES_MAX} states")));
    }
    check_run(current, migrate.run)?;
    if current.status.is_closed() {
        return Err(Refusal::AlreadyClosed { run: current.run, status: current.status });
    }
    let (old, new) = (known.definition, known.target.ok_or_else(|| malformed("name the version to move to"))?);
    if new.version() == current.definition_version {
        return Ok(Decision::Stay(success(command, current, SuccessKind::AlreadyApplied)));
    }
    let at = destination(old, new, current, migrate)?;
    let state = &new.machine().states[at];
    let data = fitting(new, current)?;
    let mut instance = Instance { version: next_version(current.version)?, updated_at: now, ..current.clone() };
    instance.definition_version = new.version();
    instance.data = data;
    let votes_dropped = hands(&std::mem::take(&mut instance.votes));
    // What else was done about the approvals of the old version says nothing of the new one's.
    let handover = |given: Delegation| Handover { from: given.from, to: given.to };
    let delegations_dropped = instance.delegations.drain(..).map(handover).collect();
    let added_dropped = instance.additions.drain(..).map(|addition| addition.id).collect();
    instance.undo = None;
    if state.name == current.state {
        instance.fired = fired(old, current);
        instance.timers = timers_going_on(state, current, &instance.fired);
    } else {
        enter(&mut instance, new.machine(), at, now);
        instance.entered = Entered { event: None, from: None, decided_on: current.version, at: Some(now) };
    }
    // Nobody has left the state before: it has become another.
    instance.path = path(old, new, current, migrate, &state.name);
    instance.path_known = old.machine().knows_path(current);
    let entry = Entry {
        kind: Kind::Migrate,
        event: None,
        from: Some(current.state.clone()),
        to: instance.state.clone(),
        actor: command.actor.clone(),
        at: now,
        run: current.run,
        definition_version: new.version(),
        from_definition_version: Some(current.definition_version),
        key: command.idempotency_key.clone(),
        after: None,
        data: Data::new(),
        reason: Some(migrate.reason.clone()),
        approved_by: Vec::new(),
        votes_dropped: votes_dropped.clone(),
        on_behalf_of: None,
        subject: None,
    };
    let mut success = success(command, &instance, SuccessKind::Applied);
    success.migration = Some(Box::new(Migration {
        from_version: current.definition_version,
        to_version: new.version(),
        from_state: current.state.clone(),
        to_state: instance.state.clone(),
        votes_dropped,
        delegations_dropped,
        added_dropped,
        unknown_states: unknown_states(old, new, migrate),
        timers: instance.timers.len(),
    }));
    Ok(Decision::Change(Box::new(Change { instance, entry, success })))
}

/// The state of `new` in which the run goes on.
fn destination(old: &Definition, new: &Definition, current: &Instance, migrate: &Migrate) -> Result<usize, Refusal> {
    let (machine, version) = (new.machine(), new.version());
    let refuse = |detail: String| {
        let open = machine.states.iter().filter(|state| state.ends_as.is_none());
        let states: Vec<String> = open.map(|state| state.name.clone()).collect();
        let detail = format!("{detail}; states of version {version} that are not final: {}", states.join(", "));
        Refusal::NotMigratable { detail, state: current.state.clone(), states }
    };
    if let Some((from, to)) = migrate.state_map.iter().find(|(_, to)| machine.find(to).is_none()) {
        return Err(refuse(format!("`state_map` maps {from:?} to {to:?}, which version {version} has not")));
    }
    let mapped = migrate.state_map.get(&current.state);
    let name = mapped.unwrap_or(&current.state);
    let Some(at) = machine.find(name) else {
        return Err(refuse(format!(
            "version {version} has no state {name:?}, in which the instance is: map it, {name:?} to one of that version's"
        )));
    };
    let state = &machine.states[at];
    if state.ends_as.is_some() {
        return Err(refuse(format!(
            "{name:?} is final in version {version}, and a migration ends no run: map {:?} to another state, or end the \
             run by an event before",
            current.state
        )));
    }
    if *name != current.state && leads_past_approvals(old.machine(), machine, &current.state, at) {
        return Err(refuse(format!(
            "{name:?} is reached only by approvals in version {version} that this run has not passed in {:?}: a map leads \
             past no approval; map it to a state before them",
            current.state
        )));
    }
    Ok(at)
}

/// Whether there are approvals on the way to `target` in `new` that the run in `state` may not have passed. None are asked for
/// from the first state or from that one on; or `target` takes its place: no more approvals lead there than led to it, from
/// wherever the run must have come, and if `new` has that state, too, every way to it leads by `target`.
fn leads_past_approvals(old: &Machine, new: &Machine, state: &str, target: usize) -> bool {
    let (stands, stood) = (new.find(state), old.find(state));
    let after = approvals_to(new, target);
    if after[new.initial] == Some(0) || stands.is_some_and(|stands| after[stands] == Some(0)) {
        return false;
    }
    let (Some(stood), Some(_)) = (stood, after[new.initial]) else { return true };
    let is_on_the_way = |to: usize| to == target || !reached_without(new, target).contains(&to);
    if !stands.is_none_or(is_on_the_way) {
        return true;
    }
    // What the old version had beside it does not take its place, unless the run has passed it, or may go there at once.
    if let Some(was) = old.find(&new.states[target].name).filter(|was| *was != stood) {
        let approvals = approvals_to(old, was);
        let is_near = approvals[old.initial] == Some(0) || approvals[stood] == Some(0);
        if !is_near && reached_without(old, was).contains(&stood) {
            return true;
        }
    }
    let before = approvals_to(old, stood);
    let asks_more =
        |from: usize, now: usize| matches!((before[from], after[now]), (Some(before), Some(after)) if after > before);
    let known = |at: usize| Some((at, new.find(&old.states[at].name)?));
    let mut passed = reached_without(old, stood).into_iter().filter_map(known);
    asks_more(old.initial, new.initial) || passed.any(|(from, now)| asks_more(from, now))
}

/// The states that can be reached from the first one without an approval.
fn unapproved(machine: &Machine) -> HashSet<usize> {
    reached(machine, |way| way.approval.is_none())
}

/// The states to which a way leads that does not lead by `without`.
fn reached_without(machine: &Machine, without: usize) -> HashSet<usize> {
    match machine.initial == without {
        true => HashSet::new(),
        false => reached(machine, |way| way.target != Some(without)),
    }
}

/// The states that can be reached from the first one by those ways.
fn reached(machine: &Machine, may_take: impl Fn(&Transition) -> bool) -> HashSet<usize> {
    let mut reached = HashSet::new();
    let mut left = vec![machine.initial];
    while let Some(at) = left.pop() {
        if reached.insert(at) {
            left.extend(ways(&machine.states[at]).filter(|way| may_take(way)).filter_map(|way| way.target));
        }
    }
    reached
}

/// All that leads on from a state: events and timers.
fn ways(state: &State) -> impl Iterator<Item = &Transition> {
    state.transitions.iter().chain(state.after.iter().flat_map(|after| &after.ways))
}

/// For each state the fewest approvals on a way from there to `target`; none: there is no way.
fn approvals_to(machine: &Machine, target: usize) -> Vec<Option<usize>> {
    let mut into: Vec<Vec<(usize, bool)>> = vec![Vec::new(); machine.states.len()];
    for (from, state) in machine.states.iter().enumerate() {
        for way in ways(state) {
            if let Some(to) = way.target {
                into[to].push((from, way.approval.is_some()));
            }
        }
    }
    let mut fewest = vec![None; machine.states.len()];
    let mut left = VecDeque::from([(target, 0)]);
    // Breadth first over approvals, backwards: what is behind no further one is looked at before what is behind one more.
    while let Some((at, approvals)) = left.pop_front() {
        if fewest[at].is_some_and(|known| known <= approvals) {
            continue;
        }
        fewest[at] = Some(approvals);
        for (from, is_approved) in &into[at] {
            match is_approved {
                false => left.push_front((*from, approvals)),
                true => left.push_back((*from, approvals + 1)),
            }
        }
    }
    fewest
}

/// The states that the map names and neither version has: written wrongly, or another version's.
fn unknown_states(old: &Definition, new: &Definition, migrate: &Migrate) -> Vec<String> {
    let is_known = |name: &String| old.machine().find(name).or_else(|| new.machine().find(name)).is_some();
    migrate.state_map.keys().filter(|name| !is_known(name)).cloned().collect()
}

/// The data, if it is as the schema of `new` has it.
fn fitting(new: &Definition, current: &Instance) -> Result<Arc<Data>, Refusal> {
    let Some(schema) = new.machine().schema() else { return Ok(current.data.clone()) };
    schema.check((*current.data).clone()).map(Arc::new).map_err(|wrong| {
        let version = new.version();
        let detail = format!(
            "the data is not as the schema of version {version} has it: {wrong}; bring it there by an event before, or let \
             the schema allow it"
        );
        Refusal::NotMigratable { detail, state: current.state.clone(), states: Vec::new() }
    })
}

/// The states of `new` that the run has passed on its way to `state`.
fn path(old: &Definition, new: &Definition, current: &Instance, migrate: &Migrate, state: &str) -> Vec<String> {
    let machine = new.machine();
    // Where the path is not known, it is known by which event the run came, and from where.
    let by_event = current.entered.event.is_some() && current.state != old.initial();
    let passed = match old.machine().knows_path(current) {
        true => current.path.as_slice(),
        false if by_event => current.entered.from.as_slice(),
        false => &[],
    };
    // A way back must not lead where the new version asks for an approval first.
    let free = unapproved(machine);
    let mut path: Vec<String> = Vec::new();
    for name in passed.iter().map(|name| migrate.state_map.get(name).unwrap_or(name)) {
        if name == state {
            break;
        }
        // What were two states may be one now.
        path.truncate(path.iter().position(|before| before == name).unwrap_or(path.len()));
        if machine.find(name).is_some_and(|at| free.contains(&at)) {
            path.push(name.clone());
        }
    }
    path
}

/// The times of the visit's timers that are used up, whichever version they were of.
fn fired(old: &Definition, current: &Instance) -> Vec<Duration> {
    let waits = |place: usize| current.timers.iter().any(|timer| timer.after == place);
    let before = old.machine().find(&current.state).map(|at| &old.machine().states[at].after);
    let used = before.into_iter().flatten().enumerate().filter(|(place, _)| !waits(*place));
    let mut fired: Vec<Duration> = used.map(|(_, after)| after.delay).chain(current.fired.iter().copied()).collect();
    fired.sort_unstable();
    fired.dedup();
    fired
}

/// The timers of a visit that goes on in `state` as another version has it, counted from when it began. One that has fired
/// before does not fire again.
fn timers_going_on(state: &State, current: &Instance, fired: &[Duration]) -> Vec<Timer> {
    let mut timers = state.timers(current.entered.at.unwrap_or(current.updated_at));
    timers.retain(|timer| !fired.contains(&state.after[timer.after].delay));
    timers
}
