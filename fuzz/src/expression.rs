use chrono::DateTime;
use lockkeeper_model::{Action, Actor, Command, Data, Decision, Definition, Format, InstanceKey, Send, Start, decide};
use serde_json::{Value, json};

/// Any text as a guard and as a value to assign, with a schema and without: where it is accepted it is evaluated, in
/// bounded steps, and the same way twice.
pub fn expression(text: &str) {
    for schema in [None, Some(schema())] {
        let mut definition = json!({
            "workflow": "w",
            "initial": "a",
            "states": {
                "a": { "on": {
                    "guarded": { "target": "z", "guard": text },
                    "assigned": { "target": "z", "assign": { "x": text } },
                    "end": "z",
                } },
                "z": { "type": "final" },
            },
        });
        if let Some(schema) = schema {
            definition["data"] = json!({ "schema": schema });
        }
        if let Ok(definition) = Definition::read(&definition.to_string(), Format::Json) {
            evaluate(&definition.with_version(1));
        }
    }
}

fn schema() -> Value {
    json!({
        "properties": {
            "n": { "type": "integer" },
            "text": { "type": "string" },
            "list": { "type": "array", "items": { "type": "integer" } },
            "map": { "type": "object", "additionalProperties": { "type": "string" } },
            "x": {},
        },
        "additionalProperties": false,
    })
}

fn evaluate(definition: &Definition) {
    let data = json!({ "n": 3, "text": "some text", "list": [1, 2, 3, 4], "map": { "a": "b", "c": "d" } });
    let Value::Object(data) = data else { unreachable!("it is an object") };
    let now = DateTime::from_timestamp(1_800_000_000, 0).expect("a time");
    let command = |action| Command {
        instance: InstanceKey::new("w", "1").expect("a good id"),
        action,
        actor: Actor::new("ann", ["x".to_owned()], false).expect("a good name"),
        idempotency_key: None,
    };
    let start = command(Action::Start(Start { data: data.clone(), ..Start::default() }));
    let Ok(Decision::Change(started)) = decide(definition, None, &start, now) else { panic!("it starts") };
    for event in ["guarded", "assigned"] {
        for data in [Data::new(), data.clone()] {
            let send = command(Action::Send(Send { event: Some(event.to_owned()), data, ..Send::default() }));
            let decided = decide(definition, Some(&started.instance), &send, now);
            assert_eq!(decided, decide(definition, Some(&started.instance), &send, now), "the same judge twice");
        }
    }
}
