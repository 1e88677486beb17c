//! `show`: shows a definition file without a server.

use std::path::PathBuf;

use clap::Args;
use lockkeeper_model::Definition;
use lockkeeper_model::definition::{AssignOutline, StateOutline, TransitionOutline};
use serde_json::json;

use crate::commands::field::NOTHING;
use crate::failure::Failure;
use crate::input::DefinitionFile;
use crate::output::Output;
use crate::report;

/// The columns.
const HEADING: [&str; 7] = ["STATE", "EVENT", "TARGET", "QUORUM", "ROLES", "GUARD", "ASSIGN"];

/// Checks a definition file and shows its states and events; needs no server.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  lockkeeper show examples/purchase.yaml")]
pub(crate) struct ShowArgs {
    /// A definition in YAML or JSON; - for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// Runs `show`.
pub(crate) fn run(args: &ShowArgs, output: &Output) -> Result<(), Failure> {
    let file = DefinitionFile::read(&args.file)?;
    let definition =
        Definition::read(&file.text, file.format).map_err(|problems| report::problems(output, &file, &problems))?;
    if output.is_json() {
        return output.print(&format!("{:#}", document(&definition)));
    }
    report::warnings(output, &file, definition.warnings());
    let concurrency = definition.concurrency();
    output.print(&format!(
        "workflow {}, begins in {}; up to {} attempts, backoff from {:?}\n",
        definition.workflow(),
        definition.initial(),
        concurrency.attempts,
        concurrency.backoff
    ))?;
    let rows: Vec<_> = definition.outline().iter().flat_map(rows).collect();
    output.print(&output.table(&HEADING, rows))
}

/// A state's rows: one for each way on, or one that says how it ends.
fn rows(state: &StateOutline) -> Vec<Vec<String>> {
    match state.status {
        Some(status) => vec![vec![state.name.clone(), format!("(final: {status})")]],
        None => state.transitions.iter().map(|way| row(&state.name, way)).collect(),
    }
}

fn row(state: &str, way: &TransitionOutline) -> Vec<String> {
    let approvers = way.approval.as_ref().map(|approval| approval.roles.as_slice()).unwrap_or_default();
    let roles: Vec<&str> = approvers.iter().chain(&way.roles).map(String::as_str).collect();
    let assign = |assign: &AssignOutline| format!("{} = {}", assign.field, assign.expression);
    let assigns: Vec<String> = way.assign.iter().map(assign).collect();
    vec![
        state.to_owned(),
        way.event.clone(),
        way.target.clone().unwrap_or_else(|| "(stays)".to_owned()),
        way.approval.as_ref().map_or_else(|| NOTHING.to_owned(), |approval| approval.quorum.to_string()),
        or_nothing(roles.join(", ")),
        or_nothing(way.guard.clone().unwrap_or_default()),
        or_nothing(assigns.join(", ")),
    ]
}

fn or_nothing(text: String) -> String {
    if text.is_empty() { NOTHING.to_owned() } else { text }
}

/// The same for programs.
fn document(definition: &Definition) -> serde_json::Value {
    let concurrency = definition.concurrency();
    json!({
        "workflow": definition.workflow().as_str(),
        "initial": definition.initial(),
        "concurrency": {
            "attempts": concurrency.attempts,
            "backoff_ms": u64::try_from(concurrency.backoff.as_millis()).unwrap_or(u64::MAX),
            "combine": concurrency.combine,
        },
        "states": definition.outline(),
        "warnings": definition.warnings(),
    })
}

#[cfg(test)]
mod tests {
    use lockkeeper_model::Format;

    use super::*;

    const TEXT: &str = "workflow: w\ninitial: review\nstates:\n  review:\n    on:\n      \
        approve: {target: done, guard: data.a > 1, approval: {quorum: 2, roles: [x, y]}}\n      \
        note: {assign: {n: 1}}\n  done: {type: final}\n";

    #[test]
    fn each_way_on_is_a_row() {
        let definition = Definition::read(TEXT, Format::Yaml).unwrap();
        let rows: Vec<_> = definition.outline().iter().flat_map(rows).collect();
        assert_eq!(rows[0], ["review", "approve", "done", "2", "x, y", "data.a > 1", "-"]);
        assert_eq!(rows[1], ["review", "note", "(stays)", "-", "-", "-", "n = 1"]);
        assert_eq!(rows[2], ["done", "(final: completed)"]);
    }
}
