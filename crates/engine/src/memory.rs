//! How much memory parsed JSON takes, about. Its text says little: `{"a":0}` is 7 bytes of text and 600 of tree.

use lockkeeper_model::{Data, Instance};
use serde_json::Value;

/// One value in place.
const VALUE_BYTES: usize = 32;

/// A map that is not empty: its B-tree allocates a leaf for eleven fields at once.
const MAP_BYTES: usize = 650;

/// A string's or a list's own allocation.
const ALLOCATION_BYTES: usize = 16;

/// A vote, or what else an approval records, with its texts.
const RECORD_BYTES: usize = 256;

/// Bytes of what an instance has beyond its own fields.
pub(crate) fn of_instance(instance: &Instance) -> usize {
    let records = instance.votes.len() + instance.delegations.len() + instance.additions.len() + instance.path.len();
    let undo = instance.undo.as_ref().map_or(0, |undo| of_data(&undo.before));
    of_data(&instance.data) + records * RECORD_BYTES + undo
}

/// Bytes of an object.
pub(crate) fn of_data(data: &Data) -> usize {
    if data.is_empty() {
        return 0;
    }
    MAP_BYTES + data.iter().map(|(name, value)| ALLOCATION_BYTES + name.len() + of_value(value)).sum::<usize>()
}

/// Bytes of a value. The depth is bounded by the reader of the JSON text.
fn of_value(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::String(text) => ALLOCATION_BYTES + text.len(),
            Value::Array(items) => ALLOCATION_BYTES + items.iter().map(of_value).sum::<usize>(),
            Value::Object(fields) => of_data(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn small_maps_weigh_far_more_than_their_text() {
        let maps = Value::Array(vec![json!({"a": 0}); 1_000]);
        let text = maps.to_string().len();
        assert!(of_value(&maps) > 50 * text, "{} for {text} bytes of text", of_value(&maps));
        let long = json!("x".repeat(10_000));
        assert!(of_value(&long) < 10_100, "a text weighs what it is long");
        assert_eq!(of_data(&Data::new()), 0);
    }
}
