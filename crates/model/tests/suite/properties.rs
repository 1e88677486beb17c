//! What holds for every definition and every sequence of commands.

use lockkeeper_model::definition::Concurrency;
use lockkeeper_model::limits::DATA_BYTES_MAX;
use lockkeeper_model::{
    Action, Actor, Close, Command, ConflictPolicy, Decision, Definition, Fire, Format, Instance, Kind, ReusePolicy,
    Send, Start, Status, SuccessKind, decide, history,
};
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

use crate::support::{actor, at, changes, data, key_of};

const STATES: [&str; 5] = ["a", "b", "c", "d", "e"];
const EVENTS: [&str; 4] = ["go", "approve", "note", "back"];
const ROLES: [&str; 3] = ["x", "y", "z"];
const GUARDS: [&str; 7] = [
    "true",
    "data.n < 5",
    "event.n > 0 && data.n >= event.n",
    "actor.id != instance.started_by",
    "now - instance.started_at > duration('5s')",
    "'x' in actor.roles || instance.version % 2 == 0",
    "data.missing",
];
const ASSIGNS: [&str; 6] = [
    "{n: data.n + 1}",
    "{n: data.n - event.n}",
    "{big: 'data.big + data.big'}",
    "{list: '(has(data.list) ? data.list : []) + [event.n]', by: actor.id}",
    "{at: now, left: now - instance.started_at}",
    "{n: data.n * 3000000000}",
];

/// A transition as YAML.
fn transition() -> impl Strategy<Value = String> {
    let target = prop::option::weighted(0.7, prop::sample::select(&STATES[..]));
    let guard = prop::option::weighted(0.4, prop::sample::select(&GUARDS[..]));
    let assign = prop::option::weighted(0.3, prop::sample::select(&ASSIGNS[..]));
    let quorum = prop::option::weighted(0.4, 1..4_usize);
    let role = prop::option::weighted(0.2, prop::sample::select(&ROLES[..]));
    (target, guard, assign, quorum, role).prop_map(|(target, guard, assign, quorum, role)| {
        let mut fields = Vec::new();
        fields.extend(target.map(|target| format!("target: {target}")));
        fields.extend(guard.map(|guard| format!("guard: \"{guard}\"")));
        fields.extend(assign.map(|assign| format!("assign: {assign}")));
        fields.extend(quorum.map(|quorum| format!("approval: {{quorum: {quorum}}}")));
        fields.extend(role.map(|role| format!("roles: [{role}]")));
        format!("{{{}}}", fields.join(", "))
    })
}

/// A state's `on`, each event with one or two transitions; the checker decides what is right.
fn state() -> impl Strategy<Value = String> {
    let transitions = prop::collection::vec(transition(), 1..3);
    let events = prop::collection::btree_map(prop::sample::select(&EVENTS[..]), transitions, 1..4);
    (events, after()).prop_map(|(events, after)| {
        let events = events.iter().map(|(event, list)| format!("{event}: [{}]", list.join(", ")));
        format!("{{on: {{{}}}, after: {{{after}}}}}", events.collect::<Vec<_>>().join(", "))
    })
}

/// A state's `after`, in the order of its times or not.
fn after() -> impl Strategy<Value = String> {
    let target = prop::option::weighted(0.7, prop::sample::select(&STATES[..]));
    let guard = prop::option::weighted(0.4, prop::sample::select(&GUARDS[..]));
    let way = (target, guard, prop::sample::select(&ASSIGNS[..])).prop_map(|(target, guard, assign)| {
        let mut fields = vec![format!("assign: {assign}")];
        fields.extend(target.map(|target| format!("target: {target}")));
        fields.extend(guard.map(|guard| format!("guard: \"{guard}\"")));
        format!("{{{}}}", fields.join(", "))
    });
    prop::collection::hash_map(prop::sample::select(&["1s", "7s", "2500ms"][..]), way, 0..3)
        .prop_map(|times| times.iter().map(|(time, way)| format!("{time}: {way}")).collect::<Vec<_>>().join(", "))
}

