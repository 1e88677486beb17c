//! Moving a run to another version of its definition.

use std::collections::{BTreeMap, BTreeSet};

use lockkeeper_model::{
    Action, Command, Decision, Definition, Entry, Fire, Format, Instance, Kind, Known, Migrate, Refusal, Status,
    decide, history,
};
use proptest::prelude::*;

use crate::support::{Case, actor, at, key_of};

const OLD: &str = "
workflow: case
initial: draft
states:
  draft: {on: {submit: review, skip: packing}}
  review:
    on: {approve: {target: packing, approval: {quorum: 2}}, reject: rejected}
    after: {1h: rejected, 2h: {assign: {late: 'true'}}}
  packing: {on: {ship: done}}
  rejected: {type: final, status: failed}
  done: {type: final}
";

/// `review` is called `checking`, what comes after it `picking`, and there is one more way to be late.
const NEW: &str = "
workflow: case
initial: draft
states:
  draft: {on: {submit: checking}}
  checking:
    on: {approve: {target: picking, approval: {quorum: 3}}, reject: rejected}
    after: {30m: rejected}
  picking: {on: {ship: done}}
  rejected: {type: final, status: failed}
  done: {type: final}
";

fn version(text: &str, version: i64) -> Definition {
    Definition::read(text, Format::Yaml).unwrap_or_else(|problems| panic!("{problems:?}")).with_version(version)
}

fn migration(map: &[(&str, &str)]) -> Migrate {
    let state_map: BTreeMap<String, String> =
        map.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect();
    Migrate { state_map, reason: "renamed".to_owned(), ..Migrate::default() }
}

fn judge(case: &Case, new: &Definition, migrate: Migrate, seconds: i64) -> Result<Decision, Refusal> {
    let command = Command {
        instance: key_of("case"),
        action: Action::Migrate(migrate),
        actor: actor("root[admin]"),
        idempotency_key: None,
    };
    let known = Known { target: Some(new), ..Known::from(&case.definition) };
    decide(known, case.current.as_ref(), &command, at(seconds))
}

fn changed(decision: Result<Decision, Refusal>) -> (Instance, Entry) {
    match decision.unwrap_or_else(|refusal| panic!("{refusal}")) {
        Decision::Change(change) => (change.instance, change.entry),
        other => panic!("{other:?}"),
    }
}

