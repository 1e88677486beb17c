//! The locks under which commands commit.

use std::time::Duration;

use lockkeeper_model::definition::{OnLockLoss, Strategy};
use lockkeeper_model::{Action, Close, Command, Definition, Format, Refusal, Send, Start};

use crate::support::{Case, actor, data, key_of};

/// Stock that is kept under the lock of its article, and moved under that of its place.
const WORKFLOW: &str = "
workflow: case
initial: open
concurrency: {strategy: distributed, lock_key: '\"inventory/\" + data.sku'}
states:
  open:
    on:
      take: {}
      rename: {assign: {sku: event.sku}}
      move: {target: moved, concurrency: {lock_key: '\"place/\" + instance.state + \"/\" + instance.id'}}
      look: {concurrency: {strategy: optimistic}}
      maybe: {concurrency: {strategy: adaptive}}
  moved: {on: {take: {}}}
";

fn case(sku: &str) -> Case {
    let mut case = Case::new(WORKFLOW);
    case.run(&format!("ann start data={{\"sku\":{sku}}} -> started v1 open"));
    case
}

fn command(action: Action) -> Command {
    Command { instance: key_of("case"), action, actor: actor("ann"), idempotency_key: None }
}

fn event(name: &str) -> Command {
    command(Action::Send(Send { event: Some(name.to_owned()), ..Send::default() }))
}

fn lock_key(case: &Case, command: &Command) -> Result<Option<String>, String> {
    case.definition.lock_key(case.current.as_ref(), command).map_err(|refusal| match refusal {
        Refusal::GuardError { expression, detail } => format!("{expression}: {detail}"),
        other => panic!("{other:?}"),
    })
}

#[test]
fn the_lock_is_named_by_the_data_and_the_instance() {
    let mut case = case("\"sku-1\"");
    let name = |case: &Case, event_name: &str| lock_key(case, &event(event_name)).unwrap();
    assert_eq!(name(&case, "take").as_deref(), Some("inventory/sku-1"));
    assert_eq!(name(&case, "move").as_deref(), Some("place/open/case"));
    assert_eq!(name(&case, "maybe").as_deref(), Some("inventory/sku-1"));
    assert_eq!(name(&case, "look"), None, "an optimistic transition takes no lease");
    // What the command would do is not known yet: it commits as the workflow says.
    assert_eq!(name(&case, "unknown").as_deref(), Some("inventory/sku-1"));
    let close = Close { run: None, reason: "why".to_owned() };
    assert_eq!(lock_key(&case, &command(Action::Terminate(close))).unwrap().as_deref(), Some("inventory/sku-1"));
    // The name follows the record.
    case.run("ann rename data={\"sku\":\"sku-2\"} -> applied v2 open");
    assert_eq!(name(&case, "take").as_deref(), Some("inventory/sku-2"));
}

#[test]
fn a_start_is_locked_by_its_own_data() {
    let case = case("\"sku-1\"");
    let start = |json: &str| command(Action::Start(Start { data: data(json), ..Start::default() }));
    assert_eq!(lock_key(&case, &start("{\"sku\":\"x\"}")).unwrap().as_deref(), Some("inventory/x"));
    let never = Case::new(WORKFLOW);
    assert_eq!(lock_key(&never, &start("{\"sku\":\"x\"}")).unwrap().as_deref(), Some("inventory/x"));
    assert!(lock_key(&never, &start("{}")).unwrap_err().ends_with("there is no field \"sku\""));
    assert_eq!(lock_key(&never, &event("take")).unwrap(), None, "nothing is there to be locked");
}

#[test]
fn a_name_that_is_none_is_a_guard_error() {
    for (sku, expected) in [
        ("7", "cannot add"),
        ("null", "cannot add"),
        ("\"a\\u0000b\"", "lock name contains the control character U+0000"),
        (&format!("\"{}\"", "x".repeat(503)), "lock name has 513 bytes; at most 512 are allowed"),
    ] {
        let detail = lock_key(&case(sku), &event("take")).unwrap_err();
        assert!(detail.starts_with("\"inventory/\" + data.sku: "), "{detail}");
        assert!(detail.contains(expected) || expected == "cannot add", "{sku}: {detail}");
    }
    let longest = format!("\"{}\"", "x".repeat(502));
    assert_eq!(lock_key(&case(&longest), &event("take")).unwrap().map(|name| name.len()), Some(512));
}

