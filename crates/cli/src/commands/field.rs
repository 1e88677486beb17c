//! Reads fields of answers for tables. What is missing, or of another kind, shows as `-`: a newer server may say more,
//! an older one less, and neither is a reason to show nothing.

use serde_json::Value;

/// What stands for nothing.
pub(crate) const NOTHING: &str = "-";

/// A field as text.
pub(crate) fn text(item: &Value, name: &str) -> String {
    match item.get(name) {
        None | Some(Value::Null) => NOTHING.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// A list of texts, separated by `, `.
pub(crate) fn list(item: &Value, name: &str) -> String {
    let texts: Vec<&str> =
        item.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    if texts.is_empty() { NOTHING.to_owned() } else { texts.join(", ") }
}

/// A time, to the second: `2026-11-29 13:57:18Z`. JSON has it whole.
pub(crate) fn time(item: &Value, name: &str) -> String {
    let time = text(item, name);
    match (time.get(..10), time.get(10..11), time.get(11..19)) {
        (Some(date), Some("T"), Some(clock)) if time.ends_with('Z') => format!("{date} {clock}Z"),
        _ => time,
    }
}

/// Whether a field is there and says something.
pub(crate) fn is_given(item: &Value, name: &str) -> bool {
    match item.get(name) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(_) => true,
    }
}

/// A whole number.
pub(crate) fn number(item: &Value, name: &str) -> Option<i64> {
    item.get(name).and_then(Value::as_i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_missing_is_a_dash() {
        let item = json!({"a": null, "b": 1, "c": ["x", "y"], "d": []});
        assert_eq!((text(&item, "a"), text(&item, "b"), text(&item, "z")), ("-".into(), "1".into(), "-".into()));
        assert_eq!((list(&item, "c"), list(&item, "d")), ("x, y".into(), "-".into()));
        assert!(is_given(&item, "b") && !is_given(&item, "d") && !is_given(&item, "z"));
    }

    #[test]
    fn times_are_cut_to_the_second() {
        let item = json!({"at": "2026-11-29T13:57:18.123Z", "odd": "soon", "zone": "2026-11-29T13:57:18+01:00"});
        assert_eq!(time(&item, "at"), "2026-11-29 13:57:18Z");
        assert_eq!(time(&item, "odd"), "soon");
        assert_eq!(time(&item, "zone"), "2026-11-29T13:57:18+01:00");
    }
}
