//! Fences: whoever has lost a lock writes nothing more under it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper_store::lease::{Ask, Asked, Claim, LeaseAnswer, LeaseId, LeaseRequest, Mode};
use lockkeeper_store::limits::{FENCE_MAX, FENCE_TOUCHED_WITHIN, FENCES_KEPT, FENCES_PER_SET_MAX, TEXT_BYTES_MAX};
use lockkeeper_store::{AllVerdict, OnLocked, Store, Verdict};
use tokio::sync::Barrier;

use crate::bench::{Bench, Set, key, moment, send, set};

fn fenced(resource: &str, fence: i64, last: i64) -> Verdict {
    Verdict::Fenced { resource: resource.into(), fence, last }
}

pub(crate) async fn a_late_write_is_refused(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0).fence("lock", 6)).await;
    let before = (bench.read(&key("a")).await, bench.all_events(&key("a")).await);
    let late = set(&key("a"), 1).events(["x", "y"]).facets("p", "s").key("k", 1000).fence("lock", 5);
    assert_eq!(bench.commit(&late).await, fenced("lock", 5, 6));
    assert_eq!((bench.read(&key("a")).await, bench.all_events(&key("a")).await), before);
    let confirmed = bench.store.confirm(&key("a"), &["k".to_owned()], moment(0)).await.expect("an answer");
    assert_eq!(confirmed.keys, [], "nothing is left of it");
    // Of other records too, also of one that is not there yet.
    assert_eq!(bench.commit(&set(&key("b"), 0).fence("lock", 1)).await, fenced("lock", 1, 6));
    assert_eq!(bench.read(&key("b")).await, None);
    bench.must_commit(&set(&key("b"), 0).fence("lock", 6)).await;
}

pub(crate) async fn an_equal_fence_passes_and_a_later_one_raises(bench: &Bench) {
    for version in 0..5 {
        bench.must_commit(&set(&key("a"), version).fence("lock", 7)).await;
    }
    bench.must_commit(&set(&key("a"), 5).fence("lock", FENCE_MAX)).await;
    assert_eq!(bench.commit(&set(&key("a"), 6).fence("lock", 7)).await, fenced("lock", 7, FENCE_MAX));
    bench.must_commit(&set(&key("a"), 6).fence("lock", FENCE_MAX)).await;
}

/// A record is not tied to the lock under which it was written before.
pub(crate) async fn resources_know_nothing_of_each_other(bench: &Bench) {
    let names = ["lock", "Lock", "lock ", "löck", "lock/%_"];
    for (version, name) in (0..).zip(names) {
        bench.must_commit(&set(&key("a"), version).fence(name, 100 - version)).await;
    }
    for (version, name) in (5..).zip(names) {
        bench.must_commit(&set(&key("a"), version).fence(name, 105 - version)).await;
    }
    bench.must_commit(&set(&key("a"), 10)).await;
    bench.must_commit(&set(&key("a"), 11).fence("lock", 100)).await;
}

pub(crate) async fn every_fence_of_a_set_counts(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0).fence("one", 3).fence("two", 3).fence("three", 3)).await;
    let late = set(&key("a"), 1).fence("new", 1).fence("three", 9).fence("two", 2).fence("one", 9);
    assert_eq!(bench.commit(&late).await, fenced("two", 2, 3));
    // What was good in it was not kept: it had no effect.
    bench.must_commit(&set(&key("a"), 1).fence("one", 4).fence("three", 4)).await;
}

