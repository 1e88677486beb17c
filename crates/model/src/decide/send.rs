//! Judging an event, or a wish for a target state. The order of the steps is part of the contract: roles before
//! anything is revealed, what is already done before what is in the way, conditions before guards.

use std::sync::Arc;

use super::close::check_run;
use super::data::check_sent;
use super::{Change, Decision, assigned, guard_error, hands, malformed, next_version, success};
use crate::approval::{Recorded, Standing, Tally, forget, is_given_back, may_have_vote};
use crate::command::{Act, Send};
use crate::definition::approval::{ApprovalRule, Entitled, Veto};
use crate::definition::machine::{Machine, State, Transition};
use crate::expression::{Scope, cost};
use crate::instance::{Entered, Instance, Status};
use crate::limits::{FENCE_AHEAD, FENCE_END, FENCES_MAX, FENCES_PER_SECOND};
use crate::names::check_resource;
use crate::outcome::{MismatchReason, SuccessKind};
use crate::{Actor, Command, Definition, Entry, Kind, Refusal, Timestamp};

/// Names that a refusal lists: a definition may have thousands.
const NAMED_MAX: usize = 100;

/// One command being judged.
pub(super) struct Judged<'a> {
    pub(super) machine: &'a Machine,
    definition_version: i64,
    pub(super) current: &'a Instance,
    pub(super) state: &'a State,
    pub(super) state_at: usize,
    pub(super) command: &'a Command,
    pub(super) send: &'a Send,
    pub(super) now: Timestamp,
}

/// Judges `send` on `current`.
pub(super) fn send(
    definition: &Definition,
    current: &Instance,
    command: &Command,
    send: &Send,
    now: Timestamp,
) -> Result<Decision, Refusal> {
    let machine = definition.machine();
    check_names(machine, send)?;
    check_sent("event data", &send.data)?;
    check_fences(send, now)?;
    check_run(current, send.run)?;
    let state_at = machine.find(&current.state).ok_or_else(|| {
        let (state, workflow, version) = (&current.state, definition.workflow(), definition.version());
        malformed(format!("version {version} of workflow {workflow} has no state {state:?}, in which the instance is"))
    })?;
    let definition_version = definition.version();
    let state = &machine.states[state_at];
    let judged = Judged { machine, definition_version, current, state, state_at, command, send, now };
    match &send.act {
        None => judged.judge(),
        Some(act) => judged.act(act),
    }
}

/// Refuses what the definition does not know at all.
fn check_names(machine: &Machine, send: &Send) -> Result<(), Refusal> {
    match &send.act {
        Some(Act::Recall) if send.to.is_some() => {
            return Err(malformed("`to` has no meaning with a recall: name the event that is to be taken back"));
        }
        Some(Act::Recall) => {}
        Some(_) if send.event.is_none() => return Err(malformed("name the `event` whose approval is meant")),
        None if send.event.is_none() && send.to.is_none() => {
            return Err(malformed("name an `event`, or the state to be reached in `to`"));
        }
        _ => {}
    }
    if let Some(event) = send.event.as_ref().filter(|event| machine.states_with(event).is_none()) {
        return Err(unknown("event", event, machine.event_names()));
    }
    if let Some(to) = send.to.as_ref().filter(|to| machine.find(to).is_none()) {
        return Err(unknown("state", to, machine.states.iter().map(|state| state.name.clone()).collect()));
    }
    Ok(())
}

/// Refuses fences that no lock has given.
fn check_fences(send: &Send, now: Timestamp) -> Result<(), Refusal> {
    let ahead = i64::try_from(FENCE_AHEAD.as_secs()).unwrap_or(i64::MAX);
    let newest = now.timestamp().saturating_add(ahead).saturating_mul(FENCES_PER_SECOND);
    if send.fences.len() > FENCES_MAX {
        let count = send.fences.len();
        return Err(malformed(format!("{count} fences are given; at most {FENCES_MAX} are allowed")));
    }
    for (resource, fence) in &send.fences {
        check_resource(resource).map_err(|error| malformed(format!("`fences`: {error}")))?;
        if !(1..FENCE_END).contains(fence) {
            return Err(malformed(format!(
                "the fence {fence} is none that a lock gives: those are from 1 to 2^53 - 1"
            )));
        }
        if *fence > newest {
            return Err(malformed(format!(
                "the fence {fence} is none that a lock has given yet: those are up to the seconds since 1970 x 2^20"
            )));
        }
    }
    Ok(())
}

