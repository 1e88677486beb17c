//! A machine as it was written: states inside of states, transitions with their triggers.

use std::collections::BTreeSet;

use super::Options;
use super::script::Script;
use crate::Problem;
use crate::definition::Place;
use crate::expression::Expression;
use crate::limits::{NAME_BYTES_MAX, PROBLEMS_MAX, STATES_MAX, TRANSITIONS_MAX};
use crate::names::WorkflowName;

/// States of one machine, those with others inside too: on one level it has to have fewer.
const STATES_READ_MAX: usize = 4 * STATES_MAX;

/// A machine, and what was found on reading it.
#[derive(Default)]
pub(super) struct Chart {
    /// The name that it gives itself.
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    /// The first is the machine itself.
    pub(super) states: Vec<ChartState>,
    /// How many transitions the states have together.
    ways: usize,
    /// Whether it was told that it has too much of something.
    is_over: bool,
    /// Guards by their names or texts: what `Options::guards` may give.
    pub(super) asked: BTreeSet<String>,
    pub(super) problems: Vec<Problem>,
    pub(super) lost: Vec<Problem>,
    pub(super) notes: Vec<Problem>,
}

/// Bytes of a transition's description.
const DESCRIPTION_BYTES_MAX: usize = 2_048;

/// A state, with or without states inside.
#[derive(Default)]
pub(super) struct ChartState {
    /// Its name in the definition, should it be a state there.
    pub(super) name: String,
    pub(super) parent: Option<usize>,
    pub(super) children: Vec<usize>,
    /// The state inside in which it begins.
    pub(super) initial: Option<usize>,
    pub(super) is_final: bool,
    pub(super) description: Option<String>,
    pub(super) place: Place,
    pub(super) path: String,
    pub(super) ways: Vec<Way>,
}

/// A transition.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) trigger: Trigger,
    pub(super) guard: Option<Guard>,
    /// The state it leads to, which may have states inside; none: it stays.
    pub(super) target: Option<usize>,
    pub(super) assigns: Vec<(String, Script)>,
    pub(super) description: Option<String>,
    pub(super) place: Place,
    pub(super) path: String,
}

/// What makes a transition happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    Event(String),
    /// Milliseconds in the state.
    After(u64),
    /// Nothing: it is taken as soon as its guard holds.
    Always,
    /// A final state inside of the state of this name was entered.
    Done(String),
}

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Guard {
    /// As it was given for a name.
    Cel(String),
    Script(Script),
    Both(Box<Guard>, Box<Guard>),
}

impl Chart {
    /// Whether no further problem is kept: there is no need to say what is wrong then.
    pub(super) fn is_full_of_problems(&self) -> bool {
        self.problems.len() >= PROBLEMS_MAX
    }

    pub(super) fn problem(&mut self, place: Place, path: &str, message: impl Into<String>, remedy: impl Into<String>) {
        if !self.is_full_of_problems() {
            self.problems.push(Problem::at(place, path, message, remedy));
        }
    }

    pub(super) fn lose(&mut self, place: Place, path: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.lost.push(Problem::at(place, path, message, remedy));
    }

    pub(super) fn note(&mut self, place: Place, path: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.notes.push(Problem::at(place, path, message, remedy));
    }

    /// Whether the machine has as many states and transitions as are read; that is a problem then.
    pub(super) fn is_full(&mut self) -> bool {
        let message = if self.states.len() >= STATES_READ_MAX {
            format!("it has more than {STATES_READ_MAX} states")
        } else if self.ways >= TRANSITIONS_MAX {
            format!("it has more than {TRANSITIONS_MAX} transitions")
        } else {
            return false;
        };
        self.is_too_much(message);
        true
    }

    /// Says, once, that there is more than is read.
    pub(super) fn is_too_much(&mut self, message: String) {
        if !std::mem::replace(&mut self.is_over, true) {
            // Instead of what was found before, if that is so much that nothing more is kept.
            self.problems.truncate(PROBLEMS_MAX - 1);
            self.problem(Place::default(), "", message, "split the machine into several");
        }
    }

