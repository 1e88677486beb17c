//! A definition out of a small grammar and any commands: no decision panics, whatever is decided is one legal history, and
//! an instance is the same once it was written and read.

#![no_main]

use arbitrary::{Arbitrary, Result, Unstructured};
use chrono::DateTime;
use libfuzzer_sys::fuzz_target;
use lockkeeper_model::{
    Action, Actor, Close, Command, ConflictPolicy, Data, Decision, Definition, Format, Instance, InstanceKey,
    ReusePolicy, Send, Start, decide, history,
};
use serde_json::{Value, json};
use uuid::Uuid;

const STATES: [&str; 5] = ["a", "b", "c", "d", "end"];
const EVENTS: [&str; 4] = ["go", "approve", "note", "back"];
const GUARDS: [&str; 6] = [
    "true",
    "data.n < 5",
    "event.n > 0 && data.n >= event.n",
    "actor.id != instance.started_by",
    "'x' in actor.roles || instance.version % 2 == 0",
    "data.missing",
];
const ASSIGNS: [&str; 4] = ["data.n + 1", "data.n - event.n", "data.n * 3000000000", "now"];

/// One way on from a state.
#[derive(Arbitrary, Debug)]
struct Way {
    event: u8,
    target: Option<u8>,
    guard: Option<u8>,
    assign: Option<u8>,
    quorum: Option<u8>,
}

/// One command.
#[derive(Arbitrary, Debug)]
struct Step {
    what: u8,
    actor: u8,
    event: Option<u8>,
    to: Option<u8>,
    from: Option<u8>,
    behind: Option<u8>,
    n: i64,
}

#[derive(Debug)]
struct Case {
    text: String,
    steps: Vec<Step>,
}

fn pick<'a>(names: &[&'a str], at: u8) -> &'a str {
    names[usize::from(at) % names.len()]
}

impl Way {
    fn json(&self) -> Value {
        let mut way = json!({});
        if let Some(target) = self.target {
            way["target"] = json!(pick(&STATES, target));
        }
        if let Some(guard) = self.guard {
            way["guard"] = json!(pick(&GUARDS, guard));
        }
        if let Some(assign) = self.assign {
            way["assign"] = json!({ "n": pick(&ASSIGNS, assign) });
        }
        if let Some(quorum) = self.quorum {
            way["approval"] = json!({ "quorum": 1 + quorum % 3 });
        }
        way
    }
}

impl<'a> Arbitrary<'a> for Case {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let mut states = json!({ "end": { "type": "final" } });
        for (at, name) in STATES[..4].iter().enumerate() {
            let ways: Vec<Way> = u.arbitrary_iter()?.take(4).collect::<Result<_>>()?;
            // Nothing is out of reach, and nothing a dead end.
            let next = STATES[at + 1];
            let mut on = json!({ format!("to_{next}"): next });
            for way in &ways {
                on[pick(&EVENTS, way.event)] = way.json();
            }
            states[*name] = json!({ "on": on });
        }
        let text = json!({ "workflow": "w", "initial": "a", "states": states }).to_string();
        Ok(Self { text, steps: u.arbitrary_iter()?.take(60).collect::<Result<_>>()? })
    }
}

fn command(step: &Step, current: Option<&Instance>, number: usize) -> Command {
    let data = Data::from_iter([("n".to_owned(), json!(step.n))]);
    let action = match step.what % 20 {
        0 => Action::Terminate(Close { run: None, reason: "why".to_owned() }),
        1 => Action::Cancel(Close { run: current.map(|instance| instance.run), reason: "why".to_owned() }),
        2..=4 => Action::Start(Start {
            run: Uuid::from_u128(number as u128 + 1),
            data,
            reuse_policy: ReusePolicy::ALL[usize::from(step.actor % 3)],
            conflict_policy: ConflictPolicy::ALL[usize::from(step.what % 20 - 2)],
            request_id: step.from.map(|request| request.to_string()),
        }),
        _ => Action::Send(Send {
            event: step.event.map(|event| pick(&EVENTS, event).to_owned()),
            to: step.to.map(|to| pick(&STATES, to).to_owned()),
            from: step.from.map(|from| pick(&STATES, from).to_owned()),
            expected_version: step.behind.map(|behind| current.map_or(0, |i| i.version) - i64::from(behind % 3)),
            data,
            ..Send::default()
        }),
    };
    let roles = (step.actor % 2 == 0).then(|| "x".to_owned());
    let actor = Actor::new(pick(&["ann", "bob", "cy"], step.actor), roles, false).expect("a good name");
    Command { instance: InstanceKey::new("w", "1").expect("a good id"), action, actor, idempotency_key: None }
}

fuzz_target!(|case: Case| {
    let Ok(definition) = Definition::read(&case.text, Format::Json) else { return };
    let definition = definition.with_version(1);
    let mut current: Option<Instance> = None;
    let mut entries = Vec::new();
    for (number, step) in case.steps.iter().enumerate() {
        let command = command(step, current.as_ref(), number);
        let now = DateTime::from_timestamp(1_800_000_000 + number as i64, 0).expect("a time");
        let decided = decide(&definition, current.as_ref(), &command, now);
        assert_eq!(decided, decide(&definition, current.as_ref(), &command, now), "the same judge twice");
        let changes = match decided {
            Ok(Decision::Change(change)) => vec![change],
            Ok(Decision::Replace { ended, started }) => vec![ended, started],
            Ok(Decision::Stay(_)) | Err(_) => Vec::new(),
        };
        for change in changes {
            let text = serde_json::to_string(&change.instance).expect("an instance is JSON");
            let read: Instance = serde_json::from_str(&text).expect("what was written");
            assert_eq!(Instance { version: change.instance.version, ..read }, change.instance);
            entries.push((change.instance.version, change.entry));
            current = Some(change.instance);
        }
    }
    history::check(entries.iter().map(|(version, entry)| (*version, entry))).expect("a legal history");
});
