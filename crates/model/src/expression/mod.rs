//! Guards, assigns and lock keys: CEL (<https://cel.dev>) with a bounded cost.
//!
//! A text is bounded before it is parsed ([`bounds`]), checked ([`analysis`]) and rewritten ([`pricing`]) once it is,
//! and pays for its steps when it is evaluated ([`cost`]) on values that only stand for the data ([`values`]).

mod analysis;
mod bounds;
pub(crate) mod cost;
pub(crate) mod kinds;
mod pricing;
mod purpose;
#[cfg(test)]
mod tests;
pub(crate) mod types;
mod values;

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use cel::common::ast::IdedExpr;
use cel::common::types::{CelInt, CelList, CelMap, CelMapKey, CelString, CelTimestamp};
use cel::common::value::Val;
use cel::parser::PrattParser;
use cel::{Context, Env, ExecutionError, ParseErrors, Value};

use crate::limits::EXPRESSION_STEPS_MAX;
use crate::{Actor, Data, Instance, Timestamp};
use analysis::{Analysis, Use};
use purpose::Purpose;

/// A compiled expression.
pub(crate) struct Expression {
    text: String,
    tree: IdedExpr,
    uses: Vec<Use>,
    /// By the name that the tree knows them by.
    patterns: Vec<(String, cost::Pattern)>,
    parts: u64,
    /// The whole expression, where it only names a part of the data or of the event: needs no evaluation.
    path: Option<(Root, Vec<String>)>,
}

/// What is wrong in an expression's text.
#[derive(Debug)]
pub(crate) struct Fault {
    /// Which byte of the text.
    pub(crate) offset: usize,
    pub(crate) message: String,
    pub(crate) remedy: String,
}

/// What an expression sees.
pub(crate) struct Scope<'a> {
    pub(crate) data: &'a Data,
    pub(crate) event: &'a Data,
    pub(crate) actor: &'a Actor,
    pub(crate) id: &'a str,
    pub(crate) instance: &'a Instance,
    pub(crate) now: Timestamp,
}

/// The variables of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Root {
    Data,
    Event,
    Actor,
    Instance,
    Now,
}

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib().with_optional_support(false);
    let declared = cost::declare(&mut env);
    debug_assert!(declared.is_ok(), "the names are our own: {declared:?}");
    Arc::new(env)
});

impl Fault {
    fn new(offset: usize, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { offset, message: message.into(), remedy: remedy.into() }
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.text).finish()
    }
}

impl Expression {
    /// Parses and checks `text`.
    ///
    /// # Errors
    /// Every fault found, each at its place in the text.
    pub(crate) fn compile(text: &str) -> Result<Self, Vec<Fault>> {
        Self::compile_for(Purpose::Decision, text)
    }

    /// The same for a lock's name: it sees less, and yields a text as far as that can be told now.
    ///
    /// # Errors
    /// Every fault found, each at its place in the text.
    pub(crate) fn compile_lock_key(text: &str) -> Result<Self, Vec<Fault>> {
        Self::compile_for(Purpose::LockKey, text)
    }

    /// The same for a list of people: it sees no more than a lock's name does, since who sends a command, and what is sent
    /// with it, must not choose who may vote.
    ///
    /// # Errors
    /// Every fault found, each at its place in the text.
    pub(crate) fn compile_people(text: &str) -> Result<Self, Vec<Fault>> {
        Self::compile_for(Purpose::People, text)
    }

    fn compile_for(purpose: Purpose, text: &str) -> Result<Self, Vec<Fault>> {
        bounds::check(text).map_err(|fault| vec![fault])?;
        let mut tree = guarded(|| PrattParser::default().parse(text))
            .map_err(|panic| vec![Fault::new(0, format!("the parser failed: {panic}"), "write it another way")])?
            .map_err(|errors| syntax_faults(text, &errors))?;
        let analysis = analysis::analyse(purpose, text, &mut tree)?;
        let Analysis { uses, patterns, parts } = analysis;
        let patterns = patterns
            .into_iter()
            .enumerate()
            .map(|(n, regex)| (pricing::pattern_name(n), cost::Pattern::new(regex)))
            .collect();
        let path = analysis::path(&tree);
        Ok(Self { text: text.to_owned(), tree, uses, patterns, parts, path })
    }