    /// Adds a transition to the state `at`. States inside have it, too: what is long in it is not kept for each of them.
    pub(super) fn add_way(&mut self, at: usize, mut way: Way) {
        if let Trigger::Event(name) | Trigger::Done(name) = &way.trigger
            && name.len() > NAME_BYTES_MAX
        {
            return self.too_long(way.place, &way.path.clone(), "the event");
        }
        if way.description.as_ref().is_some_and(|text| text.len() > DESCRIPTION_BYTES_MAX) {
            let message = format!("the description has more than {DESCRIPTION_BYTES_MAX} bytes: it is left out");
            self.lose(way.place, &way.path, message, "write less");
            way.description = None;
        }
        self.ways += 1;
        self.states[at].ways.push(way);
    }

    fn too_long(&mut self, place: Place, path: &str, what: &str) {
        let message = format!("the name of {what} has more than {NAME_BYTES_MAX} bytes");
        self.problem(place, path, message, "write a shorter name");
    }

    /// Refuses a name that no state may have: those of the states inside begin with it.
    pub(super) fn is_too_long(&mut self, name: &str, place: Place, path: &str) -> bool {
        let is_long = name.len() > NAME_BYTES_MAX;
        if is_long {
            self.too_long(place, path, "the state");
        }
        is_long
    }

    /// Adds a state inside of `parent`.
    pub(super) fn add(&mut self, parent: Option<usize>, state: ChartState) -> usize {
        let at = self.states.len();
        self.states.push(ChartState { parent, ..state });
        if let Some(parent) = parent {
            self.states[parent].children.push(at);
        }
        at
    }

    /// A guard that is written as a name or as a script that is not translated: as it was given, else a problem.
    pub(super) fn given_guard(
        &mut self,
        options: &Options,
        text: &str,
        place: Place,
        path: &str,
        why: &str,
    ) -> Option<Guard> {
        if text.is_empty() {
            self.problem(place, path, "the guard is empty", "write a condition, or remove it");
            return None;
        }
        if !self.asked.contains(text) {
            self.asked.insert(text.to_owned());
        }
        if let Some(cel) = options.guards.get(text) {
            return Some(Guard::Cel(cel.clone()));
        }
        let message = format!("the guard {text:?} {why}");
        self.problem(place, path, message, format!("give it in CEL: --guard {}", quoted(&format!("{text}=CEL"))));
        None
    }

    /// The same for one that is a script: as it was given, else as `read` translates it.
    pub(super) fn script_guard(
        &mut self,
        options: &Options,
        text: &str,
        place: Place,
        path: &str,
        read: impl FnOnce() -> Result<Script, String>,
    ) -> Option<Guard> {
        match read() {
            Ok(script) if !options.guards.contains_key(text) => {
                self.asked.insert(text.to_owned());
                Some(Guard::Script(script))
            }
            translated => self.given_guard(options, text, place, path, &translated.err().unwrap_or_default()),
        }
    }

    /// Says which of the given guards are none of the machine's.
    pub(super) fn check_given(&mut self, options: &Options) {
        const SHOWN: usize = 10;
        let asked: Vec<&str> = self.asked.iter().map(String::as_str).collect();
        let unused: Vec<&String> = options.guards.keys().filter(|name| !self.asked.contains(*name)).collect();
        let more = if asked.len() > SHOWN { ", …" } else { "" };
        let remedy = match asked.as_slice() {
            [] => "remove it: the machine has no guards".to_owned(),
            asked => format!("name one of its guards: {}{more}", asked[..asked.len().min(SHOWN)].join(", ")),
        };
        for name in unused {
            let hint = crate::definition::suggestion::hint(name, self.asked.iter().map(String::as_str));
            let message = format!("the machine has no guard {name:?}{hint}");
            self.problems.push(Problem::at(Place::default(), "", message, remedy.clone()));
        }
    }

    /// The workflow's name: as asked for, else the machine's own, made to fit.
    pub(super) fn workflow_name(&mut self, options: &Options) -> Option<WorkflowName> {
        if let Some(name) = &options.workflow {
            return Some(name.clone());
        }
        let Some(own) = self.name.clone() else {
            if self.states.is_empty() {
                // It was not read at all, which is said.
                return None;
            }
            self.problem(Place::default(), "", "the machine has no name", "give the workflow one: --workflow NAME");
            return None;
        };
        let fit = fitting(&own);
        match WorkflowName::new(&fit) {
            Ok(name) if fit == own => Some(name),
            Ok(name) => {
                let message = format!("the machine is called {own:?}, the workflow {fit:?}");
                self.note(Place::default(), "", message, "another name is given by --workflow NAME");
                Some(name)
            }
            Err(_) => {
                let message = format!("the machine's name {own:?} cannot be a workflow's");
                self.problem(Place::default(), "", message, "give the workflow a name: --workflow NAME");
                None
            }
        }
    }
}