/// What has taken effect is told as such; and a fence is looked at only where everything else is right.
pub(crate) async fn keys_version_requirements_then_fences(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0).key("k", 1000).fence("lock", 5)).await;
    bench.must_commit(&set(&key("b"), 0).fence("lock", 6)).await;
    let wrong_in_all = set(&key("a"), 9).key("k", 1000).requires(&key("none"), 1).fence("lock", 5);
    assert!(matches!(bench.commit(&wrong_in_all).await, Verdict::KeysTaken(_)));
    let replay = set(&key("a"), 1).key("k", 1000).fence("lock", 5);
    assert!(matches!(bench.commit(&replay).await, Verdict::KeysTaken(_)));
    let lost = set(&key("a"), 9).requires(&key("none"), 1).fence("lock", 5);
    assert!(matches!(bench.commit(&lost).await, Verdict::Lost(Some(_))));
    let unmet = set(&key("a"), 1).requires(&key("none"), 1).fence("lock", 5);
    assert!(matches!(bench.commit(&unmet).await, Verdict::Unmet { actual: 0, .. }));
    assert_eq!(bench.commit(&set(&key("a"), 1).fence("lock", 5)).await, fenced("lock", 5, 6));
    // A refused set has not raised anything either.
    assert!(matches!(bench.commit(&set(&key("a"), 9).fence("lock", 9)).await, Verdict::Lost(_)));
    bench.must_commit(&set(&key("a"), 1).fence("lock", 6)).await;
}

pub(crate) async fn a_rule_that_is_broken_raises_nothing(bench: &Bench) {
    bench.back_door.forbid_event("poison");
    let broken = set(&key("a"), 0).events(["good", "poison"]).fence("lock", 9);
    assert!(matches!(bench.commit(&broken).await, Verdict::Rejected { event: Some(1), .. }));
    bench.must_commit(&set(&key("a"), 0).fence("lock", 1)).await;
}

pub(crate) async fn all_or_none_have_their_fences(bench: &Bench) {
    bench.must_commit(&set(&key("x"), 0).fence("two", 5)).await;
    let late = [set(&key("a"), 0).fence("one", 9), set(&key("b"), 0).fence("two", 4), set(&key("c"), 0)];
    assert_eq!(bench.commit_all(&late).await, AllVerdict::Failed { index: 1, verdict: fenced("two", 4, 5) });
    for id in ["a", "b", "c"] {
        assert_eq!(bench.read(&key(id)).await, None, "{id}");
    }
    // Several may be of one lock; nothing of the first try was kept.
    let good =
        [set(&key("a"), 0).fence("one", 1).fence("two", 5), set(&key("b"), 0).fence("two", 5), set(&key("c"), 0)];
    assert_eq!(bench.commit_all(&good).await, AllVerdict::Committed);
    assert_eq!(bench.commit(&set(&key("c"), 1).fence("one", 1)).await, Verdict::Committed);
    let replay = [set(&key("d"), 0), set(&key("b"), 1).fence("two", 6)];
    assert_eq!(bench.commit_all(&replay).await, AllVerdict::Committed);
    assert_eq!(bench.commit(&set(&key("d"), 1).fence("two", 5)).await, fenced("two", 5, 6));
    let lost_too = [set(&key("a"), 1).fence("two", 5), set(&key("b"), 9)];
    match bench.commit_all(&lost_too).await {
        AllVerdict::Failed { verdict: Verdict::Lost(_) | Verdict::Fenced { .. }, .. } => {}
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn a_commit_under_a_row_lock_has_its_fences(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0).fence("lock", 5)).await;
    let record = key("a");
    let lock = || bench.store.lock(&record, &[], moment(0), OnLocked::Wait(Duration::from_secs(20)));
    let locked = lock().await.expect("locked");
    assert_eq!(locked.hold.commit(set(&key("a"), 1).fence("lock", 4).0).await, Ok(fenced("lock", 4, 5)));
    let locked = lock().await.expect("it was given back");
    assert_eq!(locked.record.as_ref().map(|record| record.version), Some(1));
    assert_eq!(locked.hold.commit(set(&key("a"), 1).fence("lock", 6).0).await, Ok(Verdict::Committed));
    assert_eq!(bench.commit(&set(&key("a"), 2).fence("lock", 5)).await, fenced("lock", 5, 6));
}

