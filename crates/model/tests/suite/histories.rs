//! What `history::check` finds; the torture tests rely on it.

use lockkeeper_model::{Entry, Kind, history};
use uuid::Uuid;

use crate::support::{Case, actor, at};

fn entry(kind: Kind, from: Option<&str>, to: &str) -> Entry {
    let is_closing = matches!(kind, Kind::Terminate | Kind::Cancel);
    let after = (kind == Kind::Timer).then(|| "72h".to_owned());
    Entry {
        kind: kind.clone(),
        event: matches!(kind, Kind::Move | Kind::Vote | Kind::Delegate | Kind::AddApprover | Kind::Recall)
            .then(|| "go".to_owned()),
        from: from.map(str::to_owned),
        to: to.to_owned(),
        actor: actor("ann"),
        at: at(0),
        run: Uuid::from_u128(1),
        definition_version: 1,
        from_definition_version: None,
        key: None,
        after,
        data: lockkeeper_model::Data::new(),
        reason: is_closing.then(|| "why".to_owned()),
        approved_by: Vec::new(),
        on_behalf_of: None,
        votes_dropped: Vec::new(),
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

/// Of whom, by whom, for whom.
fn by(who: &str, entry: Entry) -> Entry {
    Entry { actor: actor(who), ..entry }
}

fn about(subject: &str, entry: Entry) -> Entry {
    Entry { subject: Some(subject.to_owned()), ..entry }
}

fn on_behalf_of(owner: &str, entry: Entry) -> Entry {
    Entry { on_behalf_of: Some(owner.to_owned()), ..entry }
}

#[test]
fn a_recall_takes_back_what_was_done() {
    let start = || entry(Kind::Start, None, "a");
    let vote = || entry(Kind::Vote, Some("a"), "a");
    let recall = || entry(Kind::Recall, Some("a"), "a");
    let moved = |from: &str, to: &str| entry(Kind::Move, Some(from), to);
    let back = || entry(Kind::Recall, Some("b"), "a");
    let given = || about("zoe", entry(Kind::Delegate, Some("a"), "a"));
    let added = || about("zoe", entry(Kind::AddApprover, Some("a"), "a"));
    let migrated = || Entry {
        definition_version: 2,
        from_definition_version: Some(1),
        reason: Some("why".to_owned()),
        ..entry(Kind::Migrate, Some("a"), "a")
    };
    let on_two = |entry: Entry| Entry { definition_version: 2, ..entry };
    let start_of = |run: u128| Entry { run: Uuid::from_u128(run), ..start() };
    let other = |event: &str, entry: Entry| Entry { event: Some(event.to_owned()), ..entry };
    let dropping = |entry: Entry| Entry { votes_dropped: vec!["ann".to_owned()], ..entry };
    let right = [
        vec![start(), vote(), recall(), vote(), recall()],
        vec![
            start(),
            vote(),
            dropping(moved("a", "a")),
            vote(),
            dropping(entry(Kind::Timer, Some("a"), "a")),
            vote(),
            recall(),
        ],
        vec![start(), moved("a", "b"), back(), moved("a", "b"), back()],
        vec![start(), moved("a", "a"), recall()],
        vec![start(), given(), about("zoe", recall()), added(), about("zoe", recall())],
        vec![start(), given(), by("zoe", on_behalf_of("ann", vote())), by("zoe", on_behalf_of("ann", recall()))],
        vec![start(), moved("a", "b"), start_of(2), Entry { run: Uuid::from_u128(2), ..moved("a", "b") }],
        // What was done before may be purged.
        vec![recall()],
        vec![back()],
        vec![vote(), about("zoe", recall())],
        // What a later version has done is not known.
        vec![start(), entry(Kind::Other("blessed".to_owned()), Some("a"), "a"), recall()],
        vec![start(), entry(Kind::Other("blessed".to_owned()), Some("a"), "b"), back()],
        vec![start(), entry(Kind::Other("ended".to_owned()), Some("a"), "b"), start_of(2)],
    ];
    for (number, entries) in right.into_iter().enumerate() {
        let entries: Vec<_> = (1..).zip(entries).collect();
        assert_eq!(check(&entries), Ok(()), "the {number}th");
    }
    for (name, entries) in [
        ("a recall of nothing", vec![start(), recall()]),
        ("a void vote of who has not voted", vec![start(), dropping(moved("a", "a"))]),
        ("a recall of a void vote", vec![start(), vote(), dropping(entry(Kind::Timer, Some("a"), "a")), recall()]),
        ("a recall of a vote twice", vec![start(), vote(), recall(), recall()]),
        ("of somebody else's vote", vec![start(), vote(), by("bob", recall())]),
        ("of a vote for another event", vec![start(), vote(), other("stop", recall())]),
        ("of a vote as if it were for somebody", vec![start(), vote(), on_behalf_of("bob", recall())]),
        ("of the vote before the move", vec![start(), vote(), moved("a", "b"), entry(Kind::Recall, Some("b"), "b")]),
        ("of a delegation to another", vec![start(), given(), about("yan", recall())]),
        ("of an addition by another", vec![start(), added(), by("bob", about("zoe", recall()))]),
        ("of a move to elsewhere", vec![start(), moved("a", "b"), entry(Kind::Recall, Some("b"), "c")]),
        ("of somebody else's move", vec![start(), moved("a", "b"), by("bob", back())]),
        ("of another event's move", vec![start(), moved("a", "b"), other("stop", back())]),
        ("of a move with something since", vec![start(), moved("a", "b"), entry(Kind::Vote, Some("b"), "b"), back()]),
        ("of a timer's move", vec![start(), entry(Kind::Timer, Some("a"), "b"), back()]),
        ("of a move that was taken back", vec![start(), moved("a", "b"), back(), recall()]),
        ("of a start", vec![start(), entry(Kind::Recall, Some("a"), "z")]),
        ("over a migration", vec![start(), vote(), migrated(), on_two(recall())]),
        ("over a migration, of what may be purged", vec![migrated(), on_two(recall())]),
        (
            "of a move before a migration",
            vec![moved("b", "a"), migrated(), on_two(entry(Kind::Recall, Some("a"), "b"))],
        ),
        ("a start after a migration", vec![start(), migrated(), start_of(2)]),
        ("a start after a recall", vec![start(), moved("a", "b"), back(), start_of(2)]),
        ("a start after an event that stays", vec![start(), moved("a", "a"), start_of(2)]),
        ("a start after a timer that stays", vec![start(), entry(Kind::Timer, Some("a"), "a"), start_of(2)]),
        ("an end where others went on", vec![start(), moved("a", "b"), moved("b", "a"), moved("a", "b"), start_of(2)]),
        ("a vote for somebody who gave none", vec![start(), on_behalf_of("bob", vote())]),
        ("a vote of another's delegate", vec![start(), given(), by("yan", on_behalf_of("ann", vote()))]),
        ("a vote for oneself", vec![on_behalf_of("ann", vote())]),
        (
            "voters who have not voted",
            vec![start(), Entry { approved_by: vec!["bob".into(), "ann".into()], ..moved("a", "b") }],
        ),
        ("voters without the last", vec![Entry { approved_by: vec!["bob".into()], ..moved("a", "b") }]),
        ("a vote that drops votes", vec![Entry { votes_dropped: vec!["ann".into()], ..vote() }]),
        ("a vote with voters", vec![Entry { approved_by: vec!["ann".into()], ..vote() }]),
        ("a move about somebody", vec![about("zoe", moved("a", "b"))]),
        ("a delegation to oneself", vec![about("ann", given())]),
        ("a move with a time", vec![Entry { after: Some("1h".to_owned()), ..moved("a", "b") }]),
        ("a move from another version", vec![Entry { from_definition_version: Some(3), ..moved("a", "b") }]),
        (
            "a later version's kind from elsewhere",
            vec![start(), entry(Kind::Other("blessed".to_owned()), Some("b"), "b")],
        ),
        ("on from elsewhere after it", vec![start(), entry(Kind::Other("blessed".to_owned()), Some("a"), "b"), vote()]),
    ] {
        let entries: Vec<_> = (1..).zip(entries).collect();
        assert!(check(&entries).is_err(), "{name}");
    }
}

#[test]
fn a_kind_of_a_later_version_is_read_and_written_as_it_is() {
    let text = r#"{"kind":"blessed","from":"a","to":"a","actor":{"id":"ann","verified":false},"at":"2026-11-30T00:00:00Z","run":"00000000-0000-0000-0000-000000000001","definition_version":1}"#;
    let read: Entry = serde_json::from_str(text).unwrap();
    assert_eq!(read.kind, Kind::Other("blessed".to_owned()));
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    for (kind, name) in [(Kind::AddApprover, "add_approver"), (Kind::TimedOut, "timed_out"), (Kind::Move, "move")] {
        assert_eq!(serde_json::from_str::<Kind>(&format!("{name:?}")).unwrap(), kind, "a known one is known");
        assert_eq!(serde_json::to_value(&kind).unwrap(), name);
    }
    assert!(serde_json::from_str::<Kind>("7").is_err());
}
