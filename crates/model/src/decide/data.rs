//! What data is taken, sent or kept: bounded in size and depth, integers i64 from end to end.

use serde_json::{Number, Value};

use super::malformed;
use crate::limits::{DATA_BYTES_MAX, DATA_DEPTH_MAX};
use crate::{Data, Refusal};

/// Refuses data that was sent and could not be kept as it is.
pub(super) fn check_sent(what: &str, data: &Data) -> Result<(), Refusal> {
    check_kept(what, data)?;
    match data.values().find_map(beyond_i64) {
        Some(number) => {
            let most = i64::MAX;
            Err(malformed(format!(
                "{what} has the integer {number}; at most {most} either way is allowed: send it as a string"
            )))
        }
        None => Ok(()),
    }
}

/// Refuses data that is too large or too deep.
pub(super) fn check_kept(what: &str, data: &Data) -> Result<(), Refusal> {
    if data.is_empty() {
        return Ok(());
    }
    // First, since everything else recurses.
    if !data.values().all(|value| is_shallow(value, DATA_DEPTH_MAX)) {
        return Err(malformed(format!("{what} is nested more than {DATA_DEPTH_MAX} deep")));
    }
    let actual = serialised_size(data);
    if actual > DATA_BYTES_MAX {
        return Err(Refusal::TooLarge { what: what.to_owned(), limit: DATA_BYTES_MAX, actual });
    }
    Ok(())
}

/// The first integer in `value` that is no i64. One beyond u64 has become a float on reading; and every float of that
/// size is an integer.
fn beyond_i64(value: &Value) -> Option<&Number> {
    /// 2^63, the first integer beyond i64.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    let is_beyond = |number: &Number| {
        number.is_u64() && !number.is_i64() || number.is_f64() && number.as_f64().is_some_and(|f| f.abs() >= BEYOND)
    };
    match value {
        Value::Number(number) => is_beyond(number).then_some(number),
        Value::Array(items) => items.iter().find_map(beyond_i64),
        Value::Object(fields) => fields.values().find_map(beyond_i64),
        Value::Null | Value::Bool(_) | Value::String(_) => None,
    }
}

/// Whether `value` has at most `levels` levels; looks no deeper.
fn is_shallow(value: &Value, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| is_shallow(item, levels)),
        Value::Object(fields) => fields.values().all(|field| is_shallow(field, levels)),
        _ => true,
    }
}

/// Bytes of `data` as JSON text.
fn serialised_size(data: &Data) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Neither the counter nor JSON itself can fail to be written; if it did, the size would count as past any limit.
    match serde_json::to_writer(&mut counter, data) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}