/// A definition's text: any states, the last one final.
fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(state(), STATES.len() - 1).prop_map(|states| {
        let states = STATES.iter().zip(states).map(|(name, state)| format!("  {name}: {state}\n")).collect::<String>();
        format!("workflow: case\ninitial: a\nstates:\n{states}  e: {{type: final, status: failed}}\n")
    })
}

/// Makes a text acceptable: what the checker objects to is cut out, or led to.
fn repaired(text: &str) -> Definition {
    let all = STATES.iter().map(|state| format!("to_{state}: {state}")).collect::<Vec<_>>().join(", ");
    // The first state leads everywhere, under events of their own; so nothing is unreachable.
    let mut text = text.replacen("a: {on: {", &format!("a: {{on: {{{all}, "), 1);
    for _ in 0..50 {
        match Definition::read(&text, Format::Yaml) {
            Ok(definition) => return definition.with_version(1),
            Err(problems) => {
                let Some(problem) = problems.iter().find(|p| p.message.contains("hides those after it")) else {
                    panic!("{text}\n{problems:?}");
                };
                // A guard that may fail takes the place of none.
                let line = text.lines().nth(problem.line as usize - 1).unwrap().to_owned();
                let column = problem.column as usize - 1;
                let comma = if line[column + 1..].starts_with('}') { "" } else { ", " };
                let mended = format!("{}{{guard: data.n < 3{comma}{}", &line[..column], &line[column + 1..]);
                text = text.replacen(&line, &mended, 1);
            }
        }
    }
    panic!("{text}")
}

#[derive(Clone, Debug)]
struct Step {
    actor: usize,
    roles: Vec<usize>,
    what: usize,
    event: Option<usize>,
    to: Option<usize>,
    from: Option<usize>,
    version: Option<i64>,
    n: i64,
}

fn step() -> impl Strategy<Value = Step> {
    let maybe = |weight, max| prop::option::weighted(weight, 0..max);
    (
        (0..4_usize, prop::collection::vec(0..ROLES.len(), 0..3), 0..20_usize),
        (maybe(0.95, EVENTS.len() + STATES.len()), maybe(0.15, STATES.len()), maybe(0.2, STATES.len())),
        (prop::option::weighted(0.2, -3..=0_i64), prop_oneof![-2..6_i64, Just(i64::MAX), Just(i64::MIN)]),
    )
        .prop_map(|((actor, roles, what), (event, to, from), (version, n))| Step {
            actor,
            roles,
            what,
            event,
            to,
            from,
            version,
            n,
        })
}

/// The step as a command; versions are given relative to the current one.
fn command(step: &Step, current: Option<&Instance>, number: usize) -> Command {
    let roles = step.roles.iter().map(|role| ROLES[*role].to_owned());
    let actor = Actor::new(["ann", "bob", "cy", "di"][step.actor], roles, false).unwrap();
    let name = |n: usize| EVENTS.get(n).map_or_else(|| format!("to_{}", STATES[n - EVENTS.len()]), |e| (*e).to_owned());
    let action = match step.what {
        0 => Action::Terminate(Close { run: None, reason: "why".to_owned() }),
        1 => Action::Cancel(Close { run: current.map(|instance| instance.run), reason: "why".to_owned() }),
        5..=7 => Action::Fire(Fire { until: at(number as i64 + step.n.clamp(-2, 5)) }),
        2..=4 => Action::Start(Start {
            execution_timeout_ms: (step.n == 5).then_some(9_000),
            run: Uuid::from_u128(number as u128 + 1),
            data: data(&json!({"n": step.n, "big": "x".repeat(30_000)}).to_string()),
            reuse_policy: ReusePolicy::ALL[step.actor % 3],
            conflict_policy: ConflictPolicy::ALL[step.what - 2],
            request_id: step.from.map(|request| request.to_string()),
        }),
        _ => Action::Send(Send {
            event: step.event.map(name),
            to: step.to.map(|to| STATES[to].to_owned()),
            from: step.from.map(|from| STATES[from].to_owned()),
            expected_version: step.version.map(|behind| current.map_or(0, |instance| instance.version) + behind),
            data: data(&json!({"n": step.n}).to_string()),
            ..Send::default()
        }),
    };
    Command { instance: key_of("case"), action, actor, idempotency_key: None }
}