fn refused(decision: Result<Decision, Refusal>) -> String {
    match decision {
        Err(Refusal::NotMigratable { detail, states, .. }) => {
            assert_eq!(states, ["draft", "checking", "picking"], "those that are not final");
            assert!(detail.contains("draft, checking, picking"), "{detail}");
            detail
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_goes_on_in_the_state_that_it_is_mapped_to() {
    let mut case = Case::new(OLD);
    case.run(
        r"
        ann start -> started v1 draft
        ann submit -> applied v2 review
        bob approve -> pending_approval v3 review, 1/2 bob
        ",
    );
    let new = version(NEW, 4);
    let decision = judge(&case, &new, migration(&[("review", "checking")]), 100);
    let Ok(Decision::Change(change)) = &decision else { panic!("{decision:?}") };
    let told = change.success.migration.clone().unwrap();
    assert_eq!((told.from_version, told.to_version, told.timers), (3, 4, 1));
    assert_eq!((told.from_state.as_str(), told.to_state.as_str()), ("review", "checking"));
    assert_eq!(told.votes_dropped, ["bob"], "what bob voted for is another thing now");
    let (instance, entry) = changed(decision);
    assert_eq!((instance.version, instance.definition_version), (4, 4));
    assert_eq!((instance.state.as_str(), instance.status, instance.votes.len()), ("checking", Status::Running, 0));
    assert_eq!(instance.timers[0].due, at(100 + 30 * 60), "a visit of its own");
    assert_eq!((entry.from_definition_version, entry.definition_version), (Some(3), 4));
    assert_eq!(entry.kind, Kind::Migrate);
    assert_eq!((entry.from.as_deref(), entry.to.as_str()), (Some("review"), "checking"));
    assert_eq!((entry.actor.id.as_str(), entry.reason.as_deref()), ("root", Some("renamed")));
    case.history.push((4, entry));
    history::check(case.history.iter().map(|(version, entry)| (*version, entry))).unwrap();
    // It is judged by the new version from now on: three votes.
    case.definition = new;
    case.current = Some(instance);
    case.run("bob approve -> pending_approval v5 checking, 1/3 bob");
}

#[test]
fn what_it_is_refused_for_names_what_to_write() {
    let mut case = Case::new(OLD);
    case.run("ann start -> started v1 draft").run("ann submit -> applied v2 review");
    let new = version(NEW, 4);
    let missing = refused(judge(&case, &new, migration(&[]), 9));
    assert!(missing.contains("has no state \"review\"") && missing.contains("map it"), "{missing}");
    let unknown = refused(judge(&case, &new, migration(&[("review", "chekcing")]), 9));
    assert!(unknown.contains("\"chekcing\""), "{unknown}");
    for end in ["done", "rejected"] {
        let end = refused(judge(&case, &new, migration(&[("review", end)]), 9));
        assert!(end.contains("is final"), "{end}");
    }
    let reason = judge(&case, &new, Migrate { reason: " ".to_owned(), ..migration(&[]) }, 9);
    assert_eq!(reason.unwrap_err().outcome(), "malformed");
    let run = judge(&case, &new, Migrate { run: Some(uuid::Uuid::from_u128(9)), ..migration(&[]) }, 9);
    assert_eq!(run.unwrap_err().outcome(), "state_mismatch");
}

/// No rule can be passed by any door.
#[test]
fn a_map_leads_past_no_approval() {
    let new = version(NEW, 4);
    let mut case = Case::new(OLD);
    case.run("ann start -> started v1 draft");
    let past = refused(judge(&case, &new, migration(&[("draft", "picking")]), 9));
    assert!(past.contains("a map leads past no approval"), "{past}");
    // Nor is `packing` a proof of one: there was a way to it without.
    case.run("ann skip -> applied v2 packing");
    refused(judge(&case, &new, migration(&[("packing", "picking")]), 9));
    // Where there was none, the run has passed it.
    let mut case = Case::new(&OLD.replace(", skip: packing", ""));
    case.run(
        r"
        ann start -> started v1 draft
        ann submit -> applied v2 review
        bob approve -> pending_approval v3 review, 1/2 bob
        cyd approve -> applied v4 packing, by bob cyd
        ",
    );
    let (instance, _) = changed(judge(&case, &new, migration(&[("packing", "picking")]), 9));
    assert_eq!(instance.state, "picking");
}

/// One approval is not another: neither a further one, nor one of another stage.
#[test]
fn a_map_leads_past_no_further_approval() {
    let staged = |board: &str, pay: &str| {
        format!(
            "{{workflow: case, initial: draft, states: {{draft: {{on: {{ok: {{target: lead, approval: {{quorum: 1}}}}}}}},
            lead: {{on: {{pass: {board}, back: draft}}}},
            {board}: {{on: {{ok_all: {{target: {pay}, approval: {{quorum: 3}}}}, talk: {board}talk, stop: stopped}}}},
            {board}talk: {{on: {{on: {board}}}}}, {pay}: {{on: {{paid: stopped}}}}, stopped: {{type: final}}}}}}"
        )
    };
    let old = staged("board", "pay");
    let mut case = Case::new(&old);
    case.run("ann start -> started v1 draft")
        .run("ann ok -> applied v2 lead, by ann")
        .run("bob pass -> applied v3 board");
    for (new, from, to, may) in [
        // The state is there, and what lies behind an approval from there.
        (&old, "board", "pay", false),
        (&old, "board", "boardtalk", true),
        (&old, "board", "lead", true),
        (&old, "board", "draft", true),
        // It has another name.
        (&staged("council", "pay"), "board", "council", true),
        (&staged("council", "pay"), "board", "counciltalk", true),
        (&staged("council", "pay"), "board", "lead", true),
        (&staged("council", "pay"), "board", "pay", false),
        // As many approvals lead there as before, but this one comes after what the run has passed.
        (
            &staged("council", "pay").replace("ok: {target: lead, approval: {quorum: 1}}", "ok: lead"),
            "board",
            "pay",
            false,
        ),
    ] {
        let answer = judge(&case, &version(new, 4), migration(&[(from, to)]), 9);
        assert_eq!(answer.is_ok(), may, "{from} > {to} of {new}: {answer:?}");
    }
}