fn unknown(what: &'static str, name: &str, mut known: Vec<String>) -> Refusal {
    known.truncate(NAMED_MAX);
    Refusal::UnknownEvent { what, name: name.to_owned(), known }
}

impl<'a> Judged<'a> {
    fn judge(&self) -> Result<Decision, Refusal> {
        let enabled = self.enabled();
        let is_move = !enabled.is_empty() && self.conditions_hold();
        let is_done = !is_move && self.led_here();
        if is_done {
            self.check_roles_of(self.entering(), Self::might_have_taken)?;
            return self.done();
        }
        self.check_roles(enabled.clone())?;
        self.check_ambiguous_stage(&enabled)?;
        self.check_conditions(&enabled)?;
        self.check_one_event(&enabled)?;
        // What guards and assigns of this command take, they take together.
        cost::begin();
        let chosen = self.choose(&enabled)?;
        self.check_roles(vec![chosen])?;
        self.check_veto(chosen)?;
        self.take(chosen)
    }

    /// The answer to a command whose move was made before: nothing to do, unless the run was ended from outside since.
    fn done(&self) -> Result<Decision, Refusal> {
        if matches!(self.current.status, Status::Terminated | Status::Canceled | Status::TimedOut) {
            return Err(self.mismatch(self.needed_states(), MismatchReason::Closed));
        }
        Ok(Decision::Stay(success(self.command, self.current, SuccessKind::AlreadyApplied)))
    }

