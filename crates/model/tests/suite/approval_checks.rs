//! What the checker says of approvals, ways back and recalls.

use lockkeeper_model::{Definition, Format};

/// The problems, or else the warnings, of a workflow whose state `review` has `ways`.
fn said(ways: &str) -> String {
    let text = format!(
        "workflow: w\ninitial: draft\nstates:\n  draft: {{on: {{submit: review}}}}\n  review:\n    on:\n      {}\n  done: {{type: final}}\n",
        ways.replace('\n', "\n      ")
    );
    let lines = match Definition::read(&text, Format::Yaml) {
        Ok(definition) => definition.warnings().iter().map(ToString::to_string).collect::<Vec<_>>(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    };
    lines.join("\n")
}

#[test]
fn what_is_wrong_is_said_with_its_remedy() {
    let mut wrong = Vec::new();
    for (ways, expected) in [
        (
            "approve: {target: done, approval: {quorum: all}}",
            "7:50: states.review.on.approve.approval.quorum: all of whom?",
        ),
        ("approve: {target: done, approval: {quorum: most}}", "unknown quorum \"most\""),
        ("approve: {target: done, approval: {quorum: 3, of: [a, b, a]}}", "3 of 2 people (write a number from 1 to 2)"),
        ("approve: {target: done, approval: {quorum: 1, of: []}}", "0 people; 1 to 100 may be named"),
        ("approve: {target: done, approval: {quorum: 1, of: [7]}}", "expected a text, found a number"),
        ("approve: {target: done, approval: {quorum: 1, of: event.people}}", "a list of people does not see `event`"),
        ("approve: {target: done, approval: {quorum: 1, of: '[actor.id]'}}", "a list of people does not see `actor`"),
        (
            "approve: {target: done, approval: {quorum: 1, of: '\"ann\"'}}",
            "a list of people is needed, and this yields a text",
        ),
        ("approve: {target: done, approval: {quorum: 1, groups: [{quorum: 1}]}}", "`quorum` beside `groups`"),
        ("approve: {target: done, approval: {groups: []}}", "0 groups; 1 to 16 are allowed"),
        (
            "approve: {target: done, approval: {groups: [{roles: [a]}]}}",
            "approval.groups[0]: an approval without a quorum",
        ),
        ("approve: {target: done, approval: {groups: [{quorum: 60}, {quorum: 41}]}}", "101 must agree; at most 100"),
        ("approve: {target: done, approval: {quorum: 1, veto: rejct}}\nreject: draft", "did you mean \"reject\"?"),
        ("approve: {target: done, approval: {quorum: 1, veto: approve}}", "the veto is the event itself"),
        (
            "approve: {target: done, approval: {quorum: 1, veto: no}}\nno: {target: draft, approval: {quorum: 2}}",
            "needs an approval itself, so one no does not end it",
        ),
        (
            "approve: {target: done, approval: {quorum: 1, delegation: yes}}",
            "expected true, false or a block of fields",
        ),
        ("approve: {target: done, approval: {quorum: 1, recall: 1}}", "expected true or false"),
        ("approve: {target: done, recall: true}", "a run that has ended does not go back"),
        ("note: {recall: true}\napprove: done", "only a move to a state can be taken back"),
        ("back: {target: draft, return: previous}\napprove: done", "both `target` and `return`"),
        ("back: {return: [draft, reviw]}\napprove: done", "there is no state \"reviw\"; did you mean \"review\"?"),
        ("back: {return: last}\napprove: done", "not a way back"),
        (
            "back: {return: any, approval: {quorum: 2}}\napprove: done",
            "an approval of a return to one of several states",
        ),
    ] {
        let said = said(ways);
        if !said.contains(expected) {
            wrong.push(format!("{ways}\n  {said}\n  lacks {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_way_around_an_approval_is_a_warning() {
    let approve = "approve: {target: done, approval: {quorum: 2}}\n";
    let around = said(&format!("{approve}finish: done"));
    let expected =
        "the event \"finish\" leads to \"done\" too, for everybody: it passes by the approval of \"approve\"";
    assert!(around.contains(expected), "{around}");
    for asks in
        ["{target: done, roles: [admin]}", "{target: done, guard: data.x}", "{target: done, approval: {quorum: 1}}"]
    {
        assert_eq!(said(&format!("{approve}finish: {asks}")), "", "{asks}");
    }
    assert_eq!(said(&format!("{approve}back: {{return: any}}")), "");
}
