//! Whatever is done in whatever order: a move with an approval is made only if its rule is satisfied by distinct hands of
//! that visit. The rule is told here a second time, as plainly as can be: by trying every way to seat the voters.

use std::collections::{BTreeMap, BTreeSet};

use lockkeeper_model::{
    Act, Action, Actor, Command, Decision, Definition, Entry, Format, Instance, Kind, Send, decide,
};
use proptest::prelude::*;
use uuid::Uuid;

use crate::support::{at, data, key_of};

const PEOPLE: [&str; 6] = ["sam", "ann", "bob", "cid", "dan", "eve"];
const ROLES: [&str; 3] = ["finance", "legal", "manager"];

/// So many of those who are named (nobody: anybody) and have one of the roles (none: any).
struct Group {
    quorum: usize,
    of: &'static [&'static str],
    roles: &'static [&'static str],
}

/// A rule as the definition has it, and once more.
struct Rule {
    text: &'static str,
    groups: &'static [Group],
    exclude_starter: bool,
}

const RULES: [Rule; 5] = [
    Rule {
        text: "{quorum: 3, of: [sam, ann, bob, cid, dan], delegation: true, recall: true, add_approvers: true}",
        groups: &[Group { quorum: 3, of: &["sam", "ann", "bob", "cid", "dan"], roles: &[] }],
        exclude_starter: false,
    },
    Rule {
        text: "{quorum: all, of: [sam, ann, bob], exclude_starter: true, delegation: true, recall: true, add_approvers: true}",
        groups: &[Group { quorum: 2, of: &["ann", "bob"], roles: &[] }],
        exclude_starter: true,
    },
    Rule {
        text: "{groups: [{quorum: 2, roles: [finance]}, {quorum: 1, roles: [legal]}], delegation: true, recall: true, \
               add_approvers: {roles: [manager]}, exclude_starter: true}",
        groups: &[Group { quorum: 2, of: &[], roles: &["finance"] }, Group { quorum: 1, of: &[], roles: &["legal"] }],
        exclude_starter: true,
    },
    Rule {
        text: "{groups: [{quorum: any, of: [ann, bob]}, {quorum: 1, roles: [finance, legal]}, {quorum: 1, of: [ann], roles: [manager]}], \
               delegation: {roles: [legal]}, recall: true}",
        groups: &[
            Group { quorum: 1, of: &["ann", "bob"], roles: &[] },
            Group { quorum: 1, of: &[], roles: &["finance", "legal"] },
            Group { quorum: 1, of: &["ann"], roles: &["manager"] },
        ],
        exclude_starter: false,
    },
    Rule { text: "{quorum: 2}", groups: &[Group { quorum: 2, of: &[], roles: &[] }], exclude_starter: false },
];

fn definition(rule: &Rule) -> Definition {
    let text = format!(
        "workflow: case\ninitial: draft\nstates:\n  draft: {{on: {{submit: {{target: review, recall: true}}}}}}\n  review:\n    on:\n      \
         approve: {{target: legal, approval: {}, recall: true}}\n      amend: {{assign: {{n: 1}}}}\n      note: {{}}\n      \
         again: review\n  legal: {{on: {{back: {{return: previous}}, end: done}}}}\n  done: {{type: final}}\n",
        rule.text
    );
    Definition::read(&text, Format::Yaml).unwrap_or_else(|problems| panic!("{problems:?}")).with_version(1)
}

/// A vote: by whose hand, in whose name, with which roles.
#[derive(Clone, Debug)]
struct Vote {
    hand: String,
    owner: String,
    roles: Vec<String>,
}

/// What one visit has seen.
#[derive(Default)]
struct Visit {
    votes: Vec<Vote>,
    /// By owner: to whom, and the owner's roles.
    given: BTreeMap<String, (String, Vec<String>)>,
    added: BTreeSet<String>,
    /// Who added whom, in order.
    adders: Vec<(String, String)>,
}

impl Visit {
    /// Whether the votes can be seated so that every place is filled: every way is tried.
    fn is_satisfied(&self, rule: &Rule) -> bool {
        let mut free: Vec<usize> = rule.groups.iter().map(|group| group.quorum).collect();
        let mut added: Vec<String> = self.added.iter().cloned().collect();
        seat(&self.votes, rule, &mut free, &mut added)
    }

