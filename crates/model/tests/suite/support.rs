//! Scripts: a line is a command and what must come of it.
//!
//! ```text
//! bob[finance] approve from=review v=2 data={"note":"ok"} -> applied v3 approved completed, by bob
//! ```
//!
//! The actor with its roles; `start`, `terminate`, `cancel`, `fire` (`until` a second, else now), or an event (`.` for none); conditions (of a start: `reuse`,
//! `conflict`, `request`); the answer.

use lockkeeper_model::{
    Act, Action, Actor, Change, Close, Command, Data, Decision, Definition, Entry, Fire, Format, Instance, InstanceKey,
    Known, Migrate, Refusal, Send, Start, Status, Success, Timestamp, decide, history,
};
use uuid::Uuid;

/// A definition, and one instance with its history.
pub(crate) struct Case {
    pub(crate) definition: Definition,
    pub(crate) current: Option<Instance>,
    pub(crate) history: Vec<(i64, Entry)>,
    runs: u128,
    seconds: i64,
}

impl Case {
    /// An id of `yaml` that was never used.
    pub(crate) fn new(yaml: &str) -> Self {
        let definition = Definition::read(yaml, Format::Yaml)
            .unwrap_or_else(|problems| panic!("{}", problems.iter().map(|p| format!("{p}\n")).collect::<String>()));
        Self { definition: definition.with_version(3), current: None, history: Vec::new(), runs: 0, seconds: 0 }
    }

    /// Judges `command` a second later, and takes the change.
    pub(crate) fn judge(&mut self, command: &Command) -> Result<Decision, Refusal> {
        self.seconds += 1;
        let decision = decide(&self.definition, self.current.as_ref(), command, at(self.seconds))?;
        changes(&decision).into_iter().for_each(|change| self.take(change));
        Ok(decision)
    }

    /// Moves the run to the next version of its definition, which is `yaml`.
    pub(crate) fn migrate(&mut self, yaml: &str, map: &[(&str, &str)]) -> &mut Self {
        let next = Self::new(yaml).definition.with_version(self.definition.version() + 1);
        let state_map = map.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect();
        let action = Action::Migrate(Migrate { state_map, reason: "why".to_owned(), ..Migrate::default() });
        let command = Command { instance: key_of("case"), action, actor: actor("root"), idempotency_key: None };
        self.seconds += 1;
        let known = Known { target: Some(&next), ..Known::from(&self.definition) };
        let decision = decide(known, self.current.as_ref(), &command, at(self.seconds));
        let Ok(Decision::Change(change)) = decision else { panic!("{decision:?}") };
        self.take(&change);
        self.definition = next;
        self
    }

    fn take(&mut self, change: &Change) {
        self.current = Some(change.instance.clone());
        self.history.push((change.instance.version, change.entry.clone()));
        history::check(self.history.iter().map(|(version, entry)| (*version, entry))).unwrap();
    }

