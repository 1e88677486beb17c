//! Taking the fields of one block apart: the known ones, those of later versions, and the mistyped ones.

use super::lines::Lines;
use super::node::{Field, Node, Place, Value};
use super::suggestion::hint;
use super::{Concurrency, Judgement, Problem};
use crate::expression::kinds::Type;
use crate::limits::{NAME_BYTES_MAX, PROBLEMS_MAX};
use crate::names::{NameError, check_name};

/// Blocks and fields that belong to later versions, at whatever level. They are refused rather than ignored: a rule
/// that is silently not kept is worse than none.
const NOT_BUILT: &[&str] = &[
    "actions",
    "always",
    "consistency",
    "context",
    "data",
    "deadline",
    "effects",
    "entry",
    "escalate",
    "escalate_to",
    "exit",
    "history",
    "invoke",
    "migrate",
    "on_breach",
    "parallel",
    "priority",
    "queue",
    "reminder",
    "retry",
    "sla",
    "task",
    "tasks",
    "timeout",
    "weights",
    "weight",
];

/// The fields of a block `concurrency`, and where one stands.
const CONCURRENCY: &[&str] = &[
    "attempts",
    "backoff",
    "combine",
    "concurrency",
    "escalate_above",
    "lock_key",
    "lock_timeout",
    "lock_ttl",
    "on_lock_loss",
    "on_locked",
    "preset",
    "strategy",
];

/// The problems found so far, and the text that they are in.
pub(super) struct Findings<'t> {
    pub(super) lines: Lines<'t>,
    pub(super) problems: Vec<Problem>,
    /// What is allowed, but doubtful.
    pub(super) doubts: Vec<Problem>,
    /// How the workflow's commands commit, once its block is read; transitions stand on it.
    pub(super) concurrency: Concurrency,
    /// Whether its strategy is known: not if what is written there is wrong.
    pub(super) knows_strategy: bool,
    /// Whether a state or a way out of one could not be read at all, so that the machine's ways cannot be judged.
    pub(super) lost: bool,
    /// Transitions read so far.
    pub(super) transitions: usize,
    /// Regular expressions compiled so far.
    pub(super) patterns: usize,
    /// What the data may be, once its schema is read.
    pub(super) data_type: Option<Type>,
    /// What becomes of findings about what could be obeyed all the same.
    pub(super) judgement: Judgement,
}

impl<'t> Findings<'t> {
    pub(super) fn new(text: &'t str, problems: Vec<Problem>) -> Self {
        Self {
            lines: Lines::new(text),
            problems,
            doubts: Vec::new(),
            concurrency: Concurrency::default(),
            knows_strategy: true,
            lost: false,
            transitions: 0,
            patterns: 0,
            data_type: None,
            judgement: Judgement::Strict,
        }
    }

    /// Whether there are so many problems that no more are looked for.
    pub(super) fn is_full(&self) -> bool {
        self.problems.len() >= PROBLEMS_MAX
    }

    /// The same for what is doubtful.
    pub(super) fn has_doubted_enough(&self) -> bool {
        self.doubts.len() >= PROBLEMS_MAX
    }

    pub(super) fn add(&mut self, place: Place, path: &str, message: impl Into<String>, remedy: impl Into<String>) {
        if self.is_full() {
            return;
        }
        self.problems.push(Problem::at(place, path, message, remedy));
    }

    /// Something that is allowed, but hardly meant.
    pub(super) fn doubt(&mut self, place: Place, path: &str, message: impl Into<String>, remedy: impl Into<String>) {
        if !self.has_doubted_enough() {
            self.doubts.push(Problem::at(place, path, message, remedy));
        }
    }

    /// Something that can be obeyed, and is surely wrong.
    pub(super) fn judge(&mut self, place: Place, path: &str, message: impl Into<String>, remedy: impl Into<String>) {
        match self.judgement {
            Judgement::Strict => self.add(place, path, message, remedy),
            Judgement::Lenient => self.doubt(place, path, message, remedy),
        }
    }

    /// Something that is right in itself, but belongs to a later version.
    pub(super) fn not_built(&mut self, place: Place, path: &str, what: &str, remedy: &str) {
        self.add(place, path, format!("{what} is not in this version of Lockkeeper"), remedy);
    }

    pub(super) fn name_error(&mut self, place: Place, path: &str, error: &NameError) {
        self.add(place, path, error.to_string(), "write a name of 1 to 128 bytes without control characters");
    }

