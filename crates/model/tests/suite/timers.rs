//! What happens by itself: timers of a visit, and the end of a run that lasts for too long. A command is judged one second
//! after the one before it.

use lockkeeper_model::{Action, Command, Definition, Fire, Format, Instance, Kind, Timestamp};
use serde_json::json;

use crate::support::{Case, at, key_of};

const PURCHASE: &str = "{workflow: case, initial: draft, states: {
    draft: {on: {submit: review}},
    review: {
        on: {approve: done, note: {assign: {n: event.n}}, vote: {target: done, approval: {quorum: 2}}, again: review},
        after: {10s: {assign: {reminded: true}}, 30s: escalated, 20s: [
            {target: done, guard: 'has(data.n) && data.n > 5'}, {target: rejected, guard: 'has(data.n) && data.n < 0'}]}},
    escalated: {on: {approve: done}},
    rejected: {type: final, status: failed},
    done: {type: final}}}";

fn timers(case: &Case) -> Vec<(usize, Timestamp)> {
    case.current.as_ref().unwrap().timers.iter().map(|timer| (timer.after, timer.due)).collect()
}

fn last(case: &Case) -> (Kind, Option<&str>, Option<&str>) {
    let entry = &case.history.last().unwrap().1;
    (entry.kind.clone(), entry.after.as_deref(), entry.reason.as_deref())
}

fn problems(states: &str) -> String {
    let text = format!("{{workflow: w, initial: a, states: {{{states}, z: {{type: final}}}}}}");
    match Definition::read(&text, Format::Yaml) {
        Ok(definition) => definition.warnings().iter().map(|problem| format!("warning: {problem}\n")).collect(),
        Err(problems) => problems.iter().map(|problem| format!("{problem}\n")).collect(),
    }
}

#[test]
fn they_are_due_as_long_after_the_visit_began_as_is_written() {
    let mut case = Case::new(PURCHASE);
    case.run("ann start -> started v1 draft");
    assert_eq!(timers(&case), []);
    case.run("ann submit -> applied v2 review");
    assert_eq!(timers(&case), [(0, at(12)), (2, at(22)), (1, at(32))]);
    assert_eq!(case.current.as_ref().unwrap().next_due(), Some(at(12)));
    assert_eq!(case.definition.timers_of_visit("review", at(2)), case.current.as_ref().unwrap().timers);
    assert_eq!(case.definition.timers_of_visit("nowhere", at(2)), []);
}

#[test]
fn each_fires_once_and_oldest_first_whatever_the_clock_says_now() {
    let mut case = Case::new(PURCHASE);
    case.run(
        r#"
        ann start -> started v1 draft
        ann submit -> applied v2 review
        timer fire until=11 -> already_applied v2 review, stays
        timer fire until=12 -> applied v3 review
        timer fire until=12 -> already_applied v3 review, stays
        bob note data={"n":3} -> applied v4 review
        timer fire until=100 -> applied v5 review
        timer fire until=100 -> applied v6 escalated
        timer fire until=100 -> already_applied v6 escalated, stays
        "#,
    );
    let entries: Vec<_> =
        case.history[2..].iter().map(|(_, entry)| (entry.kind.clone(), entry.after.as_deref())).collect();
    assert_eq!(
        entries,
        [(Kind::Timer, Some("10s")), (Kind::Move, None), (Kind::Timer, Some("20s")), (Kind::Timer, Some("30s"))]
    );
    assert_eq!(case.history[4].1.reason.as_deref(), Some("no guard held"));
    assert_eq!(case.history[5].1.actor.id, "timer");
    assert_eq!(case.data(), json!({"n": 3, "reminded": true}));
}

#[test]
fn the_first_whose_guard_holds_is_taken() {
    for (n, expected) in
        [(9, "applied v4 done completed"), (-1, "applied v4 rejected failed"), (3, "applied v4 review")]
    {
        let mut case = Case::new(PURCHASE);
        case.run(&format!(
            "ann start data={{\"n\":{n}}} -> started v1 draft\nann submit -> applied v2 review
            timer fire until=12 -> applied v3 review\ntimer fire until=22 -> {expected}"
        ));
    }
}