    /// Runs a script; every answer must be the one written.
    pub(crate) fn run(&mut self, script: &str) -> &mut Self {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (command, expected) = line.split_once(" -> ").unwrap_or_else(|| panic!("no answer in {line:?}"));
            let answer = self.judge_line(command);
            assert_eq!(answer, expected.trim(), "\nin: {line}");
        }
        self
    }

    /// The answer to one line.
    pub(crate) fn judge_line(&mut self, line: &str) -> String {
        let command = self.parse(line);
        render(&self.judge(&command))
    }

    fn parse(&mut self, text: &str) -> Command {
        let mut words = text.split_whitespace();
        let (actor, verb) = (actor(words.next().unwrap()), words.next().unwrap());
        let mut send = Send { event: (verb != ".").then(|| verb.to_owned()), ..Send::default() };
        let (mut key, mut reason, mut until) = (None, "why".to_owned(), None);
        let mut start = Start::default();
        for word in words {
            if word == "recall" {
                send.act = Some(Act::Recall);
                continue;
            }
            let (name, value) = word.split_once('=').unwrap_or_else(|| panic!("{word:?} is no condition"));
            match name {
                "delegate" => send.act = Some(Act::Delegate { to: value.to_owned() }),
                "add" => send.act = Some(Act::AddApprover { id: value.to_owned() }),
                "to" => send.to = Some(value.to_owned()),
                "from" => send.from = Some(value.to_owned()),
                "v" => send.expected_version = Some(value.parse().unwrap()),
                "run" => send.run = Some(Uuid::from_u128(value.parse().unwrap())),
                "data" => send.data = data(value),
                "key" => key = Some(value.to_owned()),
                "reason" => reason = value.to_owned(),
                "until" => until = Some(at(value.parse().unwrap())),
                "timeout" => start.execution_timeout_ms = Some(value.parse().unwrap()),
                "reuse" => start.reuse_policy = serde_json::from_value(value.into()).unwrap(),
                "conflict" => start.conflict_policy = serde_json::from_value(value.into()).unwrap(),
                "request" => start.request_id = Some(value.to_owned()),
                _ => panic!("{word:?} is no condition"),
            }
        }
        let close = Close { run: send.run, reason };
        let action = match verb {
            "start" => {
                self.runs += 1;
                Action::Start(Start { run: Uuid::from_u128(self.runs), data: send.data, ..start })
            }
            "terminate" => Action::Terminate(close),
            "cancel" => Action::Cancel(close),
            "fire" => Action::Fire(Fire { until: until.unwrap_or_else(|| at(self.seconds + 1)) }),
            _ => Action::Send(send),
        };
        Command { instance: key_of("case"), action, actor, idempotency_key: key }
    }

    /// The data as it stands.
    pub(crate) fn data(&self) -> serde_json::Value {
        serde_json::Value::Object((*self.current.as_ref().unwrap().data).clone())
    }
}

/// The versions that a decision makes, in order.
pub(crate) fn changes(decision: &Decision) -> Vec<&Change> {
    match decision {
        Decision::Stay(_) => Vec::new(),
        Decision::Change(change) => vec![change],
        Decision::Replace { ended, started } => vec![ended, started],
    }
}

pub(crate) fn key_of(id: &str) -> InstanceKey {
    InstanceKey::new("case", id).unwrap()
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_timestamp(1_700_000_000 + seconds, 0).unwrap()
}

pub(crate) fn data(json: &str) -> Data {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

/// `bob`, or `bob[finance,manager]`.
pub(crate) fn actor(text: &str) -> Actor {
    let (id, roles) = text.trim_end_matches(']').split_once('[').unwrap_or((text, ""));
    Actor::new(id, roles.split(',').filter(|r| !r.is_empty()).map(str::to_owned), false).unwrap()
}

/// An answer in one line.
pub(crate) fn render(answer: &Result<Decision, Refusal>) -> String {
    match answer {
        Ok(Decision::Stay(success)) => format!("{}, stays", render_success(success)),
        Ok(Decision::Replace { ended, started }) => {
            assert_eq!(ended.instance.version + 1, started.instance.version);
            format!("{}, after {}", render_success(&started.success), render_success(&ended.success))
        }
        Ok(Decision::Change(change)) => {
            let by = match change.entry.approved_by.as_slice() {
                [] => String::new(),
                voters => format!(", by {}", voters.join(" ")),
            };
            assert_eq!(change.success.version, change.instance.version);
            assert_eq!(change.success.state, change.instance.state);
            assert_eq!(change.entry.to, change.instance.state);
            format!("{}{by}", render_success(&change.success))
        }
        Err(refusal) => format!("{}: {refusal}", refusal.outcome()),
    }
}

fn render_success(success: &Success) -> String {
    let outcome = serde_json::to_value(success.outcome).unwrap();
    let ended = if success.status == Status::Running { String::new() } else { format!(" {}", success.status.as_str()) };
    let votes = success.approval.as_ref().map_or_else(String::new, |approval| {
        format!(", {}/{} {}", approval.quorum - approval.missing, approval.quorum, approval.voters.join(" "))
            .trim_end()
            .to_owned()
    });
    format!("{} v{} {}{ended}{votes}", outcome.as_str().unwrap(), success.version, success.state)
}
