//! How commands commit: what a block says, what it stands on, and what is wrong in it.

use std::time::Duration;

use lockkeeper_model::definition::{Concurrency, OnLockLoss, OnLocked, Strategy};
use lockkeeper_model::limits::{
    ATTEMPTS_DEFAULT, BACKOFF_DEFAULT, ESCALATE_ABOVE_DEFAULT, LOCK_TIMEOUT_DEFAULT, LOCK_TIMEOUT_MAX,
};
use lockkeeper_model::{Action, Close, Definition, Format, Problem, Refusal, Send, Start};

/// A definition with a block at the top, and one in the transition `take` of the state `a`; empty: none.
fn text(workflow: &str, transition: &str) -> String {
    let workflow = if workflow.is_empty() { String::new() } else { format!("concurrency: {workflow}\n") };
    let transition = if transition.is_empty() { String::new() } else { format!(", concurrency: {transition}") };
    format!(
        "workflow: w\ninitial: a\n{workflow}states:\n  a: {{on: {{take: {{target: b{transition}}}, put: {{}}}}}}\n  b: {{type: final}}\n"
    )
}

fn read(text: &str) -> Definition {
    Definition::read(text, Format::Yaml).unwrap_or_else(|problems| panic!("{text}\n{}", lines(&problems)))
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("    {problem}\n")).collect()
}

