//! What `history::check` finds; the torture tests rely on it.

use lockkeeper_model::{Entry, Kind, history};
use uuid::Uuid;

use crate::support::{Case, actor, at};

fn entry(kind: Kind, from: Option<&str>, to: &str) -> Entry {
    let is_closing = matches!(kind, Kind::Terminate | Kind::Cancel);
    Entry {
        kind,
        event: matches!(kind, Kind::Move | Kind::Vote).then(|| "go".to_owned()),
        from: from.map(str::to_owned),
        to: to.to_owned(),
        actor: actor("ann"),
        at: at(0),
        run: Uuid::from_u128(1),
        definition_version: 1,
        from_definition_version: None,
        key: None,
        after: (kind == Kind::Timer).then(|| "72h".to_owned()),
        data: lockkeeper_model::Data::new(),
        reason: is_closing.then(|| "why".to_owned()),
        approved_by: Vec::new(),
        on_behalf_of: None,
        subject: None,
    }
}

fn check(entries: &[(i64, Entry)]) -> Result<(), String> {
    history::check(entries.iter().map(|(version, entry)| (*version, entry)))
}

#[test]
fn a_history_as_decided_is_right() {
    let mut case = Case::new(
        "{workflow: case, initial: a, states: {a: {on: {go: {target: b, approval: {quorum: 2}}, stay: {}}}, b: {type: final}}}",
    );
    case.run(
        r"
        ann start -> started v1 a
        ann stay -> applied v2 a
        ann go -> pending_approval v3 a, 1/2 ann
        bob go -> applied v4 b completed, by ann bob
        ann start -> started v5 a
        ann cancel -> applied v6 a canceled
        ann start -> started v7 a
        ",
    );
    assert_eq!(check(&case.history), Ok(()));
    assert_eq!(check(&case.history[3..]), Ok(()), "older entries may have been purged");
    assert_eq!(check(&[]), Ok(()));
    assert!(check(&[case.history[0].clone(), case.history[2].clone()]).is_err(), "a gap");
    assert!(check(&[case.history[1].clone(), case.history[0].clone()]).is_err(), "backwards");
    assert!(check(&[case.history[0].clone(), case.history[0].clone()]).is_err(), "twice");
}

#[test]
fn what_cannot_follow_is_found() {
    let start = || entry(Kind::Start, None, "a");
    let moved = || entry(Kind::Move, Some("a"), "b");
    let vote = || entry(Kind::Vote, Some("a"), "a");
    let closed = || entry(Kind::Cancel, Some("a"), "a");
    let migrated = |from: i64, to: i64| Entry {
        definition_version: to,
        from_definition_version: Some(from),
        reason: Some("why".to_owned()),
        ..entry(Kind::Migrate, Some("a"), "a")
    };
    let of_run = |run: u128, entry: Entry| Entry { run: Uuid::from_u128(run), ..entry };
    for (name, entries) in [
        ("from elsewhere", vec![start(), moved(), moved()]),
        ("on after its end", vec![start(), closed(), moved()]),
        ("the same run again", vec![start(), closed(), start()]),
        ("another run without a start", vec![start(), of_run(2, moved())]),
        ("a start while votes are open", vec![start(), vote(), of_run(2, start())]),
        ("a start from somewhere", vec![entry(Kind::Start, Some("a"), "a")]),
        ("a move from nowhere", vec![entry(Kind::Move, None, "a")]),
        ("a vote that moves", vec![entry(Kind::Vote, Some("a"), "b")]),
        ("an end that moves", vec![entry(Kind::Terminate, Some("a"), "b")]),
        ("on after its time was over", vec![start(), entry(Kind::TimedOut, Some("a"), "a"), moved()]),
        ("a timer with an event", vec![Entry { event: Some("go".to_owned()), ..entry(Kind::Timer, Some("a"), "b") }]),
        ("a timer from nowhere", vec![entry(Kind::Timer, None, "b")]),
        ("a timer of no time", vec![Entry { after: None, ..entry(Kind::Timer, Some("a"), "b") }]),
        ("a time that is over and moves", vec![entry(Kind::TimedOut, Some("a"), "b")]),
        ("an end without a reason", vec![Entry { reason: None, ..closed() }]),
        ("a move without an event", vec![Entry { event: None, ..moved() }]),
        ("judged by another version", vec![start(), Entry { definition_version: 2, ..moved() }]),
        ("a migration from nowhere", vec![Entry { from: None, ..migrated(1, 2) }]),
        ("a migration to where it was", vec![migrated(2, 2)]),
        ("a migration without a reason", vec![Entry { reason: None, ..migrated(1, 2) }]),
        ("a migration from another version", vec![start(), migrated(3, 2)]),
        ("a migration after the end", vec![start(), closed(), migrated(1, 2)]),
        ("on by the version before", vec![start(), migrated(1, 2), moved()]),
        ("a voter twice", vec![Entry { approved_by: vec!["x".into(), "y".into(), "x".into()], ..moved() }]),
    ] {
        let entries: Vec<_> = (1..).zip(entries).collect();
        assert!(check(&entries).is_err(), "{name}");
    }
    assert_eq!(
        check(&[(i64::MAX, start()), (i64::MIN, moved())]),
        Err(format!("version {} follows version {}", i64::MIN, i64::MAX))
    );
}
