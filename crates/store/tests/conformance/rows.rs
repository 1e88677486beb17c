//! Records that one session holds while it decides.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_store::{LockError, Locked, OnLocked, RecordKey, Store, Verdict};

use crate::bench::{Bench, key, moment, set};

/// Long enough for whatever happens in these cases.
const LONG: OnLocked = OnLocked::Wait(Duration::from_secs(20));

async fn lock(store: &dyn Store, key: &RecordKey, on_locked: OnLocked) -> Result<Locked, LockError> {
    store.lock(key, &[], moment(0), on_locked).await
}

pub(crate) async fn a_locked_record_is_as_it_is(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0).events(["x", "y"]).facets("p", "s").key("k", 1000)).await;
    let keys = ["k".to_owned(), "other".to_owned()];
    let locked = bench.store.lock(&key("a"), &keys, moment(0), LONG).await.expect("locked");
    assert_eq!(locked.record, bench.read(&key("a")).await);
    assert_eq!(locked.keys.iter().map(|key| (key.key.as_str(), key.version)).collect::<Vec<_>>(), [("k", 1)]);
    assert!(!locked.contended);
    let confirmed = bench.store.confirm(&key("a"), &[], moment(0)).await.expect("an answer");
    assert_eq!(locked.life, confirmed.life);
    drop(locked);
    let locked = bench.store.lock(&key("a"), &keys, moment(1000), LONG).await.expect("locked");
    assert_eq!(locked.keys, [], "it has expired");
}

pub(crate) async fn keys_can_be_asked_for_under_the_lock(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0).key("k", 1000)).await;
    let mut locked = lock(&*bench.store, &key("a"), LONG).await.expect("locked");
    let keys = ["k".to_owned(), "other".to_owned()];
    let taken = locked.hold.taken(&keys, moment(0)).await.expect("an answer");
    assert_eq!(taken.iter().map(|key| (key.key.as_str(), key.version)).collect::<Vec<_>>(), [("k", 1)]);
    assert_eq!(locked.hold.taken(&keys, moment(1000)).await.expect("an answer"), [], "it has expired");
    assert_eq!(locked.hold.commit(set(&key("a"), 1).0).await, Ok(Verdict::Committed));
}

pub(crate) async fn another_locker_waits_its_turn(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0)).await;
    let first = lock(&*bench.store, &key("a"), LONG).await.expect("locked");
    let store = Arc::clone(&bench.store);
    let second = tokio::spawn(async move { lock(&*store, &key("a"), LONG).await });
    // It cannot be seen waiting, only not to have got it when the first commits.
    assert_eq!(first.hold.commit(set(&key("a"), 1).0).await, Ok(Verdict::Committed));
    let second = second.await.expect("an end").expect("locked");
    assert_eq!(second.record.as_ref().map(|record| record.version), Some(2), "what the first has left");
    assert_eq!(second.hold.commit(set(&key("a"), 2).0).await, Ok(Verdict::Committed));
    assert_eq!(bench.version(&key("a")).await, 3);
}

pub(crate) async fn whoever_will_not_wait_is_told(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0)).await;
    let held = lock(&*bench.store, &key("a"), LONG).await.expect("locked");
    let refused = lock(&*bench.store, &key("a"), OnLocked::GiveUp).await;
    assert_eq!(refused.err(), Some(LockError::Locked { waited: Duration::ZERO }));
    assert_eq!(held.hold.commit(set(&key("a"), 1).0).await, Ok(Verdict::Committed));
    assert!(lock(&*bench.store, &key("a"), OnLocked::GiveUp).await.is_ok());
}

pub(crate) async fn a_wait_ends_at_its_bound(bench: &Bench) {
    const BOUND: Duration = Duration::from_millis(150);
    bench.must_commit(&set(&key("a"), 0)).await;
    let held = lock(&*bench.store, &key("a"), LONG).await.expect("locked");
    match lock(&*bench.store, &key("a"), OnLocked::Wait(BOUND)).await {
        Err(LockError::Locked { waited }) => assert!(waited >= BOUND, "{waited:?}"),
        other => panic!("{other:?}"),
    }
    drop(held);
    let locked = lock(&*bench.store, &key("a"), LONG).await.expect("locked");
    assert_eq!(locked.hold.commit(set(&key("a"), 1).0).await, Ok(Verdict::Committed));
}

pub(crate) async fn a_dropped_lock_is_given_back(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0)).await;
    // More often than there are connections to lose.
    for _ in 0..40 {
        drop(lock(&*bench.store, &key("a"), LONG).await.expect("locked"));
    }
    let locked = lock(&*bench.store, &key("a"), LONG).await.expect("locked");
    drop(locked.hold.commit(set(&key("a"), 1).0));
    assert!(lock(&*bench.store, &key("a"), LONG).await.is_ok(), "a commit that was not begun holds nothing");
}

pub(crate) async fn a_dropped_wait_leaves_nothing(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0)).await;
    let held = lock(&*bench.store, &key("a"), LONG).await.expect("locked");
    for _ in 0..10 {
        let key = key("a");
        let waiting = lock(&*bench.store, &key, LONG);
        let gave_up = tokio::time::timeout(Duration::from_millis(20), waiting).await;
        assert!(gave_up.is_err(), "it was held");
    }
    drop(held);
    let locked = lock(&*bench.store, &key("a"), LONG).await.expect("locked");
    assert_eq!(locked.hold.commit(set(&key("a"), 1).0).await, Ok(Verdict::Committed));
}

