//! `show`: shows a definition file without a server.

use std::path::PathBuf;

use clap::Args;
use lockkeeper_model::definition::{ApprovalOutline, AssignOutline, RetentionOutline, StateOutline, TransitionOutline};
use lockkeeper_model::{Definition, Problem};
use serde_json::json;

use crate::commands::commits::Commits;
use crate::commands::field::NOTHING;
use crate::failure::Failure;
use crate::import::ImportArgs;
use crate::output::Output;
use crate::{import, report};

/// The columns.
const HEADING: [&str; 7] = ["STATE", "EVENT", "TARGET", "QUORUM", "ROLES", "GUARD", "ASSIGN"];

const EXAMPLES: &str = "\
Examples:
  lockkeeper show examples/purchase.yaml
  lockkeeper show examples/purchase.yaml --mermaid > purchase.mmd
  lockkeeper show machine.scxml --lossy --text > machine.yaml";

/// Checks a definition file and shows its states and events; needs no server.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ShowArgs {
    /// A definition in YAML or JSON, or a machine of XState, SCXML or Symfony; - for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Shows the machine as a Mermaid state diagram instead.
    #[arg(long)]
    pub(crate) mermaid: bool,
    /// Shows the definition's text instead: of a machine of another tool, what it becomes.
    #[arg(long, conflicts_with = "mermaid")]
    pub(crate) text: bool,
    /// How machines of other tools are read.
    #[command(flatten)]
    pub(crate) import: ImportArgs,
}

/// Runs `show`.
pub(crate) fn run(args: &ShowArgs, output: &Output) -> Result<(), Failure> {
    let file = import::open(&args.file, &args.import, output)?;
    let definition =
        Definition::read(&file.text, file.format).map_err(|problems| report::problems(output, &file, &problems))?;
    if output.is_json() && !args.mermaid && !args.text {
        return output.print(&format!("{:#}", document(&definition, &file.told)));
    }
    report::warnings(output, &file, definition.warnings());
    if args.text {
        return output.print(file.text.trim_end());
    }
    if args.mermaid {
        return output.print(definition.mermaid().trim_end());
    }
    let states = definition.outline();
    output.print(&heading(&definition, &states))?;
    let rows: Vec<_> = states.iter().flat_map(rows).collect();
    output.print(&output.table(&HEADING, rows))
}

/// The workflow and how its commands commit, then the events that commit otherwise.
fn heading(definition: &Definition, states: &[StateOutline]) -> String {
    let mut lines = vec![format!(
        "workflow {}, begins in {}; {}",
        definition.workflow(),
        definition.initial(),
        Commits::from(definition.concurrency().outline()).text()
    )];
    for state in states {
        let own = |way: &TransitionOutline| {
            let own = Commits::from(way.concurrency.clone()?);
            Some(format!("  {} in {}: {}", way.event, state.name, own.text()))
        };
        lines.extend(state.transitions.iter().filter_map(own));
    }
    // All transitions of an event in a state commit alike.
    lines.dedup();
    lines.extend(definition.retention().outline().map(|kept| format!("kept: {}", retention(&kept))));
    lines.join("\n") + "\n"
}

/// `closed instances 90d, history forever`.
fn retention(kept: &RetentionOutline) -> String {
    let closed = kept.closed.iter().map(|closed| format!("closed instances {closed}"));
    let history = kept.history.iter().map(|history| format!("history {history}"));
    closed.chain(history).collect::<Vec<_>>().join(", ")
}

/// A state's rows: one for each way on, or one that says how it ends.
fn rows(state: &StateOutline) -> Vec<Vec<String>> {
    match state.status {
        Some(status) => vec![vec![state.name.clone(), format!("(final: {status})")]],
        None => {
            let timed = state.after.iter().map(|way| {
                let mut row = row(&state.name, way);
                row[1] = format!("after {}", way.event);
                row
            });
            state.transitions.iter().map(|way| row(&state.name, way)).chain(timed).collect()
        }
    }
}

fn row(state: &str, way: &TransitionOutline) -> Vec<String> {
    // A rule of one group and nothing else has columns of its own; any other is told in words.
    let simple = way.approval.as_ref().filter(|approval| is_simple(approval));
    let approvers = simple.map(|approval| approval.roles.as_slice()).unwrap_or_default();
    let roles: Vec<&str> = approvers.iter().chain(&way.roles).map(String::as_str).collect();
    let assign = |assign: &AssignOutline| format!("{} = {}", assign.field, assign.expression);
    let assigns: Vec<String> = way.assign.iter().map(assign).collect();
    vec![
        state.to_owned(),
        way.event.clone(),
        match (&way.target, &way.back) {
            (Some(target), _) => target.clone(),
            (None, Some(back)) => format!("(returns: {back})"),
            (None, None) => "(stays)".to_owned(),
        },
        match (&way.approval, simple) {
            (None, _) => NOTHING.to_owned(),
            (_, Some(simple)) => simple.groups.iter().map(|group| group.quorum.as_str()).collect(),
            (Some(approval), None) => approval.text(),
        },
        or_nothing(roles.join(", ")),
        or_nothing(way.guard.clone().unwrap_or_default()),
        or_nothing(assigns.join(", ")),
    ]
}

