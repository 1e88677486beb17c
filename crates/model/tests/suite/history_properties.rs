//! Whatever is sent in whatever order, all acts and migrations among it: the history is legal, and tells what became of the
//! instance. It is followed here a second time, by the instances as they were before and after each change.

use std::collections::{BTreeMap, BTreeSet};

use lockkeeper_model::{
    Act, Action, Actor, Change, Close, Command, ConflictPolicy, Data, Decision, Definition, Entry, Fire, Format,
    Instance, Kind, Known, Migrate, Refusal, Send, Start, Status, decide, history,
};
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

use crate::support::{at, changes, key_of};

const STATES: [&str; 4] = ["a", "b", "c", "d"];
const PEOPLE: [&str; 5] = ["ann", "bob", "cy", "di", "eve"];
const ROLES: [&str; 3] = ["x", "y", "z"];
const EVENTS: [&str; 7] = ["go", "approve", "back", "note", "again", "amend", "finish"];
const RULES: [&str; 6] = [
    "{quorum: 2, delegation: true, recall: true, add_approvers: true}",
    "{quorum: 1, recall: true, add_approvers: true}",
    "{quorum: all, of: data.people, delegation: true, recall: true, add_approvers: true, exclude_starter: true}",
    "{groups: [{quorum: 1, roles: [x]}, {quorum: 1, roles: [y]}], delegation: {roles: [z]}, recall: true, add_approvers: {roles: [z]}}",
    "{quorum: 2, of: [ann, bob, cy], delegation: {of: [di, eve]}, veto: finish}",
    "{quorum: any, of: [ann, di], delegation: true}",
];

/// One nonfinal state, as YAML. `at` is its place, for transitions into itself.
fn state(at: usize) -> impl Strategy<Value = String> {
    let target = || prop::sample::select(&STATES[..]);
    let rule = || prop::sample::select(&RULES[..]);
    let approve = prop_oneof![
        (target(), rule(), any::<bool>())
            .prop_map(|(to, rule, recall)| format!("{{target: {to}, approval: {rule}, recall: {recall}}}")),
        rule().prop_map(|rule| format!("{{approval: {rule}}}")),
        rule().prop_map(|rule| format!("{{assign: {{n: '1'}}, approval: {rule}}}")),
        rule().prop_map(|rule| format!("{{return: previous, approval: {rule}, recall: true}}")),
        (rule(), rule(), target()).prop_map(|(first, second, to)| format!(
            "[{{guard: event.n < 2, target: {to}, approval: {first}}}, {{target: {to}, approval: {second}}}]"
        )),
    ];
    let timers = prop::sample::subsequence(
        vec![
            "2s: {assign: {late: 'true'}}",
            "4s: {target: a, guard: data.n < 3}",
            "6s: b",
            "9s: {assign: {n: data.m}}",
        ],
        0..4,
    );
    (target(), any::<bool>(), approve, any::<bool>(), timers).prop_map(move |(go, recall, approve, any, timers)| {
        let back = if any { "any" } else { "previous" };
        let (here, timers) = (STATES[at], timers.join(", "));
        format!(
            "{{on: {{go: {{target: {go}, assign: {{n: event.n}}, recall: {recall}}}, approve: {approve}, back: {{return: {back}, recall: true}}, \
             note: {{}}, again: {{target: {here}, recall: true}}, amend: {{assign: {{people: event.people}}}}, finish: e}}, after: {{{timers}}}}}"
        )
    })
}

/// A definition with every state reached. Two of three lead back somewhere.
fn definition() -> impl Strategy<Value = String> {
    (state(0), state(1), state(2), state(3), 0..3_usize).prop_map(|(a, b, c, d, ways)| {
        let all = STATES.iter().map(|state| format!("to_{state}: {state}")).collect::<Vec<_>>().join(", ");
        let a = a.replacen("{on: {", &format!("{{on: {{{all}, "), 1);
        let states = format!("  a: {a}\n  b: {b}\n  c: {c}\n  d: {d}\n  e: {{type: final}}\n");
        let states = if ways == 0 {
            states.replace("return: any", "target: a").replace("return: previous", "target: a")
        } else {
            states
        };
        format!("workflow: case\ninitial: a\nstates:\n{states}")
    })
}