    fn vote(&mut self, entry: &Entry) {
        let hand = entry.actor.id.clone();
        let (owner, roles) = match &entry.on_behalf_of {
            Some(owner) => {
                let (to, roles) = &self.given[owner];
                assert_eq!(*to, hand, "a vote is cast by whom it was handed to");
                (owner.clone(), roles.clone())
            }
            None => {
                assert!(!self.given.contains_key(&hand), "who has handed the vote over has none");
                (hand.clone(), entry.actor.roles.clone())
            }
        };
        assert!(self.votes.iter().all(|vote| vote.hand != hand && vote.owner != owner), "twice: {entry:?}");
        // One hand is one vote: what else it held is its owner's again.
        self.given.retain(|from, (to, _)| *to != hand || *from == owner);
        self.votes.push(Vote { hand, owner, roles });
    }

    /// Whether a vote of `owner` has a place.
    fn has_place(&self, rule: &Rule, owner: &str, roles: &[String]) -> bool {
        let fits = |group: &Group| {
            (group.of.is_empty() || group.of.contains(&owner))
                && (group.roles.is_empty() || group.roles.iter().any(|role| roles.iter().any(|has| has == role)))
        };
        self.added.contains(owner) || rule.groups.iter().any(fits)
    }

    fn recall(&mut self, rule: &Rule, entry: &Entry) {
        let actor = &entry.actor.id;
        if let Some(at) = self.votes.iter().position(|vote| vote.hand == *actor) {
            self.votes.remove(at);
        } else if let Some((to, _)) = self.given.remove(actor) {
            assert!(self.votes.iter().all(|vote| vote.hand != to), "a vote that was cast is not taken back");
            assert_eq!(entry.subject.as_ref(), Some(&to));
        } else {
            let at = self.adders.iter().rposition(|(by, _)| by == actor).expect("something of the actor's");
            self.added.remove(&self.adders.remove(at).1);
            // Who was added and has no other vote has handed over nothing.
            let given = std::mem::take(&mut self.given);
            self.given = given.into_iter().filter(|(owner, (_, roles))| self.has_place(rule, owner, roles)).collect();
        }
    }
}

fn seat(votes: &[Vote], rule: &Rule, free: &mut [usize], added: &mut Vec<String>) -> bool {
    let Some((vote, rest)) = votes.split_first() else {
        return added.is_empty() && free.iter().all(|places| *places == 0);
    };
    if let Some(at) = added.iter().position(|id| *id == vote.owner) {
        let id = added.remove(at);
        let fits = seat(rest, rule, free, added);
        added.insert(at, id);
        if fits {
            return true;
        }
    }
    for (at, group) in rule.groups.iter().enumerate() {
        let is_named = group.of.is_empty() || group.of.contains(&vote.owner.as_str());
        let has_role =
            group.roles.is_empty() || group.roles.iter().any(|role| vote.roles.iter().any(|has| has == role));
        if free[at] > 0 && is_named && has_role {
            free[at] -= 1;
            let fits = seat(rest, rule, free, added);
            free[at] += 1;
            if fits {
                return true;
            }
        }
    }
    seat(rest, rule, free, added)
}

#[derive(Clone, Debug)]
struct Step {
    actor: usize,
    roles: Vec<usize>,
    what: usize,
    whom: usize,
    to: bool,
}

fn step() -> impl Strategy<Value = Step> {
    (0..PEOPLE.len(), prop::collection::vec(0..ROLES.len(), 0..3), 0..24_usize, 0..PEOPLE.len(), any::<bool>())
        .prop_map(|(actor, roles, what, whom, to)| Step { actor, roles, what, whom, to })
}

