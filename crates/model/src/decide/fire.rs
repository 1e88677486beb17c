//! Doing what is due: one timer of the current visit, or the end of a run that has lasted for too long.
//!
//! What is due is told by `until`, the store's time when it was looked; not by the judge's clock, which may have been set
//! since. A timer fires once: the change that it makes takes it away, or the visit that it belongs to.

use std::sync::Arc;
use std::time::Duration;

use super::{Change, Decision, assigned, enter, guard_error, hands, malformed, next_version, success};
use crate::command::Fire;
use crate::definition::machine::{After, Machine, Transition};
use crate::duration;
use crate::expression::{Scope, cost};
use crate::instance::{Entered, Status, Timer};
use crate::limits::TIMER_TRIES;
use crate::outcome::SuccessKind;
use crate::{Command, Data, Definition, Entry, Instance, Kind, Refusal, Timestamp};

/// Judges `fire` on `current`.
pub(super) fn fire(
    definition: &Definition,
    current: &Instance,
    command: &Command,
    fire: &Fire,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    // The store's clock says what is due. A judge whose clock is behind it must not set the next timers into its past: two
    // states that lead to each other would then fire without end.
    let now = now.max(fire.until);
    let is_due = |due: &Timestamp| *due <= fire.until;
    let timer = current.timers.iter().filter(|timer| is_due(&timer.due)).min_by_key(|timer| (timer.due, timer.after));
    let deadline = current.deadline.filter(is_due);
    let fired = Fired { definition, current, command, now };
    match (deadline, timer) {
        _ if current.status.is_closed() => {}
        // A run does not outlive its deadline by what falls due in the same moment.
        (Some(deadline), timer) if timer.is_none_or(|timer| deadline <= timer.due) => return fired.time_out(),
        (_, Some(timer)) => return fired.fire(timer),
        (_, None) => {}
    }
    Ok(Decision::Stay(success(command, current, SuccessKind::AlreadyApplied)))
}

struct Fired<'a> {
    definition: &'a Definition,
    current: &'a Instance,
    command: &'a Command,
    now: Timestamp,
}

impl Fired<'_> {
    /// The run has lasted for too long.
    fn time_out(&self) -> Result<Decision, Refusal> {
        let mut instance = self.successor()?;
        instance.status = Status::TimedOut;
        instance.end_visit();
        instance.deadline = None;
        Ok(self.change(Kind::TimedOut, instance, None, None))
    }

    fn fire(&self, timer: &Timer) -> Result<Decision, Refusal> {
        let machine = self.definition.machine();
        let state = machine.find(&self.current.state).map(|at| &machine.states[at]).ok_or_else(|| {
            let (version, state) = (self.definition.version(), &self.current.state);
            malformed(format!("version {version} of the workflow has no state {state:?}, in which the instance is"))
        })?;
        let Some(after) = state.after.get(timer.after) else {
            return self.used_up(timer, "?", "the definition has no such `after`".to_owned());
        };
        cost::begin();
        match self.take(machine, timer, after) {
            Ok(Some(instance)) => Ok(self.change(Kind::Timer, instance, Some(&after.text), None)),
            Ok(None) => self.used_up(timer, &after.text, "no guard held".to_owned()),
            Err(refusal) => self.failed(timer, &after.text, &refusal),
        }
    }

    /// The instance after the first way whose guard holds; none: no guard does.
    fn take(&self, machine: &Machine, timer: &Timer, after: &After) -> Result<Option<Instance>, Refusal> {
        let nothing_sent = Data::new();
        let scope = Scope {
            data: &self.current.data,
            event: &nothing_sent,
            actor: &self.command.actor,
            id: self.command.instance.id.as_str(),
            instance: self.current,
            now: self.now,
        };
        for way in &after.ways {
            if holds(way, &scope)? {
                let data = assigned(machine, way, &scope)?;
                return self.step(machine, way.target, timer, data).map(Some);
            }
        }
        Ok(None)
    }

    fn step(
        &self,
        machine: &Machine,
        target: Option<usize>,
        timer: &Timer,
        data: Option<Data>,
    ) -> Result<Instance, Refusal> {
        let mut instance = self.without(timer)?;
        if let Some(data) = data {
            instance.data = Arc::new(data);
            instance.votes.clear();
        }
        if let Some(target) = target {
            enter(&mut instance, machine, target, self.now);
            // No event has led here: whoever sends one has not been answered by this.
            let (from, decided_on) = (Some(self.current.state.clone()), self.current.version);
            instance.entered = Entered { event: None, from, decided_on, at: Some(self.now) };
        }
        Ok(instance)
    }

    /// It was due, and nothing was to be done.
    fn used_up(&self, timer: &Timer, after: &str, reason: String) -> Result<Decision, Refusal> {
        Ok(self.change(Kind::Timer, self.without(timer)?, Some(after), Some(reason)))
    }

    /// It was due, and what is to be done cannot be said. It may be later, when the data has changed: so it is tried a few
    /// times more, ever later.
    fn failed(&self, timer: &Timer, after: &str, refusal: &Refusal) -> Result<Decision, Refusal> {
        let (tries, first) = TIMER_TRIES;
        let failures = timer.failures.saturating_add(1);
        if failures > tries {
            return self.used_up(timer, after, format!("given up after {failures} tries: {refusal}"));
        }
        let pause: Duration = first * 4_u32.saturating_pow(failures - 1);
        let mut instance = self.without(timer)?;
        let again = Timer { due: duration::after(self.now.max(timer.due), pause), failures, ..timer.clone() };
        let reason = format!("tried again in {} min: {refusal}", pause.as_secs() / 60);
        let place = instance.timers.partition_point(|other| other.due <= again.due);
        instance.timers.insert(place, again);
        Ok(self.change(Kind::Timer, instance, Some(after), Some(reason)))
    }

    /// The instance one version on, without this timer.
    fn without(&self, timer: &Timer) -> Result<Instance, Refusal> {
        let mut instance = self.successor()?;
        instance.timers.retain(|other| other.after != timer.after);
        Ok(instance)
    }

    fn successor(&self) -> Result<Instance, Refusal> {
        let version = next_version(self.current.version)?;
        Ok(Instance { version, updated_at: self.now, ..self.current.clone() })
    }

    fn change(&self, kind: Kind, instance: Instance, after: Option<&str>, reason: Option<String>) -> Decision {
        let goes_on = instance.entered == self.current.entered && kind == Kind::Timer;
        let votes_dropped = if goes_on && instance.votes.is_empty() { hands(&self.current.votes) } else { Vec::new() };
        let entry = Entry {
            kind,
            event: None,
            from: Some(self.current.state.clone()),
            to: instance.state.clone(),
            actor: self.command.actor.clone(),
            at: self.now,
            run: self.current.run,
            definition_version: self.definition.version(),
            from_definition_version: None,
            key: None,
            after: after.map(str::to_owned),
            data: Data::new(),
            reason,
            approved_by: Vec::new(),
            votes_dropped,
            on_behalf_of: None,
            subject: None,
        };
        let success = success(self.command, &instance, SuccessKind::Applied);
        Decision::Change(Box::new(Change { instance, entry, success }))
    }
}

fn holds(way: &Transition, scope: &Scope<'_>) -> Result<bool, Refusal> {
    let Some(guard) = &way.guard else { return Ok(true) };
    guard.holds(scope).map_err(|detail| guard_error(guard, detail))
}
