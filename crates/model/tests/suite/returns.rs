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

/// The same workflow before it had ways back.
fn without_returns() -> String {
    let ways = WAYS.lines().filter(|line| !line.contains("return:") && !line.contains("board:"));
    ways.collect::<Vec<_>>().join("\n") + "\n  board: {on: {sign: done}}\n"
}

#[test]
fn a_run_of_a_version_without_ways_back_knows_where_it_came_from() {
    let mut case = Case::new(&without_returns());
    case.run(
        r#"
        ann start -> started v1 draft
        ann submit data={"amount":5} -> applied v2 review
        bob pass -> applied v3 legal
        "#,
    );
    case.migrate(WAYS, &[]);
    case.run(
        r#"
        cid send_back -> ambiguous_target: "send_back" may lead back to several states: name one in `to`: review, draft
        cid send_back to=draft -> applied v5 draft
        "#,
    );
    // In its first state it has passed none, wherever it came from: neither by a return nor by a recall.
    for (back, version) in
        [(["ann submit data={\"amount\":5}", "ann submit recall"], 3), (["ann skip", "ann restart"], 3)]
    {
        let mut case = Case::new(&without_returns().replace("again: legal", "again: legal\n      restart: draft"));
        case.run("ann start -> started v1 draft");
        case.run(&format!("{} -> applied v2 {}", back[0], if back[0].contains("skip") { "legal" } else { "review" }));
        case.run(&format!("{} -> applied v{version} draft", back[1]));
        case.migrate(&WAYS.replace("skip: legal", "skip: legal\n      back: {return: any}"), &[]);
        case.run("ann back -> act_refused: \"back\" leads back to a state that the run has passed, and there is none");
    }
}

#[test]
fn whoever_was_moved_by_a_timer_knows_the_way_too() {
    let mut case = Case::new(&without_returns().replace("      note: {}", "    after: {10s: legal}"));
    case.run(
        r#"
        ann start -> started v1 draft
        ann submit data={"amount":5} -> applied v2 review
        timer fire until=100 -> applied v3 legal
        "#,
    );
    case.migrate(WAYS, &[]);
    case.run("cid send_back to=review -> applied v5 review");
}

/// As releases before kept an instance of a version without ways back.
fn forget_path(case: &mut Case) {
    let current = case.current.as_mut().unwrap();
    current.path.clear();
    current.path_known = false;
}

/// What is known only from somewhere on leads forward: it is on no path.
#[test]
fn a_path_begins_where_the_run_began() {
    let old = without_returns().replace("again: legal", "again: legal\n      restart: draft\n      redo: review");
    let new = WAYS
        .replace("      note: {}", "      any: {return: any}")
        .replace("  board: {on: {", "  board: {on: {any: {return: any}, ");
    for (ways, passed) in [("redo", [""; 0].as_slice()), ("restart", &[]), ("restart submit", &["draft"])] {
        let mut case = Case::new(&old);
        case.run("ann start -> started v1 draft").run("ann skip -> applied v2 legal");
        forget_path(&mut case);
        for (way, version) in ways.split(' ').zip(3..) {
            let to = match way {
                "restart" => "draft",
                _ => "review",
            };
            case.run(&format!("ann {way} data={{\"amount\":5}} -> applied v{version} {to}"));
        }
        case.migrate(&new, &[]);
        let current = case.current.as_ref().unwrap();
        // By an event, it is at least known from where.
        let known = if ways == "redo" { &["legal"][..] } else { passed };
        assert_eq!(current.path, known, "{ways}");
    }
    // A known path that is empty is not taken for one that is not known.
    let mut case = at_legal();
    let intake = WAYS.replace("draft", "intake").replace("      note: {}", "      any: {return: any}");
    case.migrate(&intake, &[]);
    case.run("cid send_back -> applied v5 review");
    case.migrate(&intake.replace("cid", "dan"), &[]);
    case.run("eve any -> act_refused: \"any\" leads back to a state that the run has passed, and there is none");
}

