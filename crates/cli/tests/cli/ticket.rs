//! The support ticket: escalated, reopened, closed.

use serde_json::json;

use crate::begin;

#[test]
fn a_ticket_is_escalated_reopened_and_closed() {
    let (_store, _server, cli) = begin("ticket");
    let steps: [(&[&str], &str); 9] = [
        (&["start", "ticket/7", "--as", "zoe"], "started: ticket/7 is in open, version 1"),
        (
            &["send", "ticket/7", "escalate", "--as", "zoe", "--data", r#"{"reason": "smoke"}"#],
            "applied: ticket/7 is in escalated, version 2",
        ),
        (
            &["send", "ticket/7", "assign", "--as", "lea", "--as-roles", "lead", "--data", r#"{"assignee": "max"}"#],
            "applied: ticket/7 is in in_progress, version 3",
        ),
        (
            &["send", "ticket/7", "reassign", "--data", r#"{"assignee": "mia"}"#],
            "applied: ticket/7 is in in_progress, version 4",
        ),
        (&["send", "ticket/7", "resolve", "--as", "mia"], "applied: ticket/7 is in resolved, version 5"),
        (
            &["send", "ticket/7", "reopen", "--from", "resolved", "--data", r#"{"reason": "again"}"#],
            "applied: ticket/7 is in in_progress, version 6",
        ),
        (
            &["send", "ticket/7", "resolve", "--as", "mia", "--expected-version", "6"],
            "applied: ticket/7 is in resolved, version 7",
        ),
        (
            &["send", "ticket/7", "--to", "closed", "--from", "resolved"],
            "applied: ticket/7 is in closed, version 8, completed",
        ),
        (&["send", "ticket/7", "close"], "already_applied: ticket/7 is in closed, version 8, completed"),
    ];
    for (args, expected) in steps {
        assert_eq!(cli.run(args).ok(), expected, "{args:?}");
    }
    let instance = cli.run(&["get", "ticket/7", "-o", "json"]).json();
    let data = json!({ "assignee": "mia", "escalated_by": "zoe", "reason": "again" });
    assert_eq!((&instance["status"], &instance["data"]), (&json!("completed"), &data), "{instance}");
    assert_eq!(instance["open_events"], json!([]));
}

#[test]
fn refusals_say_what_is_in_the_way() {
    let (_store, _server, cli) = begin("ticket");
    cli.run(&["start", "ticket/7"]).ok();
    let refusals: [(&[&str], &str); 6] = [
        (&["send", "ticket/7", "close"], "state_mismatch (LK0007): not possible in state \"open\"; it is in resolved"),
        (
            &["send", "ticket/7", "escalate", "--from", "resolved"],
            "state_mismatch (LK0007): expected state \"resolved\"",
        ),
        (&["send", "ticket/7", "escalate", "--expected-version", "9"], "version_mismatch (LK0008): expected version 9"),
        (&["send", "ticket/7", "explode"], "unknown_event (LK0019): there is no event \"explode\"; known: assign, "),
        (
            &["send", "ticket/7", "--to", "nowhere"],
            "unknown_event (LK0019): there is no state \"nowhere\"; known: open, ",
        ),
        (&["send", "ticket/8", "close"], "unknown_instance (LK0005): workflow \"ticket\" has no instance \"8\""),
    ];
    for (args, expected) in refusals {
        let said = cli.run(args);
        assert!(said.failed(1).starts_with(&format!("error: {expected}")), "{args:?}: {said:?}");
    }
    assert_eq!(cli.run(&["get", "ticket/7", "-o", "json"]).json()["version"], 1, "none had an effect");
}

#[test]
fn a_run_is_ended_from_outside() {
    let (_store, _server, cli) = begin("ticket");
    for (verb, id, status) in [("terminate", "1", "terminated"), ("cancel", "2", "canceled")] {
        let target = format!("ticket/{id}");
        cli.run(&["start", &target]).ok();
        let without = cli.run(&[verb, &target]);
        assert!(without.failed(2).contains("--reason"), "{without:?}");
        let run = cli.run(&["get", &target, "-o", "json"]).json()["run"].as_str().unwrap().to_owned();
        let other = "00000000-0000-4000-8000-000000000000";
        let said = cli.run(&[verb, &target, "--reason", "r", "--run", other]);
        assert!(said.failed(1).starts_with("error: state_mismatch (LK0007)"), "{said:?}");
        let end = [verb, &target, "--reason", "bought a new one", "--run", &run, "--as", "zoe", "--key", "end"];
        assert_eq!(cli.run(&end).ok(), format!("applied: {target} is in open, version 2, {status}"));
        let again = cli.run(&end);
        assert!(again.ok().ends_with("(the answer that this key had before)"), "{again:?}");
        let late = cli.run(&["terminate", &target, "--reason", "r"]);
        assert!(late.failed(1).contains(&format!("already_closed (LK0015): run {run} has already ended: {status}")));
        let row = cli.run(&["history", &target, "-o", "json"]).json()["items"][1].clone();
        assert_eq!((&row["kind"], &row["reason"]), (&json!(verb), &json!("bought a new one")));
        assert_eq!((&row["actor"], &row["from"], &row["to"]), (&json!("zoe"), &json!("open"), &json!("open")));
    }
    let listed = cli.run(&["list", "ticket", "--status", "terminated", "-o", "json"]).json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
}
