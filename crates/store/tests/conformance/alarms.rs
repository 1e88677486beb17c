//! Alarms: who is told of them, when, and how often. The time is that of the store's own clock, which is the machine's here.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::{SubsecRound, TimeDelta, Utc};
use lockkeeper_store::limits::DUE_MAX;
use lockkeeper_store::{Alarm, Due, OnLocked, RecordKey, Timestamp, Verdict};

use crate::bench::{Bench, Set, key, set};

/// Far from now, on either side: the machines' clocks differ by less.
fn hours(from_now: i64) -> Timestamp {
    (Utc::now() + TimeDelta::hours(from_now)).trunc_subsecs(3)
}

fn with(key: &RecordKey, expected: i64, alarm: Alarm) -> Set {
    let mut set = set(key, expected);
    set.0.alarm = alarm;
    set
}

async fn due(bench: &Bench, limit: usize) -> Due {
    bench.store.due(limit).await.expect("an answer")
}

async fn told(bench: &Bench) -> Vec<String> {
    due(bench, 100).await.records.into_iter().map(|(key, _)| key.id.to_string()).collect()
}

pub(crate) async fn what_is_due_is_told_once_oldest_first(bench: &Bench) {
    let times = [("b", hours(-2)), ("a", hours(-1)), ("c", hours(-3)), ("later", hours(5)), ("soon", hours(4))];
    for (id, at) in times {
        bench.must_commit(&with(&key(id), 0, Alarm::At(at))).await;
    }
    bench.must_commit(&set(&key("none"), 0)).await;
    let told = due(bench, 100).await;
    let expected: Vec<_> = [times[2], times[0], times[1]].map(|(id, at)| (key(id), at)).into();
    assert_eq!(told.records, expected);
    assert_eq!(told.next, Some(times[4].1));
    assert!((told.now - Utc::now()).abs() < TimeDelta::hours(1), "{:?}", told.now);
    let again = due(bench, 100).await;
    assert_eq!((again.records, again.next), (Vec::new(), Some(times[4].1)), "they are claimed");
}

pub(crate) async fn a_page_is_as_long_as_it_was_asked_for(bench: &Bench) {
    for n in 0..5 {
        bench.must_commit(&with(&key(&n.to_string()), 0, Alarm::At(hours(n - 10)))).await;
    }
    let ids = |due: Due| due.records.into_iter().map(|(key, _)| key.id.to_string()).collect::<Vec<_>>();
    assert_eq!(ids(due(bench, 2).await), ["0", "1"]);
    assert_eq!(ids(due(bench, 0).await), Vec::<String>::new());
    assert_eq!(ids(due(bench, 2).await), ["2", "3"]);
    assert_eq!(ids(due(bench, DUE_MAX + 1).await), ["4"]);
}

pub(crate) async fn a_change_keeps_moves_or_ends_it(bench: &Bench) {
    let key = key("a");
    bench.must_commit(&with(&key, 0, Alarm::At(hours(-1)))).await;
    bench.must_commit(&with(&key, 1, Alarm::Keep)).await;
    assert_eq!(told(bench).await, ["a"]);
    bench.must_commit(&with(&key, 2, Alarm::Keep)).await;
    assert_eq!(told(bench).await, [""; 0], "the claim is kept with it");
    bench.must_commit(&with(&key, 3, Alarm::At(hours(2)))).await;
    assert_eq!(told(bench).await, [""; 0], "not any more");
    bench.must_commit(&with(&key, 4, Alarm::At(hours(-3)))).await;
    assert_eq!(told(bench).await, ["a"], "whatever was claimed before");
    bench.must_commit(&with(&key, 5, Alarm::At(hours(-2)))).await;
    bench.must_commit(&with(&key, 6, Alarm::Never)).await;
    assert_eq!(told(bench).await, [""; 0]);
    bench.must_commit(&with(&key, 7, Alarm::Never)).await;
    assert_eq!(due(bench, 1).await.next, None);
}

pub(crate) async fn what_has_no_effect_sets_none(bench: &Bench) {
    let key = key("a");
    assert!(matches!(bench.commit(&with(&key, 3, Alarm::At(hours(-1)))).await, Verdict::Lost(None)));
    bench.must_commit(&set(&key, 0).key("k", 1_000)).await;
    assert!(matches!(bench.commit(&with(&key, 0, Alarm::At(hours(-1)))).await, Verdict::Lost(Some(_))));
    let taken = with(&key, 1, Alarm::At(hours(-1))).key("k", 1_000);
    assert!(matches!(bench.commit(&taken).await, Verdict::KeysTaken(_)));
    bench.back_door.forbid_event("forbidden");
    let rejected = with(&key, 1, Alarm::At(hours(-1))).events(["fine", "forbidden"]);
    assert!(matches!(bench.commit(&rejected).await, Verdict::Rejected { event: Some(1), .. }));
    assert_eq!(told(bench).await, [""; 0]);
    bench.must_commit(&with(&key, 1, Alarm::At(hours(-1)))).await;
    let rejected = with(&key, 2, Alarm::Never).events(["forbidden"]);
    assert!(matches!(bench.commit(&rejected).await, Verdict::Rejected { .. }));
    assert_eq!(told(bench).await, ["a"]);
}