/// Whether an approval is so many people with some roles, and nothing else.
fn is_simple(approval: &ApprovalOutline) -> bool {
    let one = approval.groups.len() == 1 && approval.groups.iter().all(|group| group.of.is_none());
    let more = approval.delegation || approval.recall || approval.add_approvers || approval.exclude_starter;
    one && !more && approval.veto.is_none()
}

fn or_nothing(text: String) -> String {
    if text.is_empty() { NOTHING.to_owned() } else { text }
}

/// The same for programs.
fn document(definition: &Definition, told: &[Problem]) -> serde_json::Value {
    let warnings: Vec<&Problem> = told.iter().chain(definition.warnings()).collect();
    json!({
        "workflow": definition.workflow().as_str(),
        "initial": definition.initial(),
        "concurrency": definition.concurrency().outline(),
        "retention": definition.retention().outline(),
        "states": definition.outline(),
        "warnings": warnings,
    })
}

#[cfg(test)]
mod tests {
    use lockkeeper_model::Format;

    use super::*;

    const TEXT: &str = "workflow: w\ninitial: review\nstates:\n  review:\n    on:\n      \
        approve: {target: done, guard: data.a > 1, approval: {quorum: 2, roles: [x, y]}}\n      \
        note: {assign: {n: 1}}\n      \
        sign: {target: done, approval: {quorum: all, of: [a, b], veto: back, recall: true}}\n      \
        back: {return: any}\n  done: {type: final}\n";

    #[test]
    fn each_way_on_is_a_row() {
        let definition = Definition::read(TEXT, Format::Yaml).unwrap();
        let rows: Vec<_> = definition.outline().iter().flat_map(rows).collect();
        assert_eq!(rows[0], ["review", "approve", "done", "2", "x, y", "data.a > 1", "-"]);
        assert_eq!(rows[1], ["review", "note", "(stays)", "-", "-", "-", "n = 1"]);
        assert_eq!(rows[2], ["review", "sign", "done", "all of a, b; veto back; recall", "-", "-", "-"]);
        assert_eq!(rows[3], ["review", "back", "(returns: any)", "-", "-", "-", "-"]);
        assert_eq!(rows[4], ["done", "(final: completed)"]);
    }

    #[test]
    fn how_long_things_are_kept_is_said_where_it_is_written() {
        let text = |block: &str| {
            let text =
                format!("workflow: w\ninitial: a\n{block}states:\n  a: {{on: {{go: z}}}}\n  z: {{type: final}}\n");
            let definition = Definition::read(&text, Format::Yaml).unwrap();
            (heading(&definition, &definition.outline()), document(&definition, &[])["retention"].clone())
        };
        let (heading, document) = text("retention: {closed: 90d, history: forever}\n");
        assert_eq!(heading.lines().nth(1), Some("kept: closed instances 90d, history forever"));
        assert_eq!(document, json!({ "closed": "90d", "history": "forever" }));
        let (heading, document) = text("retention: {history: 36h}\n");
        assert_eq!(heading.lines().nth(1), Some("kept: history 36h"));
        assert_eq!(document, json!({ "closed": null, "history": "36h" }));
        let (heading, document) = text("");
        assert_eq!((heading.lines().count(), document), (1, json!(null)));
    }

    #[test]
    fn how_commands_commit_is_said_once_and_where_it_differs() {
        let text = "workflow: w\ninitial: a\nconcurrency: {combine: false}\nstates:\n  a:\n    on:\n      \
            take: [{target: z, guard: data.x, concurrency: {preset: stock}}, {concurrency: {preset: stock}}]\n      \
            skip: {target: z, concurrency: {strategy: pessimistic, on_locked: skip_locked}}\n      \
            sign: {target: z, concurrency: {preset: approval, attempts: 5}}\n      none: z\n  z: {type: final}\n";
        let definition = Definition::read(text, Format::Yaml).unwrap();
        let lines: Vec<_> = heading(&definition, &definition.outline()).lines().map(str::to_owned).collect();
        assert_eq!(
            lines,
            [
                "workflow w, begins in a; adaptive, up to 3 attempts, backoff from 50ms, row lock above 5% contended, waits \
             up to 5s for a locked row, each command by itself",
                "  take in a: pessimistic, up to 3 attempts, backoff from 50ms, waits up to 5s for a locked row, each \
             command by itself",
                "  skip in a: pessimistic, up to 3 attempts, backoff from 50ms, skip_locked on a locked row, each command by \
             itself",
                "  sign in a: optimistic, up to 5 attempts, backoff from 50ms, each command by itself",
            ]
        );
    }
}