#[test]
fn they_go_with_their_visit() {
    let mut case = Case::new(PURCHASE);
    case.run(
        r#"
        ann start -> started v1 draft
        ann submit -> applied v2 review
        bob vote -> pending_approval v3 review, 1/2 bob
        bob note data={"n":1} -> applied v4 review
        "#,
    );
    assert_eq!(timers(&case), [(0, at(12)), (2, at(22)), (1, at(32))], "votes and notes keep them");
    case.run("bob again -> applied v5 review");
    assert_eq!(timers(&case), [(0, at(15)), (2, at(25)), (1, at(35))], "another visit");
    case.run("timer fire until=14 -> already_applied v5 review, stays\ntimer fire until=15 -> applied v6 review");
    assert_eq!(timers(&case), [(2, at(25)), (1, at(35))]);
    case.run(
        "bob cancel -> applied v7 review canceled\ntimer fire until=99 -> already_applied v7 review canceled, stays",
    );
    assert_eq!(timers(&case), []);
}

#[test]
fn a_timers_move_answers_no_event() {
    let mut case = Case::new(PURCHASE);
    case.run(
        r#"
        ann start -> started v1 draft
        ann submit -> applied v2 review
        timer fire until=40 -> applied v3 review
        timer fire until=40 -> applied v4 review
        timer fire until=40 -> applied v5 escalated
        bob submit -> state_mismatch: not possible in state "escalated"; it is in draft
        bob approve -> applied v6 done completed
        "#,
    );
}

#[test]
fn what_cannot_be_evaluated_is_tried_again_ever_later_and_given_up() {
    let mut case = Case::new(
        "{workflow: case, initial: a, states: {
            a: {on: {set: {assign: {n: 7}}}, after: {1s: {target: z, guard: data.n > 5}, 2h: z}}, z: {type: final}}}",
    );
    case.run("ann start -> started v1 a");
    for (fires, minutes) in [1, 4, 16, 64].into_iter().enumerate() {
        let due = timers(&case).into_iter().find(|(after, _)| *after == 0).unwrap().1;
        let until = due.timestamp() - at(0).timestamp();
        case.run(&format!("timer fire until={until} -> applied v{} a", fires + 2));
        let (kind, after, reason) = last(&case);
        assert_eq!((kind, after), (Kind::Timer, Some("1s")));
        assert!(reason.unwrap().starts_with(&format!("tried again in {minutes} min: ")), "{reason:?}");
        let again = timers(&case).into_iter().find(|(after, _)| *after == 0).unwrap().1;
        assert_eq!(again - due, chrono::TimeDelta::minutes(minutes), "not at once");
        assert!(case.current.as_ref().unwrap().timers.is_sorted_by_key(|timer| timer.due));
    }
    let kept = (case.current.clone(), case.history.clone());
    case.run("timer fire until=7000 -> applied v6 a");
    assert!(last(&case).2.unwrap().starts_with("given up after 5 tries: "), "{:?}", last(&case));
    assert_eq!(timers(&case).len(), 1);
    // Had the data been set right meanwhile, it would have fired.
    (case.current, case.history) = kept;
    case.run("ann set -> applied v6 a\ntimer fire until=7000 -> applied v7 z completed");
    assert_eq!(last(&case).2, None);
}

#[test]
fn a_run_ends_when_its_time_is_over() {
    let mut case = Case::new(PURCHASE);
    case.run(
        r#"
        ann start timeout=0 -> malformed: `execution_timeout_ms` is 0; at least 1 and at most 316224000000 (ten years) are allowed
        ann start timeout=316224000001 -> malformed: `execution_timeout_ms` is 316224000001; at least 1 and at most 316224000000 (ten years) are allowed
        ann start timeout=15000 -> started v1 draft
        ann submit -> applied v2 review
        "#,
    );
    let due = case.current.as_ref().unwrap().deadline.unwrap();
    assert_eq!((due - case.current.as_ref().unwrap().started_at).num_seconds(), 15);
    case.run(
        r#"
        timer fire until=14 -> applied v3 review
        timer fire until=99 -> applied v4 review timed_out
        timer fire until=99 -> already_applied v4 review timed_out, stays
        bob approve -> state_mismatch: the run has ended (timed_out) in state "review"; the command needs review, escalated
        ann start -> started v5 draft
        timer fire until=99 -> already_applied v5 draft, stays
        "#,
    );
    assert_eq!(case.history[3].1.kind, Kind::TimedOut);
    assert_eq!(case.current.as_ref().unwrap().deadline, None, "the next run has its own");
}

