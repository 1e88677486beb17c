//! What may be done about an approval, short of voting: handing one's vote over, adding an approver, taking back. The same
//! conditions, roles and guards stand before them as before the event itself.

use serde_json::Value;

use super::send::Judged;
use super::{Change, Decision, malformed, success};
use crate::approval::{Recorded, Standing, is_among};
use crate::command::Act;
use crate::definition::approval::{ApprovalRule, Entitled};
use crate::definition::machine::Transition;
use crate::expression::cost;
use crate::instance::{Addition, Delegation, Vote};
use crate::limits::{ADDITIONS_MAX, DELEGATIONS_MAX, QUORUM_MAX};
use crate::names::check_name;
use crate::outcome::{ActReason, MismatchReason, SuccessKind};
use crate::{Entry, Instance, Kind, Refusal};

impl Judged<'_> {
    pub(super) fn act(&self, act: &Act) -> Result<Decision, Refusal> {
        match act {
            Act::Delegate { to } => self.delegate(to),
            Act::AddApprover { id } => self.add_approver(id),
            Act::Recall => self.recall(),
        }
    }

    /// Hands the actor's vote to `to`. Votes do not travel on: neither side may be part of another delegation, so there
    /// are no chains and no circles.
    fn delegate(&self, to: &str) -> Result<Decision, Refusal> {
        check_name("actor id", to).map_err(|error| malformed(error.to_string()))?;
        let enabled = self.enabled();
        self.check_roles(enabled.clone())?;
        self.check_ambiguous_stage(&enabled)?;
        self.check_conditions(&enabled)?;
        self.check_one_event(&enabled)?;
        cost::begin();
        let chosen = self.choose(&enabled)?;
        self.check_roles(vec![chosen])?;
        let (actor, scope) = (&self.command.actor, self.scope());
        let rule = approval_of(chosen)?;
        let Some(allowed) = &rule.delegation else {
            return refuse(ActReason::NotAllowed, format!("votes for {:?} cannot be handed over", chosen.event));
        };
        self.destination(chosen)?;
        let standing = Standing::new(chosen, rule, self.current, &scope)?.among(&self.state.transitions);
        if standing.handed_by(&actor.id).is_some_and(|given| given.to == to) {
            return Ok(self.as_it_is(&standing));
        }
        if standing.held_by(&actor.id).is_some() {
            return refuse(ActReason::HoldsVote, "a vote that was handed over cannot be handed on".to_owned());
        }
        if !standing.has_own_vote(actor) || standing.handed_by(&actor.id).is_some() {
            return Err(standing.no_vote(actor));
        }
        if standing.has_voted(&actor.id) {
            return refuse(
                ActReason::Voted,
                format!("{:?} has voted: the vote would have to be taken back first", actor.id),
            );
        }
        if to == actor.id {
            return refuse(ActReason::Oneself, format!("{to:?} has that vote already"));
        }
        self.check_free(&standing, to)?;
        // The guards have let the actor through: they do not refuse everybody.
        self.check_not_refused(&standing, chosen, to, &[])?;
        if standing.handed_by(to).is_some() {
            return refuse(ActReason::HasVote, format!("{to:?} has handed the own vote over"));
        }
        if !is_among(to, allowed, &scope)? {
            let detail = format!("{to:?} is none of those to whom a vote for {:?} may be handed", chosen.event);
            return Err(Refusal::NotPermitted { detail, roles: allowed.roles.clone() });
        }
        if standing.delegations.len() >= DELEGATIONS_MAX {
            return refuse(ActReason::TooMany, format!("{DELEGATIONS_MAX} votes are in other hands already"));
        }
        let mut instance = self.successor()?;
        // What is in force no more must not be in force beside this one later.
        standing.keep_in_force(&mut instance);
        instance.delegations.push(Delegation {
            event: chosen.event.clone(),
            transition: chosen.position,
            from: actor.id.clone(),
            roles: standing.roles_that_count(&actor.roles),
            to: to.to_owned(),
            at: self.now,
        });
        self.acted(Kind::Delegate, chosen, rule, instance, Some(to))
    }

    /// Adds `id` to those who must agree. Who was asked for before still has to.
    fn add_approver(&self, id: &str) -> Result<Decision, Refusal> {
        check_name("actor id", id).map_err(|error| malformed(error.to_string()))?;
        let enabled = self.enabled();
        if let Some(first) = enabled.first().filter(|_| enabled.iter().all(|way| way.approval.is_none())) {
            approval_of(first)?;
        }
        let enabled: Vec<&Transition> = enabled.into_iter().filter(|way| way.approval.is_some()).collect();
        let actor = &self.command.actor;
        let may = |way: &&Transition| match way.approval.as_ref().and_then(|rule| rule.adding.as_ref()) {
            Some(Entitled::Only(who)) => actor.has_any(&who.roles),
            _ => true,
        };
        if !enabled.is_empty() && !enabled.iter().any(may) {
            let mut roles = Vec::new();
            for rule in enabled.iter().filter_map(|way| way.approval.as_ref()) {
                if let Some(Entitled::Only(who)) = &rule.adding {
                    roles.extend(who.roles.iter().cloned());
                }
            }
            let detail =
                format!("{:?} may not add an approver: one of the roles {} is needed", actor.id, roles.join(", "));
            return Err(Refusal::NotPermitted { detail, roles });
        }
        self.check_ambiguous_stage(&enabled)?;
        self.check_conditions(&enabled)?;
        self.check_one_event(&enabled)?;
        cost::begin();
        // Who may add by a role is no approver: the guards are for those. They only tell which of several is meant.
        let chosen = match enabled.as_slice() {
            [only] => only,
            _ => self.choose(&enabled)?,
        };
        let (rule, scope) = (approval_of(chosen)?, self.scope());
        let Some(adding) = &rule.adding else {
            return refuse(ActReason::NotAllowed, format!("approvers cannot be added to {:?}", chosen.event));
        };
        self.destination(chosen)?;
        let standing = Standing::of(chosen, rule, self.current, &scope).among(&self.state.transitions);
        if !standing.is_entitled(actor, adding, &scope)? {
            let roles = if let Entitled::Only(who) = adding { who.roles.clone() } else { rule.roles() };
            let detail = format!("{:?} is none of those who may add approvers to {:?}", actor.id, chosen.event);
            return Err(Refusal::NotPermitted { detail, roles });
        }
        self.check_guards_of(chosen, adding)?;
        standing.check()?;
        if standing.additions.iter().any(|addition| addition.id == id) {
            return Ok(self.as_it_is(&standing));
        }
        self.check_free(&standing, id)?;
        self.check_not_refused(&standing, chosen, id, &self.who_may_vote())?;
        if self.current.additions.iter().filter(|addition| addition.is_for(chosen)).count() >= ADDITIONS_MAX {
            return refuse(ActReason::TooMany, format!("{ADDITIONS_MAX} approvers were added already"));
        }
        let mut instance = self.successor()?;
        // What is in force no more must not come back with this addition, or without it.
        standing.keep_in_force(&mut instance);
        instance.additions.push(Addition {
            event: chosen.event.clone(),
            transition: chosen.position,
            id: id.to_owned(),
            by: actor.id.clone(),
            at: self.now,
        });
        self.acted(Kind::AddApprover, chosen, rule, instance, Some(id))
    }

    /// Who is to get a vote, or to be added, must not have another: one hand is one vote, so that one could never be cast.
    fn check_free(&self, standing: &Standing<'_>, id: &str) -> Result<(), Refusal> {
        if standing.is_excluded(id) {
            return refuse(ActReason::Excluded, format!("{id:?} started the run and has no vote"));
        }
        if standing.has_voted(id) {
            return refuse(ActReason::HasVote, format!("{id:?} has voted"));
        }
        if standing.held_by(id).is_some() {
            return refuse(ActReason::HasVote, format!("{id:?} holds somebody's vote already"));
        }
        if standing.is_named(id) {
            return refuse(ActReason::HasVote, format!("{id:?} has a vote of their own"));
        }
        Ok(())
    }

    /// Nobody waits for a vote that the guard refuses. If there are `others`, it says something only where it lets one of
    /// them through: it may refuse everybody for now.
    fn check_not_refused(
        &self,
        standing: &Standing<'_>,
        chosen: &Transition,
        id: &str,
        others: &[&str],
    ) -> Result<(), Refusal> {
        let scope = self.scope();
        // Where the guard cannot tell now, since it looks at what a vote sends, it may hold.
        if !matches!(standing.is_refused(id, &scope), Ok(true)) {
            return Ok(());
        }
        if !others.is_empty() && !others.iter().any(|other| matches!(standing.is_refused(other, &scope), Ok(false))) {
            return Ok(());
        }
        let event = &chosen.event;
        refuse(ActReason::Excluded, format!("a guard of {event:?} refuses {id:?}, who could not vote"))
    }

    /// Somebody (no actor has an empty id), and those who are at hand: of them one may be let through by a guard that lists
    /// people.
    fn who_may_vote(&self) -> Vec<&str> {
        let current = self.current;
        let at_hand = ["", &self.command.actor.id, &current.started_by].into_iter();
        let voters = current.votes.iter().flat_map(|vote| [Some(&vote.actor), vote.on_behalf_of.as_ref()]);
        let named = current.data.values().flat_map(|value| match value {
            Value::Array(items) => items.as_slice(),
            value => std::slice::from_ref(value),
        });
        let named = named.filter_map(Value::as_str);
        at_hand.chain(voters.flatten().map(String::as_str)).chain(named).take(QUORUM_MAX).collect()
    }

    /// Takes back what the actor did last by the event: the vote, else the vote's delegation, else an addition, else the
    /// move that led here.
    fn recall(&self) -> Result<Decision, Refusal> {
        if self.current.status.is_closed() {
            return Err(self.mismatch(self.needed_states(), MismatchReason::Closed));
        }
        if let Some(expected) = self.send.expected_version.filter(|version| *version != self.current.version) {
            return Err(Refusal::VersionMismatch { expected, actual: self.current.version });
        }
        if let Some(from) = self.send.from.as_ref().filter(|from| **from != self.current.state) {
            return Err(self.mismatch(from.clone(), MismatchReason::From));
        }
        let event = self.recalled_event()?;
        // A vote before a delegation, and that before an addition, whichever of the event's transitions they are for.
        let mut ways: Vec<&Transition> = self.state.transitions.iter().filter(|way| way.event == event).collect();
        let actor = &self.command.actor.id;
        ways.sort_by_key(|way| {
            let has_voted = self.current.votes.iter().any(|vote| vote.actor == *actor && vote.is_for(way));
            let has_given = self.current.delegations.iter().any(|given| given.from == *actor && given.is_for(way));
            (!has_voted, !has_given)
        });
        for transition in ways {
            if let Some(decision) = self.recall_from(transition)? {
                return Ok(decision);
            }
        }
        self.recall_move(&event)
    }

    /// The event by which the actor did what is to be taken back.
    fn recalled_event(&self) -> Result<String, Refusal> {
        if let Some(event) = &self.send.event {
            return Ok(event.clone());
        }
        let (current, actor) = (self.current, &self.command.actor.id);
        let votes = current.votes.iter().filter(|vote| vote.actor == *actor).map(|vote| &vote.event);
        let given = current.delegations.iter().filter(|given| given.from == *actor).map(|given| &given.event);
        let added = current.additions.iter().filter(|added| added.by == *actor).map(|added| &added.event);
        let moved = self
            .undoable()
            .into_iter()
            .filter(|undo| undo.actor == *actor)
            .filter_map(|_| current.entered.event.as_ref());
        let mut events: Vec<String> = votes.chain(given).chain(added).chain(moved).cloned().collect();
        events.sort_unstable();
        events.dedup();
        match events.as_slice() {
            [event] => Ok(event.clone()),
            [] => refuse(ActReason::NothingToRecall, format!("there is nothing that {actor:?} could take back now")),
            _ => {
                let detail = format!("{actor:?} could take back several: name one of {}", events.join(", "));
                Err(Refusal::AmbiguousTarget { detail, events })
            }
        }
    }

    /// What of `transition`'s approval is the actor's to take back; none: nothing.
    fn recall_from(&self, transition: &Transition) -> Result<Option<Decision>, Refusal> {
        let actor = &self.command.actor.id;
        let mut instance = self.successor()?;
        let vote = instance.votes.iter().position(|vote| vote.actor == *actor && vote.is_for(transition));
        let given = instance.delegations.iter().position(|given| given.from == *actor && given.is_for(transition));
        let place = (transition.event.as_str(), transition.position);
        let added = instance.additions.iter().rposition(|added| added.by == *actor && added.place() == place);
        let has_cast = |given: &Delegation| {
            let is_cast = |vote: &Vote| vote.actor == given.to && vote.on_behalf_of.as_ref() == Some(&given.from);
            instance.votes.iter().any(|vote| is_cast(vote) && vote.is_for(transition))
        };
        let has_voted = |id: &str| {
            let is_of = |vote: &Vote| vote.actor == id || vote.on_behalf_of.as_deref() == Some(id);
            instance.votes.iter().any(|vote| is_of(vote) && vote.event == transition.event)
        };
        let (subject, on_behalf_of) = match (vote, given, added) {
            (Some(at), _, _) => (None, instance.votes.remove(at).on_behalf_of),
            (None, Some(at), _) if has_cast(&instance.delegations[at]) => {
                let detail = format!("{:?} has cast the vote: it is theirs to take back", instance.delegations[at].to);
                return refuse(ActReason::ActedSince, detail);
            }
            (None, Some(at), _) => (Some(instance.delegations.remove(at).to), None),
            (None, None, Some(at)) if has_voted(&instance.additions[at].id) => {
                return refuse(ActReason::ActedSince, format!("{:?} has voted already", instance.additions[at].id));
            }
            (None, None, Some(at)) => (Some(instance.additions.remove(at).id), None),
            (None, None, None) => return Ok(None),
        };
        let rule = approval_of(transition)?;
        if !rule.recall {
            let detail =
                format!("what was done for {:?} cannot be taken back: it has no `recall: true`", transition.event);
            return refuse(ActReason::NotAllowed, detail);
        }
        cost::begin();
        // Who was added may have handed over the vote that is theirs no more.
        let after = instance.clone();
        Standing::of(transition, rule, &after, &self.scope()).keep_in_force(&mut instance);
        let decision = self.acted(Kind::Recall, transition, rule, instance, subject.as_deref())?;
        Ok(Some(match decision {
            Decision::Change(mut change) => {
                change.entry.on_behalf_of = on_behalf_of;
                Decision::Change(change)
            }
            stays => stays,
        }))
    }

    /// The change that `instance` is, with how far the approval is then.
    fn acted(
        &self,
        kind: Kind,
        transition: &Transition,
        rule: &ApprovalRule,
        instance: Instance,
        subject: Option<&str>,
    ) -> Result<Decision, Refusal> {
        let scope = self.scope();
        let standing = match kind {
            // What can never be full may still be undone.
            Kind::Recall => Standing::of(transition, rule, &instance, &scope),
            _ => Standing::new(transition, rule, &instance, &scope)?,
        };
        let approval = standing.report(None);
        let entry = Entry { subject: subject.map(str::to_owned), ..self.entry(kind, &transition.event, &instance) };
        let mut answer = success(self.command, &instance, SuccessKind::PendingApproval);
        answer.approval = Some(Box::new(approval));
        Ok(Decision::Change(Box::new(Change { instance, entry, success: answer })))
    }

    /// The answer to what was done before.
    fn as_it_is(&self, standing: &Standing<'_>) -> Decision {
        let mut answer = success(self.command, self.current, SuccessKind::PendingApproval);
        answer.approval = Some(Box::new(standing.report(None)));
        Decision::Stay(answer)
    }
}

fn approval_of(transition: &Transition) -> Result<&ApprovalRule, Refusal> {
    let none = || Refusal::ActRefused {
        reason: ActReason::NotAllowed,
        detail: format!("{:?} needs no approval: there are no votes", transition.event),
    };
    transition.approval.as_ref().ok_or_else(none)
}

fn refuse<T>(reason: ActReason, detail: String) -> Result<T, Refusal> {
    Err(Refusal::ActRefused { reason, detail })
}