fn event(event: &str) -> Action {
    Action::Send(Send { event: Some(event.to_owned()), ..Send::default() })
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn optimistic() -> Concurrency {
    Concurrency { strategy: Strategy::Optimistic, ..Concurrency::default() }
}

fn pessimistic() -> Concurrency {
    Concurrency { strategy: Strategy::Pessimistic, ..Concurrency::default() }
}

fn adaptive() -> Concurrency {
    Concurrency::default()
}

#[test]
fn adaptive_is_meant_where_nothing_is_said() {
    let expected = Concurrency {
        strategy: Strategy::Adaptive,
        attempts: 3,
        backoff: ms(50),
        lock_timeout: ms(5_000),
        on_locked: OnLocked::Wait,
        escalate_above: 0.05,
        combine: true,
        lock_key: None,
        lock_ttl: ms(30_000),
        on_lock_loss: OnLockLoss::RowLock,
    };
    assert_eq!(Concurrency::default(), expected);
    assert_eq!((ATTEMPTS_DEFAULT, BACKOFF_DEFAULT), (expected.attempts, expected.backoff));
    assert_eq!((LOCK_TIMEOUT_DEFAULT, ESCALATE_ABOVE_DEFAULT), (expected.lock_timeout, expected.escalate_above));
    for block in ["", "{}", "~", "{strategy: adaptive}"] {
        assert_eq!(*read(&text(block, "")).concurrency(), expected, "{block:?}");
    }
}

#[test]
fn each_field_is_read() {
    for (block, expected) in [
        ("{strategy: optimistic}", optimistic()),
        ("{strategy: pessimistic}", pessimistic()),
        ("{attempts: 1}", Concurrency { attempts: 1, ..adaptive() }),
        ("{attempts: 10}", Concurrency { attempts: 10, ..adaptive() }),
        ("{backoff: 0ms}", Concurrency { backoff: ms(0), ..adaptive() }),
        ("{backoff: 10s}", Concurrency { backoff: ms(10_000), ..adaptive() }),
        ("{lock_timeout: 1ms}", Concurrency { lock_timeout: ms(1), ..adaptive() }),
        ("{lock_timeout: 30s}", Concurrency { lock_timeout: LOCK_TIMEOUT_MAX, ..adaptive() }),
        ("{strategy: pessimistic, lock_timeout: 2s}", Concurrency { lock_timeout: ms(2_000), ..pessimistic() }),
        ("{strategy: pessimistic, on_locked: wait}", pessimistic()),
        ("{strategy: pessimistic, on_locked: nowait}", Concurrency { on_locked: OnLocked::Nowait, ..pessimistic() }),
        (
            "{strategy: pessimistic, on_locked: skip_locked}",
            Concurrency { on_locked: OnLocked::SkipLocked, ..pessimistic() },
        ),
        // What adaptive does anyway may be said.
        ("{strategy: adaptive, on_locked: wait}", adaptive()),
        ("{escalate_above: 0.5%}", Concurrency { escalate_above: 0.005, ..adaptive() }),
        ("{escalate_above: \"50%\"}", Concurrency { escalate_above: 0.5, ..adaptive() }),
        ("{strategy: optimistic, combine: false}", Concurrency { combine: false, ..optimistic() }),
        ("{strategy: pessimistic, attempts: 2}", Concurrency { attempts: 2, ..pessimistic() }),
        (
            "{strategy: adaptive, attempts: 4, backoff: 20ms, lock_timeout: 1s, on_locked: wait, escalate_above: 2%, combine: true}",
            Concurrency { attempts: 4, backoff: ms(20), lock_timeout: ms(1_000), escalate_above: 0.02, ..adaptive() },
        ),
    ] {
        let definition = read(&text(block, ""));
        assert_eq!(*definition.concurrency(), expected, "{block}");
        assert_eq!(definition.warnings(), [], "{block}");
    }
}

#[test]
fn presets_say_several_fields_and_those_beside_them_otherwise() {
    for (block, expected) in [
        ("{preset: approval}", optimistic()),
        ("{preset: stock}", pessimistic()),
        ("{preset: stock, lock_timeout: 2s}", Concurrency { lock_timeout: ms(2_000), ..pessimistic() }),
        ("{lock_timeout: 2s, preset: stock}", Concurrency { lock_timeout: ms(2_000), ..pessimistic() }),
        ("{preset: stock, on_locked: nowait}", Concurrency { on_locked: OnLocked::Nowait, ..pessimistic() }),
        (
            "{preset: approval, attempts: 7, combine: false}",
            Concurrency { attempts: 7, combine: false, ..optimistic() },
        ),
        (
            "{preset: approval, strategy: adaptive, lock_timeout: 1s}",
            Concurrency { lock_timeout: ms(1_000), ..adaptive() },
        ),
    ] {
        assert_eq!(*read(&text(block, "")).concurrency(), expected, "{block}");
    }
}

#[test]
fn a_transition_stands_on_its_workflow() {
    let nowait = Concurrency { on_locked: OnLocked::Nowait, ..pessimistic() };
    for (workflow, transition, expected) in [
        ("", "", adaptive()),
        ("", "{}", adaptive()),
        ("", "{strategy: optimistic}", optimistic()),
        ("", "{strategy: pessimistic, on_locked: nowait}", nowait.clone()),
        ("", "{attempts: 5}", Concurrency { attempts: 5, ..adaptive() }),
        ("{strategy: pessimistic}", "{on_locked: nowait}", nowait),
        ("{strategy: pessimistic, on_locked: nowait}", "{on_locked: wait, lock_timeout: 1s}", {
            Concurrency { lock_timeout: ms(1_000), ..pessimistic() }
        }),
        // What both strategies use is taken over ...
        (
            "{attempts: 5, backoff: 1ms, lock_timeout: 2s, combine: false}",
            "{strategy: pessimistic}",
            Concurrency { attempts: 5, backoff: ms(1), lock_timeout: ms(2_000), combine: false, ..pessimistic() },
        ),
        // ... and what only the other one uses is not.
        ("{strategy: pessimistic, on_locked: skip_locked, lock_timeout: 2s}", "{strategy: adaptive}", {
            Concurrency { lock_timeout: ms(2_000), ..adaptive() }
        }),
        ("{lock_timeout: 2s, escalate_above: 1%}", "{strategy: optimistic}", optimistic()),
        ("{escalate_above: 1%}", "{preset: stock}", pessimistic()),
        ("{escalate_above: 1%}", "{backoff: 1ms}", Concurrency { escalate_above: 0.01, backoff: ms(1), ..adaptive() }),
        // A preset says its fields, and no others.
        ("{attempts: 7, backoff: 1s, lock_timeout: 2s}", "{preset: approval}", optimistic()),
        ("{attempts: 7, lock_timeout: 2s}", "{preset: stock}", Concurrency { attempts: 7, ..pessimistic() }),
    ] {
        let definition = read(&text(workflow, transition));
        let found = definition.concurrency_of(Some("a"), &event("take"));
        assert_eq!(*found, expected, "{workflow} with {transition}");
        let others = definition.concurrency_of(Some("a"), &event("put"));
        assert_eq!(others, definition.concurrency(), "{workflow} with {transition}");
    }
}

#[test]
fn the_order_of_the_text_and_its_format_make_no_difference() {
    let json = r#"{"workflow": "w", "initial": "a", "states": {"a": {"on": {"take": {"target": "b",
        "concurrency": {"on_locked": "nowait"}}}}, "b": {"type": "final"}},
        "concurrency": {"lock_timeout": "2s", "strategy": "pessimistic"}}"#;
    let expected = Concurrency { lock_timeout: ms(2_000), on_locked: OnLocked::Nowait, ..pessimistic() };
    for format in [Format::Json, Format::Yaml] {
        let definition = Definition::read(json, format).unwrap();
        assert_eq!(*definition.concurrency_of(Some("a"), &event("take")), expected);
    }
}

