//! An approval as it stands in one visit.

use super::Recorded;
use super::matching::{Places, filled};
use super::people::{Asked, is_one_of, most_filled, told};
use crate::definition::approval::{ApprovalRule, Entitled, Group, People};
use crate::definition::machine::Transition;
use crate::expression::{Expression, Scope, cost};
use crate::instance::{Addition, Delegation, Instance, Vote};
use crate::limits::QUORUM_MAX;
use crate::outcome::{ActReason, Approval, ApprovalGroup, Handover};
use crate::{Actor, Refusal, Timestamp};

/// An approval with all that its visit has recorded of it.
pub(crate) struct Standing<'a> {
    rule: &'a ApprovalRule,
    transition: &'a Transition,
    /// All transitions of the state; none: those before this one are not asked.
    siblings: &'a [Transition],
    instance: &'a Instance,
    /// The groups' people, where they are named; nobody where they cannot be told.
    named: Vec<Option<Vec<String>>>,
    /// Votes needed, by group.
    needed: Vec<usize>,
    /// Why the people of some group cannot be told.
    untold: Option<Refusal>,
    votes: Vec<&'a Vote>,
    pub(crate) delegations: Vec<&'a Delegation>,
    pub(crate) additions: Vec<&'a Addition>,
}

/// A vote's owner: the name in which it is cast, and the owner's roles.
#[derive(Clone, Copy)]
struct Owner<'o> {
    name: &'o str,
    /// None: not known.
    roles: Option<&'o [String]>,
}

/// What a vote comes to.
pub(crate) enum Tally {
    /// The hand has voted before: nothing changes.
    Repeated(Approval),
    /// It counts, and more are needed.
    Short(Approval, Vote),
    /// It fills the last place; who had voted, in order, and in whose name the last one did.
    Full(Vec<String>, Option<String>),
}

impl<'a> Standing<'a> {
    /// What is recorded for `transition`, whose approval is `rule`.
    ///
    /// # Errors
    /// `guard_error`: the people cannot be told, or are fewer than have to agree. A list of nobody is no approval.
    pub(crate) fn new(
        transition: &'a Transition,
        rule: &'a ApprovalRule,
        instance: &'a Instance,
        scope: &Scope<'_>,
    ) -> Result<Self, Refusal> {
        let standing = Self::of(transition, rule, instance, scope);
        standing.check()?;
        Ok(standing)
    }

    /// The same whether or not it can ever be full: who is entitled to something may be known all the same.
    pub(crate) fn of(
        transition: &'a Transition,
        rule: &'a ApprovalRule,
        instance: &'a Instance,
        scope: &Scope<'_>,
    ) -> Self {
        let mut standing = Self {
            rule,
            transition,
            siblings: &[],
            instance,
            named: Vec::with_capacity(rule.groups.len()),
            needed: Vec::with_capacity(rule.groups.len()),
            untold: None,
            votes: Vec::new(),
            delegations: Vec::new(),
            additions: Vec::new(),
        };
        for group in &rule.groups {
            let people = group.who.of.as_ref().map(|people| standing.people_of(people, scope));
            // The reader lets nothing through that asks for all of nobody in particular.
            standing.needed.push(group.quorum.of(people.as_ref().map_or(usize::MAX, Vec::len)));
            standing.named.push(people);
        }
        // What no longer counts is as if it had never been.
        standing.additions = standing.additions_that_count();
        let given = instance.delegations.iter().filter(|given| given.is_for(transition));
        standing.delegations = given.filter(|given| standing.is_in_force(given)).collect();
        for vote in instance.votes.iter().filter(|vote| vote.is_for(transition)) {
            if standing.is_counted(vote) && standing.cast_for(owner_of(vote).name).is_none() {
                standing.votes.push(vote);
            }
        }
        standing
    }

    /// The same where it matters whom the guards refuse: of an event's transitions the first is meant whose guard holds.
    pub(crate) fn among(self, siblings: &'a [Transition]) -> Self {
        Self { siblings, ..self }
    }

    /// The people that a group names, without whoever is excluded.
    fn people_of(&mut self, people: &People, scope: &Scope<'_>) -> Vec<String> {
        let mut people = told(people, scope).unwrap_or_else(|refusal| {
            self.untold.get_or_insert(refusal);
            Vec::new()
        });
        people.retain(|person| !self.is_excluded(person));
        people
    }