    /// The fields of a block whose known fields are `known`; anything else is a problem. An empty node is an empty
    /// block.
    pub(super) fn block<'n>(&mut self, node: &'n Node, path: &str, known: &[&str]) -> Vec<&'n Field> {
        let fields = match &node.value {
            Value::Map(fields) => fields,
            Value::Null => return Vec::new(),
            other => {
                let message = format!("expected a block of fields, found {}", other.kind());
                self.add(node.place, path, message, format!("write fields here: {}", known.join(", ")));
                return Vec::new();
            }
        };
        let (good, bad): (Vec<&Field>, Vec<&Field>) = fields.iter().partition(|f| known.contains(&f.name.as_str()));
        for field in bad {
            self.unknown_field(field, path, known);
        }
        good
    }

    fn unknown_field(&mut self, field: &Field, path: &str, known: &[&str]) {
        let Field { name, place, .. } = field;
        let path = join(path, name);
        // It may have been meant as a way on from its state.
        self.lost = true;
        if NOT_BUILT.contains(&name.as_str()) {
            self.not_built(*place, &path, &format!("`{name}`"), "remove it; it belongs to a later version");
        } else if CONCURRENCY.contains(&name.as_str()) {
            self.add(*place, &path, format!("`{name}` has no meaning here"), misplaced(name, known));
        } else {
            let message = format!("unknown field {name:?}{}", hint(name, known.iter().copied()));
            self.add(*place, &path, message, format!("known here: {}", known.join(", ")));
        }
    }

    pub(super) fn text<'n>(&mut self, node: &'n Node, path: &str) -> Option<&'n str> {
        if let Value::Text(text) = &node.value {
            return Some(text);
        }
        let message = format!("expected a text, found {}", node.value.kind());
        self.add(
            node.place,
            path,
            message,
            "write a text; in quotes if it looks like a number, `true`, `false` or `null`",
        );
        None
    }

    /// Notes that something was dropped.
    pub(super) fn lose<T>(&mut self) -> Option<T> {
        self.lost = true;
        None
    }

    /// A state's, event's or role's name.
    pub(super) fn name(&mut self, node: &Node, path: &str, what: &'static str) -> Option<String> {
        let name = self.text(node, path)?;
        match check_name(what, name) {
            Ok(()) => Some(name.to_owned()),
            Err(error) => {
                self.name_error(node.place, path, &error);
                None
            }
        }
    }

    pub(super) fn bool(&mut self, node: &Node, path: &str) -> Option<bool> {
        if let Value::Bool(value) = node.value {
            return Some(value);
        }
        self.add(
            node.place,
            path,
            format!("expected true or false, found {}", node.value.kind()),
            "write `true` or `false`",
        );
        None
    }

    /// A whole number from 1 to `max`.
    pub(super) fn count(&mut self, node: &Node, path: &str, max: usize) -> Option<usize> {
        let found = match node.value {
            Value::Int(value) => match usize::try_from(value) {
                Ok(count) if (1..=max).contains(&count) => return Some(count),
                _ => value.to_string(),
            },
            Value::Float(value) => value.to_string(),
            ref other => other.kind().to_owned(),
        };
        let message = format!("expected a whole number from 1 to {max}, found {found}");
        self.add(node.place, path, message, format!("write a number from 1 to {max}"));
        None
    }

    /// A list of role names, sorted and without repetition.
    pub(super) fn roles(&mut self, node: &Node, path: &str) -> Vec<String> {
        let Value::List(items) = &node.value else {
            let message = format!("expected a list of roles, found {}", node.value.kind());
            self.add(node.place, path, message, "write a list, for example `[finance, manager]`");
            return Vec::new();
        };
        if items.is_empty() {
            self.add(node.place, path, "an empty list of roles", "name at least one role, or remove the field");
        }
        let mut roles: Vec<String> = items
            .iter()
            .enumerate()
            .filter_map(|(at, item)| self.name(item, &format!("{path}[{at}]"), "role"))
            .collect();
        roles.sort_unstable();
        roles.dedup();
        roles
    }
}

/// Where a field that has to do with `concurrency` belongs, for one that stands in a block with the fields `known`.
fn misplaced(name: &str, known: &[&str]) -> String {
    match name {
        "concurrency" => "write it at the top level, or in the block of a transition".to_owned(),
        // In a transition's block: these two are one for all of a workflow.
        _ if known.contains(&"strategy") => "write it in the workflow's `concurrency`, at the top level".to_owned(),
        _ if known.contains(&"concurrency") => format!("write it inside a block: `concurrency: {{{name}: ...}}`"),
        _ => "write it in the `concurrency` of the workflow, or of a transition".to_owned(),
    }
}

/// The first `bytes` of a text, or somewhat less, and what to write behind it where there is more.
pub(crate) fn cut(text: &str, bytes: usize) -> (&str, &'static str) {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    (&text[..end], if end < text.len() { "…" } else { "" })
}

/// `path.name`, or `name` at the root. A name that is longer than any name may be is cut: else a path could be as long as
/// the text, and each part below would have such a path.
pub(crate) fn join(path: &str, name: &str) -> String {
    let (name, rest) = cut(name, NAME_BYTES_MAX);
    if path.is_empty() { format!("{name}{rest}") } else { format!("{path}.{name}{rest}") }
}