#[test]
fn commands_commit_as_the_transition_says_that_they_mean() {
    let definition = read(
        "
workflow: w
initial: a
states:
  a:
    on:
      one: {target: b, concurrency: {attempts: 1}}
      two: {target: b, concurrency: {attempts: 2}}
      list: [{target: c, guard: data.x, concurrency: {attempts: 4}}, {concurrency: {attempts: 4}}]
      none: {target: c, concurrency: {attempts: 4}}
  b: {on: {one: c, two: {concurrency: {attempts: 5}}}}
  c: {type: final}
",
    );
    let attempts = |state: Option<&str>, action: &Action| definition.concurrency_of(state, action).attempts;
    let sends = |state: &str, event: Option<&str>, to: Option<&str>| {
        let (event, to) = (event.map(str::to_owned), to.map(str::to_owned));
        attempts(Some(state), &Action::Send(Send { event, to, ..Send::default() }))
    };
    for (state, event, to, expected) in [
        ("a", Some("one"), None, 1),
        ("a", Some("two"), None, 2),
        ("a", Some("list"), None, 4),
        // The event decides, whatever the target.
        ("a", Some("two"), Some("c"), 2),
        // Two ways that differ: no telling which is meant. Two that agree: no matter which.
        ("a", None, Some("b"), 3),
        ("a", None, Some("c"), 4),
        ("b", Some("one"), None, 3),
        ("b", Some("two"), None, 5),
        ("b", None, Some("c"), 3),
        // No move there, or nowhere.
        ("b", Some("list"), None, 3),
        ("c", Some("one"), None, 3),
        ("nowhere", Some("one"), None, 3),
        ("a", Some("unknown"), None, 3),
        ("a", None, None, 3),
    ] {
        assert_eq!(sends(state, event, to), expected, "{event:?} to {to:?} in {state}");
    }
    let close = Close { run: None, reason: "why".to_owned() };
    let start = Start::default();
    for action in [Action::Start(start), Action::Terminate(close.clone()), Action::Cancel(close)] {
        assert_eq!((attempts(Some("a"), &action), attempts(None, &action)), (3, 3), "{action:?}");
    }
    assert_eq!(attempts(None, &event("one")), 3, "there is no instance");
}