/// What a run has passed is told by where it is, whatever it is known to have come by.
#[test]
fn a_map_goes_by_the_state_and_not_by_the_path() {
    let machine = |states: &str| {
        format!(
            "{{workflow: case, initial: draft, states: {{draft: {{on: {{go: payment, direct: office, ok: {{target: packing, \
            approval: {{quorum: 1}}}}}}}}, {states}, done: {{type: final}}}}}}"
        )
    };
    let old = machine("payment: {on: {pay: office}}, office: {on: {end: done}}, packing: {on: {end: done}}");
    let run = |ways: &str| {
        let mut case = Case::new(&old);
        case.run("ann start -> started v1 draft");
        for (line, version) in ways.split(' ').zip(2..) {
            let (event, to) = line.split_once('>').unwrap();
            let by = if event == "ok" { ", by ann" } else { "" };
            case.run(&format!("ann {event} -> applied v{version} {to}{by}"));
        }
        case
    };
    let paying =
        "payment: {on: {pay: office}}, office: {on: {approve: {target: payment, approval: {quorum: 3}}, end: done}}"
            .to_owned();
    let paying = machine(&format!("{paying}, packing: {{on: {{end: done}}}}")).replace("go: payment, ", "");
    let picking = "payment: {on: {pay: office}}, office: {on: {end: done}}, picking: {on: {on: packing}}, packing: {on: {end: done}}";
    let picking = machine(picking).replace("target: packing", "target: picking");
    let beside = machine(
        "payment: {on: {pay: office}}, office: {on: {end: done}}, packing: {on: {end: done}}, safe: {on: {end: done}}",
    )
    .replace("direct: office", "direct: office, open: {target: safe, approval: {quorum: 3}}");
    for (ways, new, from, to, may) in [
        // It came by `payment`, but that now is behind an approval which it has not passed.
        ("go>payment pay>office", &paying, "office", "payment", false),
        // A stage under an approval that it has passed.
        ("ok>packing", &picking, "packing", "picking", true),
        ("direct>office", &picking, "office", "picking", false),
        // Behind another approval, which the old version had as well, or had not.
        ("ok>packing", &beside, "packing", "safe", false),
    ] {
        let mut case = run(ways);
        for forgotten in [false, true] {
            if forgotten {
                case.current.as_mut().unwrap().path.clear();
            }
            let answer = judge(&case, &version(new, 4), migration(&[(from, to)]), 9);
            assert_eq!(answer.is_ok(), may, "{from} > {to} of {new}: {answer:?}");
        }
    }
}

/// Whoever renames a state does not make it another one that there was.
#[test]
fn what_stood_beside_a_state_does_not_take_its_place() {
    let machine = |packing: &str| {
        format!(
            "{{workflow: case, initial: draft, states: {{draft: {{on: {{ok: {{target: {packing}, approval: {{quorum: 1}}}},
            open: {{target: safe, approval: {{quorum: 3}}}}}}}}, {packing}: {{on: {{end: done}}}}, safe: {{on: {{end: done}}}},
            done: {{type: final}}}}}}"
        )
    };
    let mut case = Case::new(&machine("packing"));
    case.run("ann start -> started v1 draft").run("ann ok -> applied v2 packing, by ann");
    for (target, may) in [("safe", false), ("packed", true), ("draft", true)] {
        let answer = judge(&case, &version(&machine("packed"), 4), migration(&[("packing", target)]), 9);
        assert_eq!(answer.is_ok(), may, "{target}: {answer:?}");
    }
}

#[test]
fn what_is_void_is_told_and_what_means_nothing() {
    let text = OLD.replace("quorum: 2", "quorum: 2, delegation: true, add_approvers: true");
    let mut case = Case::new(&text);
    case.run(
        r"
        ann start -> started v1 draft
        ann submit -> applied v2 review
        bob approve -> pending_approval v3 review, 1/2 bob
        cyd approve delegate=dan -> pending_approval v4 review, 1/2 bob
        bob approve add=eve -> pending_approval v5 review, 1/3 bob
        ",
    );
    let Decision::Change(change) = judge(&case, &version(&text, 4), migration(&[("reveiw", "draft")]), 9).unwrap()
    else {
        panic!("it is moved")
    };
    let told = change.success.migration.unwrap();
    let given: Vec<_> = told.delegations_dropped.iter().map(|given| (&*given.from, &*given.to)).collect();
    assert_eq!(
        (told.votes_dropped, given, told.added_dropped),
        (vec!["bob".into()], vec![("cyd", "dan")], vec!["eve".into()])
    );
    assert_eq!(told.unknown_states, ["reveiw"]);
}

#[test]
fn a_visit_that_goes_on_has_its_timers_from_when_it_began() {
    let mut case = Case::new(OLD);
    case.run("ann start -> started v1 draft").run("ann submit -> applied v2 review");
    let begun = case.current.as_ref().unwrap().entered.at.unwrap();
    let hour = chrono::TimeDelta::hours(1);
    // One that has fired does not fire again; one that is new counts from the same beginning, and may be overdue.
    case.current.as_mut().unwrap().timers.retain(|timer| timer.after == 0);
    let text = OLD.replace("after: {1h:", "after: {30m: {assign: {soon: 'true'}}, 1h:");
    let (instance, entry) = changed(judge(&case, &version(&text, 4), migration(&[]), 2 * 3600));
    assert_eq!((entry.from.as_deref(), entry.to.as_str()), (Some("review"), "review"));
    let due: Vec<_> = instance.timers.iter().map(|timer| timer.due).collect();
    assert_eq!(due, [begun + hour / 2, begun + hour]);
    assert_eq!(instance.entered, case.current.as_ref().unwrap().entered, "the same visit");
}

