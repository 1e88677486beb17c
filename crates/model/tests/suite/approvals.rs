//! Votes, quorums, and two people at once.

use crate::support::Case;

const PURCHASE: &str = r#"
workflow: case
initial: draft
states:
  draft: {on: {submit: {target: review, assign: {amount: event.amount}}}}
  review:
    on:
      approve:
        target: approved
        guard: actor.id != instance.started_by
        approval: {quorum: 2, roles: [finance, manager]}
      reject: {target: rejected, approval: {quorum: 2}}
      amend: {assign: {amount: event.amount}}
      comment: {}
      again: review
  approved: {type: final}
  rejected: {type: final, status: failed}
"#;

/// Up to the first visit of `review`, at version 2.
fn in_review() -> Case {
    let mut case = Case::new(PURCHASE);
    case.run(
        r#"
        ann start -> started v1 draft
        ann submit data={"amount":5} -> applied v2 review
        "#,
    );
    case
}

#[test]
fn two_of_three_and_nobody_twice() {
    let mut case = in_review();
    case.run(
        r#"
        bob approve -> not_permitted: "bob" may not do this: one of the roles finance, manager is needed
        ann[finance] approve -> guard_rejected: the guard does not hold: actor.id != instance.started_by
        bob[finance] approve -> pending_approval v3 review, 1/2 bob
        bob[finance] approve -> pending_approval v3 review, 1/2 bob, stays
        bob[manager] approve -> pending_approval v3 review, 1/2 bob, stays
        bob[manager] . to=approved -> pending_approval v3 review, 1/2 bob, stays
        # Another event has its own votes.
        bob reject -> pending_approval v4 review, 1/2 bob
        cy[manager] approve v=2 -> version_mismatch: expected version 2, but the instance is at version 4: read it again and decide anew
        cy[manager] approve v=4 from=review -> applied v5 approved completed, by bob cy
        cy[manager] approve -> already_applied v5 approved completed, stays
        di[finance] approve -> already_applied v5 approved completed, stays
        di[finance] approve v=4 -> already_applied v5 approved completed, stays
        di[finance] approve v=3 -> version_mismatch: expected version 3, but the instance is at version 5: read it again and decide anew
        eve approve -> not_permitted: "eve" may not do this: one of the roles finance, manager is needed
        "#,
    );
    assert!(case.current.as_ref().unwrap().votes.is_empty());
    let kinds: Vec<_> = case.history.iter().map(|(_, entry)| entry.kind.clone()).collect();
    use lockkeeper_model::Kind::{Move, Start, Vote};
    assert_eq!(kinds, [Start, Move, Vote, Vote, Move], "the vote that fills the quorum is the move");
}

#[test]
fn votes_end_with_the_visit_and_with_new_data() {
    let mut case = in_review();
    case.run(
        r#"
        bob[finance] approve -> pending_approval v3 review, 1/2 bob
        # An event that changes nothing leaves them.
        eve comment -> applied v4 review
        bob[finance] approve -> pending_approval v4 review, 1/2 bob, stays
        # New data is something else to vote on.
        eve amend data={"amount":9} -> applied v5 review
        cy[finance] approve -> pending_approval v6 review, 1/2 cy
        bob[finance] reject -> pending_approval v7 review, 1/2 bob
        # So is a new visit.
        eve again -> applied v8 review
        bob[finance] approve -> pending_approval v9 review, 1/2 bob
        cy[finance] reject -> pending_approval v10 review, 1/2 cy
        cy[finance] approve -> applied v11 approved completed, by bob cy
        ann start -> started v12 draft
        ann submit data={"amount":1} -> applied v13 review
        bob[finance] approve -> pending_approval v14 review, 1/2 bob
        ann terminate -> applied v15 review terminated
        "#,
    );
    assert!(case.current.as_ref().unwrap().votes.is_empty(), "a closed run waits for nobody");
}

#[test]
fn fifty_approvers_of_a_quorum_of_one_make_one_move() {
    let mut case = Case::new(&PURCHASE.replace("quorum: 2", "quorum: 1"));
    case.run(
        r#"
        ann start -> started v1 draft
        ann submit data={"amount":5} -> applied v2 review
        a0[finance] approve -> applied v3 approved completed, by a0
        "#,
    );
    for n in 1..50 {
        case.run(&format!("a{n}[finance] approve -> already_applied v3 approved completed, stays"));
        case.run(&format!("a{n}[finance] approve from=review v=2 -> already_applied v3 approved completed, stays"));
    }
    assert_eq!(case.history.len(), 3);
}