#[test]
fn what_is_wrong_is_said_with_its_remedy() {
    let mut report = String::new();
    for (workflow, transition) in [
        // Wrong kinds.
        ("pessimistic", ""),
        ("[strategy]", ""),
        (
            "{strategy: 1, attempts: many, backoff: 50, lock_timeout: 5, on_locked: true, escalate_above: 5, combine: 1}",
            "",
        ),
        ("{preset: [stock], escalate_above: 0.05}", ""),
        // Out of range, or of another form.
        ("{attempts: 0, backoff: 11s, lock_timeout: 0ms, escalate_above: 0%}", ""),
        ("{attempts: 11, backoff: soon, lock_timeout: 31s, escalate_above: 50.01%}", ""),
        ("{attempts: 2.5, lock_timeout: 5 s, escalate_above: a lot}", ""),
        // Unknown values, fields and later ones.
        ("{strategy: pesimistic, on_locked: skip-locked}", ""),
        ("{strategy: pessimistic, on_locked: no_wait}", ""),
        ("{strategy: serial}", ""),
        ("{preset: stok}", ""),
        ("{startegy: optimistic, lock_timout: 1s}", ""),
        // A lock that is not named, or not by a text of what is to be seen.
        ("{strategy: distributed}", ""),
        ("{preset: scheduled}", ""),
        ("{strategy: distributed, lock_key: 'event.sku + actor.id + instance.version + instance.started_at'}", ""),
        ("{strategy: distributed, lock_key: 'string(now) + instance[\"id\"]'}", ""),
        ("{strategy: distributed, lock_key: inventory/sku-1}", ""),
        ("{strategy: distributed, lock_key: data.on_hand > 5}", ""),
        ("{strategy: distributed, lock_key: 'data.a ? 1 : 2'}", ""),
        ("{strategy: distributed, lock_key: 7}", ""),
        ("{strategy: distributed, lock_key: [data.sku], lock_ttl: 10ms, on_lock_loss: ignore}", ""),
        // Without use.
        ("{strategy: optimistic, lock_timeout: 5s, on_locked: wait, escalate_above: 5%}", ""),
        ("{preset: approval, lock_timeout: 5s}", ""),
        ("{strategy: adaptive, on_locked: nowait}", ""),
        ("{on_locked: skip_locked}", ""),
        ("{strategy: pessimistic, escalate_above: 5%}", ""),
        ("{preset: stock, strategy: optimistic, lock_timeout: 1s}", ""),
        ("{strategy: pessimistic, lock_key: data.sku, lock_ttl: 1m, on_lock_loss: refuse}", ""),
        ("{preset: approval, lock_key: data.sku}", ""),
        ("{lock_ttl: 1m, on_lock_loss: refuse}", ""),
        ("{strategy: distributed, lock_key: data.sku, on_locked: nowait, escalate_above: 5%}", ""),
        // Where the strategy cannot be read, nothing is said about its use.
        ("{strategy: strict, lock_timeout: 5s, on_locked: nowait}", "{on_locked: nowait}"),
        ("{startegy: pessimistic, on_locked: nowait}", "{on_locked: nowait}"),
        ("pessimistic", "{on_locked: nowait}"),
        // In a transition.
        ("", "pessimistic"),
        ("", "{strategy: pesimistic, attempts: 0, lock_timeout: 1h, on_locked: never}"),
        ("", "{strategy: distributed}"),
        ("{strategy: optimistic}", "{lock_key: data.sku}"),
        ("", "{escalate_above: 5%, combine: false}"),
        ("", "{on_locked: nowait}"),
        ("{strategy: optimistic}", "{lock_timeout: 1s}"),
        ("{strategy: pessimistic}", "{strategy: optimistic, lock_timeout: 1s, on_locked: wait}"),
        ("", "{concurrency: {strategy: optimistic}}"),
    ] {
        let problems = Definition::read(&text(workflow, transition), Format::Yaml).err().unwrap_or_default();
        assert!(!problems.is_empty(), "{workflow} with {transition}");
        let beside = if transition.is_empty() { String::new() } else { format!(" with {transition}") };
        report += &format!("{workflow}{beside}\n{}\n", lines(&problems));
    }
    insta::assert_snapshot!(report);
}

#[test]
fn fields_in_the_wrong_place_are_told_the_right_one() {
    let text = "
workflow: w
initial: a
strategy: optimistic
on_locked: wait
states:
  a:
    concurrency: {strategy: optimistic}
    lock_timeout: 5s
    on: {take: {target: b, preset: stock, combine: true, approval: {quorum: 2, attempts: 3}}}
  b: {type: final, escalate_above: 5%}
";
    insta::assert_snapshot!(lines(&Definition::read(text, Format::Yaml).unwrap_err()));
}