fn command(step: &Step) -> Command {
    let event = |name: &str| Send { event: Some(name.to_owned()), ..Send::default() };
    let whom = PEOPLE[step.whom].to_owned();
    let to = step.to.then(|| "legal".to_owned());
    let send = match step.what {
        0..=9 => Send { to, ..event("approve") },
        10 => Send { to: Some("legal".to_owned()), ..Send::default() },
        11..=14 => Send { act: Some(Act::Delegate { to: whom }), ..event("approve") },
        15..=16 => Send { act: Some(Act::AddApprover { id: whom }), ..event("approve") },
        17..=18 => Send { act: Some(Act::Recall), ..event("approve") },
        19 => Send { act: Some(Act::Recall), ..Send::default() },
        20 => event("amend"),
        21 => event("note"),
        22 => event("back"),
        _ => event(if step.to { "again" } else { "submit" }),
    };
    let roles = step.roles.iter().map(|role| ROLES[*role].to_owned());
    let actor = Actor::new(PEOPLE[step.actor], roles, false).unwrap();
    Command { instance: key_of("case"), action: Action::Send(send), actor, idempotency_key: None }
}

/// As many cases as fit an ordinary test run; `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(200);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Follows one change, and checks it against the rule.
fn follow(visit: &mut Visit, rule: &Rule, before: &Instance, entry: &Entry, after: &Instance) {
    let is_approve = entry.event.as_deref() == Some("approve");
    match entry.kind {
        Kind::Vote => {
            visit.vote(entry);
            assert!(!visit.is_satisfied(rule), "it would have been the move: {entry:?}");
        }
        Kind::Move if is_approve => {
            // Who has voted before makes the move where an addition was taken back since.
            if visit.votes.iter().all(|vote| vote.hand != entry.actor.id) {
                visit.vote(entry);
            }
            let hands: Vec<&String> = visit.votes.iter().map(|vote| &vote.hand).collect();
            assert!(visit.is_satisfied(rule), "{:?} do not satisfy {}", visit.votes, rule.text);
            assert_eq!(entry.approved_by.iter().collect::<Vec<_>>(), hands);
            let is_starter = |vote: &Vote| vote.hand == before.started_by || vote.owner == before.started_by;
            assert!(!(rule.exclude_starter && visit.votes.iter().any(is_starter)), "the starter voted");
        }
        Kind::Delegate => {
            let given = (entry.subject.clone().unwrap(), entry.actor.roles.clone());
            assert!(visit.given.insert(entry.actor.id.clone(), given).is_none());
        }
        Kind::AddApprover => {
            let whom = entry.subject.clone().unwrap();
            assert!(visit.added.insert(whom.clone()), "added twice");
            visit.adders.push((entry.actor.id.clone(), whom));
        }
        Kind::Recall if before.state == after.state => visit.recall(rule, entry),
        Kind::Move if entry.event.as_deref() == Some("amend") => visit.votes.clear(),
        _ => {}
    }
    if after.entered != before.entered {
        *visit = Visit::default();
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_approval_is_passed_by(rule in 0..RULES.len(), steps in prop::collection::vec(step(), 1..80)) {
        let rule = &RULES[rule];
        let definition = definition(rule);
        let start = Command {
            action: Action::Start(lockkeeper_model::Start { run: Uuid::from_u128(1), data: data("{}"), ..lockkeeper_model::Start::default() }),
            ..command(&Step { actor: 0, roles: Vec::new(), what: 21, whom: 0, to: false })
        };
        let Ok(Decision::Change(started)) = decide(&definition, None, &start, at(0)) else { panic!("it starts") };
        let (mut current, mut visit) = (started.instance, Visit::default());
        for (number, step) in steps.iter().enumerate() {
            match decide(&definition, Some(&current), &command(step), at(number as i64)) {
                Ok(Decision::Change(change)) => {
                    follow(&mut visit, rule, &current, &change.entry, &change.instance);
                    let stored: Instance = serde_json::from_str(&serde_json::to_string(&change.instance).unwrap()).unwrap();
                    current = Instance { version: change.instance.version, ..stored };
                    prop_assert_eq!(&current, &change.instance);
                }
                Ok(Decision::Replace { .. }) => prop_assert!(false, "nothing starts here"),
                Ok(Decision::Stay(success)) => prop_assert_eq!(success.version, current.version),
                Err(refusal) => prop_assert!(!refusal.to_string().is_empty()),
            }
            prop_assert_eq!(current.votes.len(), if current.state == "review" { visit.votes.len() } else { 0 });
        }
    }
}
