//! YAML text to nodes, by `serde_saphyr`, whose spans give the places.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DefaultMessageFormatter, DuplicateKeyPolicy, Error, MessageFormatter, Options, Spanned};

use super::Problem;
use super::node::{Field, Node, Place, Value};
use crate::limits::TRANSITIONS_MAX;

/// Parts of one text, after aliases are followed: room for the largest definition allowed, and no more.
const NODES_MAX: usize = TRANSITIONS_MAX * 20;

/// Blocks inside one another; a definition needs ten.
const DEPTH_MAX: usize = 32;

/// Uses of anchors, and parts that come in by them; enough for a guard that all transitions share.
const ALIASES_MAX: usize = TRANSITIONS_MAX * 2;

/// Reads YAML text: one document, no field twice, no alias bomb.
pub(crate) fn read(text: &str) -> Result<Node, Vec<Problem>> {
    match serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options()) {
        Ok(root) => Ok(root.into()),
        Err(error) => Err(vec![syntax_problem(text, error.without_snippet())]),
    }
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: NODES_MAX,
            max_events: NODES_MAX * 2,
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
            max_aliases: ALIASES_MAX,
            max_anchors: ALIASES_MAX,
            // One more than is allowed, so that the second is refused as such.
            max_documents: 2,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: ALIASES_MAX,
            max_replay_stack_depth: 8,
        },
        // `on` is a field of every state, and `yes` may be an event: only `true` and `false` are booleans.
        strict_booleans: true,
        with_snippet: false,
    }
}

fn syntax_problem(text: &str, mut error: &Error) -> Problem {
    let place = error.location().map(|l| Place { line: l.line(), column: l.column() }).unwrap_or_default();
    // The place is where the alias stands; the cause is told as what it is.
    while let Error::AliasError { error: cause, .. } = error {
        error = cause;
    }
    let message = match error {
        Error::DuplicateMappingKey { key: Some(name), .. } => format!("the field {name:?} is written twice"),
        Error::MultipleDocuments { .. } => "there is more than one document".to_owned(),
        Error::Budget { .. } => "too many parts, or nested too deeply".to_owned(),
        Error::AliasReplayLimitExceeded { .. } => "the aliases stand for too many parts".to_owned(),
        _ => format!("not YAML: {}", DefaultMessageFormatter.format_message(error)),
    };
    let line = text.lines().nth(usize::try_from(place.line).unwrap_or_default().saturating_sub(1)).unwrap_or_default();
    let remedy = match error {
        Error::DuplicateMappingKey { .. } => "keep one of them",
        Error::MultipleDocuments { .. } => "write one definition in one text: remove what follows `---`",
        Error::Eof { .. } => "write a definition: `workflow`, `initial` and `states`",
        Error::Budget { .. } | Error::AliasReplayLimitExceeded { .. } | Error::AliasReplayStackDepthExceeded { .. } => {
            "write fewer parts, less nested, without aliases of aliases"
        }
        Error::UnknownAnchor { .. } => "define the anchor (`&name`) before its alias (`*name`), or quote the text",
        _ if message.contains("recursion limit") => "nest less deeply",
        _ if line.trim_start_matches(' ').starts_with('\t') => "indent with spaces: YAML does not allow tabs",
        _ => {
            "check the indentation and the quotes near this place; put a text in quotes if it contains `: ` or ` #`, \
             or begins with one of `{ [ & * ! | > ' \" % @`"
        }
    };
    Problem { line: place.line, column: place.column, path: String::new(), message, remedy: remedy.to_owned() }
}

/// A value whose parts still carry the parser's spans.
enum Raw {
    Scalar(Value),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl From<Spanned<Raw>> for Node {
    fn from(raw: Spanned<Raw>) -> Self {
        let place = Place { line: raw.referenced.line(), column: raw.referenced.column() };
        let value = match raw.value {
            Raw::Scalar(value) => value,
            Raw::List(items) => Value::List(items.into_iter().map(Node::from).collect()),
            Raw::Map(fields) => Value::Map(fields.into_iter().map(field).collect()),
        };
        Node { place, value }
    }
}

fn field((name, node): (Spanned<String>, Spanned<Raw>)) -> Field {
    let place = Place { line: name.referenced.line(), column: name.referenced.column() };
    Field { name: name.value, place, node: node.into() }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Int(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Scalar(i64::try_from(value).map_or(Value::Float(value as f64), Value::Int)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Text(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Text(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut fields = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            fields.push(entry);
        }
        Ok(Raw::Map(fields))
    }
}
