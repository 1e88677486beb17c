//! What a workflow is: states, events, guards, approvals.

mod after;
pub(crate) mod approval;
mod approval_block;
mod approval_checks;
mod checker;
mod concurrency;
mod concurrency_block;
pub(crate) mod fields;
pub(crate) mod json;
pub(crate) mod lines;
mod lists;
mod lock_key;
pub(crate) mod machine;
mod mermaid;
mod node;
mod outline;
mod reader;
mod retention;
mod schema;
pub(crate) mod suggestion;
pub(crate) mod swallowed;
pub(crate) mod yaml;

pub use approval::{ApprovalOutline, GroupOutline};
pub use concurrency::{Concurrency, OnLockLoss, OnLocked, Strategy};
pub use lock_key::LockKey;
pub use outline::{AssignOutline, ConcurrencyOutline, StateOutline, TransitionOutline};
pub use retention::{Keep, Retention, RetentionOutline};

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::command::Action;
use crate::limits::DEFINITION_BYTES_MAX;
use crate::names::WorkflowName;
use machine::Machine;
pub(crate) use node::{Field, Node, Place, Value};

/// How a definition's text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// YAML 1.2.
    Yaml,
    /// JSON.
    Json,
}

/// Something wrong, or doubtful, in a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Line in the text, from 1; 0 where no place can be named.
    pub line: u64,
    /// Column in the line, in characters, from 1; 0 where no place can be named.
    pub column: u64,
    /// Where in the structure, for example `states.review.on.approve.guard`.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, path, message, remedy } = self;
        let colon = if path.is_empty() { "" } else { ": " };
        write!(f, "{line}:{column}: {path}{colon}{message} ({remedy})")
    }
}

impl Problem {
    /// A problem at a place in the text.
    pub(crate) fn at(place: Place, path: &str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            line: place.line,
            column: place.column,
            path: path.to_owned(),
            message: message.into(),
            remedy: remedy.into(),
        }
    }
}

/// What becomes of findings about a text that could be obeyed all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    /// The text is refused.
    Strict,
    /// They are warnings.
    Lenient,
}

/// A checked definition, ready to judge.
#[derive(Debug)]
pub struct Definition {
    workflow: WorkflowName,
    version: i64,
    concurrency: Concurrency,
    retention: Retention,
    warnings: Vec<Problem>,
    machine: Machine,
}

impl Definition {
    /// Reads and checks a definition's text.
    ///
    /// # Errors
    /// Every problem found, in the order of the text. A text that is no YAML or JSON has one problem: where it breaks.
    pub fn read(text: &str, format: Format) -> Result<Self, Vec<Problem>> {
        Self::read_by(text, format, Judgement::Strict)
    }

    /// Reads a definition's text that was accepted before, perhaps by an earlier version that found less: what could be
    /// obeyed then is obeyed still, and what is found now beyond that is a warning.
    ///
    /// # Errors
    /// As for [`Definition::read`], where it cannot be obeyed at all.
    pub fn read_accepted(text: &str, format: Format) -> Result<Self, Vec<Problem>> {
        Self::read_by(text, format, Judgement::Lenient)
    }

    fn read_by(text: &str, format: Format, judgement: Judgement) -> Result<Self, Vec<Problem>> {
        if text.len() > DEFINITION_BYTES_MAX {
            let message = format!("the text has {} bytes; at most {DEFINITION_BYTES_MAX} are allowed", text.len());
            return Err(vec![Problem::at(Place::default(), "", message, "split the workflow into several")]);
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let root = match format {
            Format::Yaml => yaml::read(text)?,
            Format::Json => json::read(text)?,
        };
        let swallowed = if format == Format::Yaml { swallowed::find(text) } else { Vec::new() };
        if judgement == Judgement::Strict && !swallowed.is_empty() {
            // What else is wrong may come of it.
            return Err(swallowed);
        }
        let (mut draft, problems) = reader::read(text, &root, judgement);
        draft.doubts.extend(swallowed);
        checker::check(draft, problems)
    }

    /// The same definition as version `version` of its workflow.
    #[must_use]
    pub fn with_version(mut self, version: i64) -> Self {
        self.version = version;
        self
    }

    /// Which version of the workflow this is; 0 until it is put.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// The workflow that it defines.
    pub fn workflow(&self) -> &WorkflowName {
        &self.workflow
    }

    /// How commands on its instances commit where no transition says otherwise.
    pub fn concurrency(&self) -> &Concurrency {
        &self.concurrency
    }

    /// How `action` commits on an instance in `state` (none: there is none yet): as the transition says that it means,
    /// by its event, else by `to` where all that lead there agree; else, and for whatever is no event, as the workflow
    /// says. Known before anything is judged: the transitions of one event in one state never differ.
    pub fn concurrency_of(&self, state: Option<&str>, action: &Action) -> &Concurrency {
        let (Some(state), Action::Send(send)) = (state, action) else { return &self.concurrency };
        self.machine.concurrency_of(state, send).unwrap_or(&self.concurrency)
    }

    /// What it says about how long things are kept.
    pub fn retention(&self) -> &Retention {
        &self.retention
    }

    /// What is doubtful in it, but allowed.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// The names of its states, in the order of the text.
    pub fn state_names(&self) -> impl Iterator<Item = &str> {
        self.machine.states.iter().map(|state| state.name.as_str())
    }

    /// The state in which a run begins.
    pub fn initial(&self) -> &str {
        &self.machine.states[self.machine.initial].name
    }

    /// The events that may lead on from `state`, guards aside; none in a final state.
    pub fn open_events(&self, state: &str) -> Vec<&str> {
        let Some(at) = self.machine.find(state) else { return Vec::new() };
        let mut events: Vec<&str> = self.machine.states[at].transitions.iter().map(|t| t.event.as_str()).collect();
        events.dedup();
        events
    }

    /// The compiled states.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }
}
