//! The answer to a command, in one line for people.

use serde::Deserialize;

use crate::client::Answer;
use crate::commands::Context;
use crate::failure::Failure;
use crate::json;
use crate::output::{Colour, printable};

/// The body of an answer to a command.
#[derive(Debug, Deserialize)]
struct Success {
    outcome: String,
    id: String,
    version: i64,
    state: String,
    status: Option<String>,
    approval: Option<Approval>,
    migration: Option<Migration>,
}

/// What a migration did, or would do.
#[derive(Debug, Deserialize)]
struct Migration {
    from_version: i64,
    to_version: i64,
    from_state: String,
    to_state: String,
    votes_dropped: Vec<String>,
}

/// How far an approval is.
#[derive(Debug, Deserialize)]
struct Approval {
    quorum: u64,
    voters: Vec<String>,
}

/// Prints an answer: the server's JSON, or one line.
pub(crate) fn print(context: &Context<'_>, workflow: &str, answer: &Answer) -> Result<(), Failure> {
    if context.output.is_json() {
        return context.output.print(&json::pretty(&answer.text));
    }
    let success: Success = answer.read()?;
    let colour = if success.outcome == "pending_approval" { Colour::Yellow } else { Colour::Green };
    let outcome = context.output.paint(colour, &success.outcome);
    context.output.print(&format!("{outcome}: {}", sentence(&success, workflow, answer.replayed)))
}

fn sentence(success: &Success, workflow: &str, replayed: bool) -> String {
    let mut text = format!("{workflow}/{} is in {}, version {}", success.id, success.state, success.version);
    match success.status.as_deref() {
        None | Some("running") => {}
        Some(status) => text.push_str(&format!(", {status}")),
    }
    if let Some(approval) = &success.approval {
        let (votes, voters) = (approval.voters.len(), approval.voters.join(", "));
        text.push_str(&format!("; {votes} of {} votes: {voters}", approval.quorum));
    }
    if let Some(migration) = &success.migration {
        let Migration { from_version, to_version, from_state, to_state, votes_dropped } = migration;
        text.push_str(&format!("; the definition's version {from_version} > {to_version}"));
        if from_state != to_state {
            text.push_str(&format!(", state {from_state} > {to_state}"));
        }
        if !votes_dropped.is_empty() {
            text.push_str(&format!("; void are the votes of {}", votes_dropped.join(", ")));
        }
    }
    if replayed && success.outcome == "started" {
        text.push_str(" (it had begun before)");
    } else if replayed {
        text.push_str(" (the answer that this key had before)");
    }
    printable(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence_of(body: &str, replayed: bool) -> String {
        sentence(&serde_json::from_str(body).unwrap(), "purchase", replayed)
    }

    #[test]
    fn says_where_the_instance_stands() {
        let body = r#"{"outcome":"applied","id":"po-1","run":"r","version":2,"state":"review","status":"running"}"#;
        assert_eq!(sentence_of(body, false), "purchase/po-1 is in review, version 2");
        let body = r#"{"outcome":"applied","id":"po-1","version":4,"state":"approved","status":"completed"}"#;
        assert_eq!(
            sentence_of(body, true),
            "purchase/po-1 is in approved, version 4, completed (the answer that this key had before)"
        );
    }

    #[test]
    fn says_who_has_voted() {
        let body = r#"{"outcome":"pending_approval","id":"po-1","version":3,"state":"review",
            "approval":{"quorum":2,"voters":["bob"]}}"#;
        assert_eq!(sentence_of(body, false), "purchase/po-1 is in review, version 3; 1 of 2 votes: bob");
    }
}
