//! The purchase: two of many must agree.

use serde_json::json;

use crate::begin;

#[test]
fn two_of_finance_or_management_approve() {
    let (_store, _server, cli) = begin("purchase");
    let said = |args: &[&str]| cli.run(args);
    let started = said(&["start", "purchase/po-1", "--as", "ann", "--data", r#"{"amount": 1200}"#]);
    assert_eq!(started.ok(), "started: purchase/po-1 is in draft, version 1");
    assert_eq!(
        said(&["send", "purchase/po-1", "submit", "--as", "ann"]).ok(),
        "applied: purchase/po-1 is in review, version 2"
    );
    let own = said(&["send", "purchase/po-1", "approve", "--as", "ann", "--as-roles", "finance"]);
    assert_eq!(
        own.failed(1),
        "error: guard_rejected (LK0017): the guard does not hold: actor.id != instance.started_by"
    );
    let intern = said(&["send", "purchase/po-1", "approve", "--as", "ian"]);
    assert!(intern.failed(1).starts_with("error: not_permitted (LK0003): "), "{intern:?}");
    let bob = ["send", "purchase/po-1", "approve", "--as", "bob", "--as-roles", "finance"];
    for _ in 0..2 {
        let pending = "pending_approval: purchase/po-1 is in review, version 3; 1 of 2 votes: bob";
        assert_eq!(said(&bob).ok(), pending, "a second vote of the same person changes nothing");
    }
    let eve = said(&["send", "purchase/po-1", "approve", "--as", "eve", "--as-roles", "manager"]);
    assert_eq!(eve.ok(), "applied: purchase/po-1 is in approved, version 4, completed");
    let dan = said(&["send", "purchase/po-1", "approve", "--as", "dan", "--as-roles", "manager"]);
    assert_eq!(dan.ok(), "already_applied: purchase/po-1 is in approved, version 4, completed");
    let late = said(&["send", "purchase/po-1", "reject", "--as", "dan", "--as-roles", "manager"]);
    assert!(late.failed(1).starts_with("error: state_mismatch (LK0007): the run has ended"), "{late:?}");

    let history = said(&["history", "purchase/po-1"]);
    let rows: Vec<Vec<&str>> = history.ok().lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["VERSION", "AT", "KIND", "EVENT", "STATE", "ACTOR", "DETAIL"]);
    assert_eq!((rows.len(), rows[4][0], rows[4][3]), (5, "4", "move"), "{history:?}");
    assert!(history.out.contains("approved by bob, eve"), "{history:?}");
    assert!(history.err.contains("unverified"), "it says that nobody proved who they are: {history:?}");
}

/// Votes belong to one stay in a state.
#[test]
fn a_withdrawal_begins_the_votes_anew() {
    let (_store, _server, cli) = begin("purchase");
    cli.run(&["start", "purchase/po-1", "--as", "ann", "--data", r#"{"amount": 5}"#]).ok();
    let submit = ["send", "purchase/po-1", "submit", "--as", "ann"];
    let approve = ["send", "purchase/po-1", "approve", "--as", "bob", "--as-roles", "finance", "-o", "json"];
    cli.run(&submit).ok();
    cli.run(&approve).ok();
    cli.run(&["send", "purchase/po-1", "withdraw", "--as", "ann"]).ok();
    cli.run(&["send", "purchase/po-1", "change", "--as", "ann", "--data", r#"{"amount": 7}"#]).ok();
    cli.run(&submit).ok();
    let vote = cli.run(&approve).json();
    assert_eq!(vote["outcome"], "pending_approval", "{vote}");
    let approval = &vote["approval"];
    assert_eq!((&approval["quorum"], &approval["voters"]), (&json!(2), &json!(["bob"])));
    let instance = cli.run(&["get", "purchase/po-1", "-o", "json"]).json();
    assert_eq!((&instance["data"], &instance["state"]), (&json!({ "amount": 7 }), &json!("review")));
}

#[test]
fn a_rejection_fails_the_run_and_the_id_may_run_again() {
    let (_store, _server, cli) = begin("purchase");
    let start = ["start", "purchase/po-1", "--as", "ann", "--data", r#"{"amount": 5}"#];
    cli.run(&start).ok();
    let twice = cli.run(&start);
    assert!(twice.failed(1).starts_with("error: already_running (LK0014): run "), "{twice:?}");
    cli.run(&["send", "purchase/po-1", "submit", "--as", "ann"]).ok();
    let reject = ["send", "purchase/po-1", "reject", "--as", "eve", "--as-roles", "manager"];
    let missing = cli.run(&reject);
    assert!(missing.failed(1).starts_with("error: guard_error (LK0018): "), "the reason is missing: {missing:?}");
    let rejected = cli.run(&[&reject[..], &["--data", r#"{"reason": "too dear"}"#]].concat());
    assert_eq!(rejected.ok(), "applied: purchase/po-1 is in rejected, version 3, failed");
    assert_eq!(
        cli.run(&start).ok(),
        "started: purchase/po-1 is in draft, version 4",
        "versions go on over the runs of an id"
    );
}
