//! `show`: shows a definition file without a server.

use std::path::PathBuf;

use clap::Args;
use lockkeeper_model::Definition;
use serde_json::{Map, Value, json};

use crate::commands::field::NOTHING;
use crate::failure::Failure;
use crate::input::DefinitionFile;
use crate::outline::{Outline, State, Way};
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
    let outline = Outline::read(&file.text, file.format).map_err(Failure::failed)?;
    if output.is_json() {
        let document = document(&definition, &outline).map_err(Failure::failed)?;
        return output.print(&format!("{document:#}"));
    }
    report::warnings(output, &file, definition.warnings());
    let concurrency = definition.concurrency();
    output.print(&format!(
        "workflow {}, begins in {}; up to {} attempts, backoff from {:?}\n",
        definition.workflow(),
        outline.initial,
        concurrency.attempts,
        concurrency.backoff
    ))?;
    let rows: Result<Vec<_>, _> = outline.states.0.iter().map(|(name, state)| rows(name, state)).collect();
    output.print(&output.table(&HEADING, rows.map_err(Failure::failed)?.concat()))
}

/// A state's rows: one for each way on, or one that says how it ends.
fn rows(name: &str, state: &State) -> Result<Vec<Vec<String>>, String> {
    let mut rows: Vec<_> = state.ways()?.iter().map(|(event, way)| row(name, event, way)).collect();
    if rows.is_empty() {
        let end = format!("(final: {})", state.status.as_deref().unwrap_or("completed"));
        rows.push(vec![name.to_owned(), end]);
    }
    Ok(rows)
}

fn row(state: &str, event: &str, way: &Way) -> Vec<String> {
    let roles = way.approval.as_ref().map(|approval| &approval.roles).into_iter().flatten().chain(&way.roles);
    let roles: Vec<&str> = roles.map(String::as_str).collect();
    vec![
        state.to_owned(),
        event.to_owned(),
        way.target.clone().unwrap_or_else(|| "(stays)".to_owned()),
        way.approval.as_ref().map_or_else(|| NOTHING.to_owned(), |approval| approval.quorum.to_string()),
        or_nothing(roles.join(", ")),
        or_nothing(way.guard.as_ref().map(expression).unwrap_or_default()),
        or_nothing(assigns(&way.assign)),
    ]
}

fn assigns(assign: &Map<String, Value>) -> String {
    let assigns: Vec<String> = assign.iter().map(|(name, value)| format!("{name} = {}", expression(value))).collect();
    assigns.join(", ")
}

/// An expression's text; a bare number or truth value stands for itself.
fn expression(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn or_nothing(text: String) -> String {
    if text.is_empty() { NOTHING.to_owned() } else { text }
}

/// The same for programs.
fn document(definition: &Definition, outline: &Outline) -> Result<Value, String> {
    let states: Result<Vec<Value>, String> =
        outline.states.0.iter().map(|(name, state)| state_document(name, state)).collect();
    let concurrency = definition.concurrency();
    Ok(json!({
        "workflow": definition.workflow().as_str(),
        "initial": outline.initial,
        "concurrency": {
            "attempts": concurrency.attempts,
            "backoff_ms": u64::try_from(concurrency.backoff.as_millis()).unwrap_or(u64::MAX),
            "combine": concurrency.combine,
        },
        "states": states?,
        "warnings": definition.warnings(),
    }))
}

fn state_document(name: &str, state: &State) -> Result<Value, String> {
    let transitions: Vec<Value> = state
        .ways()?
        .into_iter()
        .map(|(event, way)| {
            let approval = way.approval.map(|approval| json!({ "quorum": approval.quorum, "roles": approval.roles }));
            json!({
                "event": event, "target": way.target, "guard": way.guard, "assign": way.assign,
                "approval": approval, "roles": way.roles,
            })
        })
        .collect();
    let is_final = state.kind.as_deref() == Some("final");
    let status = is_final.then(|| state.status.as_deref().unwrap_or("completed"));
    Ok(json!({ "name": name, "final": is_final, "status": status, "transitions": transitions }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockkeeper_model::Format;

    const TEXT: &str = "initial: review\nstates:\n  review:\n    on:\n      \
        approve: {target: done, guard: a > 1, approval: {quorum: 2, roles: [x, y]}}\n      \
        note: {assign: {n: 1}}\n  done: {type: final}\n";

    #[test]
    fn each_way_on_is_a_row() {
        let outline = Outline::read(TEXT, Format::Yaml).unwrap();
        let rows: Vec<_> = outline.states.0.iter().flat_map(|(name, state)| rows(name, state).unwrap()).collect();
        assert_eq!(rows[0], ["review", "approve", "done", "2", "x, y", "a > 1", "-"]);
        assert_eq!(rows[1], ["review", "note", "(stays)", "-", "-", "-", "n = 1"]);
        assert_eq!(rows[2], ["done", "(final: completed)"]);
    }
}