#[derive(Clone, Debug)]
struct Step {
    what: usize,
    who: usize,
    roles: Vec<usize>,
    whom: usize,
    event: usize,
    n: i64,
    to: Option<usize>,
}

fn step() -> impl Strategy<Value = Step> {
    let roles = prop::collection::vec(0..ROLES.len(), 0..4);
    let to = prop::option::weighted(0.3, 0..STATES.len());
    (0..40_usize, 0..PEOPLE.len(), roles, 0..PEOPLE.len(), 0..EVENTS.len() - 1, 0..4_i64, to)
        .prop_map(|(what, who, roles, whom, event, n, to)| Step { what, who, roles, whom, event, n, to })
}

fn command(step: &Step, number: usize) -> Command {
    let name = PEOPLE[step.whom].to_owned();
    let data: Data = serde_json::from_value(json!({ "n": step.n, "people": &PEOPLE[..=step.whom] })).unwrap();
    let to = step.to.map(|to| STATES[to].to_owned());
    let event = |name: &str| Send { event: Some(name.to_owned()), data: data.clone(), ..Send::default() };
    let from = step.to.map(|from| STATES[from].to_owned());
    let close = || Close { run: None, reason: "why".to_owned() };
    let action = match step.what {
        0..=11 => Action::Send(event("approve")),
        12..=16 => Action::Send(Send { act: Some(Act::Delegate { to: name }), ..event("approve") }),
        17..=19 => Action::Send(Send { act: Some(Act::AddApprover { id: name }), ..event("approve") }),
        20..=22 => Action::Send(Send { act: Some(Act::Recall), ..event("approve") }),
        23 => Action::Send(Send { act: Some(Act::Recall), data, ..Send::default() }),
        24..=25 => Action::Send(Send { act: Some(Act::Recall), ..event(EVENTS[step.event]) }),
        26..=30 => Action::Send(Send { to, ..event(EVENTS[step.event]) }),
        31 => Action::Send(Send { from, ..event("go") }),
        32..=33 => Action::Fire(Fire { until: at(number as i64) }),
        34 => Action::Start(Start {
            run: Uuid::from_u128(number as u128 + 1),
            data,
            execution_timeout_ms: (step.n == 3).then_some(20_000),
            conflict_policy: ConflictPolicy::ALL[step.whom % 3],
            ..Start::default()
        }),
        35 if step.n == 0 => Action::Terminate(close()),
        35 if step.n == 1 => Action::Cancel(close()),
        35 => Action::Send(event("finish")),
        _ => Action::Migrate(Migrate {
            state_map: step
                .to
                .map(|to| (STATES[step.whom % 4].to_owned(), STATES[to].to_owned()))
                .into_iter()
                .collect(),
            reason: "why".to_owned(),
            ..Migrate::default()
        }),
    };
    let roles = step.roles.iter().map(|role| ROLES[*role].to_owned());
    let actor = Actor::new(PEOPLE[step.who], roles, false).unwrap();
    Command { instance: key_of("case"), action, actor, idempotency_key: None }
}

/// What the entries have told so far, beside the instance that they led to.
#[derive(Default)]
struct Shadow {
    current: Option<Instance>,
    /// The instance before the last entry, if that was a move, with its event and who made it.
    moved: Option<(Instance, String, String)>,
}

/// What was recorded, each in one line.
fn recorded(instance: &Instance) -> BTreeSet<String> {
    let votes = instance.votes.iter();
    let votes = votes.map(|v| format!("vote {} {} {} {:?}", v.event, v.transition, v.actor, v.on_behalf_of));
    let given = instance.delegations.iter().map(|d| format!("given {} {} {} {}", d.event, d.transition, d.from, d.to));
    let added = instance.additions.iter().map(|a| format!("added {} {} {} {}", a.event, a.transition, a.by, a.id));
    let all: Vec<String> = votes.chain(given).chain(added).collect();
    let distinct: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(all.len(), distinct.len(), "nothing is recorded twice: {all:?}");
    distinct
}

