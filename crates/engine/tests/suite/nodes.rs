//! Two nodes on one store: what one has cached, the other may have changed (FAULTS M3, M8, M9).

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use lockkeeper_engine::{AtomicFailure, DefinitionText, Options};
use lockkeeper_model::{Action, Refusal, Start, SuccessKind, WorkflowName};
use lockkeeper_store::{Alarm, ChangeSet, Facets, RecordKey, Verdict};
use serde_json::json;

use super::support::{Fault, House, command, event, key, keyed, name, put, queued, with_data};

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_cache_decides_nothing() {
    let house = House::new().await;
    house.start("a", json!({"on_hand": 5})).await;
    let take = |quantity| with_data(event("a", "take", "bob"), json!({"quantity": quantity}));
    assert_eq!(name(&house.other.send(take(4), None).await), "applied");
    // This node still remembers five.
    assert_eq!(name(&house.engine.send(take(2), None).await), "guard_rejected");
    assert_eq!(name(&house.engine.send(take(1), None).await), "applied");
    // And a refusal from a stale cache is looked up before it is given.
    assert_eq!(name(&house.other.send(event("a", "review", "bob"), None).await), "applied");
    assert_eq!(name(&house.other.send(event("a", "reject", "bob"), None).await), "applied");
    assert_eq!(name(&house.engine.send(event("a", "reject", "cyd"), None).await), "already_applied");
    assert_eq!(name(&house.engine.send(event("a", "approve", "cyd"), None).await), "state_mismatch");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_costs_one_read_and_a_cached_move_none() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    house.store.reads.store(0, Ordering::SeqCst);
    assert_eq!(name(&house.engine.send(event("a", "note", "bob"), None).await), "applied");
    assert_eq!(house.store.reads.load(Ordering::SeqCst), 0);
    assert_eq!(name(&house.engine.send(event("a", "approve", "bob"), None).await), "state_mismatch");
    assert_eq!(house.store.reads.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_write_is_decided_again_on_the_row_that_won() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    let other = house.other.clone();
    house.store.next(Fault::Before(Box::new(move || {
        Box::pin(async move { assert_eq!(name(&other.send(event("a", "note", "other"), None).await), "applied") })
    })));
    let answer = house.engine.send(event("a", "note", "bob"), None).await;
    assert_eq!(answer.result.unwrap().version, 3);
    assert_eq!(house.engine.instance(&key("a"), false).await.unwrap().data["notes"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_are_bounded_and_end_in_a_conflict() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    house.store.commits.store(0, Ordering::SeqCst);
    for _ in 0..3 {
        let other = house.other.clone();
        house.store.next(Fault::Before(Box::new(move || {
            Box::pin(async move { assert_eq!(name(&other.send(event("a", "note", "other"), None).await), "applied") })
        })));
    }
    let answer = house.engine.send(event("a", "note", "bob"), None).await;
    assert!(matches!(answer.result, Err(Refusal::Conflict { attempts: 3, current: 4, .. })), "{answer:?}");
    assert_eq!(house.store.commits.load(Ordering::SeqCst), 3);
    assert_eq!(house.history("a").await.len(), 4, "the start and the other node's three");
}

#[tokio::test(flavor = "multi_thread")]
async fn newcomers_do_not_inherit_attempts_nor_wait_for_a_backoff() {
    let house = House::new().await;
    put(&house.engine, "case", &super::support::WORKFLOW.replace("backoff: 1ms", "backoff: 10s")).await;
    house.start("a", json!({})).await;
    for _ in 0..2 {
        let other = house.other.clone();
        house.store.next(Fault::Before(Box::new(move || {
            Box::pin(async move { assert_eq!(name(&other.send(event("a", "note", "other"), None).await), "applied") })
        })));
    }
    let engine = house.engine.clone();
    let slow = tokio::spawn(async move { engine.send(event("a", "note", "slow"), Some(Duration::from_secs(5))).await });
    while house.store.commits.load(Ordering::SeqCst) < 3 {
        tokio::task::yield_now().await;
    }
    // The slow one now waits for up to ten seconds; the key is free.
    let quick = tokio::time::timeout(Duration::from_secs(4), house.engine.send(event("a", "note", "quick"), None));
    assert_eq!(name(&quick.await.expect("held up by another's backoff")), "applied");
    assert!(matches!(name(&slow.await.unwrap()), "applied" | "unavailable"));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_on_two_nodes_lose_nothing() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    let mut sending = Vec::new();
    for n in 0..200 {
        let engine = if n % 2 == 0 { house.engine.clone() } else { house.other.clone() };
        sending.push(tokio::spawn(async move {
            let mut attempts = 0;
            loop {
                attempts += 1;
                let answer = engine.send(keyed(event("a", "note", &format!("p{n}")), &format!("k{n}")), None).await;
                match name(&answer) {
                    "applied" => return attempts,
                    "conflict" if attempts < 100 => {}
                    other => panic!("{other}"),
                }
            }
        }));
    }
    for task in sending {
        task.await.unwrap();
    }
    let instance = house.engine.instance(&key("a"), false).await.unwrap();
    assert_eq!((instance.version, &instance.data["notes"]), (201, &json!(200)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_by_an_old_definition_is_decided_again_by_the_new() {
    let house = House::new().await;
    house.start("warm-up", json!({})).await;
    put(
        &house.other,
        "case",
        &super::support::WORKFLOW
            .replace("initial: open", "initial: review\n# open is kept")
            .replace("reject: rejected", "reject: rejected\n      back: open"),
    )
    .await;
    let start = Start { run: uuid::Uuid::new_v4(), ..Start::default() };
    let answer = house.engine.send(command("a", Action::Start(start), "ann"), None).await;
    assert_eq!(answer.result.unwrap().state, "review");
    assert_eq!(house.history("a").await[0].entry.definition_version, 2);
}

/// The data of runs, as the definition has them.
fn with_schema(schema: &str) -> String {
    format!("{}data: {{schema: {schema}}}\n", super::support::WORKFLOW)
}

/// Nothing is written for a start that is refused, so no write finds out that its definition is an old one.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_is_refused_by_the_newest_definition_only() {
    let house = House::new().await;
    let start = |id: &str, n: serde_json::Value| {
        let start = Start { run: uuid::Uuid::new_v4(), data: super::support::object(n), ..Start::default() };
        command(id, Action::Start(start), "ann")
    };
    put(&house.engine, "case", &with_schema("{properties: {n: {type: integer}}}")).await;
    assert_eq!(name(&house.engine.send(start("a", json!({"n": 1})), None).await), "started");
    for (text, old, new) in
        [("string", json!({"n": 1}), json!({"n": "x"})), ("boolean", json!({"n": "x"}), json!({"n": true}))]
    {
        put(&house.other, "case", &with_schema(&format!("{{properties: {{n: {{type: {text}}}}}}}"))).await;
        let id = format!("of-{text}");
        assert_eq!(name(&house.engine.send(start(&id, new), None).await), "started", "by the one before it is refused");
        assert_eq!(name(&house.engine.send(start("b", old), None).await), "malformed", "by the one before it is not");
    }
    // Beside those that are accepted.
    put(&house.other, "case", &with_schema("{properties: {n: {type: 'null'}}}")).await;
    house.start("c", json!({"n": null})).await;
    put(&house.other, "case", &with_schema("{properties: {n: {type: integer}}}")).await;
    let sent = [json!({"n": 1}), json!({"n": null}), json!({"n": "x"}), json!({"n": 2})];
    let mut answers = Vec::new();
    for (n, data) in sent.into_iter().enumerate() {
        let (engine, start) = (house.engine.clone(), start(&format!("together-{n}"), data));
        answers.push(tokio::spawn(async move { engine.send(start, None).await }));
    }
    for (answer, expected) in answers.into_iter().zip(["started", "malformed", "malformed", "started"]) {
        assert_eq!(name(&answer.await.unwrap()), expected);
    }
    // It costs one read, and only where it is refused.
    house.store.reads.store(0, Ordering::SeqCst);
    assert_eq!(name(&house.engine.send(start("again", json!({"n": 3})), None).await), "started");
    let before = house.store.reads.swap(0, Ordering::SeqCst);
    assert_eq!(name(&house.engine.send(start("never", json!({"n": "x"})), None).await), "malformed");
    assert!(house.store.reads.load(Ordering::SeqCst) <= before + 3);
}

/// A text that an earlier release has accepted, and this one would refuse.
#[tokio::test(flavor = "multi_thread")]
async fn a_stored_definition_stays_good_whatever_is_found_in_it_now() {
    let house = House::new().await;
    let text = with_schema("{properties: {n: {type: integer}}}")
        .replace("finish: done", "finish: {target: done, guard: \"data.n > 'x' || true\"}");
    let refused = |text: &str| lockkeeper_model::Definition::read(text, lockkeeper_model::Format::Yaml).is_err();
    assert!(refused(&text), "no text for this test");
    let put = super::support::text_of(&house.engine, &text);
    let key = RecordKey::new("$workflow", "case");
    let body = Bytes::from(serde_json::to_vec(&put).unwrap());
    let record = house.sound.read(&key).await.unwrap().unwrap();
    let set = ChangeSet {
        key,
        commit_id: uuid::Uuid::new_v4(),
        expected_version: record.version,
        facets: Facets::default(),
        body: body.clone(),
        events: vec![body],
        keys: Vec::new(),
        requires: Vec::new(),
        fences: Vec::new(),
        alarm: Alarm::Keep,
        at: house.engine.clock().now(),
        life: Some(record.life),
    };
    assert_eq!(house.sound.commit(set).await, Ok(Verdict::Committed));
    // A run is started on it, and goes on.
    house.start("a", json!({"n": 1})).await;
    assert_eq!(name(&house.other.send(event("a", "note", "bob"), None).await), "applied");
    assert_eq!(house.history("a").await[0].entry.definition_version, 2);
    // Put again it is the version that it was, and what is found is told.
    let workflow = WorkflowName::new("case").unwrap();
    let again = house.other.put_definition(&workflow, put.clone()).await.unwrap();
    assert_eq!((again.version, again.created), (2, false));
    assert!(again.warnings.iter().any(|warning| warning.message.contains("cannot be compared")), "{again:?}");
    // Another text that is so wrong is no version.
    let worse = DefinitionText { text: text.replace("note:", "nota:"), ..put };
    let refusal = house.other.put_definition(&workflow, worse).await.unwrap_err();
    assert!(matches!(refusal, Refusal::InvalidDefinition { .. }), "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn opposite_atomic_requests_neither_lock_up_nor_tear() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    house.start("b", json!({})).await;
    let mut sending = Vec::new();
    for n in 0..60 {
        let engine = if n % 3 == 0 { house.other.clone() } else { house.engine.clone() };
        let mut moves = vec![event("a", "note", "x"), event("b", "note", "x")];
        if n % 2 == 0 {
            moves.reverse();
        }
        sending.push(tokio::spawn(async move { engine.send_atomic(moves, None).await }));
    }
    let mut applied = 0;
    for task in sending {
        match task.await.unwrap() {
            Ok(_) => applied += 1,
            Err(AtomicFailure { refusal: Refusal::Conflict { .. }, .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(applied > 0);
    for id in ["a", "b"] {
        assert_eq!(house.engine.instance(&key(id), false).await.unwrap().data["notes"], applied, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_atomic_request_is_all_or_nothing() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    house.start("b", json!({"on_hand": 1})).await;
    let take = |quantity| with_data(event("b", "take", "x"), json!({"quantity": quantity}));
    let failure = house.engine.send_atomic(vec![event("a", "note", "x"), take(2)], None).await.unwrap_err();
    assert_eq!((failure.failed_index, failure.refusal.outcome()), (Some(1), "guard_rejected"));
    assert_eq!(house.history("a").await.len(), 1);
    assert_eq!(name(&house.engine.send(event("a", "review", "x"), None).await), "applied");
    let failure = house.engine.send_atomic(vec![take(1), event("a", "approve", "x")], None).await.unwrap_err();
    assert_eq!((failure.failed_index, failure.refusal.outcome()), (Some(1), "not_applied"));
    assert_eq!((house.history("a").await.len(), house.history("b").await.len()), (2, 1), "no vote, no take");
    let failure = house.engine.send_atomic(vec![take(1), take(1)], None).await.unwrap_err();
    assert_eq!(failure.refusal.outcome(), "malformed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_atomic_request_under_a_key_takes_effect_once() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    house.start("b", json!({})).await;
    let moves = || vec![keyed(event("a", "finish", "x"), "k"), keyed(event("b", "note", "x"), "k")];
    let first = house.engine.send_atomic(moves(), None).await.unwrap();
    let again = house.other.send_atomic(moves(), None).await.unwrap();
    assert_eq!((first.replayed, again.replayed), (false, true));
    assert_eq!(first.successes, again.successes);
    let failure = house.engine.send_atomic(vec![keyed(event("b", "note", "x"), "k")], None).await.unwrap_err();
    assert_eq!((failure.failed_index, failure.refusal.outcome()), (Some(0), "key_reused"));
    assert_eq!(house.history("b").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_atomic_request_may_find_most_of_its_moves_made() {
    let house = House::new().await;
    let ids: Vec<String> = (0..100).map(|n| format!("m{n}")).collect();
    for id in &ids {
        house.start(id, json!({})).await;
    }
    for id in &ids[1..] {
        assert_eq!(name(&house.engine.send(event(id, "finish", "x"), None).await), "applied");
    }
    let moves: Vec<_> = ids.iter().map(|id| event(id, "finish", "x")).collect();
    let answer = house.engine.send_atomic(moves.clone(), None).await.unwrap();
    let made = answer.successes.iter().filter(|success| success.version == 2).count();
    assert_eq!((made, answer.successes.len()), (100, 100));
    let answer = house.other.send_atomic(moves, None).await.unwrap();
    assert!(answer.successes.iter().all(|success| success.outcome == SuccessKind::AlreadyApplied));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_atomic_request_out_of_time_says_that_nothing_was_written() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    let first = house.held_note().await;
    let late = house.engine.send_atomic(vec![event("a", "note", "late")], Some(Duration::from_millis(50))).await;
    assert_eq!(late.unwrap_err().refusal.outcome(), "unavailable");
    house.store.release();
    assert_eq!(name(&first.await.unwrap()), "applied");
    assert_eq!(name(&house.engine.send(event("a", "finish", "x"), None).await), "applied");
    assert_eq!(house.history("a").await.len(), 3, "the late one left nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_leaves_before_the_commit_leaves_nothing() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    let first = house.held_note().await;
    let engine = house.engine.clone();
    let leaving = queued(Box::pin(async move { engine.send(event("a", "note", "leaving"), None).await }));
    leaving.abort();
    assert!(leaving.await.unwrap_err().is_cancelled());
    house.store.release();
    assert_eq!(name(&first.await.unwrap()), "applied");
    assert_eq!(name(&house.engine.send(event("a", "finish", "x"), None).await), "applied");
    let actors: Vec<String> = house.history("a").await.into_iter().map(|item| item.entry.actor.id).collect();
    assert_eq!(actors, ["ann", "first", "x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_passes_in_the_queue_is_unavailable_and_writes_nothing() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    let first = house.held_note().await;
    let late = house.engine.send(event("a", "note", "late"), Some(Duration::from_millis(50))).await;
    assert_eq!(name(&late), "unavailable");
    house.store.release();
    assert_eq!(name(&first.await.unwrap()), "applied");
    assert_eq!(house.history("a").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_node_is_busy_and_recovers() {
    let small = Options { queue_commands_max: 10, queue_bytes_max: 45_000, ..Options::default() };
    // Ten small commands fill it by number, three large ones by their bytes.
    for (bytes, fit) in [(1, 10), (12_000, 3)] {
        let house = House::with(small.clone()).await;
        house.start("a", json!({})).await;
        house.store.hold();
        let data = json!({"value": "x".repeat(bytes)});
        let mut accepted = Vec::new();
        for n in 0..fit {
            let engine = house.engine.clone();
            let command = with_data(event("a", "note", &format!("p{n}")), data.clone());
            accepted.push(queued(Box::pin(async move { engine.send(command, None).await })));
        }
        let refused = house.engine.send(with_data(event("a", "note", "late"), data), None).await;
        assert_eq!(name(&refused), "busy");
        house.store.release();
        for task in accepted {
            assert_eq!(name(&task.await.unwrap()), "applied");
        }
        assert_eq!(house.engine.waiting(), 0);
        assert_eq!(name(&house.engine.send(event("a", "note", "x"), None).await), "applied");
        assert_eq!(house.history("a").await.len(), fit + 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_can_be_waited_for() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    let engine = house.engine.clone();
    let watching = tokio::spawn(async move { engine.history(&key("a"), 1, 10, Duration::from_secs(20)).await });
    tokio::task::yield_now().await;
    assert_eq!(name(&house.engine.send(event("a", "note", "x"), None).await), "applied");
    let page = tokio::time::timeout(Duration::from_secs(10), watching).await.expect("woken").unwrap().unwrap();
    assert_eq!(page.items.iter().map(|item| item.version).collect::<Vec<_>>(), [2]);
    let empty = house.engine.history(&key("a"), 2, 10, Duration::from_millis(20)).await.unwrap();
    assert!(empty.items.is_empty() && !empty.more);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_finishes_what_was_accepted() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    let accepted = house.held_note().await;
    let engine = house.engine.clone();
    let stopping = tokio::spawn(async move { engine.shutdown().await });
    let refused = async {
        while name(&house.engine.send(event("a", "note", "late"), Some(Duration::from_millis(1))).await)
            != "unavailable"
        {}
    };
    tokio::time::timeout(Duration::from_secs(10), refused).await.expect("still accepting");
    house.store.release();
    assert_eq!(name(&accepted.await.unwrap()), "applied");
    stopping.await.unwrap();
}
