use arbitrary::{Arbitrary, Result, Unstructured};
use chrono::DateTime;
use lockkeeper_model::{
    Act, Action, Actor, Close, Command, ConflictPolicy, Data, Decision, Definition, Fire, Format, Instance,
    InstanceKey, Known, Migrate, ReusePolicy, Send, Start, Timestamp, decide as judge, history,
};
use serde_json::{Value, json};
use uuid::Uuid;

const STATES: [&str; 5] = ["a", "b", "c", "d", "end"];
const EVENTS: [&str; 4] = ["go", "approve", "note", "back"];
const PEOPLE: [&str; 4] = ["ann", "bob", "cy", "di"];
const GUARDS: [&str; 6] = [
    "true",
    "data.n < 5",
    "event.n > 0 && data.n >= event.n",
    "actor.id != instance.started_by",
    "'x' in actor.roles || instance.version % 2 == 0",
    "data.missing",
];
const ASSIGNS: [&str; 4] = ["data.n + 1", "data.n - event.n", "data.n * 3000000000", "now"];
const TIMES: [&str; 4] = ["1s", "5s", "1m", "3660d"];

/// A definition out of a small grammar, and what is done to an instance of it.
#[derive(Debug)]
pub struct Case {
    text: String,
    steps: Vec<Step>,
}

/// One way on from a state.
#[derive(Arbitrary, Debug)]
struct Way {
    event: u8,
    target: Option<u8>,
    guard: Option<u8>,
    assign: Option<u8>,
    approval: Option<u8>,
    returns: Option<u8>,
    recall: bool,
}

/// What happens by itself.
#[derive(Arbitrary, Debug)]
struct Late {
    time: u8,
    target: Option<u8>,
    guard: Option<u8>,
    assign: u8,
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

fn pick<'a>(names: &[&'a str], at: u8) -> &'a str {
    names[usize::from(at) % names.len()]
}

impl Way {
    fn json(&self) -> Value {
        let mut way = json!({});
        match (self.target, self.returns) {
            (Some(target), _) => way["target"] = json!(pick(&STATES, target)),
            (None, Some(0)) => way["return"] = json!("any"),
            (None, Some(1)) => way["return"] = json!("previous"),
            (None, Some(to)) => way["return"] = json!([pick(&STATES[..4], to)]),
            (None, None) => {}
        }
        if let Some(guard) = self.guard {
            way["guard"] = json!(pick(&GUARDS, guard));
        }
        if let Some(assign) = self.assign {
            way["assign"] = json!({ "n": pick(&ASSIGNS, assign) });
        }
        if let Some(approval) = self.approval {
            way["approval"] = match approval % 5 {
                3 => json!({ "quorum": "all", "of": PEOPLE, "exclude_starter": approval > 128, "recall": true }),
                4 => json!({
                    "groups": [{ "quorum": 1, "roles": ["x"] }, { "quorum": 1, "of": ["ann", "bob"] }],
                    "delegation": true, "add_approvers": true, "recall": approval > 128,
                }),
                votes => {
                    json!({ "quorum": 1 + votes, "delegation": approval > 128, "add_approvers": true, "recall": true })
                }
            };
        }
        if self.recall {
            way["recall"] = json!(true);
        }
        way
    }
}

impl Late {
    fn json(&self) -> Value {
        let mut way = json!({ "assign": { "n": pick(&ASSIGNS, self.assign) } });
        if let Some(target) = self.target {
            way["target"] = json!(pick(&STATES, target));
        }
        if let Some(guard) = self.guard {
            way["guard"] = json!(pick(&GUARDS, guard));
        }
        way
    }
}

impl<'a> Arbitrary<'a> for Case {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let mut states = json!({ "end": { "type": "final" } });
        for (at, name) in STATES[..4].iter().enumerate() {
            // Nothing is out of reach, and nothing a dead end.
            let next = STATES[at + 1];
            let mut on = json!({ format!("to_{next}"): next });
            for _ in 0..u.int_in_range(0..=3)? {
                let way = Way::arbitrary(u)?;
                on[pick(&EVENTS, way.event)] = way.json();
            }
            let mut after = json!({});
            for _ in 0..u.int_in_range(0..=2)? {
                let late = Late::arbitrary(u)?;
                after[pick(&TIMES, late.time)] = late.json();
            }
            states[*name] = json!({ "on": on, "after": after });
        }
        let text = json!({ "workflow": "w", "initial": "a", "states": states }).to_string();
        let mut steps = Vec::new();
        while !u.is_empty() && steps.len() < 60 {
            steps.push(Step::arbitrary(u)?);
        }
        Ok(Self { text, steps })
    }
}

