//! Starts of an id that has run before (DESIGN 7): every cell of the table.

use lockkeeper_model::{Action, Command, ConflictPolicy, EndedRun, Known, Refusal, ReusePolicy, Start, Status, decide};
use uuid::Uuid;

use crate::support::{Case, actor, at, changes, key_of, render};

const CASE: &str = "{workflow: case, initial: a, states: {a: {on: {go: b, fail: c, stay: {}}}, b: {type: final}, c: {type: final, status: failed}}}";

/// Run 1 of an id, in each status that a run may have.
fn run_in(status: Status) -> Case {
    let mut case = Case::new(CASE);
    case.run("ann start -> started v1 a");
    match status {
        Status::Running => &mut case,
        Status::Completed => case.run("ann go -> applied v2 b completed"),
        Status::Failed => case.run("ann fail -> applied v2 c failed"),
        Status::Canceled => case.run("ann cancel -> applied v2 a canceled"),
        Status::Terminated => case.run("ann terminate -> applied v2 a terminated"),
        Status::TimedOut => {
            case.run("ann terminate -> applied v2 a terminated");
            case.current.as_mut().unwrap().status = Status::TimedOut;
            &mut case
        }
    };
    case
}

const ENDS: [Status; 5] = [Status::Completed, Status::Failed, Status::Canceled, Status::Terminated, Status::TimedOut];

/// What a start must come to.
fn expected(reuse: ReusePolicy, conflict: ConflictPolicy, status: Status) -> &'static str {
    use {ConflictPolicy as C, ReusePolicy as R};
    match (reuse, conflict, status) {
        (R::RejectDuplicate, C::TerminateExisting, _) => "malformed",
        (_, C::Fail, Status::Running) => "already_running",
        (_, C::UseExisting, Status::Running) => "attached v1",
        (_, C::TerminateExisting, Status::Running) => "started v3 a, after applied v2 a terminated",
        (R::RejectDuplicate, ..) | (R::AllowDuplicateFailedOnly, _, Status::Completed) => "already_closed",
        (R::AllowDuplicate | R::AllowDuplicateFailedOnly, ..) => "started v3 a",
    }
}

#[test]
fn every_cell_of_the_table() {
    for reuse in ReusePolicy::ALL {
        for conflict in ConflictPolicy::ALL {
            for status in [Status::Running].into_iter().chain(ENDS) {
                let mut case = run_in(status);
                let start = Start {
                    run: Uuid::from_u128(2),
                    reuse_policy: reuse,
                    conflict_policy: conflict,
                    ..Start::default()
                };
                let command = Command {
                    instance: key_of("case"),
                    action: Action::Start(start),
                    actor: actor("bob"),
                    idempotency_key: None,
                };
                let answer = case.judge(&command);
                let line = render(&answer);
                let expected = expected(reuse, conflict, status);
                assert!(line.starts_with(expected), "{reuse:?}, {conflict:?}, {status:?}: {line}, not {expected}");
                match answer {
                    Err(Refusal::AlreadyRunning { run }) => assert_eq!(run, Uuid::from_u128(1)),
                    Err(Refusal::AlreadyClosed { run, status: told }) => {
                        assert_eq!((run, told), (Uuid::from_u128(1), status));
                    }
                    Err(Refusal::Malformed { detail }) => {
                        assert!(
                            detail.contains("reject_duplicate") && detail.contains("terminate_existing"),
                            "{detail}"
                        );
                        assert!(detail.contains("write"), "{detail}");
                    }
                    Err(other) => panic!("{other}"),
                    Ok(decision) => check_success(&case, changes(&decision).len(), line.starts_with("attached")),
                }
            }
        }
    }
}

/// An attached start is told of run 1; any other has begun run 2, on the version after those before.
fn check_success(case: &Case, versions: usize, attached: bool) {
    let current = case.current.as_ref().unwrap();
    let expected = if attached { (1, 1) } else { (2, 3) };
    assert_eq!((current.run, current.version), (Uuid::from_u128(expected.0), expected.1));
    assert_eq!(versions == 0, attached);
    if versions == 2 {
        let (_, ended) = &case.history[1];
        let reason = ended.reason.as_deref().unwrap();
        assert!(reason.contains("terminate_existing") && reason.contains(&current.run.to_string()), "{reason}");
        assert_eq!((ended.actor.id.as_str(), ended.run), ("bob", Uuid::from_u128(1)));
    }
}