/// What holds between an instance and its successor.
fn check_change(before: Option<&Instance>, change: &lockkeeper_model::Change) {
    let (after, entry) = (&change.instance, &change.entry);
    assert_eq!(after.version, before.map_or(0, |instance| instance.version) + 1);
    assert_eq!((&change.success.state, change.success.version), (&after.state, after.version));
    assert_eq!(entry.to, after.state);
    assert!(serde_json::to_string(&*after.data).unwrap().len() <= DATA_BYTES_MAX);
    let stored = serde_json::to_string(after).unwrap();
    let read: Instance = serde_json::from_str(&stored).unwrap();
    assert_eq!(Instance { version: after.version, ..read }, *after);
    let mut votes: Vec<_> = after.votes.iter().map(|vote| (&vote.event, vote.transition, &vote.actor)).collect();
    votes.sort_unstable();
    votes.dedup();
    assert_eq!(votes.len(), after.votes.len(), "nobody votes twice");
    assert!(!after.status.is_closed() || after.votes.is_empty(), "a closed run waits for nobody");
    assert!(!after.status.is_closed() || after.next_due().is_none(), "nor for any time");
    assert!(after.timers.is_sorted_by_key(|timer| timer.due));
    match (before.filter(|instance| !instance.status.is_closed()), entry.kind.clone()) {
        (None, kind) => assert_eq!(kind, Kind::Start, "a closed run only starts again"),
        (Some(before), kind) => {
            assert_ne!(kind, Kind::Start);
            assert_eq!(entry.from.as_ref(), Some(&before.state));
            assert_eq!((after.run, after.started_at), (before.run, before.started_at));
            if kind == Kind::Vote {
                assert_eq!(change.success.outcome, SuccessKind::PendingApproval);
                assert_eq!(
                    (after.votes.len(), &after.entered, &after.data),
                    (before.votes.len() + 1, &before.entered, &before.data)
                );
            }
            let is_closing = matches!(kind, Kind::Terminate | Kind::Cancel | Kind::TimedOut);
            assert_eq!(is_closing, matches!(after.status, Status::Terminated | Status::Canceled | Status::TimedOut));
            let visit_goes_on = after.entered == before.entered && !after.status.is_closed();
            let kept = before.timers.iter().filter(|timer| after.timers.contains(timer)).count();
            match kind {
                Kind::Timer if visit_goes_on => assert_eq!(kept + 1, before.timers.len(), "one timer was used"),
                Kind::Timer => assert!(!before.timers.is_empty()),
                _ if visit_goes_on => assert_eq!(after.timers, before.timers, "timers are the visit's"),
                _ => {}
            }
        }
    }
}

