//! How commands commit as their definitions say, and what another session that has the row does to them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockkeeper_engine::{Answer, ManualClock, Options, Reason, Rung};
use lockkeeper_model::Refusal;
use lockkeeper_store::{Locked, OnLocked, RecordKey};
use serde_json::json;

use super::support::{Fault, House, event, key, keyed, name, put, queued, with_data};

/// The workflow with another way to commit.
fn workflow(concurrency: &str) -> String {
    let whole = "concurrency: {strategy: optimistic, attempts: 3, backoff: 1ms}";
    super::support::WORKFLOW.replace(whole, &format!("concurrency: {{{concurrency}}}"))
}

async fn house(concurrency: &str) -> House {
    let house = House::new().await;
    put(&house.engine, "case", &workflow(concurrency)).await;
    house.start("a", json!({"on_hand": 100})).await;
    house.store.locks.store(0, Ordering::SeqCst);
    house.store.commits.store(0, Ordering::SeqCst);
    house
}

/// Another session takes the row of `a`.
async fn somebody(house: &House) -> Locked {
    let record = RecordKey::new("case", "a");
    let wait = OnLocked::Wait(Duration::from_secs(5));
    house.sound.lock(&record, &[], house.engine.clock().now(), wait).await.unwrap()
}

/// Another node writes before the next commit of this one.
fn overtake(house: &House) {
    let other = house.other.clone();
    house.store.next(Fault::Before(Box::new(move || {
        Box::pin(async move { assert_eq!(name(&other.send(event("a", "note", "other"), None).await), "applied") })
    })));
}

async fn note(house: &House, who: &str) -> Answer {
    house.engine.send(event("a", "note", who), None).await
}