    /// Regular expressions that were compiled for it.
    pub(crate) fn patterns(&self) -> usize {
        self.patterns.len()
    }

    /// The expression as it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether both are written alike, spaces and brackets aside.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let patterns = |expression: &Self| -> Vec<String> {
            expression.patterns.iter().map(|(_, pattern)| pattern.text().to_owned()).collect()
        };
        self.text == other.text || self.tree == other.tree && patterns(self) == patterns(other)
    }

    /// Whether a guard holds that looks at nothing, or why none can tell; none: it depends on what it sees.
    pub(crate) fn constant(&self) -> Option<Result<bool, String>> {
        self.constant_value().map(truth)
    }

    /// What an expression yields that looks at nothing, or why it cannot; none: it depends on what it sees.
    pub(crate) fn constant_value(&self) -> Option<Result<serde_json::Value, String>> {
        if !self.uses.is_empty() {
            return None;
        }
        cost::begin();
        Some(self.run(|_| {}))
    }

    /// Whether it looks at what is sent.
    pub(crate) fn sees_event(&self) -> bool {
        let is_event = |root: &Root| *root == Root::Event;
        self.uses.iter().any(|used| is_event(&used.root)) || self.path.iter().any(|(root, _)| is_event(root))
    }

    /// Whether it looks at neither who sends nor what is sent: then it is the same for everybody.
    pub(crate) fn is_same_for_all(&self) -> bool {
        !self.sees_event() && self.uses.iter().all(|used| used.root != Root::Actor)
    }

    /// Whether it looks at who sends, and at nothing of them but the id: then it can be asked about anybody.
    pub(crate) fn sees_who_by_id(&self) -> bool {
        let mut actors = self.uses.iter().filter(|used| used.root == Root::Actor).peekable();
        actors.peek().is_some() && actors.all(|used| used.fields.as_deref().is_some_and(|fields| fields == ["id"]))
    }

    /// Whether the guard holds.
    ///
    /// # Errors
    /// Why it cannot be told.
    pub(crate) fn holds(&self, scope: &Scope<'_>) -> Result<bool, String> {
        truth(self.evaluate(scope))
    }

    /// The result as JSON.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn evaluate(&self, scope: &Scope<'_>) -> Result<serde_json::Value, String> {
        if let Some((root, path)) = &self.path {
            return root.part(scope, path).map_err(|error| if cost::is_spent() { over_budget() } else { error });
        }
        self.run(|context| {
            for used in &self.uses {
                context.add_variable_as_val(used.root.name(), used.root.value(scope, used.fields.as_deref()));
            }
        })
    }

    /// Evaluates it on the variables that `bind` gives.
    fn run<'a>(&'a self, bind: impl FnOnce(&mut Context<'_, 'a>)) -> Result<serde_json::Value, String> {
        let result = guarded(|| {
            cost::charge(self.parts).map_err(|error| describe(&error))?;
            let mut context = Context::with_env(Arc::clone(&ENV));
            bind(&mut context);
            for (name, pattern) in &self.patterns {
                context.add_variable_as_val(name, Box::new(pattern.clone()));
            }
            let value = Value::resolve_val(&self.tree, &context).map_err(|error| describe(&error))?;
            values::to_json(value.as_ref())
        });
        if cost::is_spent() {
            return Err(over_budget());
        }
        result.unwrap_or_else(|panic| Err(format!("the evaluation failed: {panic}")))
    }
}

/// A guard's result.
fn truth(result: Result<serde_json::Value, String>) -> Result<bool, String> {
    match result? {
        serde_json::Value::Bool(holds) => Ok(holds),
        other => Err(format!("a guard yields true or false, not {}", kind(&other))),
    }
}

