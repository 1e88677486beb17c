use chrono::DateTime;
use lockkeeper_model::{Action, Actor, Command, Definition, Format, InstanceKey, Refusal, Start, decide};
use serde_json::{Value, json};

use crate::check_problems;

/// What separates a schema from data.
const SEPARATOR: &str = "\n---\n";

/// A schema and data as JSON, `---` on a line between them: a schema that is kept judges any data.
pub fn schema(text: &str) {
    let (schema, data) = text.split_once(SEPARATOR).unwrap_or((text, "{}"));
    let Ok(schema) = serde_json::from_str::<Value>(schema) else { return };
    let definition = json!({
        "workflow": "w",
        "initial": "a",
        "data": { "schema": schema },
        "states": { "a": { "on": { "x": "z" } }, "z": { "type": "final" } },
    });
    let definition = match Definition::read(&definition.to_string(), Format::Json) {
        Ok(definition) => definition.with_version(1),
        Err(problems) => return check_problems(&problems),
    };
    let Ok(Value::Object(data)) = serde_json::from_str(data) else { return };
    let start = Command {
        instance: InstanceKey::new("w", "1").expect("a good id"),
        action: Action::Start(Start { data, ..Start::default() }),
        actor: Actor::new("ann", [], false).expect("a good name"),
        idempotency_key: None,
    };
    let now = DateTime::from_timestamp(1_800_000_000, 0).expect("a time");
    match decide(&definition, None, &start, now) {
        Ok(_) => {}
        Err(Refusal::Malformed { detail }) => assert!(!detail.is_empty()),
        Err(other) => panic!("{other}"),
    }
}