fn locks(house: &House) -> usize {
    house.store.locks.load(Ordering::SeqCst)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pessimistic_command_locks_the_row_and_decides_on_it() {
    let house = house("strategy: pessimistic").await;
    // What this node remembers is stale: nothing is lost by it.
    house.other.send(event("a", "note", "other"), None).await.result.unwrap();
    let answer = note(&house, "bob").await;
    assert_eq!(answer.result.unwrap().version, 3);
    assert_eq!((locks(&house), house.store.commits.load(Ordering::SeqCst)), (1, 1));
    let refused = house.engine.send(event("a", "approve", "bob"), None).await;
    assert_eq!(name(&refused), "state_mismatch");
    assert_eq!(house.store.commits.load(Ordering::SeqCst), 1, "a refusal writes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_gets_the_row_when_it_is_given_back() {
    let house = house("strategy: pessimistic, lock_timeout: 20s").await;
    let held = somebody(&house).await;
    let engine = house.engine.clone();
    let waiting = queued(Box::pin(async move { engine.send(event("a", "note", "bob"), None).await }));
    drop(held);
    assert_eq!(name(&waiting.await.unwrap()), "applied");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_too_long_is_told_how_long() {
    let house = house("strategy: pessimistic, lock_timeout: 120ms").await;
    let held = somebody(&house).await;
    match note(&house, "bob").await.result {
        Err(Refusal::LockTimeout { waited_ms }) => assert!((115..5_000).contains(&waited_ms), "{waited_ms}"),
        other => panic!("{other:?}"),
    }
    drop(held);
    assert_eq!(name(&note(&house, "bob").await), "applied");
    assert_eq!(house.history("a").await.len(), 2, "what was refused left nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_wait_is_told_at_once() {
    for (on_locked, told) in [("nowait", "lock_timeout"), ("skip_locked", "busy")] {
        let house = house(&format!("strategy: pessimistic, on_locked: {on_locked}")).await;
        let held = somebody(&house).await;
        let answer = note(&house, "bob").await;
        assert_eq!(name(&answer), told);
        if let Err(Refusal::LockTimeout { waited_ms }) = answer.result {
            assert_eq!(waited_ms, 0);
        }
        held.hold.release(false).await.unwrap();
        assert_eq!(name(&note(&house, "bob").await), "applied", "{on_locked}");
    }
}

/// Nothing can be locked there, and nothing loops.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_is_not_there_is_told_so_under_the_lock_too() {
    let house = house("strategy: pessimistic").await;
    let answer = house.engine.send(event("typo", "note", "bob"), Some(Duration::from_secs(10))).await;
    assert!(matches!(&answer.result, Err(Refusal::UnknownInstance { known, .. }) if known == &["a"]), "{answer:?}");
    assert!(locks(&house) <= 2, "{} locks for one answer", locks(&house));
}

/// A command that is refused gives the row back before its answer: the next one finds it free.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_leaves_the_row_free() {
    let house = house("strategy: pessimistic, on_locked: nowait").await;
    for _ in 0..50 {
        assert_eq!(name(&house.engine.send(event("a", "approve", "bob"), None).await), "state_mismatch");
        assert_eq!(name(&note(&house, "bob").await), "applied");
    }
}

/// Who leaves while the lock is waited for does not take it from those who stay.
#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_takes_nothing_from_those_who_stay() {
    let house = house("strategy: pessimistic, lock_timeout: 20s").await;
    let held = somebody(&house).await;
    let mut sent = Vec::new();
    for n in 0..10 {
        let engine = house.engine.clone();
        sent.push(queued(Box::pin(async move { engine.send(event("a", "note", &format!("p{n}")), None).await })));
    }
    for leaving in sent.iter().step_by(2) {
        leaving.abort();
    }
    drop(held);
    for (n, task) in sent.into_iter().enumerate() {
        match task.await {
            Ok(answer) => assert_eq!((name(&answer), n % 2), ("applied", 1)),
            Err(left) => assert!(left.is_cancelled() && n % 2 == 0),
        }
    }
    assert_eq!(house.history("a").await.len(), 6);
}

/// What took effect earlier is told so, from the lock or from beside it.
#[tokio::test(flavor = "multi_thread")]
async fn replays_are_found_under_the_lock() {
    let house = house("strategy: pessimistic").await;
    let take = || keyed(with_data(event("a", "take", "bob"), json!({"quantity": 60})), "k");
    assert!(!house.engine.send(take(), None).await.replayed);
    // Its guard would say no now; then yes again, and it must not be taken twice.
    for _ in 0..2 {
        let again = house.engine.send(take(), None).await;
        assert_eq!((name(&again), again.replayed), ("applied", true));
        house.store.next(Fault::AnswerLost);
        assert_eq!(name(&note(&house, "ann").await), "applied");
    }
    let small = || keyed(with_data(event("a", "take", "bob"), json!({"quantity": 1})), "k1");
    assert!(!house.engine.send(small(), None).await.replayed);
    assert!(house.engine.send(small(), None).await.replayed);
    assert_eq!(house.engine.instance(&key("a"), false).await.unwrap().data["on_hand"], 39);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transition_may_commit_otherwise_than_its_workflow() {
    let house = House::new().await;
    let text = super::support::WORKFLOW
        .replace("finish: done", "finish: {target: done, concurrency: {strategy: pessimistic}}");
    put(&house.engine, "case", &text).await;
    house.start("a", json!({})).await;
    assert_eq!(name(&note(&house, "bob").await), "applied");
    assert_eq!(locks(&house), 0);
    assert_eq!(name(&house.engine.send(event("a", "finish", "bob"), None).await), "applied");
    assert_eq!(locks(&house), 1);
    let explained = house.engine.explain(&key("a")).await.unwrap();
    assert_eq!((explained.concurrency.strategy, explained.events.len()), ("optimistic", 0), "nothing is open any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_attempt_of_an_adaptive_command_is_under_the_lock() {
    let house = house("strategy: adaptive, attempts: 3, backoff: 1ms").await;
    overtake(&house);
    overtake(&house);
    assert_eq!(note(&house, "bob").await.result.unwrap().version, 4);
    assert_eq!((locks(&house), house.store.commits.load(Ordering::SeqCst)), (1, 3));
}

/// M9, and what adaptive promises.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_adaptive_writers_on_two_nodes_all_get_through() {
    let house = house("strategy: adaptive").await;
    let writers: Vec<_> = (0..200)
        .map(|n| {
            let engine = if n % 2 == 0 { house.engine.clone() } else { house.other.clone() };
            tokio::spawn(async move { engine.send(event("a", "note", &format!("p{n}")), None).await })
        })
        .collect();
    for writer in writers {
        assert_eq!(name(&writer.await.unwrap()), "applied");
    }
    let instance = house.engine.instance(&key("a"), false).await.unwrap();
    assert_eq!((instance.version, &instance.data["notes"]), (201, &json!(200)));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_while_the_lock_is_waited_for_shares_the_commit() {
    let house = house("strategy: pessimistic, lock_timeout: 20s").await;
    let held = somebody(&house).await;
    let take = |n: usize| keyed(with_data(event("a", "take", "bob"), json!({"quantity": 60})), &format!("k{n}"));
    let mut sent = Vec::new();
    // Of one quantity on hand the first may take, the second may not; the third is the first again.
    for command in [take(1), take(2), take(1)].into_iter().chain((0..20).map(|n| event("a", "note", &format!("p{n}"))))
    {
        let engine = house.engine.clone();
        sent.push(queued(Box::pin(async move { engine.send(command, None).await })));
        // The first takes the lock's place in the queue by itself.
        while locks(&house) == 0 {
            tokio::task::yield_now().await;
        }
    }
    drop(held);
    let mut answers = Vec::new();
    for task in sent {
        answers.push(task.await.unwrap());
    }
    assert_eq!(answers[..3].iter().map(name).collect::<Vec<_>>(), ["applied", "guard_rejected", "applied"]);
    assert!(answers[2].replayed);
    assert!(answers[3..].iter().all(|answer| name(answer) == "applied"));
    assert_eq!(house.store.commits.load(Ordering::SeqCst), 1, "one commit for all that had come");
    // All of it again, found under the lock.
    let again = house.engine.send(take(1), None).await;
    assert!(again.replayed && name(&again) == "applied");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contended_instance_goes_up_and_comes_down_and_tells_why() {
    let clock = Arc::new(ManualClock::new(chrono::Utc::now()));
    let house = House::with(Options { clock: clock.clone(), ..Options::default() }).await;
    put(&house.engine, "case", &workflow("strategy: adaptive, attempts: 5, backoff: 1ms")).await;
    house.start("a", json!({})).await;
    let explained = house.engine.explain(&key("a")).await.unwrap();
    assert_eq!((explained.contention.rung, explained.contention.since), (Rung::Optimistic, None));
    let mut tries = 0;
    while house.engine.explain(&key("a")).await.unwrap().contention.rung == Rung::Optimistic {
        overtake(&house);
        assert_eq!(name(&note(&house, "bob").await), "applied");
        clock.advance(Duration::from_millis(100));
        tries += 1;
        assert!(tries < 100, "half of all tries are contended, and it stays optimistic");
    }
    let up = house.engine.explain(&key("a")).await.unwrap().contention;
    assert_eq!((up.switches.len(), up.reason), (1, Some(Reason::Score)));
    assert!(up.switches[0].contended > 1.0 && up.switches[0].score > 0.05, "{up:?}");
    house.store.locks.store(0, Ordering::SeqCst);
    assert_eq!(name(&note(&house, "bob").await), "applied");
    assert_eq!(locks(&house), 1, "now under the lock");
    let mut seconds = 0;
    while house.engine.explain(&key("a")).await.unwrap().contention.rung == Rung::RowLock {
        for _ in 0..20 {
            assert_eq!(name(&note(&house, "bob").await), "applied");
            clock.advance(Duration::from_millis(50));
        }
        seconds += 1;
        assert!(seconds < 120, "nobody contends, and it stays on the lock");
    }
    assert!(seconds >= 29, "not before its dwell: {seconds} s");
    let down = house.engine.explain(&key("a")).await.unwrap().contention;
    assert_eq!((down.switches.len(), down.reason), (2, Some(Reason::Quiet)));
    house.store.locks.store(0, Ordering::SeqCst);
    assert_eq!(name(&note(&house, "bob").await), "applied");
    assert_eq!(locks(&house), 0, "optimistic again");
}

/// L19: what was remembered of an earlier life of the store decides nothing, though the version is the same.
#[tokio::test(flavor = "multi_thread")]
async fn another_life_of_the_store_is_noticed_before_anything_is_written() {
    for concurrency in ["strategy: optimistic", "strategy: pessimistic", "strategy: adaptive"] {
        let house = house(concurrency).await;
        house.start("b", json!({})).await;
        assert_eq!(name(&note(&house, "bob").await), "applied");
        house.store.life.fetch_add(1, Ordering::SeqCst);
        assert_eq!(name(&note(&house, "bob").await), "applied", "{concurrency}");
        let moves = vec![event("a", "note", "x"), event("b", "note", "x")];
        house.store.life.fetch_add(1, Ordering::SeqCst);
        assert_eq!(house.engine.send_atomic(moves, None).await.unwrap().successes.len(), 2, "{concurrency}");
        house.store.life.fetch_add(1, Ordering::SeqCst);
        assert_eq!(name(&house.engine.send(event("a", "approve", "x"), None).await), "state_mismatch");
        house.store.life.fetch_add(1, Ordering::SeqCst);
        house.start("c", json!({})).await;
        assert_eq!(house.history("a").await.len(), 4, "{concurrency}");
    }
}
