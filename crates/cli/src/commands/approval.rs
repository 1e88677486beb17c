//! `approval`: shows who may vote, who has, and what is missing.

use clap::Args;
use serde_json::{Value, json};

use crate::client::Request;
use crate::commands::{Context, field};
use crate::failure::Failure;
use crate::output::{Colour, Output, printable};
use crate::target::Target;

/// Shows who may vote on an instance, who has, and what is missing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  lockkeeper approval expense/e-1\n  lockkeeper approval expense/e-1 -o json")]
pub(crate) struct ApprovalArgs {
    /// The instance.
    #[arg(value_name = "WORKFLOW/ID")]
    pub target: Target,
}

/// Runs `approval`.
pub(crate) async fn run(args: &ApprovalArgs, context: &Context<'_>) -> Result<(), Failure> {
    let answer = context.client.call(&Request::get(args.target.path(&[]))).await?;
    let instance: Value = answer.read()?;
    if context.output.is_json() {
        let shown = ["workflow", "id", "run", "version", "state", "status", "approvals"];
        let shown: serde_json::Map<_, _> =
            shown.into_iter().map(|name| (name.to_owned(), instance[name].clone())).collect();
        return context.output.print(&format!("{:#}", json!(shown)));
    }
    context.output.print(&card(context.output, &args.target, &instance))
}

/// A heading, and a block for each approval of the state.
fn card(output: &Output, target: &Target, instance: &Value) -> String {
    let (state, version) = (field::text(instance, "state"), field::text(instance, "version"));
    let mut card = printable(&format!("{target} is in {state}, version {version}"));
    let approvals = instance["approvals"].as_array().map(Vec::as_slice).unwrap_or_default();
    if approvals.is_empty() {
        card.push_str("\nno approval is asked for here");
    }
    for approval in approvals {
        card.push_str(&format!("\n{}", output.paint(Colour::Yellow, &printable(&heading(approval)))));
        for (name, value) in lines(approval) {
            let name = output.paint(Colour::Dim, &format!("{name:<12}"));
            card.push_str(&format!("\n  {name}  {}", printable(&value)));
        }
    }
    card
}

/// `approve > approved: 2 of 3 votes`.
fn heading(approval: &Value) -> String {
    let event = field::text(approval, "event");
    let to = approval["target"].as_str().map(|target| format!(" > {target}")).unwrap_or_default();
    match (field::number(approval, "quorum"), field::number(approval, "missing")) {
        (Some(quorum), Some(missing)) => format!("{event}{to}: {} of {quorum} votes", quorum - missing),
        _ => format!("{event}{to}: {}", field::text(approval, "problem")),
    }
}

fn lines(approval: &Value) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if field::is_given(approval, "voters") {
        lines.push(("voted", voters(approval)));
    }
    for group in approval["groups"].as_array().into_iter().flatten() {
        let missing = group["quorum"].as_i64().unwrap_or_default() - group["votes"].as_i64().unwrap_or_default();
        if missing > 0 {
            lines.push(("missing", format!("{missing} of {}", whom(group))));
        }
    }
    for (name, field) in [("waiting for", "waiting_for"), ("added", "added")] {
        if field::is_given(approval, field) {
            lines.push((name, field::list(approval, field)));
        }
    }
    let open = handovers(approval).filter(|(_, to)| !has_voted(approval, to));
    let open = open.map(|(from, to)| format!("{to} for {from}")).collect::<Vec<_>>();
    if !open.is_empty() {
        lines.push(("handed over", open.join(", ")));
    }
    if field::is_given(approval, "veto") {
        lines.push(("veto", field::text(approval, "veto")));
    }
    lines
}

/// Who may fill a place of a group.
pub(crate) fn whom(group: &Value) -> String {
    match (field::is_given(group, "of"), field::is_given(group, "roles")) {
        (false, false) => "anybody".to_owned(),
        (false, true) => field::list(group, "roles"),
        (true, false) => field::list(group, "of"),
        (true, true) => format!("{} with the role {}", field::list(group, "of"), field::list(group, "roles")),
    }
}

/// Who has voted, and for whom: `ann, zoe (for bob)`.
pub(crate) fn voters(approval: &Value) -> String {
    let name = |voter: &str| match handovers(approval).find(|(_, to)| *to == voter) {
        Some((from, _)) => format!("{voter} (for {from})"),
        None => voter.to_owned(),
    };
    let voters = approval["voters"].as_array().into_iter().flatten().filter_map(Value::as_str);
    voters.map(name).collect::<Vec<_>>().join(", ")
}

fn handovers(approval: &Value) -> impl Iterator<Item = (&str, &str)> {
    let given = approval["delegations"].as_array().into_iter().flatten();
    given.filter_map(|given| Some((given["from"].as_str()?, given["to"].as_str()?)))
}

fn has_voted(approval: &Value, hand: &str) -> bool {
    approval["voters"].as_array().into_iter().flatten().any(|voter| voter == hand)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::OutputFormat;

    #[test]
    fn it_says_who_has_voted_and_what_is_missing() {
        let instance = json!({"state": "review", "version": 5, "approvals": [{"event": "approve", "target": "approved",
            "veto": "reject", "quorum": 4, "missing": 2, "voters": ["ann", "zoe"], "added": ["max"],
            "groups": [{"quorum": 2, "votes": 1, "of": ["ann", "cid"]}, {"quorum": 1, "votes": 1, "roles": ["legal"]}],
            "waiting_for": ["cid", "max"], "delegations": [{"from": "bob", "to": "zoe"}, {"from": "cid", "to": "yan"}]}]});
        let shown = card(&Output::plain(OutputFormat::Table), &"expense/e-1".parse().unwrap(), &instance);
        let expected = "\
expense/e-1 is in review, version 5
approve > approved: 2 of 4 votes
  voted         ann, zoe (for bob)
  missing       1 of ann, cid
  waiting for   cid, max
  added         max
  handed over   yan for cid
  veto          reject";
        assert_eq!(shown, expected);
        let none = json!({"state": "draft", "version": 1, "approvals": []});
        let shown = card(&Output::plain(OutputFormat::Table), &"expense/e-1".parse().unwrap(), &none);
        assert_eq!(shown, "expense/e-1 is in draft, version 1\nno approval is asked for here");
    }
}