impl Guard {
    /// Both hold; none always holds.
    pub(super) fn both(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        match (first, second) {
            (Some(first), Some(second)) => Some(Self::Both(Box::new(first), Box::new(second))),
            (first, second) => first.or(second),
        }
    }

    /// What it comes to where that does not depend on anything.
    pub(super) fn constant(&self) -> Option<bool> {
        match self {
            Self::Cel(text) => match text.trim() {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            },
            Self::Script(script) => script.constant(),
            Self::Both(first, second) => match (first.constant(), second.constant()) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
        }
    }

    /// Whether it looks at what is sent.
    pub(super) fn sees_event(&self) -> bool {
        match self {
            // What is no CEL is told by the checker.
            Self::Cel(text) => Expression::compile(text).is_ok_and(|expression| expression.sees_event()),
            Self::Script(script) => script.sees_event(),
            Self::Both(first, second) => first.sees_event() || second.sees_event(),
        }
    }

    /// Whether it looks at the field of the data.
    pub(super) fn reads(&self, field: &str) -> bool {
        match self {
            Self::Cel(text) => names(text, field),
            Self::Script(script) => script.reads(field),
            Self::Both(first, second) => first.reads(field) || second.reads(field),
        }
    }

    /// The same on the data after `assigns`; none: it cannot be told.
    pub(super) fn after(&self, assigns: &[(String, Script)]) -> Option<Self> {
        if assigns.is_empty() {
            return Some(self.clone());
        }
        match self {
            Self::Cel(_) => None,
            Self::Script(script) => Some(Self::Script(script.after(assigns)?)),
            Self::Both(first, second) => {
                Some(Self::Both(Box::new(first.after(assigns)?), Box::new(second.after(assigns)?)))
            }
        }
    }

    /// In CEL.
    pub(super) fn cel(&self) -> String {
        match self {
            Self::Cel(text) => text.trim().to_owned(),
            Self::Script(script) => script.cel(),
            Self::Both(first, second) => match (first.constant(), second.constant()) {
                (Some(true), _) => second.cel(),
                (_, Some(true)) => first.cel(),
                _ => format!("{} && {}", first.operand(), second.operand()),
            },
        }
    }

    /// In CEL, as a part of a conjunction.
    fn operand(&self) -> String {
        match self {
            Self::Cel(text) => format!("({})", text.trim()),
            Self::Script(script) => script.operand_of_and(),
            Self::Both(..) => self.cel(),
        }
    }
}

/// A text as the shell takes it.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The nearest name that a workflow may have: `feedbackForm` becomes `feedback-form`.
pub(super) fn fitting(name: &str) -> String {
    const CHARS_MAX: usize = 64;
    let mut fit = String::new();
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && was_lower {
            fit.push('-');
        }
        was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        let c = c.to_ascii_lowercase();
        if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' {
            fit.push(c);
        } else if !fit.is_empty() && !fit.ends_with('-') {
            fit.push('-');
        }
    }
    let fit: String = fit.chars().take(CHARS_MAX).collect();
    fit.trim_end_matches('-').to_owned()
}

/// Whether CEL looks at the field of the data, by its name or by its key.
fn names(text: &str, field: &str) -> bool {
    let is_whole = |end: usize| !text[end..].starts_with(|next: char| next.is_alphanumeric() || next == '_');
    let name = format!("data.{field}");
    let by_name = text.match_indices(&name).any(|(at, name)| is_whole(at + name.len()));
    let by_key = [format!("data[\"{field}\"]"), format!("data['{field}']")].iter().any(|key| text.contains(key));
    !field.is_empty() && (by_name || by_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_to_fit() {
        for (name, fit) in [
            ("feedbackForm", "feedback-form"),
            ("HTTP x  y!", "http-x-y"),
            ("a_b-c", "a_b-c"),
            ("é", ""),
            ("(machine)", "machine"),
        ] {
            assert_eq!(fitting(name), fit, "{name}");
        }
    }
}
