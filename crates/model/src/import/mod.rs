//! Machines of other tools as definitions: XState v5 (JSON), SCXML, and Symfony Workflow (YAML).
//!
//! Each format is read to a [`chart::Chart`], a tree of states; [`flat`] makes one level of it, and [`print`] writes the
//! definition's text. What cannot be carried over is named at its place: a *problem* where the machine would do something
//! else without it (it is refused), *lost* where it would only do less (it is refused unless that is allowed), a *note*
//! where it means nothing here.

mod chart;
mod content;
mod flat;
mod parser;
mod presence;
mod print;
mod script;
mod scxml;
mod symfony;
mod xstate;

use std::collections::{BTreeMap, BTreeSet};

use chart::Chart;

use crate::definition::{json, swallowed, yaml};
use crate::limits::DEFINITION_BYTES_MAX;
use crate::names::WorkflowName;
use crate::{Definition, Format, Problem};

/// Whose machine it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// XState, version 5, as JSON.
    XState,
    /// State Chart XML, as the W3C recommends it.
    Scxml,
    /// Symfony's Workflow component, type `state_machine`, as YAML.
    Symfony,
}

/// What the machine's text does not say.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The workflow's name; none: the machine's own.
    pub workflow: Option<WorkflowName>,
    /// Guards as CEL expressions, by their names (XState; with params as `name {"n":1}`) or their texts as they stand there.
    pub guards: BTreeMap<String, String>,
}

/// A machine that was read.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The definition, in YAML.
    pub text: String,
    /// What is not carried over: the definition does without it.
    pub lost: Vec<Problem>,
    /// What has no meaning here, or another name.
    pub notes: Vec<Problem>,
}

impl Source {
    /// Whose machine `text` is, by the ending of its file's name and by what it says; none: no import.
    pub fn detect(ending: &str, text: &str) -> Option<Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_start();
        match ending {
            "scxml" | "xml" => Some(Self::Scxml),
            _ if text.starts_with('<') => Some(Self::Scxml),
            _ if text.starts_with('{') => xstate::is_machine(text).then_some(Self::XState),
            _ => symfony::is_workflow(text).then_some(Self::Symfony),
        }
    }
}

/// Reads `text`, a machine of `source`, to a definition that the checker accepts.
///
/// # Errors
/// What is wrong with it, or would make it another machine; places are those of `text`.
pub fn import(text: &str, source: Source, options: &Options) -> Result<Imported, Vec<Problem>> {
    if text.len() > DEFINITION_BYTES_MAX {
        let message = format!("the text has {} bytes; at most {DEFINITION_BYTES_MAX} are allowed", text.len());
        return Err(vec![Problem::at(Default::default(), "", message, "split the machine into several")]);
    }
    let mut chart = read(text, source, options)?;
    chart.check_given(options);
    finish(chart, options)
}

/// The guards of the machine by the names under which [`Options::guards`] may give them; none where it cannot be read.
pub fn guard_names(text: &str, source: Source) -> BTreeSet<String> {
    if text.len() > DEFINITION_BYTES_MAX {
        return BTreeSet::new();
    }
    read(text, source, &Options::default()).map(|chart| chart.asked).unwrap_or_default()
}

/// The machine as it is written, whatever is wrong with it.
fn read(text: &str, source: Source, options: &Options) -> Result<Chart, Vec<Problem>> {
    match source {
        Source::XState => Ok(xstate::read(&json::read(text)?, options)),
        Source::Scxml => scxml::read(text, options),
        Source::Symfony => {
            let root = yaml::read(text)?;
            Ok(symfony::read(&root, swallowed::find(text), options))
        }
    }
}

/// The chart on one level, as text, checked.
fn finish(mut chart: Chart, options: &Options) -> Result<Imported, Vec<Problem>> {
    let workflow = chart.workflow_name(options);
    if !chart.problems.is_empty() {
        return Err(sorted(chart.problems));
    }
    let machine = flat::flatten(&mut chart);
    let (Some(workflow), true) = (workflow, chart.problems.is_empty()) else { return Err(sorted(chart.problems)) };
    let text = print::print(&workflow, chart.description.as_deref(), &machine);
    match Definition::read(&text, Format::Yaml) {
        Ok(_) => Ok(Imported { text, lost: sorted(chart.lost), notes: sorted(chart.notes) }),
        Err(problems) => Err(sorted(problems.into_iter().map(|problem| machine.at_source(problem)).collect())),
    }
}

fn sorted(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| (problem.line, problem.column));
    problems.dedup();
    problems
}
