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
        (
            "approve: {target: done, approval: {quorum: 1, of: '[]'}}",
            "7:57: states.review.on.approve.approval.of: nobody is named (write a list of ids",
        ),
        ("approve: {target: done, approval: {quorum: 1, of: '[\"\"]'}}", "nobody is named: actor id is empty"),
        ("approve: {target: done, approval: {quorum: 1, of: '[7]'}}", "nobody is named: people are texts: their ids"),
        (
            "approve: {target: done, approval: {quorum: 3, of: '[\"a\", \"b\", \"a\"]'}}",
            "7:41: states.review.on.approve.approval: those who are named fill 2 of 3 places, each of them one (name more people, or ask for fewer)",
        ),
        (
            "approve: {target: done, approval: {groups: [{quorum: all, of: [a, b]}, {quorum: 1, of: [a]}]}}",
            "those who are named fill 2 of 3 places",
        ),
        (
            "approve: {target: done, approval: {groups: [{quorum: 1, of: [a]}, {quorum: 1, of: '[\"a\"]', roles: [x]}, {quorum: 1}]}}",
            "those who are named fill 1 of 2 places",
        ),
        (
            "approve: {target: done, approval: {groups: [{quorum: 60}, {quorum: all, of: '[1,2,3,4,5,6,7,8,9,10].map(a, string(a)).map(a, a + \"x\")'}, {quorum: 31}]}}",
            "101 must agree; at most 100",
        ),
        (
            "approve: {target: done, approval: {quorum: 1, veto: {event: no, of: '[]'}}}\nno: draft",
            "approval.veto.of: nobody is named",
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

#[test]
fn what_some_run_could_never_pass_is_a_warning() {
    let alone = said("approve: {target: done, approval: {quorum: 2, of: [ann, bob], exclude_starter: true}}");
    assert!(alone.contains("a run that \"ann\" has started could never be approved"), "{alone}");
    assert_eq!(said("approve: {target: done, approval: {quorum: all, of: [ann, bob], exclude_starter: true}}"), "");
    assert_eq!(said("approve: {target: done, approval: {quorum: 2, of: [ann, bob, cid], exclude_starter: true}}"), "");
    let only = said("approve: {target: done, approval: {quorum: all, of: [ann], exclude_starter: true}}");
    assert!(only.contains("a run that \"ann\" has started"), "{only}");
    let hands = said("approve: {target: done, approval: {quorum: 2, of: [ann, bob], delegation: {of: [bob]}}}");
    assert!(hands.contains("all to whom a vote may be handed have one of their own"), "{hands}");
    let lost = said("approve: {target: done, approval: {quorum: 2, roles: [x], delegation: {roles: [deputy]}}}");
    assert!(lost.contains("is lost for this visit (add `recall: true`"), "{lost}");
    assert_eq!(
        said("approve: {target: done, approval: {quorum: 2, roles: [x], delegation: {roles: [d]}, recall: true}}"),
        ""
    );
}

#[test]
fn whose_event_it_is_is_a_warning_where_several_vote() {
    let guarded = said("approve: {target: done, guard: event.amount < 10, approval: {quorum: 2}}");
    assert!(
        guarded.contains("on.approve.guard: it is asked for each vote, on the `event` of who casts it"),
        "{guarded}"
    );
    let assigned =
        said("approve: {target: done, assign: {by: actor.id, n: event.n}, approval: {quorum: all, of: data.people}}");
    assert!(assigned.contains("on.approve.assign.n: `event` is what the last voter sends"), "{assigned}");
    assert!(assigned.contains("(let the event that leads here assign it"), "{assigned}");
    for clear in [
        "{target: done, guard: event.amount < 10, assign: {n: event.n}}",
        "{target: done, guard: event.amount < 10, assign: {n: event.n}, approval: {quorum: any, roles: [x]}}",
        "{target: done, guard: data.amount < 10, assign: {by: actor.id}, approval: {quorum: 2}}",
    ] {
        assert_eq!(said(&format!("approve: {clear}")), "", "{clear}");
    }
    let added =
        said("approve: {target: done, assign: {n: 'has(event.n)'}, approval: {quorum: 1, add_approvers: true}}");
    assert!(added.contains("what the last voter sends"), "{added}");
}

/// What an earlier version accepted is obeyed: what is found since is a warning then.
#[test]
fn what_was_accepted_is_read_again() {
    let text = "workflow: w\ninitial: a\nstates:\n  a: {on: {go: {target: b, approval: {groups: [{quorum: 1, of: [x]}, {quorum: 1, of: [x]}]}}}}\n  b: {type: final}\n";
    assert!(Definition::read(text, Format::Yaml).is_err());
    let read = Definition::read_accepted(text, Format::Yaml).unwrap();
    assert!(read.warnings()[0].message.contains("fill 1 of 2 places"), "{:?}", read.warnings());
}
