//! What parts of a schema cost for each byte of the value that they look at: a step is a comparison, or one position of a
//! pattern that is tried on one byte.

use crate::definition::node::{Field, Node, Value};
use crate::pattern;

/// Bytes of a text that are compared in a step.
const TEXT_BYTES_PER_STEP: u64 = 16;

/// Steps for a byte, and the part that takes most of them.
#[derive(Clone, Copy, Default)]
pub(super) struct Steps<'n> {
    pub(super) per_byte: u64,
    pub(super) heaviest: Option<&'n Node>,
    of_heaviest: u64,
}

impl<'n> Steps<'n> {
    /// Those of one part by itself, on a value of `own` bytes.
    pub(super) fn of(schema: &'n Node, own: u64) -> Self {
        let Value::Map(fields) = &schema.value else { return Self::default() };
        let mut steps = Self::default();
        for Field { name, node, .. } in fields {
            let per_byte = match name.as_str() {
                "enum" => compared(node) / own,
                "dependentRequired" => parts(node) / own,
                "pattern" => positions(node),
                "patternProperties" => names(node).map(pattern::positions_in_schema).fold(0, u64::saturating_add),
                _ => continue,
            };
            steps.add(Self { per_byte, heaviest: Some(node), of_heaviest: per_byte });
        }
        steps
    }

    /// Both look at the same byte.
    pub(super) fn add(&mut self, other: Self) {
        self.per_byte = self.per_byte.saturating_add(other.per_byte);
        if other.of_heaviest > self.of_heaviest {
            (self.heaviest, self.of_heaviest) = (other.heaviest, other.of_heaviest);
        }
    }

    /// They look at different bytes.
    pub(super) fn max(self, other: Self) -> Self {
        if other.per_byte > self.per_byte { other } else { self }
    }
}

/// Comparisons of one value with those of an `enum`. Texts alone are looked up.
fn compared(node: &Node) -> u64 {
    let Value::List(items) = &node.value else { return 0 };
    if items.iter().all(|item| matches!(item.value, Value::Text(_) | Value::Null)) { 1 } else { parts(node) }
}

/// The parts of a value, and what its texts take to be compared.
fn parts(node: &Node) -> u64 {
    let inside = match &node.value {
        Value::List(items) => items.iter().map(parts).sum(),
        Value::Map(fields) => fields.iter().map(|field| text(&field.name) + parts(&field.node)).sum(),
        Value::Text(written) => text(written),
        _ => 0,
    };
    inside + 1
}

fn text(text: &str) -> u64 {
    text.len() as u64 / TEXT_BYTES_PER_STEP
}

fn positions(node: &Node) -> u64 {
    match &node.value {
        Value::Text(written) => pattern::positions_in_schema(written),
        _ => 0,
    }
}

fn names(node: &Node) -> impl Iterator<Item = &str> {
    let fields = match &node.value {
        Value::Map(fields) => fields.as_slice(),
        _ => &[],
    };
    fields.iter().map(|field| field.name.as_str())
}