/// Instances written before paths were kept of all versions have none.
#[test]
fn a_run_without_a_path_returns_to_where_it_came_from() {
    let mut case = Case::new(&without_returns());
    case.run(
        r#"
        ann start -> started v1 draft
        ann submit data={"amount":5} -> applied v2 review
        bob pass -> applied v3 legal
        "#,
    );
    forget_path(&mut case);
    case.migrate(WAYS, &[]);
    case.run("cid send_back -> applied v5 review");
}

#[test]
fn whoever_goes_back_to_the_first_state_has_passed_none() {
    let text = WAYS.replace("skip: legal", "skip: legal\n      back: {return: any}");
    let none = "act_refused: \"back\" leads back to a state that the run has passed, and there is none";
    Case::new(&text).run(&format!(
        r#"
        ann start -> started v1 draft
        ann submit data={{"amount":5}} -> applied v2 review
        ann submit recall -> applied v3 draft
        ann back -> {none}
        ann submit data={{"amount":5}} -> applied v4 review
        ann send_back data={{"reason":"x"}} -> applied v5 draft
        ann back -> {none}
        "#
    ));
}

#[test]
fn the_path_is_that_of_the_states_as_they_are_mapped() {
    let mut case = at_legal();
    let renamed = WAYS.replace("review", "check").replace("legal", "law");
    // `legal` itself is one of the new version, and the run is not in it: it has not passed it.
    let text = renamed
        .replace("  board:", "  legal: {on: {on: done}}\n  board:")
        .replace("skip: law", "skip: law\n      odd: legal");
    case.migrate(&text, &[("review", "check"), ("legal", "law")]);
    assert_eq!(case.current.as_ref().unwrap().path, ["draft", "check"]);
    // Where two states become one, the way has no loop.
    let mut case = at_legal();
    case.migrate(&text, &[("review", "draft"), ("legal", "law")]);
    assert_eq!(case.current.as_ref().unwrap().path, ["draft"]);
    let mut case = at_legal();
    case.migrate(&text, &[("review", "law"), ("legal", "law")]);
    assert_eq!(case.current.as_ref().unwrap().path, ["draft"]);
    // A version without ways back keeps it: a later one may have some.
    let mut case = at_legal();
    case.migrate(&without_returns(), &[]);
    case.run("cid again -> applied v5 legal");
    assert_eq!(case.current.as_ref().unwrap().path, ["draft", "review"]);
}

#[test]
fn a_recall_restores_the_way_whatever_loop_the_move_has_closed() {
    let text = "
workflow: case
initial: a
states:
  a: {on: {b: {target: b, recall: true}, same: {target: a, recall: true}, back: {return: any, recall: true}}}
  b: {on: {a: {target: a, recall: true}, c: {target: c, recall: true}, same: {target: b, recall: true}, back: {return: any, recall: true}}}
  c: {on: {a: {target: a, recall: true}, d: {target: d, recall: true}, b: {target: b, recall: true}, back: {return: any, recall: true}}}
  d: {on: {a: {target: a, recall: true}, b: {target: b, recall: true}, c: {target: c, recall: true}, back: {return: any, recall: true}, end: e}}
  e: {type: final}
";
    let mut case = Case::new(text);
    case.run(
        r"
        ann start -> started v1 a
        ann b -> applied v2 b
        ann c -> applied v3 c
        ann d -> applied v4 d
        ann b from=d -> applied v5 b
        ann b recall -> applied v6 d
        ann back to=c -> applied v7 c
        ann back recall -> applied v8 d
        ann back to=b -> applied v9 b
        ",
    );
    assert_eq!(case.current.as_ref().unwrap().path, ["a"]);
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
    assert_eq!((&entry.kind, entry.event.as_deref()), (&lockkeeper_model::Kind::Recall, Some("submit")));
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