#[test]
fn an_id_that_was_never_used_runs_under_every_policy_that_makes_sense() {
    for reuse in ReusePolicy::ALL {
        for conflict in ConflictPolicy::ALL {
            let expected = match (reuse, conflict) {
                (ReusePolicy::RejectDuplicate, ConflictPolicy::TerminateExisting) => continue,
                _ => "started v1 a",
            };
            let script = format!("ann start reuse={} conflict={} -> {expected}", reuse.as_str(), conflict.as_str());
            Case::new(CASE).run(&script);
        }
    }
}

#[test]
fn a_request_id_is_one_start() {
    let one = Uuid::from_u128(1);
    let mut case = Case::new(CASE);
    case.run(&format!(
        r"
        ann start request=r -> started v1 a
        ann start request=r -> started v1 a, stays
        ann stay -> applied v2 a
        # A retry is told where its run stands now, whatever else it says.
        ann start request=r conflict=terminate_existing -> started v2 a, stays
        bob start request=r conflict=use_existing -> started v2 a, stays
        ann start request=s -> already_running: run {one} of this id is still running
        ann start -> already_running: run {one} of this id is still running
        ann go -> applied v3 b completed
        ann start request=r -> already_closed: run {one} has already ended: completed
        ann start request=r conflict=use_existing -> already_closed: run {one} has already ended: completed
        "
    ));
    // Others may start as ever; their run has a request id of its own, or none.
    case.run("ann start -> started v4 a");
    assert_eq!(case.current.as_ref().unwrap().request_id, None);
    case.run("ann start request=s conflict=terminate_existing -> started v6 a, after applied v5 a terminated");
    assert_eq!(case.current.as_ref().unwrap().request_id.as_deref(), Some("s"));
}

#[test]
fn the_request_of_an_earlier_run_begins_and_ends_nothing() {
    let mut case = Case::new(CASE);
    case.run("ann start request=s -> started v1 a");
    let ended = EndedRun { run: Uuid::from_u128(7), status: Status::Failed };
    for conflict in ConflictPolicy::ALL {
        let start = Start { conflict_policy: conflict, request_id: Some("r".to_owned()), ..Start::default() };
        let command = Command {
            instance: key_of("case"),
            action: Action::Start(start),
            actor: actor("ann"),
            idempotency_key: None,
        };
        let known = Known { begun_before: Some(ended), ..Known::from(&case.definition) };
        let answer = decide(known, case.current.as_ref(), &command, at(9));
        assert_eq!(answer, Err(Refusal::AlreadyClosed { run: ended.run, status: ended.status }), "{conflict:?}");
    }
}

#[test]
fn what_a_request_id_may_be() {
    for (request, told) in [("", "is empty"), ("a\nb", "control character"), (&*"x".repeat(257), "at most 256")] {
        let start = Start { request_id: Some(request.to_owned()), ..Start::default() };
        let command = Command {
            instance: key_of("case"),
            action: Action::Start(start),
            actor: actor("ann"),
            idempotency_key: None,
        };
        let line = render(&Case::new(CASE).judge(&command));
        assert!(line.starts_with("malformed: request_id") && line.contains(told), "{line}");
    }
}

/// FAULTS M17: a command decided on run 1 does nothing to run 2; versions never restart.
#[test]
fn versions_go_on_over_runs() {
    let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
    Case::new(CASE).run(&format!(
        r#"
        ann start -> started v1 a
        ann stay -> applied v2 a
        ann stay -> applied v3 a
        ann stay -> applied v4 a
        ann stay -> applied v5 a
        ann cancel run=1 -> applied v6 a canceled
        ann start -> started v7 a
        ann stay v=5 -> version_mismatch: expected version 5, but the instance is at version 7: read it again and decide anew
        ann go v=5 -> version_mismatch: expected version 5, but the instance is at version 7: read it again and decide anew
        ann go run=1 -> state_mismatch: expected run {one}, but the current run is {two}
        ann terminate run=1 -> state_mismatch: expected run {one}, but the current run is {two}
        ann cancel run=1 -> state_mismatch: expected run {one}, but the current run is {two}
        ann stay v=7 -> applied v8 a
        ann terminate run=2 -> applied v9 a terminated
        "#
    ));
}
