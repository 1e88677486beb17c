//! The answer to a command, in one line for people.

use serde::Deserialize;
use serde_json::Value;

use crate::client::Answer;
use crate::commands::{Context, approval, field};
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
    approval: Option<Value>,
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
    // Servers of before do not tell these.
    #[serde(default)]
    delegations_dropped: Vec<Value>,
    #[serde(default)]
    added_dropped: Vec<String>,
    #[serde(default)]
    unknown_states: Vec<String>,
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
        text.push_str(&format!("; {}", votes(approval)));
    }
    if let Some(migration) = &success.migration {
        let Migration { from_version, to_version, from_state, to_state, .. } = migration;
        text.push_str(&format!("; the definition's version {from_version} > {to_version}"));
        if from_state != to_state {
            text.push_str(&format!(", state {from_state} > {to_state}"));
        }
        text.push_str(&dropped(migration));
    }
    if replayed && success.outcome == "started" {
        text.push_str(" (it had begun before)");
    } else if replayed {
        text.push_str(" (the answer that this key had before)");
    }
    printable(&text)
}

/// What of the approvals is void, and what of the map means nothing.
fn dropped(migration: &Migration) -> String {
    let handover = |given: &Value| format!("{} for {}", field::text(given, "to"), field::text(given, "from"));
    let handed: Vec<_> = migration.delegations_dropped.iter().map(handover).collect();
    [
        ("void are the votes of", &migration.votes_dropped),
        ("void are the delegations", &handed),
        ("no longer asked for, though added:", &migration.added_dropped),
        ("neither version has the state that the map names:", &migration.unknown_states),
    ]
    .into_iter()
    .filter(|(_, names)| !names.is_empty())
    .map(|(what, names)| format!("; {what} {}", names.join(", ")))
    .collect()
}

/// `2 of 3 votes: ann, zoe (for bob); 1 of 2 finance, 1 of 1 legal; waiting for cid`.
fn votes(approval: &Value) -> String {
    let count = approval["voters"].as_array().map_or(0, Vec::len);
    let mut text = format!("{count} of {} votes", field::text(approval, "quorum"));
    if count > 0 {
        text.push_str(&format!(": {}", approval::voters(approval)));
    }
    let groups = approval["groups"].as_array().map(Vec::as_slice).unwrap_or_default();
    if groups.len() > 1 {
        let group = |group: &Value| format!("{} of {} {}", group["votes"], group["quorum"], approval::whom(group));
        text.push_str(&format!("; {}", groups.iter().map(group).collect::<Vec<_>>().join(", ")));
    }
    if field::is_given(approval, "waiting_for") {
        text.push_str(&format!("; waiting for {}", field::list(approval, "waiting_for")));
    }
    text
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
        let body = r#"{"outcome":"pending_approval","id":"po-1","version":3,"state":"review",
            "approval":{"quorum":3,"voters":["zoe"],"missing":2,"waiting_for":["cid"],
            "delegations":[{"from":"bob","to":"zoe"}],
            "groups":[{"quorum":2,"votes":1,"of":["bob","cid"]},{"quorum":1,"votes":0,"roles":["legal"]}]}}"#;
        assert_eq!(
            sentence_of(body, false),
            "purchase/po-1 is in review, version 3; 1 of 3 votes: zoe (for bob); 1 of 2 bob, cid, 0 of 1 legal; \
             waiting for cid"
        );
    }
}