#[test]
fn what_is_over_or_there_already() {
    let mut case = Case::new(OLD);
    case.run("ann start -> started v1 draft");
    let same = judge(&case, &version(OLD, 3), migration(&[("draft", "nowhere")]), 9).unwrap();
    let Decision::Stay(success) = same else { panic!("{same:?}") };
    assert_eq!((success.outcome, success.version), (lockkeeper_model::SuccessKind::AlreadyApplied, 1));
    case.run("ann cancel -> applied v2 draft canceled");
    let over = judge(&case, &version(NEW, 4), migration(&[]), 9);
    assert!(matches!(over, Err(Refusal::AlreadyClosed { status: Status::Canceled, .. })), "{over:?}");
}

#[test]
fn a_timer_that_has_fired_is_remembered_by_versions_that_do_not_have_it() {
    let with =
        "{workflow: case, initial: a, states: {a: {on: {go: b}, after: {1s: {assign: {n: 1}}}}, b: {type: final}}}";
    let without = "{workflow: case, initial: a, states: {a: {on: {go: b}}, b: {type: final}}}";
    let mut case = Case::new(with);
    case.run("ann start -> started v1 a").run("ann fire until=9 -> applied v2 a");
    case.migrate(without, &[]).migrate(without, &[]).migrate(with, &[]);
    case.run("ann fire until=99 -> already_applied v5 a, stays");
    let stored = serde_json::to_value(case.current.as_ref().unwrap()).unwrap();
    assert_eq!(stored["fired"], serde_json::json!([1000]), "in milliseconds");
}

/// What happens in the test below.
#[derive(Clone, Debug)]
enum Happening {
    /// To a version with timers of these hours.
    Migrate(BTreeSet<i64>),
    /// So many hours pass.
    Wait(i64),
    /// The visit ends, and another begins.
    Again,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => prop::collection::btree_set(1..5_i64, 0..4).prop_map(Happening::Migrate),
        4 => (0..3_i64).prop_map(Happening::Wait),
        1 => Just(Happening::Again),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// In a visit, over whatever versions: what is due fires while the version has it, and never twice.
    #[test]
    fn a_timer_fires_once_in_a_visit_over_any_chain_of_versions(steps in prop::collection::vec(happening(), 1..30)) {
        let text = |hours: &BTreeSet<i64>| {
            let after = hours.iter().map(|h| format!("{h}h: {{assign: {{last: {h}}}}}")).collect::<Vec<_>>().join(", ");
            format!("{{workflow: case, initial: a, states: {{a: {{on: {{again: a, go: b}}, after: {{{after}}}}}, b: {{type: final}}}}}}")
        };
        let send = |action| Command { instance: key_of("case"), action, actor: actor("ann"), idempotency_key: None };
        let (mut hours, mut now, mut begun) = (BTreeSet::from([1, 3]), 0_i64, 0_i64);
        let mut definition = version(&text(&hours), 1);
        let (mut current, _) = changed(decide(&definition, None, &send(Action::Start(lockkeeper_model::Start::default())), at(0)));
        let mut fired: Vec<i64> = Vec::new();
        for (number, step) in (2..).zip(steps) {
            match step {
                Happening::Migrate(other) => {
                    let next = version(&text(&other), number);
                    let known = Known { target: Some(&next), ..Known::from(&definition) };
                    (current, _) = changed(decide(known, Some(&current), &send(Action::Migrate(migration(&[]))), at(now * 3600)));
                    (definition, hours) = (next, other);
                }
                Happening::Wait(hours) => now += hours,
                Happening::Again => {
                    let again = lockkeeper_model::Send { event: Some("again".to_owned()), ..lockkeeper_model::Send::default() };
                    (current, _) = changed(decide(&definition, Some(&current), &send(Action::Send(again)), at(now * 3600)));
                    begun = now;
                    fired.clear();
                }
            }
            while let Decision::Change(change) =
                decide(&definition, Some(&current), &send(Action::Fire(Fire { until: at(now * 3600) })), at(now * 3600)).unwrap()
            {
                let hour = change.entry.after.as_ref().unwrap().trim_end_matches('h').parse().unwrap();
                prop_assert!(hours.contains(&hour) && begun + hour <= now, "{hour} h is not due");
                prop_assert!(!fired.contains(&hour), "{hour} h fires twice");
                fired.push(hour);
                let stored: Instance = serde_json::from_str(&serde_json::to_string(&change.instance).unwrap()).unwrap();
                current = Instance { version: change.instance.version, ..stored };
            }
            let due = hours.iter().filter(|hour| begun + **hour <= now);
            prop_assert!(due.clone().all(|hour| fired.contains(hour)), "{due:?} are due, {fired:?} have fired");
        }
    }
}
