//! In nobody's name a vote counts twice: every way through a small world is tried.

use std::collections::{BTreeSet, HashSet, VecDeque};

use lockkeeper_model::{
    Act, Action, Actor, Command, Decision, Definition, Entry, Format, Instance, Send, Start, decide,
};
use serde_json::json;

use crate::support::{at, key_of};

const PEOPLE: [&str; 3] = ["ann", "bob", "zoe"];

/// Who may be named by the data.
const NAMED: [&[&str]; 3] = [&["ann", "bob"], &["bob"], &["ann"]];

/// Ways of one rule are looked at until so many states are known: more than there are.
const STATES_MAX: usize = 20_000;

fn definition(rule: &str) -> Definition {
    let text = format!(
        "
        workflow: case
        initial: review
        states:
          review: {{on: {{approve: {{target: done, approval: {rule}}}, name: {{assign: {{people: event.people}}}}}}}}
          done: {{type: final}}
        "
    );
    Definition::read(&text, Format::Yaml).unwrap()
}

fn command(who: &str, action: Action) -> Command {
    let actor = Actor::new(who, ["x".to_owned()], false).unwrap();
    Command { instance: key_of("case"), action, actor, idempotency_key: None }
}

/// All that anybody can do.
fn commands() -> Vec<Command> {
    let approve = |act| Action::Send(Send { event: Some("approve".to_owned()), act, ..Send::default() });
    let mut all = Vec::new();
    for who in PEOPLE {
        all.push(command(who, approve(None)));
        all.push(command(who, approve(Some(Act::Recall))));
        for other in PEOPLE {
            all.push(command(who, approve(Some(Act::Delegate { to: other.to_owned() }))));
            all.push(command(who, approve(Some(Act::AddApprover { id: other.to_owned() }))));
        }
    }
    for people in NAMED {
        let data = serde_json::from_value(json!({ "people": people })).unwrap();
        all.push(command("sam", Action::Send(Send { event: Some("name".to_owned()), data, ..Send::default() })));
    }
    all
}

/// What of an instance the approval goes by: two that agree in it go on alike.
fn what_counts(instance: &Instance) -> String {
    let votes: Vec<_> = instance.votes.iter().map(|vote| (&vote.actor, &vote.on_behalf_of)).collect();
    let given: Vec<_> = instance.delegations.iter().map(|given| (&given.from, &given.to)).collect();
    let added: Vec<_> = instance.additions.iter().map(|added| (&added.id, &added.by)).collect();
    format!("{votes:?} {given:?} {added:?} {:?}", instance.data)
}

/// In whose name the votes were cast that made a move.
fn owners(before: &Instance, moved: &Entry) -> Vec<String> {
    let owner = |hand: &String| match before.votes.iter().find(|vote| vote.actor == *hand) {
        Some(vote) => vote.on_behalf_of.clone().unwrap_or_else(|| hand.clone()),
        None => moved.on_behalf_of.clone().unwrap_or_else(|| hand.clone()),
    };
    moved.approved_by.iter().map(owner).collect()
}

#[test]
fn nobody_s_vote_counts_twice_by_whatever_way() {
    for groups in ["quorum: all, of: data.people", "groups: [{quorum: all, of: data.people}, {quorum: 1, roles: [x]}]"]
    {
        let definition = definition(&format!("{{{groups}, delegation: true, recall: true, add_approvers: true}}"));
        let data = serde_json::from_value(json!({ "people": NAMED[0] })).unwrap();
        let start = command("sam", Action::Start(Start { data, ..Start::default() }));
        let Ok(Decision::Change(started)) = decide(&definition, None, &start, at(0)) else { panic!("it starts") };
        let mut known = HashSet::from([what_counts(&started.instance)]);
        let mut next = VecDeque::from([started.instance]);
        let (commands, mut moves) = (commands(), 0);
        while let Some(current) = next.pop_front() {
            for command in &commands {
                let Ok(Decision::Change(change)) = decide(&definition, Some(&current), command, at(1)) else {
                    continue;
                };
                if change.instance.status.is_closed() {
                    let owners = owners(&current, &change.entry);
                    let distinct: BTreeSet<_> = owners.iter().collect();
                    assert_eq!(distinct.len(), owners.len(), "{groups}: {owners:?} after {}", what_counts(&current));
                    moves += 1;
                } else if known.insert(what_counts(&change.instance)) {
                    assert!(known.len() < STATES_MAX, "{groups}: there are more ways than were thought");
                    next.push_back(change.instance);
                }
            }
        }
        assert!(moves > 100, "{groups}: only {moves} moves among {} states", known.len());
    }
}