fn over_budget() -> String {
    format!("cost: the command takes more than {EXPRESSION_STEPS_MAX} steps")
}

impl Root {
    const ALL: [Self; 5] = [Self::Data, Self::Event, Self::Actor, Self::Instance, Self::Now];

    fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Event => "event",
            Self::Actor => "actor",
            Self::Instance => "instance",
            Self::Now => "now",
        }
    }

    /// The fields that the variable has; none: whatever the data has.
    fn fields(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Data | Self::Event => None,
            Self::Actor => Some(&["id", "roles"]),
            Self::Instance => Some(&["id", "state", "version", "started_by", "started_at"]),
            Self::Now => Some(&[]),
        }
    }

    /// A copy of what `path` leads to.
    fn part(self, scope: &Scope<'_>, path: &[String]) -> Result<serde_json::Value, String> {
        let fields = if self == Self::Data { scope.data } else { scope.event };
        let Some((first, rest)) = path.split_first() else {
            fields.values().try_for_each(values::check_integers)?;
            fields.values().try_for_each(cost::charge_for_copy).map_err(|error| describe(&error))?;
            return Ok(serde_json::Value::Object(fields.clone()));
        };
        let missing = |name: &String| describe(&ExecutionError::no_such_key(name));
        let mut found = fields.get(first).ok_or_else(|| missing(first))?;
        for name in rest {
            let fields = found.as_object().ok_or_else(|| format!("{} has no field {name:?}", kind(found)))?;
            found = fields.get(name).ok_or_else(|| missing(name))?;
        }
        values::check_integers(found)?;
        cost::charge_for_copy(found).map_err(|error| describe(&error))?;
        Ok(found.clone())
    }

    /// The variable, or as much of it as is read.
    fn value<'a>(self, scope: &Scope<'a>, fields: Option<&[String]>) -> Box<dyn Val + 'a> {
        match (self, fields) {
            (Self::Data, None) => Box::new(values::JsonMap::new(scope.data)),
            (Self::Event, None) => Box::new(values::JsonMap::new(scope.event)),
            (Self::Data, Some(fields)) => some_of(fields, |name| scope.data.get(name).map(values::to_cel)),
            (Self::Event, Some(fields)) => some_of(fields, |name| scope.event.get(name).map(values::to_cel)),
            (Self::Now, _) => timestamp(scope.now),
            (Self::Actor | Self::Instance, Some(fields)) => some_of(fields, |name| self.field(scope, name)),
            (Self::Actor | Self::Instance, None) => {
                let all: Vec<String> =
                    self.fields().unwrap_or_default().iter().map(|name| (*name).to_owned()).collect();
                some_of(&all, |name| self.field(scope, name))
            }
        }
    }

    fn field<'a>(self, scope: &Scope<'a>, name: &str) -> Option<Box<dyn Val + 'a>> {
        let (actor, instance) = (scope.actor, scope.instance);
        Some(match (self, name) {
            (Self::Actor, "id") => text(&actor.id),
            (Self::Actor, "roles") => Box::new(CelList::from(actor.roles.iter().map(|r| text(r)).collect::<Vec<_>>())),
            (Self::Instance, "id") => text(scope.id),
            (Self::Instance, "state") => text(&instance.state),
            (Self::Instance, "version") => Box::new(CelInt::from(instance.version)),
            (Self::Instance, "started_by") => text(&instance.started_by),
            (Self::Instance, "started_at") => timestamp(instance.started_at),
            _ => return None,
        })
    }
}

fn some_of<'a>(names: &[String], get: impl Fn(&str) -> Option<Box<dyn Val + 'a>>) -> Box<dyn Val + 'a> {
    let field = |name: &String| get(name).map(|value| (CelMapKey::String(name.clone().into()), value));
    Box::new(CelMap::from(names.iter().filter_map(field).collect::<HashMap<_, _>>()))
}