fn time(seconds: usize) -> Timestamp {
    DateTime::from_timestamp(1_800_000_000 + seconds as i64, 0).expect("a time")
}

fn act(step: &Step) -> Option<Act> {
    match step.what % 24 {
        20 => Some(Act::Delegate { to: pick(&PEOPLE, step.behind.unwrap_or_default()).to_owned() }),
        21 => Some(Act::AddApprover { id: pick(&PEOPLE, step.behind.unwrap_or_default()).to_owned() }),
        22 => Some(Act::Recall),
        _ => None,
    }
}

fn command(step: &Step, current: Option<&Instance>, number: usize) -> Command {
    let data = Data::from_iter([("n".to_owned(), json!(step.n))]);
    let run = current.map(|instance| instance.run);
    let action = match step.what % 24 {
        0 => Action::Terminate(Close { run: None, reason: "why".to_owned() }),
        1 => Action::Cancel(Close { run, reason: "why".to_owned() }),
        what @ 2..=4 => Action::Start(Start {
            run: Uuid::from_u128(number as u128 + 1),
            data,
            reuse_policy: ReusePolicy::ALL[usize::from(step.actor % 3)],
            conflict_policy: ConflictPolicy::ALL[usize::from(what - 2)],
            request_id: step.from.map(|request| request.to_string()),
            execution_timeout_ms: step.behind.map(|seconds| u64::from(seconds) * 1_000 + 1),
        }),
        5..=7 => Action::Fire(Fire { until: time(number + usize::from(step.actor) + 1_000 * usize::from(step.what)) }),
        8 => Action::Migrate(Migrate { run, reason: "why".to_owned(), ..Migrate::default() }),
        _ => Action::Send(Send {
            event: step.event.map(|event| pick(&EVENTS, event).to_owned()),
            to: step.to.map(|to| pick(&STATES, to).to_owned()),
            from: step.from.map(|from| pick(&STATES, from).to_owned()),
            expected_version: step.behind.map(|behind| current.map_or(0, |i| i.version) - i64::from(behind % 3)),
            data,
            act: act(step),
            ..Send::default()
        }),
    };
    let roles = step.actor.is_multiple_of(2).then(|| "x".to_owned());
    let actor = Actor::new(pick(&PEOPLE, step.actor), roles, false).expect("a good name");
    Command { instance: InstanceKey::new("w", "1").expect("a good id"), action, actor, idempotency_key: None }
}

/// Any commands: no decision panics, whatever is decided is one legal history, and an instance is the same once it was
/// written and read.
pub fn decide(case: Case) {
    let Ok(definition) = Definition::read(&case.text, Format::Json) else { return };
    let newer = Definition::read(&case.text, Format::Json).expect("the same text").with_version(2);
    let definition = definition.with_version(1);
    let known = |current: Option<&Instance>| match current {
        Some(current) if current.definition_version == 2 => {
            Known { definition: &newer, begun_before: None, target: Some(&definition) }
        }
        _ => Known { definition: &definition, begun_before: None, target: Some(&newer) },
    };
    let mut current: Option<Instance> = None;
    let mut entries = Vec::new();
    for (number, step) in case.steps.iter().enumerate() {
        let command = command(step, current.as_ref(), number);
        let known = known(current.as_ref());
        let decided = judge(known, current.as_ref(), &command, time(number));
        assert_eq!(decided, judge(known, current.as_ref(), &command, time(number)), "the same judge twice");
        let changes = match decided {
            Ok(Decision::Change(change)) => vec![change],
            Ok(Decision::Replace { ended, started }) => vec![ended, started],
            Ok(Decision::Stay(_)) | Err(_) => Vec::new(),
        };
        for change in changes {
            let text = serde_json::to_string(&change.instance).expect("an instance is JSON");
            let read: Instance = serde_json::from_str(&text).expect("what was written");
            assert_eq!(Instance { version: change.instance.version, ..read }, change.instance);
            assert!(change.instance.timers.is_sorted_by_key(|timer| timer.due));
            entries.push((change.instance.version, change.entry));
            current = Some(change.instance);
        }
    }
    history::check(entries.iter().map(|(version, entry)| (*version, entry))).expect("a legal history");
}
