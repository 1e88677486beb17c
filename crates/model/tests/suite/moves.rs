//! Starting, moving and ending: which answer each command gets.

use crate::support::{Case, render};

const TICKET: &str = r#"
workflow: case
initial: open
states:
  open:
    on:
      assign: {target: working, assign: {owner: event.owner}}
      note: {assign: {notes: "has(data.notes) ? data.notes + 1 : 1"}}
      look: {}
      close: closed
      reject: {target: closed}
  working:
    on:
      reopen: open
      restart: working
      close: closed
      escalate: {target: urgent, roles: [lead, manager]}
  urgent: {on: {close: closed, drop: dropped}}
  closed: {type: final}
  dropped: {type: final, status: failed}
"#;

#[test]
fn a_run_from_start_to_end() {
    let mut case = Case::new(TICKET);
    case.run(
        r#"
        ann close -> malformed: the instance does not exist: start it first
        ann cancel -> malformed: the instance does not exist: start it first
        ann start data={"a":1} key=k1 -> started v1 open
        bob start -> already_running: run 00000000-0000-0000-0000-000000000001 of this id is still running
        bob assign data={"owner":"cy"} key=k2 -> applied v2 working
        bob reopen -> applied v3 open
        bob assign data={"owner":"di"} -> applied v4 working
        bob close -> applied v5 closed completed
        cy start -> started v6 open
        cy assign data={"owner":"cy"} -> applied v7 working
        cy[manager] escalate -> applied v8 urgent
        cy drop -> applied v9 dropped failed
        "#,
    );
    let instance = case.current.as_ref().unwrap();
    assert_eq!((instance.version, instance.definition_version, instance.started_by.as_str()), (9, 3, "cy"));
    assert_eq!(case.data(), serde_json::json!({"owner": "cy"}), "the second run has its own data");
    let (_, second) = &case.history[1];
    assert_eq!(second.event.as_deref(), Some("assign"));
    assert_eq!((second.from.as_deref(), second.to.as_str()), (Some("open"), "working"));
    assert_eq!((second.key.as_deref(), second.definition_version), (Some("k2"), 3));
    assert_eq!(second.data, crate::support::data(r#"{"owner":"cy"}"#));
}

#[test]
fn commands_that_are_no_moves_are_told_why() {
    let mut case = Case::new(TICKET);
    case.run(
        r#"
        ann start -> started v1 open
        ann . -> malformed: name an `event`, or the state to be reached in `to`
        ann clsoe -> unknown_event: there is no event "clsoe"; known: assign, close, drop, escalate, look, note, reject, reopen, restart
        ann . to=nowhere -> unknown_event: there is no state "nowhere"; known: open, working, urgent, closed, dropped
        ann close to=nowhere -> unknown_event: there is no state "nowhere"; known: open, working, urgent, closed, dropped
        ann drop -> state_mismatch: not possible in state "open"; it is in urgent
        ann reopen -> state_mismatch: not possible in state "open"; it is in working
        ann close to=dropped -> state_mismatch: not possible in state "open"; it is in no state
        ann close from=working -> state_mismatch: expected state "working", but the instance is in "open"
        ann close v=7 -> version_mismatch: expected version 7, but the instance is at version 1: read it again and decide anew
        ann close v=7 from=working -> version_mismatch: expected version 7, but the instance is at version 1: read it again and decide anew
        ann close run=2 -> state_mismatch: expected run 00000000-0000-0000-0000-000000000002, but the current run is 00000000-0000-0000-0000-000000000001
        ann close run=1 from=open v=1 -> applied v2 closed completed
        ann drop -> state_mismatch: the run has ended (completed) in state "closed"; the command needs urgent
        ann note -> state_mismatch: the run has ended (completed) in state "closed"; the command needs open
        ann close from=working -> state_mismatch: expected state "working", but the instance is in "closed"
        "#,
    );
}

#[test]
fn what_was_done_before_is_already_applied() {
    let mut case = Case::new(TICKET);
    case.run(
        r#"
        ann start -> started v1 open
        # The state that it started in: nobody sent an event for it, but it is what `to` asks for.
        bob . to=open -> already_applied v1 open, stays
        ann assign data={"owner":"x"} -> applied v2 working
        bob assign data={"owner":"y"} -> already_applied v2 working, stays
        bob assign from=open -> already_applied v2 working, stays
        bob assign v=1 -> already_applied v2 working, stays
        bob assign from=open v=1 to=working -> already_applied v2 working, stays
        bob . to=open from=working v=2 -> applied v3 open
        bob reopen -> already_applied v3 open, stays
        bob reopen to=open from=working v=2 -> already_applied v3 open, stays
        # Each condition must hold.
        bob reopen v=1 -> version_mismatch: expected version 1, but the instance is at version 3: read it again and decide anew
        bob reopen from=urgent -> state_mismatch: expected state "urgent", but the instance is in "open"
        bob reopen to=working -> state_mismatch: not possible in state "open"; it is in no state
        bob close -> applied v4 closed completed
        cy close -> already_applied v4 closed completed, stays
        cy . to=closed -> already_applied v4 closed completed, stays
        # Another event that leads to the same state has not happened.
        cy reject -> state_mismatch: the run has ended (completed) in state "closed"; the command needs open
        "#,
    );
}

#[test]
fn a_run_that_was_ended_from_outside_has_applied_nothing() {
    for (verb, status) in [("terminate", "terminated"), ("cancel", "canceled")] {
        let mut case = Case::new(TICKET);
        case.run(&format!(
            r#"
            ann start -> started v1 open
            ann assign data={{"owner":"x"}} -> applied v2 working
            ann {verb} run=7 -> state_mismatch: expected run 00000000-0000-0000-0000-000000000007, but the current run is 00000000-0000-0000-0000-000000000001
            ann {verb} reason= -> malformed: a reason is needed: write why the run is ended
            ann {verb} reason={long} -> malformed: the reason has 2049 bytes; at most 2048 are allowed
            ann {verb} reason=fraud -> applied v3 working {status}
            ann {verb} -> already_closed: run 00000000-0000-0000-0000-000000000001 has already ended: {status}
            ann assign -> state_mismatch: the run has ended ({status}) in state "working"; the command needs open
            ann assign from=open v=1 -> state_mismatch: the run has ended ({status}) in state "working"; the command needs open
            ann . to=working -> state_mismatch: the run has ended ({status}) in state "working"; the command needs open, working
            ann close -> state_mismatch: the run has ended ({status}) in state "working"; the command needs open, working, urgent
            ann start -> started v4 open
            "#,
            long = "x".repeat(2049)
        ));
        let (version, entry) = &case.history[2];
        assert_eq!((*version, entry.reason.as_deref(), entry.event.as_deref()), (3, Some("fraud"), None));
        assert_eq!((entry.from.as_deref(), entry.to.as_str()), (Some("working"), "working"));
    }
}

#[test]
fn events_that_stay_go_on_with_the_visit() {
    let mut case = Case::new(TICKET);
    case.run(
        r#"
        ann start -> started v1 open
        ann look -> applied v2 open
        ann look -> applied v3 open
        ann look to=open -> applied v4 open
        ann note -> applied v5 open
        ann note -> applied v6 open
        # `to` alone asks to be in the state, not for the event that stays there.
        ann . to=open -> already_applied v6 open, stays
        "#,
    );
    assert_eq!(case.data(), serde_json::json!({"notes": 2}));
    assert_eq!(case.current.as_ref().unwrap().entered.decided_on, 0, "still the first visit");
    case.run(
        r#"
        ann assign data={"owner":"x"} -> applied v7 working
        ann restart -> applied v8 working
        # A self-transition is a move each time, and a new visit.
        ann restart -> applied v9 working
        ann restart v=8 -> version_mismatch: expected version 8, but the instance is at version 9: read it again and decide anew
        ann . to=working -> applied v10 working
        ann assign -> state_mismatch: not possible in state "working"; it is in open
        "#,
    );
    let entered = case.current.as_ref().unwrap().entered.clone();
    assert_eq!(
        (entered.event.as_deref(), entered.from.as_deref(), entered.decided_on),
        (Some("restart"), Some("working"), 9)
    );
}

#[test]
fn a_target_alone_must_leave_no_doubt_about_the_event() {
    let mut case = Case::new(TICKET);
    case.run(
        r#"
        ann start -> started v1 open
        ann . to=closed -> ambiguous_target: several events lead to "closed": name one of close, reject
        ann . to=urgent -> state_mismatch: not possible in state "open"; it is in working
        ann reject to=closed -> applied v2 closed completed
        "#,
    );
}

#[test]
fn roles_are_asked_for_before_anything_is_revealed() {
    let mut case = Case::new(TICKET);
    let refused = r#"not_permitted: "ann" may not do this: one of the roles lead, manager is needed"#;
    case.run(&format!(
        r#"
        ann start -> started v1 open
        # Not enabled here, and not what led here: no role is at stake.
        ann escalate -> state_mismatch: not possible in state "open"; it is in working
        ann assign data={{"owner":"x"}} -> applied v2 working
        ann escalate -> {refused}
        ann escalate v=1 -> {refused}
        ann escalate from=open -> {refused}
        ann . to=urgent -> {refused}
        ann[clerk] escalate -> {refused}
        bob[manager] escalate -> applied v3 urgent
        ann escalate -> {refused}
        ann escalate from=working v=2 -> {refused}
        bob[lead,clerk] escalate -> already_applied v3 urgent, stays
        ann cancel -> applied v4 urgent canceled
        ann escalate -> {refused}
        bob[lead] escalate -> state_mismatch: the run has ended (canceled) in state "urgent"; the command needs working
        "#
    ));
}

#[test]
fn a_run_may_end_where_it_starts() {
    let mut case = Case::new("{workflow: case, initial: done, states: {done: {type: final}}}");
    case.run(
        r"
        ann start -> started v1 done completed
        ann . to=done -> already_applied v1 done completed, stays
        ann start -> started v2 done completed
        ",
    );
}

#[test]
fn an_instance_that_its_definition_does_not_know_is_refused() {
    let mut case = Case::new(TICKET);
    case.run("ann start -> started v1 open");
    case.current.as_mut().unwrap().state = "gone".to_owned();
    let answer = case.judge(&lockkeeper_model::Command {
        instance: crate::support::key_of("case"),
        action: lockkeeper_model::Action::Send(lockkeeper_model::Send {
            event: Some("close".to_owned()),
            ..Default::default()
        }),
        actor: crate::support::actor("ann"),
        idempotency_key: None,
    });
    assert_eq!(
        render(&answer),
        "malformed: version 3 of workflow case has no state \"gone\", in which the instance is"
    );
}