pub(crate) async fn a_commit_under_the_lock_is_conditional(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0).key("k", 1000)).await;
    let locked = lock(&*bench.store, &key("a"), LONG).await.expect("locked");
    let current = locked.record.clone();
    assert_eq!(locked.hold.commit(set(&key("a"), 7).0).await, Ok(Verdict::Lost(current)));
    let locked = lock(&*bench.store, &key("a"), LONG).await.expect("locked");
    let taken = locked.hold.commit(set(&key("a"), 1).key("k", 2000).0).await;
    assert!(matches!(taken, Ok(Verdict::KeysTaken(keys)) if keys[0].key == "k"));
    let locked = lock(&*bench.store, &key("a"), LONG).await.expect("locked");
    let unmet = locked.hold.commit(set(&key("a"), 1).requires(&key("b"), 3).0).await;
    assert!(matches!(unmet, Ok(Verdict::Unmet { actual: 0, .. })));
    assert_eq!(bench.version(&key("a")).await, 1);
}

pub(crate) async fn a_rule_that_is_broken_names_the_event(bench: &Bench) {
    bench.back_door.forbid_event("poison");
    bench.must_commit(&set(&key("a"), 0)).await;
    let locked = lock(&*bench.store, &key("a"), LONG).await.expect("locked");
    let verdict = locked.hold.commit(set(&key("a"), 1).events(["good", "poison"]).0).await;
    assert!(matches!(verdict, Ok(Verdict::Rejected { event: Some(1), .. })), "{verdict:?}");
    assert_eq!(bench.version(&key("a")).await, 1);
    let locked = lock(&*bench.store, &key("a"), LONG).await.expect("locked");
    let empty = locked.hold.commit(set(&key("a"), 1).events(Vec::<String>::new()).0).await;
    assert!(matches!(empty, Ok(Verdict::Rejected { event: None, .. })), "{empty:?}");
    assert!(lock(&*bench.store, &key("a"), LONG).await.is_ok());
}

pub(crate) async fn a_record_that_is_not_there_can_be_made(bench: &Bench) {
    let locked = lock(&*bench.store, &key("a"), LONG).await.expect("an answer");
    assert_eq!((&locked.record, locked.keys.len()), (&None, 0));
    assert_eq!(locked.hold.commit(set(&key("a"), 0).0).await, Ok(Verdict::Committed));
    let locked = lock(&*bench.store, &key("a"), LONG).await.expect("locked");
    assert!(matches!(locked.hold.commit(set(&key("a"), 0).0).await, Ok(Verdict::Lost(Some(_)))));
}

/// P8: who holds some rows keeps nobody from the others.
pub(crate) async fn other_records_go_on(bench: &Bench) {
    const HELD: usize = 4;
    let mut held = Vec::new();
    for n in 0..HELD {
        let key = key(&format!("held{n}"));
        bench.must_commit(&set(&key, 0)).await;
        held.push(lock(&*bench.store, &key, LONG).await.expect("locked"));
    }
    let others: Vec<_> = (0..100)
        .map(|n| {
            let (store, set) = (Arc::clone(&bench.store), set(&key(&format!("k{n}")), 0));
            tokio::spawn(async move { store.commit(set.0).await })
        })
        .collect();
    for other in others {
        assert_eq!(other.await.expect("an end"), Ok(Verdict::Committed));
    }
    for (n, locked) in held.into_iter().enumerate() {
        let next = set(&key(&format!("held{n}")), 1);
        assert_eq!(locked.hold.commit(next.0).await, Ok(Verdict::Committed));
    }
}

pub(crate) async fn many_take_turns(bench: &Bench) {
    const LOCKERS: i64 = 20;
    const TURNS: i64 = 5;
    bench.must_commit(&set(&key("a"), 0)).await;
    let lockers: Vec<_> = (0..LOCKERS)
        .map(|_| {
            let store = Arc::clone(&bench.store);
            tokio::spawn(async move {
                for _ in 0..TURNS {
                    let locked = lock(&*store, &key("a"), LONG).await.expect("locked");
                    let version = locked.record.as_ref().expect("it is there").version;
                    // Nobody else is between the look and the write.
                    assert_eq!(locked.hold.commit(set(&key("a"), version).0).await, Ok(Verdict::Committed));
                }
            })
        })
        .collect();
    for locker in lockers {
        locker.await.expect("an end");
    }
    assert_eq!(bench.version(&key("a")).await, 1 + LOCKERS * TURNS);
}

/// L19: what was decided in an earlier life of the store is not committed, whatever the version says.
pub(crate) async fn a_set_of_another_life_is_lost(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0)).await;
    let current = bench.read(&key("a")).await.expect("a record");
    let mut earlier = set(&key("a"), 1).0;
    earlier.life = Some(current.life - 1);
    assert_eq!(bench.store.commit(earlier.clone()).await, Ok(Verdict::Lost(Some(current.clone()))));
    let locked = lock(&*bench.store, &key("a"), LONG).await.expect("locked");
    assert_eq!(locked.hold.commit(earlier.clone()).await, Ok(Verdict::Lost(Some(current.clone()))));
    let mut now = earlier;
    now.life = Some(current.life);
    assert_eq!(bench.store.commit(now).await, Ok(Verdict::Committed));
}