/// With a fence, under a row lock, and together with others.
pub(crate) async fn every_way_to_commit_sets_it(bench: &Bench) {
    let at = Alarm::At(hours(-1));
    bench.must_commit(&with(&key("fenced"), 0, at).fence("lock", 7)).await;
    assert!(matches!(bench.commit(&with(&key("late"), 0, at).fence("lock", 6)).await, Verdict::Fenced { .. }));
    bench.must_commit(&set(&key("locked"), 0)).await;
    let locked = bench.store.lock(&key("locked"), &[], hours(0), OnLocked::GiveUp).await.expect("locked");
    assert_eq!(locked.hold.commit(with(&key("locked"), 1, at).0).await, Ok(Verdict::Committed));
    bench.must_commit(&with(&key("ends"), 0, at)).await;
    let all = vec![with(&key("one"), 0, at).0, with(&key("ends"), 1, Alarm::Never).0, set(&key("two"), 0).0];
    assert!(matches!(bench.store.commit_all(all).await, Ok(lockkeeper_store::AllVerdict::Committed)));
    let none = vec![with(&key("three"), 0, at).0, with(&key("one"), 7, at).0];
    assert!(matches!(bench.store.commit_all(none).await, Ok(lockkeeper_store::AllVerdict::Failed { index: 1, .. })));
    let told: HashSet<String> = told(bench).await.into_iter().collect();
    assert_eq!(told, HashSet::from(["fenced", "locked", "one"].map(str::to_owned)));
}

/// Commits that share a transaction, some with an alarm, some without, some that take one away.
pub(crate) async fn a_crowd_sets_its_own(bench: &Bench) {
    const CROWD: usize = 90;
    let id = |n: usize| key(&format!("{n:02}"));
    let commit_all = async |sets: Vec<Set>| {
        let commits = sets.into_iter().map(|set| {
            let store = bench.store.clone();
            tokio::spawn(async move { store.commit(set.0).await })
        });
        for commit in commits.collect::<Vec<_>>() {
            assert_eq!(commit.await.expect("an end"), Ok(Verdict::Committed));
        }
    };
    let alarm = |n: usize| if n.is_multiple_of(3) { Alarm::Keep } else { Alarm::At(hours(n as i64 - 100)) };
    commit_all((0..CROWD).map(|n| with(&id(n), 0, alarm(n))).collect()).await;
    let ends = |n: usize| if n % 3 == 1 { Alarm::Never } else { Alarm::Keep };
    commit_all((0..CROWD).map(|n| with(&id(n), 1, ends(n))).collect()).await;
    let expected: Vec<String> = (0..CROWD).filter(|n| n % 3 == 2).map(|n| format!("{n:02}")).collect();
    assert_eq!(told(bench).await, expected);
}

/// Many who ask at once share the work.
pub(crate) async fn nobody_is_told_what_another_was(bench: &Bench) {
    const ALARMS: usize = 60;
    for n in 0..ALARMS {
        bench.must_commit(&with(&key(&n.to_string()), 0, Alarm::At(hours(-1)))).await;
    }
    let told_of = Arc::new(AtomicUsize::new(0));
    let ask = || {
        let (store, told_of) = (bench.store.clone(), told_of.clone());
        tokio::spawn(async move {
            let mut told = Vec::new();
            // An empty page only says that others are being told of the rest.
            while told_of.load(Ordering::SeqCst) < ALARMS {
                let page = store.due(7).await.expect("an answer").records;
                told_of.fetch_add(page.len(), Ordering::SeqCst);
                told.extend(page.into_iter().map(|(key, _)| key.id.to_string()));
            }
            told
        })
    };
    let askers: Vec<_> = (0..4).map(|_| ask()).collect();
    let mut told = Vec::new();
    for asker in askers {
        told.extend(asker.await.expect("an end"));
    }
    assert_eq!(told.len(), ALARMS);
    assert_eq!(told.into_iter().collect::<HashSet<_>>().len(), ALARMS);
}

pub(crate) async fn one_that_nobody_knew_of_is_set_right(bench: &Bench) {
    let (key, other) = (key("a"), key("b"));
    bench.must_commit(&with(&key, 0, Alarm::At(hours(-1)))).await;
    let set_alarm = async |key: &RecordKey, version, alarm| bench.store.set_alarm(key, version, alarm).await;
    assert_eq!(set_alarm(&key, 2, Alarm::Never).await, Ok(false), "it is not at that version");
    assert_eq!(set_alarm(&other, 0, Alarm::At(hours(-1))).await, Ok(false), "it does not exist");
    assert_eq!(set_alarm(&key, 1, Alarm::Keep).await, Ok(false));
    let locked = bench.store.lock(&key, &[], hours(0), OnLocked::GiveUp).await.expect("locked");
    drop(locked);
    assert_eq!(told(bench).await, ["a"]);
    assert_eq!(set_alarm(&key, 1, Alarm::At(hours(-2))).await, Ok(true));
    assert_eq!(told(bench).await, ["a"]);
    assert_eq!(set_alarm(&key, 1, Alarm::Never).await, Ok(true));
    assert_eq!(bench.version(&key).await, 1);
    assert_eq!((told(bench).await, due(bench, 1).await.next), (Vec::new(), None));
}