impl Shadow {
    fn follow(&mut self, change: &Change) {
        let (entry, after) = (&change.entry, &change.instance);
        let before = self.current.take();
        assert_eq!(after.version, before.as_ref().map_or(0, |before| before.version) + 1);
        assert_eq!(
            (&entry.to, entry.run, entry.definition_version),
            (&after.state, after.run, after.definition_version)
        );
        let running = before.as_ref().filter(|before| before.status == Status::Running);
        let moved = self.moved.take();
        match (running, &entry.kind) {
            (None, Kind::Start) => assert!(recorded(after).is_empty() && after.path.is_empty()),
            (None, kind) => panic!("{kind:?} of no run"),
            (Some(before), kind) => {
                assert_ne!(*kind, Kind::Start, "beside another run");
                assert_eq!((entry.from.as_ref(), after.run), (Some(&before.state), before.run));
                let is_closing = matches!(kind, Kind::Terminate | Kind::Cancel | Kind::TimedOut);
                assert!(!is_closing || after.status.is_closed() && after.next_due().is_none());
                check_recorded(entry, before, after, moved.as_ref());
                if *kind == Kind::Move && after.entered != before.entered {
                    self.moved = Some((before.clone(), entry.event.clone().unwrap(), entry.actor.id.clone()));
                }
            }
        }
        self.current = Some(after.clone());
    }
}

/// What an entry says is what became of votes, delegations, additions, the way and the data.
fn check_recorded(entry: &Entry, before: &Instance, after: &Instance, moved: Option<&(Instance, String, String)>) {
    let (old, new) = (recorded(before), recorded(after));
    let (gone, come): (Vec<_>, Vec<_>) = (old.difference(&new).collect(), new.difference(&old).collect());
    let (event, actor) = (entry.event.clone().unwrap_or_default(), &entry.actor.id);
    let whom = entry.subject.clone().unwrap_or_default();
    let is_one = |found: &[&String], begins: &str, ends: &str| {
        let is_it = |line: &&&String| line.starts_with(begins) && line.ends_with(ends);
        assert_eq!(found.iter().filter(is_it).count(), 1, "{begins} .. {ends} in {found:?}: {entry:?}");
    };
    if after.entered != before.entered {
        assert!(new.is_empty(), "a visit begins with nothing: {new:?}");
    }
    match entry.kind {
        Kind::Vote => {
            is_one(&come, &format!("vote {event} "), &format!(" {actor} {:?}", entry.on_behalf_of));
            assert_eq!(come.len(), 1);
        }
        Kind::Delegate => is_one(&come, &format!("given {event} "), &format!(" {actor} {whom}")),
        Kind::AddApprover => is_one(&come, &format!("added {event} "), &format!(" {actor} {whom}")),
        Kind::Recall if after.entered == before.entered => {
            assert!(come.is_empty());
            match &entry.subject {
                None => is_one(&gone, &format!("vote {event} "), &format!(" {actor} {:?}", entry.on_behalf_of)),
                Some(_) if gone.iter().any(|line| line.starts_with("added")) => {
                    is_one(&gone, &format!("added {event} "), &format!(" {actor} {whom}"));
                }
                Some(_) => is_one(&gone, &format!("given {event} "), &format!(" {actor} {whom}")),
            }
        }
        Kind::Recall => {
            let Some((origin, by, who)) = moved else { panic!("nothing was moved: {entry:?}") };
            assert_eq!((&event, actor, &after.state), (by, who, &origin.state));
            assert_eq!((&after.path, &after.data), (&origin.path, &origin.data), "as it was before");
        }
        Kind::Move => {
            let hands: BTreeSet<&String> = entry.approved_by.iter().collect();
            assert_eq!(hands.len(), entry.approved_by.len());
            for hand in hands.into_iter().filter(|hand| *hand != actor) {
                assert!(
                    before.votes.iter().any(|vote| vote.actor == *hand && vote.event == event),
                    "{hand}: {entry:?}"
                );
            }
            if let Some(owner) = &entry.on_behalf_of {
                assert!(before.delegations.iter().any(|given| given.from == *owner && given.to == *actor), "{entry:?}");
            }
            assert!(come.is_empty());
        }
        Kind::Migrate => {
            assert!(new.is_empty());
            assert_eq!(entry.from_definition_version, Some(before.definition_version));
        }
        _ => assert!(come.is_empty()),
    }
}