#[test]
fn what_it_costs_is_bounded() {
    let text = "{workflow: case, initial: a, concurrency: {strategy: distributed, lock_key: 'data.l.map(x, data.l.map(y, \
                \"a\"))[0][0]'}, states: {a: {on: {go: {}}}}}";
    let mut case = Case::new(text);
    let list = serde_json::json!({ "l": vec![1; 1_000] });
    case.run(&format!("ann start data={list} -> started v1 a"));
    for _ in 0..2 {
        let detail = lock_key(&case, &event("go")).unwrap_err();
        assert!(detail.contains("cost: the command takes more than 10000 steps"), "{detail}");
    }
}

#[test]
fn presets_and_transitions_say_what_happens_without_the_lock_service() {
    let read = |block: &str, transition: &str| {
        let text = format!(
            "{{workflow: w, initial: a, concurrency: {{{block}}}, states: {{a: {{on: {{go: {{concurrency: \
             {{{transition}}}}}}}}}}}}}"
        );
        let definition =
            Definition::read(&text, Format::Yaml).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
        let own = definition.concurrency_of(Some("a"), &event("go").action);
        let key = own.lock_key.as_ref().map(|key| key.text().to_owned());
        (own.strategy, key, own.lock_ttl, own.on_lock_loss)
    };
    let sku = || Some("data.sku".to_owned());
    let (short, long) = (Duration::from_secs(30), Duration::from_secs(120));
    for (workflow, transition, expected) in [
        ("strategy: distributed, lock_key: data.sku", "", (Strategy::Distributed, sku(), short, OnLockLoss::Refuse)),
        ("preset: scheduled, lock_key: data.sku", "", (Strategy::Distributed, sku(), short, OnLockLoss::Refuse)),
        ("lock_key: data.sku, lock_ttl: 2m", "", (Strategy::Adaptive, sku(), long, OnLockLoss::RowLock)),
        (
            "preset: scheduled, lock_key: data.sku, on_lock_loss: row_lock, lock_ttl: 2m",
            "",
            (Strategy::Distributed, sku(), long, OnLockLoss::RowLock),
        ),
        // What is done without the service is the strategy's own, where the block does not say.
        (
            "strategy: distributed, lock_key: data.sku, lock_ttl: 2m",
            "strategy: adaptive",
            (Strategy::Adaptive, sku(), long, OnLockLoss::RowLock),
        ),
        (
            "lock_key: data.sku, on_lock_loss: refuse",
            "strategy: distributed",
            (Strategy::Distributed, sku(), short, OnLockLoss::Refuse),
        ),
        (
            "lock_key: data.sku, on_lock_loss: refuse",
            "lock_key: data.other",
            (Strategy::Adaptive, Some("data.other".to_owned()), short, OnLockLoss::Refuse),
        ),
        (
            "lock_key: data.sku, lock_ttl: 2m",
            "strategy: pessimistic",
            (Strategy::Pessimistic, None, short, OnLockLoss::RowLock),
        ),
    ] {
        assert_eq!(read(workflow, transition), expected, "{workflow} with {transition}");
    }
}

#[test]
fn a_definition_tells_whether_it_takes_leases() {
    let may_lease = |text: &str| Definition::read(text, Format::Yaml).unwrap().may_lease();
    assert!(may_lease(WORKFLOW));
    assert!(may_lease("{workflow: w, initial: a, states: {a: {on: {go: {concurrency: {lock_key: data.x}}}}}}"));
    assert!(!may_lease("{workflow: w, initial: a, concurrency: {strategy: optimistic}, states: {a: {on: {go: {}}}}}"));
}

#[test]
fn the_outline_shows_the_lock() {
    let text =
        "{workflow: w, initial: a, concurrency: {preset: scheduled, lock_key: data.x}, states: {a: {on: {go: {}}}}}";
    let definition = Definition::read(text, Format::Yaml).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&definition.concurrency().outline()).unwrap());
}

#[test]
fn a_lock_that_is_not_given_in_time_may_be_asked_for_again() {
    let timeout = Refusal::LeaseTimeout {
        resource: "inventory/sku-1".to_owned(),
        waited_ms: 5_000,
        holder: "held by node-2 on host-1 since 2026-11-29T12:00:00.000Z".to_owned(),
    };
    assert_eq!((timeout.code(), timeout.outcome(), timeout.is_retryable()), ("LK0012", "lock_timeout", true));
    insta::assert_snapshot!(timeout);
}