#[test]
fn an_approved_event_that_stays_uses_its_votes_up() {
    let mut case = Case::new(
        r"
        workflow: case
        initial: open
        states:
          open: {on: {bump: {approval: {quorum: 2}}, other: {approval: {quorum: 3}}, raise: {assign: {n: 1}, approval: {quorum: 2}}, end: done}}
          done: {type: final}
        ",
    );
    case.run(
        r"
        ann start -> started v1 open
        ann other -> pending_approval v2 open, 1/3 ann
        ann bump -> pending_approval v3 open, 1/2 ann
        bob bump -> applied v4 open, by ann bob
        ann bump -> pending_approval v5 open, 1/2 ann
        bob other -> pending_approval v6 open, 2/3 ann bob
        ann raise -> pending_approval v7 open, 1/2 ann
        cy raise -> applied v8 open, by ann cy
        bob other -> pending_approval v9 open, 1/3 bob
        ",
    );
}

#[test]
fn a_list_of_transitions_takes_the_first_whose_guard_holds() {
    let mut case = Case::new(
        r#"
        workflow: case
        initial: review
        states:
          review:
            on:
              approve:
                - {target: done, guard: event.amount < 10}
                - {target: done, guard: event.amount < 100, roles: [lead]}
                - {target: board, guard: event.amount < 1000, approval: {quorum: 2, roles: [lead, cfo]}}
          board: {on: {sign: done}}
          done: {type: final}
        "#,
    );
    case.run(
        r#"
        ann start -> started v1 review
        ann approve -> guard_error: cannot evaluate "event.amount < 10": there is no field "amount"
        ann approve data={"amount":"x"} -> guard_error: cannot evaluate "event.amount < 10": found no matching overload for '_<_' applied to '(string, int)'
        ann approve data={"amount":5000} -> guard_rejected: the guard does not hold: event.amount < 10; event.amount < 100; event.amount < 1000
        ann approve data={"amount":50} -> not_permitted: "ann" may not do this: one of the roles lead is needed
        ann approve data={"amount":500} -> not_permitted: "ann" may not do this: one of the roles cfo, lead is needed
        bob[cfo] approve data={"amount":500} -> pending_approval v2 review, 1/2 bob
        # Votes for one of the transitions say nothing of the others.
        ann approve to=board data={"amount":5} -> not_permitted: "ann" may not do this: one of the roles cfo, lead is needed
        # Naming a target passes by no guard before it.
        cy[lead] approve to=board data={"amount":5} -> guard_rejected: the guard does not hold: !(event.amount < 10)
        cy[lead] approve to=board data={"amount":5000} -> guard_rejected: the guard does not hold: event.amount < 1000
        cy[lead] approve to=board data={"amount":500} -> applied v3 board, by bob cy
        dan[lead] approve -> already_applied v3 board, stays
        dan[clerk] approve -> not_permitted: "dan" may not do this: one of the roles cfo, lead is needed
        "#,
    );
}

/// Two stages of one event: what two people send at once must not pass both.
const TWO_STAGES: &str = r"
workflow: case
initial: first
states:
  first: {on: {approve: second}}
  second: {on: {approve: done, approve_again: done, redo: second}}
  done: {type: final}
";

#[test]
fn two_approvals_at_once_do_not_advance_two_stages() {
    let mut case = Case::new(TWO_STAGES);
    assert_eq!(case.definition.warnings().len(), 1);
    let ambiguous = "ambiguous_target: the event \"approve\" led from \"first\" to \"second\" and also leads on: give \
                     `from` or `expected_version` to say which stage is meant";
    case.run(&format!(
        r"
        ann start -> started v1 first
        ann approve -> applied v2 second
        bob approve -> {ambiguous}
        bob approve run=1 -> {ambiguous}
        bob approve from=first -> already_applied v2 second, stays
        bob approve v=1 -> already_applied v2 second, stays
        bob approve to=second -> already_applied v2 second, stays
        bob approve v=7 -> version_mismatch: expected version 7, but the instance is at version 2: read it again and decide anew
        bob approve from=second -> applied v3 done completed
        cy approve -> already_applied v3 done completed, stays
        cy approve from=first -> state_mismatch: expected state {:?}, but the instance is in {:?}
        cy approve from=second v=2 -> already_applied v3 done completed, stays
        ",
        "first", "done"
    ));
    for clear in ["approve v=2", "approve to=done", ". to=done v=2", "approve_again"] {
        let mut case = Case::new(TWO_STAGES);
        case.run(&format!(
            r"
            ann start -> started v1 first
            ann approve -> applied v2 second
            bob {}
            ",
            if clear.starts_with('.') {
                format!(
                    "{clear} -> ambiguous_target: several events lead to \"done\": name one of approve, approve_again"
                )
            } else {
                format!("{clear} -> applied v3 done completed")
            }
        ));
    }
    // After a self-transition, which is another event's, the stage is no longer in doubt.
    Case::new(TWO_STAGES).run(
        r"
        ann start -> started v1 first
        ann approve -> applied v2 second
        ann redo -> applied v3 second
        bob approve -> applied v4 done completed
        ",
    );
}