pub(crate) async fn sets_of_one_transaction_are_fenced_by_one_another(bench: &Bench) {
    let held = bench.back_door.hold_writes();
    let opener = send(bench, &set(&key("opener"), 0));
    let sent: Vec<_> = [5, 6, 5, 6].map(|fence| send(bench, &set(&key("a"), 0).fence("lock", fence))).into();
    let follow = send(bench, &set(&key("a"), 1).fence("lock", 4));
    let plain = send(bench, &set(&key("a"), 1));
    drop(held);
    assert_eq!(opener.await, Ok(Verdict::Committed));
    let mut verdicts = Vec::new();
    for one in sent {
        verdicts.push(one.await.expect("a verdict"));
    }
    assert_eq!(verdicts[0], Verdict::Committed, "of one record the first comes first");
    assert!(verdicts[1..].iter().all(|verdict| matches!(verdict, Verdict::Lost(Some(_)))), "{verdicts:?}");
    assert_eq!(follow.await, Ok(fenced("lock", 4, 5)));
    assert_eq!(plain.await, Ok(Verdict::Committed));
}

/// A holder may write with many hands.
pub(crate) async fn writers_under_one_fence_all_pass(bench: &Bench) {
    let writers: Vec<_> = (0..3)
        .map(|n| {
            let (store, key) = (Arc::clone(&bench.store), key(&format!("k{n}")));
            tokio::spawn(async move {
                for version in 0..30 {
                    let next = set(&key, version).fence("lock", 7).fence("other", 9);
                    assert_eq!(store.commit(next.0).await, Ok(Verdict::Committed));
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("an end");
    }
}

/// The next holder's first write is the end of the one before, on whatever record.
pub(crate) async fn after_a_later_fence_no_earlier_one_commits(bench: &Bench) {
    const ROUNDS: i64 = 40;
    let (mut before, mut late) = (0, 0);
    for round in 0..ROUNDS {
        let resource = format!("lock {round}");
        let (over, start) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(2)));
        let earlier = tokio::spawn({
            let (store, resource) = (Arc::clone(&bench.store), resource.clone());
            let (over, start) = (Arc::clone(&over), Arc::clone(&start));
            async move {
                start.wait().await;
                let (mut version, mut passed) = (0, 0);
                loop {
                    // What is sent after the later one was acknowledged must be refused.
                    let is_over = over.load(Ordering::SeqCst);
                    let next = set(&key(&format!("earlier {round}")), version).fence(&resource, 5);
                    match commit(&*store, next, version % 2 == 1).await {
                        Verdict::Committed if !is_over => (version, passed) = (version + 1, passed + 1),
                        Verdict::Fenced { last: 6, .. } => return passed,
                        other => panic!("{other:?} (over: {is_over})"),
                    }
                }
            }
        });
        start.wait().await;
        // The second half lets the earlier one come first.
        let later = set(&key(&format!("later {round}")), 0).fence(&resource, 6);
        if round >= ROUNDS / 2 {
            while bench.version(&key(&format!("earlier {round}"))).await < 3 {}
        }
        assert_eq!(commit(&*bench.store, later, round % 2 == 1).await, Verdict::Committed);
        over.store(true, Ordering::SeqCst);
        match earlier.await.expect("an end") {
            0 => late += 1,
            _ => before += 1,
        }
    }
    assert!(before >= ROUNDS / 2 && before + late == ROUNDS);
}

async fn commit(store: &dyn Store, set: Set, all: bool) -> Verdict {
    if !all {
        return store.commit(set.0).await.expect("a verdict");
    }
    match store.commit_all(vec![set.0]).await.expect("a verdict") {
        AllVerdict::Committed => Verdict::Committed,
        AllVerdict::Failed { verdict, .. } => verdict,
    }
}

/// Sets that share several locks, named in opposite orders: nobody waits in a circle.
pub(crate) async fn opposite_orders_end(bench: &Bench) {
    let orders = [["x", "y", "z"], ["z", "x", "y"], ["y", "z", "x"]];
    let tasks: Vec<_> = orders
        .into_iter()
        .enumerate()
        .map(|(who, order)| {
            let store = Arc::clone(&bench.store);
            tokio::spawn(async move {
                let mut committed = 0;
                for fence in 1..=40 {
                    let mut next = set(&key(&format!("k{who}")), committed);
                    for resource in order {
                        next = next.fence(resource, fence);
                    }
                    match commit(&*store, next, fence % 2 == 0).await {
                        Verdict::Committed => committed += 1,
                        Verdict::Fenced { .. } => {}
                        other => panic!("{other:?}"),
                    }
                }
                committed
            })
        })
        .collect();
    let mut all = 0;
    for task in tasks {
        all += task.await.expect("an end");
    }
    assert!(all >= 40, "each fence passed for somebody: {all}");
}

pub(crate) async fn what_is_no_fence_is_refused(bench: &Bench) {
    let long = "x".repeat(TEXT_BYTES_MAX);
    let refused = async |set: Set| match bench.commit(&set).await {
        Verdict::Rejected { event: None, reason } => assert!(!reason.is_empty()),
        other => panic!("{other:?}"),
    };
    for fence in [0, -1, i64::MIN, FENCE_MAX + 1, i64::MAX] {
        refused(set(&key("a"), 0).fence("lock", fence)).await;
    }
    refused(set(&key("a"), 0).fence("", 1)).await;
    refused(set(&key("a"), 0).fence(&format!("{long}x"), 1)).await;
    refused(set(&key("a"), 0).fence("a\0b", 1)).await;
    refused(set(&key("a"), 0).fence("lock", 1).fence("lock", 1)).await;
    let many = |count: usize| (0..count).fold(set(&key("a"), 0), |set, n| set.fence(&format!("lock {n}"), 1));
    refused(many(FENCES_PER_SET_MAX + 1)).await;
    // Which of two is later is known: they cannot both be right.
    match bench.commit_all(&[set(&key("a"), 0).fence("lock", 5), set(&key("b"), 0).fence("lock", 6)]).await {
        AllVerdict::Failed { index: 1, verdict: Verdict::Rejected { .. } } => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.read(&key("a")).await, None);
    bench.must_commit(&many(FENCES_PER_SET_MAX)).await;
    bench.must_commit(&set(&key("a"), 1).fence(&long, FENCE_MAX)).await;
}

pub(crate) async fn purge_forgets_what_is_not_used(bench: &Bench) {
    let (day, kept) = (FENCE_TOUCHED_WITHIN.as_millis() as i64, FENCES_KEPT.as_millis() as i64);
    for (version, name) in (0..).zip(["old 1", "old 2", "old 3", "used", "raised"]) {
        bench.must_commit(&set(&key("a"), version).fence(name, 5)).await;
    }
    bench.must_commit(&set(&key("a"), 5).fence("used", 5).at(2 * day)).await;
    bench.must_commit(&set(&key("a"), 6).fence("raised", 6).at(2 * day)).await;
    let purge = async |ms, limit| bench.store.purge_fences(moment(ms), limit).await;
    assert_eq!(purge(0, 100).await, Ok(0), "before means before");
    assert_eq!(purge(day, 2).await, Ok(2), "a limit is kept");
    assert_eq!(purge(day, 0).await, Ok(0));
    assert_eq!(purge(day, 100).await, Ok(1));
    assert_eq!(bench.commit(&set(&key("a"), 7).fence("used", 4)).await, fenced("used", 4, 5));
    assert_eq!(bench.commit(&set(&key("a"), 7).fence("raised", 5)).await, fenced("raised", 5, 6));
    // Forgotten: any fence passes.
    bench.must_commit(&set(&key("a"), 7).fence("old 1", 1).at(kept)).await;
    assert_eq!(purge(kept, 100).await, Ok(2));
}

/// A lock of the store's own: whoever lost it is refused from the next grant on, though nobody has written since.
pub(crate) async fn a_grant_fences_off_the_holder_before(bench: &Bench) {
    let get = async |name: &str| {
        let claim = Claim { resource: name.into(), mode: Mode::Exclusive };
        let ask = Ask::new(LeaseId::random(), "owner", "host", [claim], Duration::from_secs(600)).expect("a good ask");
        let lease = ask.lease();
        match bench.store.lease(LeaseRequest::Ask { ask, keep: None }).await.expect("an answer") {
            LeaseAnswer::Asked(Asked::Granted { fences }) => (lease, fences[0]),
            other => panic!("{other:?}"),
        }
    };
    let (lease, first) = get("lock").await;
    bench.must_commit(&set(&key("a"), 0).fence("lock", first)).await;
    bench.store.lease(LeaseRequest::End { lease, bar: false }).await.expect("an answer");
    // It is not the end that fences off: until somebody else has it, what is late does no harm.
    bench.must_commit(&set(&key("a"), 1).fence("lock", first)).await;
    let (_, second) = get("lock").await;
    assert!(second > first);
    assert_eq!(bench.commit(&set(&key("a"), 2).fence("lock", first)).await, fenced("lock", first, second));
    bench.must_commit(&set(&key("a"), 2).fence("lock", second)).await;
    // And what was written under a fence from elsewhere is below the next grant.
    bench.must_commit(&set(&key("a"), 3).fence("lock", second + 5)).await;
    bench.store.lease(LeaseRequest::Force { resource: "lock".into() }).await.expect("an answer");
    assert_eq!(get("lock").await.1, second + 6);
}

/// Of what is held nothing is forgotten, however long ago it was granted.
pub(crate) async fn purge_forgets_leases_that_have_ended(bench: &Bench) {
    let purge = async || {
        let now = chrono::Utc::now();
        let leases = bench.store.purge_leases(now, 100).await.expect("an answer");
        leases + bench.store.purge_fences(now, 100).await.expect("an answer")
    };
    let get = async |name: &str, ttl| {
        let claim = Claim { resource: name.into(), mode: Mode::Exclusive };
        let ask = Ask::new(LeaseId::random(), "owner", "host", [claim], ttl).expect("a good ask");
        let answer = bench.store.lease(LeaseRequest::Ask { ask, keep: None }).await.expect("an answer");
        let LeaseAnswer::Asked(Asked::Granted { fences }) = answer else { panic!("{answer:?}") };
        fences[0]
    };
    get("held", Duration::from_secs(600)).await;
    let first = get("over", Duration::from_millis(1)).await;
    let end = LeaseRequest::End { lease: LeaseId::random(), bar: true };
    bench.store.lease(end).await.expect("an answer");
    let mut purged = 0;
    // The holder's row and its name's fence, once it has expired.
    while purged < 2 {
        purged += purge().await;
    }
    assert_eq!((purged, purge().await), (2, 0));
    assert_eq!(bench.commit(&set(&key("a"), 0).fence("over", 1)).await, Verdict::Committed);
    assert!(bench.store.fence_floor(0).await.expect("an answer") > first, "what is forgotten is not given out again");
    assert!(matches!(bench.commit(&set(&key("b"), 0).fence("held", 1)).await, Verdict::Fenced { .. }));
}

pub(crate) async fn the_floor_never_falls(bench: &Bench) {
    let floor = async |at_least| bench.store.fence_floor(at_least).await.expect("an answer");
    let first = floor(0).await;
    assert!(first >= 0);
    assert_eq!(floor(i64::MIN).await, first);
    // Above whatever a store begins with.
    let high = first.max(1 << 52);
    assert_eq!(floor(high + 7).await, high + 7);
    assert_eq!(floor(high).await, high + 7);
    assert_eq!(floor(0).await, high + 7);
    let raised = futures_util::future::join_all((0..20).map(|n| floor(high + 10 + n))).await;
    for (n, floor) in (0..).zip(raised) {
        assert!(floor >= high + 10 + n && floor <= high + 29, "{floor}");
    }
    assert_eq!(floor(0).await, high + 29);
    assert_eq!(floor(i64::MAX).await, FENCE_MAX, "what is outside is brought to the bound");
}
