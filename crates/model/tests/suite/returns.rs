//! Back to an earlier state, and taking the last move back.

use crate::support::Case;

const WAYS: &str = r#"
workflow: case
initial: draft
states:
  draft:
    on:
      submit: {target: review, assign: {amount: event.amount, by: actor.id}, recall: true}
      skip: legal
  review:
    on:
      pass: {target: legal, recall: true}
      send_back: {return: previous, assign: {reason: event.reason}}
      note: {}
  legal:
    on:
      approve: {target: board, approval: {quorum: 2, recall: true}, recall: true}
      send_back: {return: any}
      restart: {return: [draft]}
      to_review: {return: [review]}
      again: legal
  board: {on: {sign: done, back: {return: previous, approval: {quorum: 2}}}}
  done: {type: final}
"#;

fn at_legal() -> Case {
    let mut case = Case::new(WAYS);
    case.run(
        r#"
        ann start -> started v1 draft
        ann submit data={"amount":5} -> applied v2 review
        bob pass -> applied v3 legal
        "#,
    );
    case
}

#[test]
fn a_run_returns_to_where_it_has_been() {
    at_legal().run(
        r#"
        cid send_back -> ambiguous_target: "send_back" may lead back to several states: name one in `to`: review, draft
        cid send_back to=board -> state_mismatch: not possible in state "legal"; it is in review, legal
        cid send_back to=legal -> state_mismatch: not possible in state "legal"; it is in review, legal
        cid send_back to=review -> applied v4 review
        cid send_back to=review -> already_applied v4 review, stays
        # It led here and leads on: which stage is meant has to be said.
        cid send_back data={"reason":"x"} -> ambiguous_target: the event "send_back" led from "legal" to "review" and also leads on: give `from` or `expected_version` to say which stage is meant
        cid send_back from=review data={"reason":"x"} -> applied v5 draft
        # The way here is the way without its loops.
        ann skip -> applied v6 legal
        cid to_review -> act_refused: "to_review" leads back to a state that the run has passed, and there is none
        cid again -> applied v7 legal
        cid restart -> applied v8 draft
        "#,
    );
}

#[test]
fn votes_do_not_survive_a_return() {
    let mut case = at_legal();
    case.run(
        r"
        bob approve -> pending_approval v4 legal, 1/2 bob
        cid restart -> applied v5 draft
        ann skip -> applied v6 legal
        cid approve -> pending_approval v7 legal, 1/2 cid
        bob approve -> applied v8 board, by cid bob
        # A return may need an approval itself.
        ann back -> pending_approval v9 board, 1/2 ann
        bob back -> applied v10 legal, by ann bob
        bob approve -> pending_approval v11 legal, 1/2 bob
        ",
    );
    assert_eq!(case.current.as_ref().unwrap().path, ["draft"]);
}

#[test]
fn a_run_of_an_earlier_version_knows_where_it_came_from() {
    let mut case = at_legal();
    case.current.as_mut().unwrap().path.clear();
    case.run(
        r"
        cid send_back to=draft -> state_mismatch: not possible in state Q; it is in review, legal
        cid send_back -> applied v4 review
        "
        .replace('Q', "\"legal\"")
        .as_str(),
    );
}

#[test]
fn the_last_move_is_taken_back_with_what_it_assigned() {
    let mut case = Case::new(WAYS);
    case.run(
        r#"
        ann start data={"amount":1} -> started v1 draft
        ann submit recall -> act_refused: "ann" has done nothing by "submit" since the run came here
        ann submit data={"amount":5} -> applied v2 review
        "#,
    );
    assert_eq!(case.data(), serde_json::json!({"amount": 5, "by": "ann"}));
    case.run(
        r#"
        bob submit recall -> act_refused: "ann" sent "submit": nobody else can take it back
        ann pass recall -> act_refused: "ann" has done nothing by "pass" since the run came here
        ann submit recall -> applied v3 draft
        ann submit recall -> act_refused: "ann" has done nothing by "submit" since the run came here
        "#,
    );
    assert_eq!(case.data(), serde_json::json!({"amount": 1}), "as it was before");
    let (_, entry) = case.history.last().unwrap();
    assert_eq!((entry.kind, entry.event.as_deref()), (lockkeeper_model::Kind::Recall, Some("submit")));
    case.run(
        r#"
        ann submit data={"amount":7} -> applied v4 review
        # Whatever happens, however little, ends it.
        zoe note -> applied v5 review
        ann submit recall -> act_refused: something has happened since the run came to "review"
        ann . recall -> act_refused: there is nothing that "ann" could take back now
        bob pass -> applied v6 legal
        bob . recall -> applied v7 review
        bob pass -> applied v8 legal
        cid approve -> pending_approval v9 legal, 1/2 cid
        bob pass recall -> act_refused: something has happened since the run came to "legal"
        # The last voter takes the move back: the votes went with the visit.
        dan approve -> applied v10 board, by cid dan
        cid approve recall -> act_refused: "dan" sent "approve": nobody else can take it back
        dan approve recall -> applied v11 legal
        cid approve -> pending_approval v12 legal, 1/2 cid
        dan sign recall -> act_refused: "dan" has done nothing by "sign" since the run came here
        "#,
    );
}
