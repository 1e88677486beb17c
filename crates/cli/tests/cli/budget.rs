//! The budget: three of five, with a vote by proxy and one that is taken back.

use serde_json::json;

use crate::begin;

#[test]
fn three_of_five_with_delegation_and_recall() {
    let (_store, _server, cli) = begin("budget");
    let said = |line: &str| cli.run(&line.split(' ').collect::<Vec<_>>());
    cli.run(&["start", "budget/b-1", "--as", "sam", "--data", r#"{"amount": 90000}"#]).ok();
    said("send budget/b-1 submit --as sam").ok();
    let pending =
        |version: u32, votes: &str| format!("pending_approval: budget/b-1 is in review, version {version}; {votes}");
    assert_eq!(
        said("send budget/b-1 approve --as ann").ok(),
        pending(3, "1 of 3 votes: ann; waiting for bob, cid, dan, eve")
    );
    assert_eq!(
        said("delegate budget/b-1 approve --to zoe --as bob").ok(),
        pending(4, "1 of 3 votes: ann; waiting for cid, dan, eve, zoe")
    );
    said("send budget/b-1 approve --as zoe").ok();
    let handed = said("send budget/b-1 approve --as bob");
    assert_eq!(handed.failed(1), "error: act_refused (LK0028): \"bob\" has handed the vote to \"zoe\"");
    assert_eq!(
        said("recall budget/b-1 --as ann").ok(),
        pending(6, "1 of 3 votes: zoe (for bob); waiting for ann, cid, dan, eve")
    );
    let open = said("approval budget/b-1 -o json").json()["approvals"][0].clone();
    assert_eq!((&open["event"], &open["missing"], &open["voters"]), (&json!("approve"), &json!(2), &json!(["zoe"])));
    assert_eq!(open["delegations"], json!([{ "from": "bob", "to": "zoe" }]));
    let shown = said("approval budget/b-1");
    assert!(shown.ok().contains("\napprove > approved: 1 of 3 votes\n  voted         zoe (for bob)\n"), "{shown:?}");
    let member = said("add-approver budget/b-1 approve max --as cid");
    assert!(member.failed(1).starts_with("error: not_permitted (LK0003): "), "{member:?}");
    said("add-approver budget/b-1 approve max --as kim --as-roles chair").ok();
    said("send budget/b-1 approve --as cid").ok();
    assert_eq!(
        said("send budget/b-1 approve --as dan").ok(),
        pending(9, "3 of 4 votes: zoe (for bob), cid, dan; waiting for max")
    );
    assert_eq!(
        said("send budget/b-1 approve --as max").ok(),
        "applied: budget/b-1 is in approved, version 10, completed"
    );
    assert_eq!(
        said("approval budget/b-1").ok(),
        "budget/b-1 is in approved, version 10\nno approval is asked for here"
    );
    let history = said("history budget/b-1");
    for line in ["delegate", "recall", "add_approver", "for bob", "approved by zoe, cid, dan, max"] {
        assert!(history.ok().contains(line), "{line}: {history:?}");
    }
}

#[test]
fn second_thoughts_and_ways_back() {
    let (_store, _server, cli) = begin("budget");
    let said = |line: &str| cli.run(&line.split(' ').collect::<Vec<_>>());
    cli.run(&["start", "budget/b-1", "--as", "sam", "--data", r#"{"amount": 5}"#]).ok();
    said("send budget/b-1 submit --as sam").ok();
    let other = said("recall budget/b-1 submit --as eve");
    assert!(other.failed(1).contains("nobody else can take it back"), "{other:?}");
    assert_eq!(said("recall budget/b-1 --as sam").ok(), "applied: budget/b-1 is in draft, version 3");
    said("send budget/b-1 submit --as sam").ok();
    said("send budget/b-1 approve --as ann").ok();
    let late = said("recall budget/b-1 submit --as sam");
    assert!(late.failed(1).starts_with("error: act_refused (LK0028): something has happened since"), "{late:?}");
    let back =
        ["send", "budget/b-1", "send_back", "--as", "kim", "--as-roles", "chair", "--data", r#"{"reason": "x"}"#];
    assert_eq!(cli.run(&back).ok(), "applied: budget/b-1 is in draft, version 6");
    said("send budget/b-1 submit --as sam").ok();
    let vote = said("send budget/b-1 approve --as bob");
    assert!(vote.ok().contains("1 of 3 votes: bob;"), "the vote of before is gone: {vote:?}");
    let no = ["send", "budget/b-1", "reject", "--as", "eve", "--data", r#"{"reason": "no"}"#];
    assert_eq!(cli.run(&no).ok(), "applied: budget/b-1 is in rejected, version 9, failed");
}