    /// The transitions of the current state that the command may mean, guards and conditions aside.
    pub(super) fn enabled(&self) -> Vec<&'a Transition> {
        if self.current.status.is_closed() {
            return Vec::new();
        }
        self.state.transitions.iter().filter(|transition| self.is_meant(transition)).collect()
    }

    fn is_meant(&self, transition: &Transition) -> bool {
        let name = |at: usize| &self.machine.states[at].name;
        let leads_to = |to: &String| transition.target.is_some_and(|target| name(target) == to);
        let leads_back_to = |to: &String| self.way_back(transition).iter().any(|at| name(*at) == to);
        match (&self.send.event, &self.send.to) {
            (Some(event), None) => transition.event == *event,
            (None, Some(to)) => leads_to(to),
            // With both, an event that stays may be asked for by naming the state it stays in.
            (Some(event), Some(to)) => {
                let stays = transition.stays() && self.current.state == *to;
                transition.event == *event && (leads_to(to) || leads_back_to(to) || stays)
            }
            (None, None) => false,
        }
    }

    fn conditions_hold(&self) -> bool {
        self.send.expected_version.is_none_or(|version| version == self.current.version)
            && self.send.from.as_ref().is_none_or(|from| *from == self.current.state)
    }

    /// Whether a command like this one led to the current state, from where and on which version it says.
    fn led_here(&self) -> bool {
        let Send { event, to, from, expected_version, .. } = self.send;
        let entered = &self.current.entered;
        event.as_ref().is_none_or(|event| entered.event.as_ref() == Some(event))
            && to.as_ref().is_none_or(|to| self.current.state == *to)
            && from.as_ref().is_none_or(|from| entered.from.as_ref() == Some(from))
            && expected_version.is_none_or(|version| entered.decided_on == version)
            && entered.from.as_ref() != Some(&self.current.state)
    }

    /// The transitions by which the current state may have been entered.
    fn entering(&self) -> Vec<&'a Transition> {
        let Entered { event, from, .. } = &self.current.entered;
        let origin = from.as_ref().and_then(|from| self.machine.find(from));
        let (Some(event), Some(origin)) = (event, origin) else { return Vec::new() };
        let leads_here = |t: &Transition| t.target == Some(self.state_at) || t.back.is_some();
        let led_here = |t: &&Transition| t.event == *event && leads_here(t);
        self.machine.states[origin].transitions.iter().filter(led_here).collect()
    }

    /// Refuses an actor who may take none of `transitions`.
    pub(super) fn check_roles(&self, transitions: Vec<&Transition>) -> Result<(), Refusal> {
        self.check_roles_of(transitions, Self::is_permitted)
    }

    fn check_roles_of(
        &self,
        transitions: Vec<&Transition>,
        permits: impl Fn(&Self, &Transition) -> bool,
    ) -> Result<(), Refusal> {
        let actor = &self.command.actor;
        if transitions.is_empty() || transitions.iter().any(|transition| permits(self, transition)) {
            return Ok(());
        }
        let mut roles: Vec<String> = transitions.iter().flat_map(|t| missing_roles(actor, t)).collect();
        roles.sort_unstable();
        roles.dedup();
        let detail = format!("{:?} may not do this: one of the roles {} is needed", actor.id, roles.join(", "));
        Err(Refusal::NotPermitted { detail, roles })
    }

    /// Whether the actor's roles allow the transition, or a vote for it.
    fn is_permitted(&self, transition: &Transition) -> bool {
        let actor = &self.command.actor;
        let has_vote = |rule: &ApprovalRule| {
            may_have_vote(self.current, transition, rule, &actor.id, |roles| actor.has_any(roles))
        };
        actor.has_any(&transition.roles) && transition.approval.as_ref().is_none_or(has_vote)
    }

    /// The same for a move that was made: who held somebody's vote for it, or was added, is not recorded any more.
    fn might_have_taken(&self, transition: &Transition) -> bool {
        let is_closed = |rule: &ApprovalRule| rule.delegation.is_none() && rule.adding.is_none();
        match &transition.approval {
            Some(rule) if !is_closed(rule) => self.command.actor.has_any(&transition.roles),
            _ => self.is_permitted(transition),
        }
    }

    /// An event that is the veto of an approval is for those who have it: by whichever of several approvals.
    fn check_veto(&self, chosen: &Transition) -> Result<(), Refusal> {
        let mut refused = None;
        for approved in &self.state.transitions {
            let Some(rule) = &approved.approval else { continue };
            let Some(veto) = rule.veto.as_ref().filter(|veto| veto.event == chosen.event) else { continue };
            match self.may_veto(approved, rule, veto) {
                Ok(()) => return Ok(()),
                // What an approval says of those who have it says more than that others have not.
                Err(refusal) => match refused {
                    None | Some(Refusal::NotPermitted { .. }) => refused = Some(refusal),
                    Some(_) => {}
                },
            }
        }
        refused.map_or(Ok(()), Err)
    }

    fn may_veto(&self, approved: &'a Transition, rule: &ApprovalRule, veto: &Veto) -> Result<(), Refusal> {
        let (actor, scope) = (&self.command.actor, self.scope());
        let standing = Standing::of(approved, rule, self.current, &scope).among(&self.state.transitions);
        if standing.is_entitled(actor, &veto.who, &scope)? {
            return self.check_guards_of(approved, &veto.who);
        }
        let roles = match &veto.who {
            Entitled::Only(who) => who.roles.clone(),
            Entitled::Approvers => rule.roles(),
        };
        let detail = format!("{:?} is none of those who may veto {:?} by {:?}", actor.id, approved.event, veto.event);
        Err(Refusal::NotPermitted { detail, roles })
    }

    /// Refuses whom the guards would not let vote for `approved`, where it is the vote that entitles to something.
    pub(super) fn check_guards_of(&self, approved: &'a Transition, entitled: &Entitled) -> Result<(), Refusal> {
        match entitled {
            Entitled::Approvers => self.choose(&[approved]).map(drop),
            Entitled::Only(_) => Ok(()),
        }
    }

    /// Two people sending one event at once must not advance two stages: where it led here and leads on, the command
    /// has to say which stage it means.
    pub(super) fn check_ambiguous_stage(&self, enabled: &[&Transition]) -> Result<(), Refusal> {
        let Send { event: Some(event), to: None, from: None, expected_version: None, .. } = self.send else {
            return Ok(());
        };
        let entered = &self.current.entered;
        let led_here = entered.event.as_ref() == Some(event) && entered.from.as_ref() != Some(&self.current.state);
        let leads_on = |t: &&Transition| t.back.is_some() || t.target.is_some_and(|target| target != self.state_at);
        let leads_on = enabled.iter().any(leads_on);
        if !(led_here && leads_on) {
            return Ok(());
        }
        let (state, from) = (&self.current.state, entered.from.as_deref().unwrap_or_default());
        let detail = format!(
            "the event {event:?} led from {from:?} to {state:?} and also leads on: give `from` or `expected_version` to \
             say which stage is meant"
        );
        Err(Refusal::AmbiguousTarget { detail, events: vec![event.clone()] })
    }

    pub(super) fn check_conditions(&self, enabled: &[&Transition]) -> Result<(), Refusal> {
        let Send { from, expected_version, .. } = self.send;
        if let Some(expected) = expected_version.filter(|version| *version != self.current.version) {
            return Err(Refusal::VersionMismatch { expected, actual: self.current.version });
        }
        let (expected, reason) = match from {
            Some(from) if *from != self.current.state => (from.clone(), MismatchReason::From),
            _ if self.current.status.is_closed() => (self.needed_states(), MismatchReason::Closed),
            _ if enabled.is_empty() => (self.needed_states(), MismatchReason::NotEnabled),
            _ => return Ok(()),
        };
        Err(self.mismatch(expected, reason))
    }

    pub(super) fn mismatch(&self, expected: String, reason: MismatchReason) -> Refusal {
        let status = self.current.status;
        let ended = status.is_closed().then_some(status);
        Refusal::StateMismatch { expected, actual: self.current.state.clone(), reason, ended }
    }

    /// The states in which the command would be a move.
    pub(super) fn needed_states(&self) -> String {
        let leads = |state: &&State| {
            state.transitions.iter().any(|transition| {
                let target = transition.target.map(|target| self.machine.states[target].name.as_str());
                self.send.event.as_ref().is_none_or(|event| transition.event == *event)
                    && self
                        .send
                        .to
                        .as_ref()
                        .is_none_or(|to| transition.back.is_some() || target.unwrap_or(&state.name) == to)
            })
        };
        let states = self.machine.states.iter().filter(leads).take(NAMED_MAX);
        let names: Vec<&str> = states.map(|state| state.name.as_str()).collect();
        if names.is_empty() { "no state".to_owned() } else { names.join(", ") }
    }

    /// `to` alone must not leave open which event is meant.
    pub(super) fn check_one_event(&self, enabled: &[&Transition]) -> Result<(), Refusal> {
        let mut events: Vec<String> = enabled.iter().map(|transition| transition.event.clone()).collect();
        events.dedup();
        if events.len() <= 1 {
            return Ok(());
        }
        let to = self.send.to.as_deref().unwrap_or_default();
        let detail = format!("several events lead to {to:?}: name one of {}", events.join(", "));
        Err(Refusal::AmbiguousTarget { detail, events })
    }

    /// The event's first transition whose guard holds. `to` does not choose: it refuses an event that leads elsewhere
    /// now, or else naming a target would pass by the guards before it.
    pub(super) fn choose(&self, enabled: &[&'a Transition]) -> Result<&'a Transition, Refusal> {
        let is_meant = |transition: &Transition| enabled.iter().any(|meant| std::ptr::eq(*meant, transition));
        let event = enabled.first().map(|transition| transition.event.as_str());
        let mut rejected: Vec<String> = Vec::new();
        for transition in self.state.transitions.iter().filter(|t| Some(t.event.as_str()) == event) {
            let holds = match &transition.guard {
                Some(guard) => guard.holds(&self.scope()).map_err(|detail| guard_error(guard, detail))?,
                None => true,
            };
            if holds && is_meant(transition) {
                return Ok(transition);
            }
            if holds {
                // What comes later is guarded by this one's failing, too.
                rejected.extend(transition.guard.as_ref().map(|guard| format!("!({})", guard.text())));
                break;
            }
            if is_meant(transition) {
                rejected.extend(transition.guard.as_ref().map(|guard| guard.text().to_owned()));
            }
        }
        Err(Refusal::GuardRejected { guard: rejected.join("; ") })
    }

    pub(super) fn scope(&self) -> Scope<'a> {
        Scope {
            data: &self.current.data,
            event: &self.send.data,
            actor: &self.command.actor,
            id: self.command.instance.id.as_str(),
            instance: self.current,
            now: self.now,
        }
    }

    /// Counts the vote, or makes the move.
    fn take(&self, transition: &Transition) -> Result<Decision, Refusal> {
        let Some(rule) = &transition.approval else { return self.step(transition, Vec::new(), None) };
        // Nobody is to vote for a way back where there is none.
        self.destination(transition)?;
        let (actor, scope) = (&self.command.actor, self.scope());
        let standing = Standing::new(transition, rule, self.current, &scope)?.among(&self.state.transitions);
        match standing.vote(actor, &scope, self.now)? {
            Tally::Full(voters, on_behalf_of) => self.step(transition, voters, on_behalf_of),
            Tally::Repeated(approval) => {
                let mut answer = success(self.command, self.current, SuccessKind::PendingApproval);
                answer.approval = Some(Box::new(approval));
                Ok(Decision::Stay(answer))
            }
            Tally::Short(approval, vote) => {
                let mut instance = self.successor()?;
                let on_behalf_of = vote.on_behalf_of.clone();
                // What is in force no more must not come back beside this vote.
                standing.keep_in_force(&mut instance);
                // One that the rule no longer counted.
                instance.votes.retain(|old| !(old.actor == vote.actor && old.is_for(transition)));
                instance.delegations.retain(|given| !is_given_back(given, &vote));
                instance.votes.push(vote);
                let entry = Entry { on_behalf_of, ..self.entry(Kind::Vote, &transition.event, &instance) };
                let mut answer = success(self.command, &instance, SuccessKind::PendingApproval);
                answer.approval = Some(Box::new(approval));
                Ok(Decision::Change(Box::new(Change { instance, entry, success: answer })))
            }
        }
    }

    /// The move itself.
    fn step(
        &self,
        transition: &Transition,
        approved_by: Vec<String>,
        on_behalf_of: Option<String>,
    ) -> Result<Decision, Refusal> {
        let mut instance = self.successor()?;
        let target = self.destination(transition)?;
        let mut votes_dropped = Vec::new();
        if let Some(data) = assigned(self.machine, transition, &self.scope())? {
            instance.data = Arc::new(data);
            // Those for this transition are used up, and those of a visit that ends go with it.
            let votes = std::mem::take(&mut instance.votes);
            let dropped = votes.iter().filter(|vote| target.is_none() && !vote.is_for(transition));
            votes_dropped = hands(dropped);
        }
        // An approval that stays in its state has used up its votes; those for other events go on.
        forget(&mut instance, transition);
        if let Some(target) = target {
            self.enter(&mut instance, target, Some(&transition.event));
            instance.undo = transition.recall.then(|| Box::new(self.undo(transition, &instance)));
        }
        let entry = self.entry(Kind::Move, &transition.event, &instance);
        let entry = Entry { approved_by, votes_dropped, on_behalf_of, ..entry };
        let success = success(self.command, &instance, SuccessKind::Applied);
        Ok(Decision::Change(Box::new(Change { instance, entry, success })))
    }

    /// The instance one version on, nothing else changed. The move before can no longer be taken back.
    pub(super) fn successor(&self) -> Result<Instance, Refusal> {
        let version = next_version(self.current.version)?;
        Ok(Instance { version, updated_at: self.now, undo: None, ..self.current.clone() })
    }

    pub(super) fn entry(&self, kind: Kind, event: &str, after: &Instance) -> Entry {
        Entry {
            kind,
            event: Some(event.to_owned()),
            from: Some(self.current.state.clone()),
            to: after.state.clone(),
            actor: self.command.actor.clone(),
            at: self.now,
            run: self.current.run,
            definition_version: self.definition_version,
            from_definition_version: None,
            key: self.command.idempotency_key.clone(),
            after: None,
            data: self.send.data.clone(),
            reason: None,
            approved_by: Vec::new(),
            votes_dropped: Vec::new(),
            on_behalf_of: None,
            subject: None,
        }
    }
}

/// The roles of which the actor has none, though one is needed.
fn missing_roles(actor: &Actor, transition: &Transition) -> Vec<String> {
    let mut missing = Vec::new();
    if !actor.has_any(&transition.roles) {
        missing.extend(transition.roles.iter().cloned());
    }
    if let Some(rule) = &transition.approval
        && !rule.groups.iter().any(|group| actor.has_any(&group.who.roles))
    {
        missing.extend(rule.roles());
    }
    missing
}