/// As many cases as fit an ordinary test run; `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(48);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_sequence_of_commands_is_a_legal_history(text in text(), steps in prop::collection::vec(step(), 1..60)) {
        let definition = repaired(&text);
        let mut current: Option<Instance> = None;
        let mut entries = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let command = command(step, current.as_ref(), number);
            let now = at(number as i64);
            let decision = decide(&definition, current.as_ref(), &command, now);
            prop_assert_eq!(&decision, &decide(&definition, current.as_ref(), &command, now), "the same twice");
            match decision {
                Ok(Decision::Stay(success)) => {
                    let instance = current.as_ref().unwrap();
                    prop_assert_eq!((success.version, &success.state), (instance.version, &instance.state));
                    let starts = matches!(command.action, Action::Start(_));
                    prop_assert_eq!(starts, matches!(success.outcome, SuccessKind::Attached | SuccessKind::Started));
                }
                Ok(decision) => {
                    for change in changes(&decision) {
                        check_change(current.as_ref(), change);
                        entries.push((change.instance.version, change.entry.clone()));
                        current = Some(change.instance.clone());
                    }
                }
                Err(refusal) => prop_assert!(!refusal.to_string().is_empty()),
            }
        }
        prop_assert_eq!(history::check(entries.iter().map(|(version, entry)| (*version, entry))), Ok(()));
    }

    #[test]
    fn a_definition_without_concurrency_is_adaptive(text in text()) {
        let definition = repaired(&text);
        prop_assert_eq!(definition.concurrency(), &Concurrency::default());
        for state in definition.state_names() {
            for event in definition.open_events(state) {
                let action = Action::Send(Send { event: Some(event.to_owned()), ..Send::default() });
                prop_assert_eq!(definition.concurrency_of(Some(state), &action), &Concurrency::default());
            }
        }
    }

    /// Definitions are stored as texts, and read again by every later version.
    #[test]
    fn what_was_accepted_before_there_were_strategies_still_is(
        text in text(), strategy in any::<bool>(), attempts in prop::option::of(1..=10_u32),
        backoff in prop::option::of(0..=10_000_u64), combine in prop::option::of(any::<bool>()),
    ) {
        let fields = [
            strategy.then(|| "strategy: optimistic".to_owned()),
            attempts.map(|attempts| format!("attempts: {attempts}")),
            backoff.map(|ms| format!("backoff: {ms}ms")),
            combine.map(|combine| format!("combine: {combine}")),
        ];
        let fields: Vec<String> = fields.into_iter().flatten().collect();
        let definition = repaired(&format!("{text}concurrency: {{{}}}\n", fields.join(", ")));
        let default = Concurrency::default();
        let expected = Concurrency {
            strategy: if strategy { lockkeeper_model::definition::Strategy::Optimistic } else { default.strategy },
            attempts: attempts.unwrap_or(default.attempts),
            backoff: backoff.map_or(default.backoff, std::time::Duration::from_millis),
            combine: combine.unwrap_or(default.combine),
            ..default
        };
        prop_assert_eq!(definition.concurrency(), &expected);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[a-z{}\\[\\]:,\"'|>&*!# \n\t-]{0,200}") {
        let _ = Definition::read(&text, Format::Yaml);
        let _ = Definition::read(&text, Format::Json);
    }

    #[test]
    fn no_damage_to_a_text_makes_the_reader_panic(text in text(), at in any::<prop::sample::Index>(), with in "\\PC{0,4}") {
        let mut chars: Vec<char> = text.chars().collect();
        let at = at.index(chars.len());
        chars.splice(at..(at + with.chars().count()).min(chars.len()), with.chars());
        let text: String = chars.into_iter().collect();
        if let Err(problems) = Definition::read(&text, Format::Yaml) {
            prop_assert!(!problems.is_empty());
            prop_assert!(problems.is_sorted_by_key(|p| (p.line, p.column)));
            let lines = text.lines().count() as u64 + 1;
            prop_assert!(problems.iter().all(|p| p.line <= lines && !p.message.is_empty() && !p.remedy.is_empty()));
        }
    }

    #[test]
    fn no_expression_makes_the_reader_panic(guard in "[a-z0-9.()\\[\\]{}?:!&|+*/%<>=',\" -]{0,80}") {
        let json = json!({"workflow": "case", "initial": "a", "states": {
            "a": {"on": {"go": {"target": "e", "guard": guard}}}, "e": {"type": "final"}
        }});
        if let Ok(definition) = Definition::read(&json.to_string(), Format::Json) {
            let start = Command {
                instance: key_of("case"),
                action: Action::Start(Start { data: data(r#"{"n":1}"#), ..Start::default() }),
                actor: actor("ann"),
                idempotency_key: None,
            };
            let Ok(Decision::Change(change)) = decide(&definition, None, &start, at(0)) else { panic!("it starts") };
            let go = Command { action: Action::Send(Send { event: Some("go".to_owned()), ..Send::default() }), ..start };
            let _ = decide(&definition, Some(&change.instance), &go, at(1));
        }
    }
}