fn text(text: &str) -> Box<dyn Val + '_> {
    Box::new(CelString::from(text))
}

fn timestamp<'a>(at: Timestamp) -> Box<dyn Val + 'a> {
    Box::new(CelTimestamp::from(at.fixed_offset()))
}

/// Runs code of the CEL library, so that a panic of it is one refused command and not a dead server.
fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| panic_text(panic.as_ref()))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("unknown").to_owned()
}

/// The parser's errors; the first suffices where the others follow from it.
fn syntax_faults(text: &str, errors: &ParseErrors) -> Vec<Fault> {
    let first = errors.errors.iter().find(|error| error.pos.0 > 0).or(errors.errors.first());
    let Some(error) = first else { return vec![Fault::new(0, "not CEL", "write a CEL expression")] };
    // Lines and columns count from 1, columns in bytes.
    let line = usize::try_from(error.pos.0 - 1).unwrap_or_default();
    let column = usize::try_from(error.pos.1 - 1).unwrap_or_default();
    let line_start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let mut offset = (line_start + column).min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let rest = &text[offset..];
    let message = match error.msg.strip_prefix("Syntax error: ").unwrap_or(&error.msg) {
        message if message.contains("input '<EOF>'") || message.contains("input <EOF>") => {
            "it ends too early".to_owned()
        }
        message => message.replace("mismatched input", "unexpected").replace("<EOF>", "the end"),
    };
    let remedy = match rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default() {
        "and" | "AND" => "write `&&`",
        "or" | "OR" => "write `||`",
        "not" | "NOT" => "write `!`",
        _ if rest.starts_with('=') && !rest.starts_with("==") => "write `==` to compare",
        _ if message.contains("has() macro") => "write `has(data.field)`",
        _ if message.contains("simple name") => "write the loop's variable first, for example `list.all(x, x > 0)`",
        _ if message.contains("string literal") => "close the text with the quote that opened it",
        _ if rest.is_empty() => "something is missing at the end of the expression",
        _ => "write CEL, for example `event.quantity > 0 && data.on_hand >= event.quantity`",
    };
    vec![Fault::new(offset, format!("not CEL: {message}"), remedy)]
}

/// An evaluation's error in words; the library's own wording prints whole values.
fn describe(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(name) => format!("there is no field {name:?}"),
        ExecutionError::Overflow(operation, ..) => format!("integer overflow in {operation}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "remainder by zero".to_owned(),
        ExecutionError::IndexOutOfBounds(_) => "the index is past the end of the list".to_owned(),
        ExecutionError::DuplicateKey(_) => "a map has the same key twice".to_owned(),
        ExecutionError::UnsupportedBinaryOperator(operation, left, right) => {
            format!("cannot {operation} {} and {}", left.type_of(), right.type_of())
        }
        ExecutionError::ValuesNotComparable(left, right) => {
            format!("cannot compare {} and {}", left.type_of(), right.type_of())
        }
        ExecutionError::UnsupportedKeyType(_) => "a value of this type cannot be a key".to_owned(),
        ExecutionError::UnsupportedIndex(..) => "a value of this type cannot be an index".to_owned(),
        other => shorten(other.to_string()),
    }
}

/// The first characters of a message that may quote data.
fn shorten(mut text: String) -> String {
    const SHOWN_BYTES_MAX: usize = 300;
    if text.len() > SHOWN_BYTES_MAX {
        let cut = (0..=SHOWN_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(cut);
        text.push('…');
    }
    text
}

/// What a JSON value is, for messages.
fn kind(value: &serde_json::Value) -> &'static str {
    match value {
        serde_json::Value::Null => "null",
        serde_json::Value::Bool(_) => "true or false",
        serde_json::Value::Number(_) => "a number",
        serde_json::Value::String(_) => "a text",
        serde_json::Value::Array(_) => "a list",
        serde_json::Value::Object(_) => "a map",
    }
}