    /// Who was added and has a place of their own for it. New data may name somebody who was added: if all who are named
    /// then have to agree, that is asked for already, and one hand is not two votes.
    fn additions_that_count(&self) -> Vec<&'a Addition> {
        let counts = |addition: &&Addition| addition.is_for(self.transition) && !self.is_excluded(&addition.id);
        let recorded = || self.instance.additions.iter().filter(counts);
        let is_named = |id: &String| self.named.iter().flatten().any(|people| people.contains(id));
        if recorded().all(|addition| !is_named(&addition.id)) {
            return recorded().collect();
        }
        let mut asked = self.asked();
        let mut places = most_filled(&asked);
        let mut counted = Vec::new();
        for addition in recorded() {
            asked.push(Asked { quorum: 1, people: std::slice::from_ref(&addition.id) });
            let more = most_filled(&asked);
            if more > places {
                counted.push(addition);
                places = more;
            } else {
                asked.pop();
            }
        }
        counted
    }

    /// Whether a vote that was handed over still is. New data may name the hand, which then has a vote of its own, and it
    /// may name the owner no more.
    fn is_in_force(&self, given: &Delegation) -> bool {
        let owner = Owner { name: &given.from, roles: Some(&given.roles) };
        !self.is_named(&given.to) && self.has_place(owner)
    }

    /// Forgets the delegations in `instance` that are in force no more.
    pub(crate) fn keep_in_force(&self, instance: &mut Instance) {
        instance.delegations.retain(|given| !given.is_for(self.transition) || self.delegations.contains(&given));
    }

    /// The groups that name people.
    fn asked(&self) -> Vec<Asked<'_>> {
        let groups = self.named.iter().zip(&self.needed);
        groups.filter_map(|(people, quorum)| Some(Asked { quorum: *quorum, people: people.as_deref()? })).collect()
    }

    /// Refuses what could never be full: nobody should wait for it.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if let Some(refusal) = &self.untold {
            return Err(refusal.clone());
        }
        let aside = if self.rule.exclude_starter { ", whoever started the run aside" } else { "" };
        let never = |groups: &[&Group], detail: String| {
            let text = groups.iter().filter_map(|group| group.who.of.as_ref()).map(People::text);
            let expression = text.collect::<Vec<_>>().join("; ");
            Err(Refusal::GuardError { expression, detail: format!("{detail}{aside}: nobody could ever approve") })
        };
        for (at, group) in self.rule.groups.iter().enumerate() {
            let (needed, people) = (self.needed[at], self.named[at].as_ref().map(Vec::len));
            if let Some(people) = people.filter(|people| *people < needed) {
                return never(&[group], format!("{needed} of {people} people must agree"));
            }
        }
        let all: Vec<&Group> = self.rule.groups.iter().collect();
        let needed = self.needed.iter().fold(0_usize, |sum, needed| sum.saturating_add(*needed));
        if needed > QUORUM_MAX {
            return never(&all, format!("{needed} must agree, and at most {QUORUM_MAX} may be asked for"));
        }
        let asked = self.asked();
        let places: usize = asked.iter().map(|asked| asked.quorum).sum();
        match if asked.len() > 1 { most_filled(&asked) } else { places } {
            most if most < places => {
                never(&all, format!("those who are named fill {most} of {places} places, each of them one"))
            }
            _ => Ok(()),
        }
    }

    /// Whether `id` has no vote, whatever else they are.
    pub(crate) fn is_excluded(&self, id: &str) -> bool {
        self.rule.exclude_starter && self.instance.started_by == id
    }

    fn fits_group(&self, at: usize, owner: Owner<'_>) -> bool {
        let roles = &self.rule.groups[at].who.roles;
        let is_named = self.named[at].as_ref().is_none_or(|people| people.iter().any(|person| person == owner.name));
        let has_role = match owner.roles {
            Some(has) => roles.is_empty() || roles.iter().any(|role| has.contains(role)),
            // Such a vote was counted by a rule of one group, and only such a rule may go on counting it.
            None => self.rule.groups.len() == 1,
        };
        is_named && has_role && !self.is_excluded(owner.name)
    }

    /// Whether a vote of `owner` would have a place, full or not.
    fn has_place(&self, owner: Owner<'_>) -> bool {
        self.additions.iter().any(|addition| addition.id == owner.name)
            || (0..self.needed.len()).any(|at| self.fits_group(at, owner))
    }

    fn is_counted(&self, vote: &Vote) -> bool {
        !self.is_excluded(&vote.actor) && self.has_place(owner_of(vote))
    }

    /// How many places of each kind are filled if `more` votes, too: groups first, then the added approvers'.
    fn filled(&self, more: Option<Owner<'_>>) -> Vec<usize> {
        let owners: Vec<Owner<'_>> = self.votes.iter().map(|vote| owner_of(vote)).chain(more).collect();
        let groups = self.needed.iter().enumerate().map(|(at, quorum)| Places {
            quorum: *quorum,
            fits: owners.iter().map(|owner| self.fits_group(at, *owner)).collect(),
        });
        let added = self
            .additions
            .iter()
            .map(|addition| Places { quorum: 1, fits: owners.iter().map(|owner| owner.name == addition.id).collect() });
        filled(&groups.chain(added).collect::<Vec<_>>(), owners.len())
    }

    /// Votes needed in all.
    fn quorum(&self) -> usize {
        self.needed.iter().fold(self.additions.len(), |sum, needed| sum.saturating_add(*needed))
    }

    pub(crate) fn has_voted(&self, hand: &str) -> bool {
        self.votes.iter().any(|vote| vote.actor == hand)
    }

    /// The vote that was cast in the name of `owner`, by whatever hand. Of one owner there is never a second.
    fn cast_for(&self, owner: &str) -> Option<&'a Vote> {
        self.votes.iter().copied().find(|vote| owner_of(vote).name == owner)
    }

    /// The vote that `id` has handed over.
    pub(crate) fn handed_by(&self, id: &str) -> Option<&'a Delegation> {
        self.delegations.iter().copied().find(|delegation| delegation.from == id)
    }

    /// The vote of somebody else that `id` holds.
    pub(crate) fn held_by(&self, id: &str) -> Option<&'a Delegation> {
        self.delegations.iter().copied().find(|delegation| delegation.to == id)
    }

    /// Whether `id` is named as one who has a vote.
    pub(crate) fn is_named(&self, id: &str) -> bool {
        let is_in = |people: &Vec<String>| people.iter().any(|person| person == id);
        self.named.iter().flatten().any(is_in) || self.additions.iter().any(|addition| addition.id == id)
    }

    /// Whether the actor has a vote of their own, cast or not.
    pub(crate) fn has_own_vote(&self, actor: &Actor) -> bool {
        !self.is_excluded(&actor.id) && self.has_place(Owner { name: &actor.id, roles: Some(&actor.roles) })
    }

    /// Counts the vote of `actor`.
    ///
    /// # Errors
    /// `not_permitted`: the actor has no vote. `act_refused`: it is in other hands, or its place is taken.
    pub(crate) fn vote(&self, actor: &Actor, scope: &Scope<'_>, now: Timestamp) -> Result<Tally, Refusal> {
        let before: usize = self.filled(None).iter().sum();
        let is_full = before == self.quorum();
        let voters = || self.votes.iter().map(|vote| vote.actor.clone());
        if self.has_voted(&actor.id) {
            return Ok(if is_full {
                Tally::Full(voters().collect(), None)
            } else {
                Tally::Repeated(self.report(None))
            });
        }
        let held = self.held(actor, scope)?;
        let own = Owner { name: &actor.id, roles: Some(&actor.roles) };
        let own = (self.handed_by(&actor.id).is_none() && self.has_own_vote(actor)).then_some(own);
        let owners: Vec<Owner<'_>> = held.into_iter().chain(own).collect();
        if owners.is_empty() {
            return Err(match self.held_by(&actor.id) {
                // Asked once more for the reason.
                Some(given) if self.is_refused(&given.from, scope)? => self.refused(given),
                _ => self.no_vote(actor),
            });
        }
        let cast = owners.iter().find_map(|owner| self.cast_for(owner.name));
        let owners: Vec<Owner<'_>> = owners.into_iter().filter(|owner| self.cast_for(owner.name).is_none()).collect();
        if let Some(cast) = cast.filter(|_| owners.is_empty()) {
            let detail = format!("{:?} has cast the vote of {:?} already", cast.actor, owner_of(cast).name);
            return Err(Refusal::ActRefused { reason: ActReason::Voted, detail });
        }
        // Full without having been left: what was asked for beyond the votes is asked for no more. Whoever has a vote
        // makes the move; those who made it full may be gone.
        let counts = |owner: &Owner<'_>| is_full || self.filled(Some(*owner)).iter().sum::<usize>() > before;
        let Some(owner) = owners.into_iter().find(counts) else {
            let detail = format!("{:?} has a vote, but the places that it could fill are full", actor.id);
            return Err(Refusal::ActRefused { reason: ActReason::Full, detail });
        };
        let vote = self.cast(actor, owner, now);
        if is_full || before + 1 == self.quorum() {
            return Ok(Tally::Full(voters().chain([vote.actor.clone()]).collect(), vote.on_behalf_of));
        }
        Ok(Tally::Short(self.report(Some(&vote)), vote))
    }

    /// The vote of somebody else that the actor holds and may cast.
    fn held(&self, actor: &Actor, scope: &Scope<'_>) -> Result<Option<Owner<'a>>, Refusal> {
        let (Some(delegation), Some(to)) = (self.held_by(&actor.id), &self.rule.delegation) else { return Ok(None) };
        // Where the guard cannot tell, it does not let anybody vote either.
        if self.is_excluded(&actor.id) || !matches!(self.is_refused(&delegation.from, scope), Ok(false)) {
            return Ok(None);
        }
        let owner = Owner { name: &delegation.from, roles: Some(&delegation.roles) };
        Ok((is_one_of(actor, to, scope)? && self.has_place(owner)).then_some(owner))
    }

    /// Whether the guard refuses whoever has this id, as far as the id tells: a vote is nobody's who could not cast it,
    /// whatever hand it is in. What a guard says of roles is not known of somebody who is not there.
    pub(crate) fn is_refused(&self, id: &str, scope: &Scope<'_>) -> Result<bool, Refusal> {
        let actor = Actor { id: id.to_owned(), roles: Vec::new(), verified: false, via: None };
        let holds = |guard: &Expression| {
            let fail = |detail| Refusal::GuardError { expression: guard.text().to_owned(), detail };
            guard.holds(&Scope { actor: &actor, ..*scope }).map_err(fail)
        };
        let told = |way: &'a Transition| way.guard.as_ref().filter(|guard| guard.sees_who_by_id());
        let (event, position) = (&self.transition.event, self.transition.position);
        let before = self.siblings.iter().filter(|way| way.event == *event && way.position < position);
        cost::aside(|| {
            for guard in before.filter_map(told) {
                if holds(guard)? {
                    return Ok(true);
                }
            }
            Ok(told(self.transition).map(holds).transpose()?.is_some_and(|holds| !holds))
        })
    }

    /// Why a vote that was handed over cannot be cast now, though its owner has one.
    fn refused(&self, given: &Delegation) -> Refusal {
        let (event, from, to) = (&self.transition.event, &given.from, &given.to);
        let detail = format!("a guard of {event:?} refuses {from:?}, whose vote {to:?} holds");
        Refusal::ActRefused { reason: ActReason::Excluded, detail }
    }

    fn cast(&self, actor: &Actor, owner: Owner<'_>, now: Timestamp) -> Vote {
        Vote {
            event: self.transition.event.clone(),
            transition: self.transition.position,
            actor: actor.id.clone(),
            on_behalf_of: (owner.name != actor.id).then(|| owner.name.to_owned()),
            roles: Some(self.roles_that_count(owner.roles.unwrap_or_default())),
            at: now,
        }
    }

    /// Those of `roles` that the approval asks for; the others need not be kept.
    pub(crate) fn roles_that_count(&self, roles: &[String]) -> Vec<String> {
        self.rule.roles().into_iter().filter(|role| roles.contains(role)).collect()
    }

    /// Why the actor has no vote to cast.
    pub(crate) fn no_vote(&self, actor: &Actor) -> Refusal {
        let id = &actor.id;
        if let Some(delegation) = self.handed_by(id) {
            let detail = format!("{id:?} has handed the vote to {:?}", delegation.to);
            return Refusal::ActRefused { reason: ActReason::Delegated, detail };
        }
        let event = &self.transition.event;
        let mut roles = self.rule.roles();
        let detail = if self.is_excluded(id) {
            roles.clear();
            format!("{id:?} started the run and has no vote for {event:?}")
        } else if self.held_by(id).is_some() {
            roles = self.rule.delegation.as_ref().map(|to| to.roles.clone()).unwrap_or_default();
            format!("{id:?} is none of those to whom a vote for {event:?} may be handed")
        } else {
            format!("{id:?} is none of those who have a vote for {event:?}")
        };
        Refusal::NotPermitted { detail, roles }
    }

    /// Whether `actor` is one of those who are `entitled`; guards aside.
    ///
    /// # Errors
    /// `guard_error`: that depends on people who cannot be told.
    pub(crate) fn is_entitled(&self, actor: &Actor, entitled: &Entitled, scope: &Scope<'_>) -> Result<bool, Refusal> {
        match entitled {
            Entitled::Only(who) => is_one_of(actor, who, scope),
            // Whoever may not send the event has no say in it either, whatever the approval says.
            Entitled::Approvers if !actor.has_any(&self.transition.roles) => Ok(false),
            Entitled::Approvers => {
                let has_own = self.has_own_vote(actor) && self.handed_by(&actor.id).is_none();
                match &self.untold {
                    _ if has_own || self.held(actor, scope)?.is_some() => Ok(true),
                    None => Ok(false),
                    Some(refusal) => Err(refusal.clone()),
                }
            }
        }
    }

    /// How far it is, once `more` is counted.
    pub(crate) fn report(&self, more: Option<&Vote>) -> Approval {
        let filled = self.filled(more.map(owner_of));
        // Whoever has voted holds no other vote any more.
        let is_open = |given: &&&Delegation| more.is_none_or(|vote| !is_given_back(given, vote));
        let hands: Vec<String> = self.votes.iter().copied().chain(more).map(|vote| vote.actor.clone()).collect();
        let (mut groups, mut waiting_for) = (Vec::with_capacity(self.needed.len()), Vec::new());
        for (at, group) in self.rule.groups.iter().enumerate() {
            let (quorum, votes) = (self.needed[at], filled[at]);
            let of = self.named[at].as_deref().unwrap_or_default();
            if votes < quorum {
                waiting_for.extend(of.iter().map(String::as_str));
            }
            groups.push(ApprovalGroup { quorum, votes, of: of.to_vec(), roles: group.who.roles.clone() });
        }
        waiting_for.extend(self.additions.iter().map(|addition| addition.id.as_str()));
        let hand = |name: &str| {
            let given = self.delegations.iter().filter(is_open).find(|given| given.from == name);
            given.map_or_else(|| name.to_owned(), |given| given.to.clone())
        };
        let mut waiting_for: Vec<String> = waiting_for.into_iter().map(hand).collect();
        waiting_for.retain(|person| !hands.contains(person));
        waiting_for.sort_unstable();
        waiting_for.dedup();
        Approval {
            quorum: self.quorum(),
            missing: self.quorum().saturating_sub(filled.iter().sum()),
            voters: hands,
            groups,
            waiting_for,
            delegations: self
                .delegations
                .iter()
                .filter(is_open)
                .map(|given| Handover { from: given.from.clone(), to: given.to.clone() })
                .collect(),
            added: self.additions.iter().map(|addition| addition.id.clone()).collect(),
        }
    }
}

/// Whether `vote` gives back what was handed over: one hand is one vote, and it was not this one that was cast.
pub(crate) fn is_given_back(given: &Delegation, vote: &Vote) -> bool {
    given.place() == vote.place() && given.to == vote.actor && vote.on_behalf_of.as_ref() != Some(&given.from)
}

fn owner_of(vote: &Vote) -> Owner<'_> {
    Owner { name: vote.on_behalf_of.as_deref().unwrap_or(&vote.actor), roles: vote.roles.as_deref() }
}