/// The history with one entry that tells what was not; none: the entry tells nothing of the kind.
fn forged(entries: &[(i64, Entry)], at: usize, how: usize) -> Option<Vec<(i64, Entry)>> {
    let mut forged = entries.to_vec();
    let is_last = at + 1 == forged.len();
    let entry = &mut forged[at].1;
    let nobody = || Some("nobody".to_owned());
    match (how, &entry.kind) {
        (0, Kind::Recall) => entry.event = Some("nothing".to_owned()),
        (1, Kind::Recall) => entry.actor.id = "nobody".to_owned(),
        (2, Kind::Recall | Kind::Vote) => entry.on_behalf_of = nobody(),
        (3, Kind::Recall) => entry.subject = nobody(),
        (4, Kind::Move) => entry.approved_by.push("nobody".to_owned()),
        (5, Kind::Migrate) => entry.from_definition_version = entry.from_definition_version.map(|version| version + 9),
        (6, kind) if *kind != Kind::Start => entry.run = Uuid::from_u128(u128::MAX),
        (7, kind) if *kind != Kind::Start => entry.from = nobody(),
        (8, kind) if *kind != Kind::Start => entry.definition_version += 9,
        (9, _) if !is_last => drop(forged.remove(at)),
        _ => return None,
    }
    // A migration to another version is told by what follows it.
    let is_told = how != 8 || !is_last || entries[at].1.kind != Kind::Migrate;
    (is_told && !(how == 9 && at == 0)).then_some(forged)
}

fn checked(entries: &[(i64, Entry)]) -> Result<(), String> {
    history::check(entries.iter().map(|(version, entry)| (*version, entry)))
}

/// As many cases as fit an ordinary test run; `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_sequence_of_acts_makes_an_illegal_history(
        texts in prop::collection::vec(definition(), 3), steps in prop::collection::vec(step(), 1..120),
        forge in prop::collection::vec((any::<prop::sample::Index>(), 0..10_usize), 8),
    ) {
        let read = |(version, text): (i64, &String)| {
            let definition = Definition::read(text, Format::Yaml).unwrap_or_else(|problems| panic!("{text}\n{problems:?}"));
            (version, definition.with_version(version))
        };
        let definitions: BTreeMap<i64, Definition> = (1..).zip(&texts).map(read).collect();
        let (mut shadow, mut entries) = (Shadow::default(), Vec::new());
        let first = Step { what: 34, who: 0, roles: Vec::new(), whom: 1, event: 0, n: 0, to: None };
        for (number, step) in std::iter::once(&first).chain(&steps).enumerate() {
            let command = command(step, number);
            let current = shadow.current.clone();
            let on = current.as_ref().map_or(1, |current| current.definition_version);
            let begins = matches!(command.action, Action::Start(_));
            let definition = &definitions[&if begins { step.n % 3 + 1 } else { on }];
            let known = Known { target: definitions.get(&(step.n % 3 + 1)), ..Known::from(definition) };
            match decide(known, current.as_ref(), &command, at(number as i64)) {
                Ok(Decision::Stay(success)) => prop_assert_eq!(success.version, current.unwrap().version),
                Ok(decision) => for change in changes(&decision) {
                    shadow.follow(change);
                    entries.push((change.instance.version, change.entry.clone()));
                    let stored: Instance = serde_json::from_str(&serde_json::to_string(&change.instance).unwrap()).unwrap();
                    prop_assert_eq!(&Instance { version: change.instance.version, ..stored }, &change.instance);
                    let stored: Entry = serde_json::from_str(&serde_json::to_string(&change.entry).unwrap()).unwrap();
                    prop_assert_eq!(&stored, &change.entry);
                }
                Err(Refusal::Malformed { detail }) => prop_assert!(!detail.contains("has no state"), "{}", detail),
                Err(refusal) => prop_assert!(!refusal.to_string().is_empty()),
            }
        }
        prop_assert_eq!(checked(&entries), Ok(()));
        // Whichever of the oldest were purged.
        let from = forge[0].0.index(entries.len());
        prop_assert_eq!(checked(&entries[from..]), Ok(()));
        for (at, how) in &forge {
            let at = at.index(entries.len());
            if let Some(forged) = forged(&entries, at, *how) {
                prop_assert!(checked(&forged).is_err(), "{} of {:?}", how, entries[at]);
            }
        }
    }
}