#[test]
fn a_deadline_goes_before_a_timer_of_the_same_moment_and_after_earlier_ones() {
    let text = "{workflow: case, initial: a, states: {a: {after: {5s: b}}, b: {on: {go: z}}, z: {type: final}}}";
    for (timeout, expected) in
        [(5_000, "applied v2 a timed_out"), (4_999, "applied v2 a timed_out"), (5_001, "applied v2 b")]
    {
        let mut case = Case::new(text);
        case.run(&format!("ann start timeout={timeout} -> started v1 a\ntimer fire until=99 -> {expected}"));
    }
}

#[test]
fn it_is_written_as_other_ways_on_without_what_needs_a_sender() {
    let many: Vec<String> = (1..=17).map(|n| format!("{n}h: z")).collect();
    let many = format!("a: {{after: {{{}}}}}", many.join(", "));
    let cases = [
        ("too many", many.as_str()),
        ("one way on is enough", "a: {after: {1d: z}}"),
        ("the same name twice is no two stages", "a: {after: {1h: b}}, b: {after: {1h: z}}"),
        ("unknown target", "a: {after: {1d: zz}}"),
        ("no time", "a: {after: {soon: z, 1.5h: z, 5: z}}"),
        ("out of bounds", "a: {after: {0s: z, 3661d: z}}"),
        ("the same time", "a: {after: {60m: z, 1h: z}}"),
        ("hidden", "a: {after: {1h: [z, {target: a}]}}"),
        ("nothing", "a: {after: {1h: {}}}"),
        ("nothing at all", "a: {after: {1h: []}}"),
        ("no block", "a: {after: z}"),
        ("of a final state", "a: {on: {go: y}}, y: {type: final, after: {1h: a}}"),
        (
            "needs a sender",
            "a: {after: {1h: {target: z, roles: [x], approval: {quorum: 2}, concurrency: {attempts: 2}}}}",
        ),
        ("misspelt", "a: {after: {1h: {target: z, gaurd: 'true'}}}"),
        ("unreachable without it", "a: {on: {go: z}, after: {1h: b}}, b: {on: {go: z}}"),
        ("stays for ever", "a: {on: {go: z}, after: {1h: b}}, b: {after: {1h: {assign: {n: 1}}}}"),
    ];
    let told: Vec<String> = cases.iter().map(|(name, states)| format!("{name}:\n{}", problems(states))).collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn what_was_written_before_there_were_timers_is_read_and_written_as_it_was() {
    let mut case = Case::new(PURCHASE);
    case.run("ann start -> started v1 draft");
    let stored = serde_json::to_string(case.current.as_ref().unwrap()).unwrap();
    assert!(!stored.contains("timers") && !stored.contains("deadline"), "{stored}");
    case.run("ann submit -> applied v2 review");
    let stored = serde_json::to_string(case.current.as_ref().unwrap()).unwrap();
    let read: Instance = serde_json::from_str(&stored).unwrap();
    assert_eq!(read.timers, case.current.as_ref().unwrap().timers);
}

/// What the store has may tell of any time; nothing is due after the last one.
#[test]
fn no_time_is_past_the_end_of_time() {
    let mut case = Case::new(PURCHASE);
    case.run("ann start -> started v1 draft\nann submit -> applied v2 review");
    let instance = case.current.as_mut().unwrap();
    assert_eq!(case.definition.timers_of_visit("review", Timestamp::MAX_UTC).len(), 3);
    // A guard that cannot be evaluated is tried again later.
    let odd = PURCHASE.replace("has(data.n) && data.n > 5", "data.missing > 5");
    case.definition = Definition::read(&odd, Format::Yaml).unwrap().with_version(3);
    for timer in &mut instance.timers {
        timer.due = Timestamp::MAX_UTC;
    }
    let fire = Command {
        instance: key_of("case"),
        action: Action::Fire(Fire { until: Timestamp::MAX_UTC }),
        actor: Fire::actor(),
        idempotency_key: None,
    };
    for _ in 0..3 {
        case.judge(&fire).unwrap();
    }
    let read: Instance = serde_json::from_str(&serde_json::to_string(case.current.as_ref().unwrap()).unwrap()).unwrap();
    assert_eq!(read.state, case.current.as_ref().unwrap().state);
}
