//! The third rung of contention on real stores.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockkeeper_engine::{ManualClock, Options, Reason, Rung};
use lockkeeper_store::{OnLocked, RecordKey};
use serde_json::json;

use super::support::{House, WORKFLOW, event, key, name, put, queued};

async fn rung(house: &House) -> Rung {
    house.engine.explain(&key("a")).await.unwrap().contention.rung
}

/// A note that has to wait for the row, and a tenth of a second.
async fn contended_note(house: &House, clock: &ManualClock) {
    let wait = OnLocked::Wait(Duration::from_secs(5));
    let held = house.sound.lock(&RecordKey::new("case", "a"), &[], house.engine.clock().now(), wait).await.unwrap();
    let engine = house.engine.clone();
    let before = house.store.locks.load(Ordering::SeqCst);
    let waiting = queued(Box::pin(async move { engine.send(event("a", "note", "bob"), None).await }));
    while house.store.locks.load(Ordering::SeqCst) == before {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(30)).await;
    drop(held);
    assert_eq!(name(&waiting.await.unwrap()), "applied");
    clock.advance(Duration::from_millis(100));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_always_waited_for_is_leased_until_the_lock_service_is_gone() {
    let clock = Arc::new(ManualClock::new(chrono::Utc::now()));
    let house = House::leased(Options { clock: clock.clone(), ..Options::default() }).await;
    let whole = "concurrency: {strategy: optimistic, attempts: 3, backoff: 1ms}";
    // One attempt: always under the row lock, until it is leased.
    let leased = "concurrency: {strategy: adaptive, attempts: 2, backoff: 1ms, lock_key: '\"lock/\" + instance.id'}";
    put(&house.engine, "case", &WORKFLOW.replace(whole, leased)).await;
    house.start("a", json!({})).await;
    assert!(house.store.fences.lock().unwrap().is_empty(), "no lease before it is worth it");
    // Another node's writes bring it to the row lock.
    let mut tries = 0;
    while rung(&house).await == Rung::Optimistic {
        let other = house.other.clone();
        house.store.next(super::support::Fault::Before(Box::new(move || {
            Box::pin(async move { assert_eq!(name(&other.send(event("a", "note", "other"), None).await), "applied") })
        })));
        assert_eq!(name(&house.engine.send(event("a", "note", "bob"), None).await), "applied");
        clock.advance(Duration::from_millis(100));
        tries += 1;
        assert!(tries < 200, "it stays optimistic");
    }
    for _ in 0..60 {
        if rung(&house).await == Rung::Lease {
            break;
        }
        contended_note(&house, &clock).await;
    }
    let told = house.engine.explain(&key("a")).await.unwrap().contention;
    assert_eq!((told.rung, told.reason, told.switches.len()), (Rung::Lease, Some(Reason::Score), 2), "{told:?}");
    house.store.locks.store(0, Ordering::SeqCst);
    assert_eq!(name(&house.engine.send(event("a", "note", "bob"), None).await), "applied");
    assert_eq!(house.store.locks.load(Ordering::SeqCst), 0, "no row is locked");
    assert_eq!(house.store.fences.lock().unwrap().len(), 1, "it is written under a lease");

    house.locks.gone.store(true, Ordering::SeqCst);
    // The lease that it may still have is used up.
    while rung(&house).await == Rung::Lease {
        assert_eq!(name(&house.engine.send(event("a", "note", "bob"), None).await), "applied");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let told = house.engine.explain(&key("a")).await.unwrap().contention;
    assert_eq!((told.rung, told.reason), (Rung::RowLock, Some(Reason::LocksGone)));
    assert_eq!(name(&house.engine.send(event("a", "note", "bob"), None).await), "applied");
    assert!(house.store.locks.load(Ordering::SeqCst) > 0, "under the row lock");
}