#[test]
fn the_transitions_of_one_event_in_one_state_agree() {
    let with = |list: &str| {
        let text = format!(
            "workflow: w\ninitial: a\nconcurrency: {{escalate_above: 1%}}\nstates:\n  a:\n    on:\n      take:\n{list}  b: {{type: final}}\n"
        );
        Definition::read(&text, Format::Yaml)
    };
    let differing = "        - {target: b, guard: data.x, concurrency: {strategy: pessimistic}}\n        - {target: b, guard: data.y}\n        - {target: b, guard: data.z}\n        - {target: b, concurrency: {attempts: 1}}\n";
    insta::assert_snapshot!(lines(&with(differing).unwrap_err()));
    for agreeing in [
        "        - {target: b, guard: data.x, concurrency: {strategy: pessimistic}}\n        - {target: b, concurrency: {preset: stock}}\n",
        "        - {target: b, guard: data.x, concurrency: {strategy: adaptive, attempts: 3}}\n        - b\n",
        "        - {target: b, guard: data.x, concurrency: {}}\n        - b\n",
    ] {
        assert!(with(agreeing).is_ok(), "{agreeing}");
    }
    // What could not be read is not compared.
    let wrong = "        - {target: b, guard: data.x, concurrency: {strategy: pesimistic}}\n        - b\n";
    assert_eq!(with(wrong).unwrap_err().len(), 1);
    // In different states, or for different events, they may differ.
    let text = "{workflow: w, initial: a, states: {a: {on: {x: {target: b, concurrency: {attempts: 1}}, y: b}}, b: {on: {x: {target: c}}}, c: {type: final}}}";
    assert!(Definition::read(text, Format::Yaml).is_ok());
}

#[test]
fn a_wait_that_nobody_makes_is_a_warning() {
    let block = "{strategy: pessimistic, on_locked: nowait, lock_timeout: 1s}";
    insta::assert_snapshot!(lines(read(&text(block, block)).warnings()));
    let inherited = text("{strategy: pessimistic, on_locked: skip_locked}", "{lock_timeout: 1s}");
    assert_eq!(read(&inherited).warnings().len(), 1);
    // What is written for those who wait is no mistake of the one who does not.
    assert_eq!(read(&text("{preset: stock, lock_timeout: 1s}", "{on_locked: skip_locked}")).warnings(), []);
}

#[test]
fn a_locked_row_is_a_refusal_that_may_be_sent_again() {
    let waited = Refusal::LockTimeout { waited_ms: 5_000 };
    assert_eq!((waited.code(), waited.outcome(), waited.is_retryable()), ("LK0012", "lock_timeout", true));
    insta::assert_snapshot!(waited);
    insta::assert_snapshot!(Refusal::LockTimeout { waited_ms: 0 });
}

#[test]
fn the_examples_of_the_documentation_are_right() {
    let page = include_str!("../../../../docs/definitions.md");
    let examples: Vec<&str> = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let example = |name: &str| examples.iter().find(|text| text.starts_with(&format!("workflow: {name}\n"))).unwrap();
    // Each of them is a definition.
    examples.iter().for_each(|text| drop(read(text)));
    assert_eq!(read(example("request")).timers_of_visit("review", crate::support::at(0)).len(), 2);
    let definition = read(example("stock"));
    assert_eq!(*definition.concurrency(), Concurrency::default(), "it shows the defaults");
    assert_eq!(definition.concurrency_of(Some("active"), &event("take")).on_locked, OnLocked::Nowait);
    assert_eq!(*definition.concurrency_of(Some("active"), &event("retire")), optimistic());
    let locked = read(example("allocation"));
    assert_eq!((locked.concurrency().strategy, locked.concurrency().lock_timeout), (Strategy::Distributed, ms(2_000)));
}
