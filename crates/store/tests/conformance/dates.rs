//! Looking through records by their dates.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper_store::limits::{DATES_CLAIMED, PAGE_MAX};
use lockkeeper_store::{DateOf, Dated, DatedQuery, Facets, OnLocked, RecordKey, Timestamp};

use crate::bench::{Bench, key, moment, set};

const BOTH: [DateOf; 2] = [DateOf::Primary, DateOf::Secondary];

fn query(by: DateOf, before: Timestamp, limit: usize) -> DatedQuery {
    DatedQuery { space: "things".into(), by, before, limit }
}

async fn told(bench: &Bench, by: DateOf, before: Timestamp) -> Vec<Dated> {
    bench.store.dated(&query(by, before, 100)).await.expect("an answer")
}

async fn ids(bench: &Bench, by: DateOf, before: Timestamp) -> Vec<String> {
    told(bench, by, before).await.into_iter().map(|dated| dated.key.id.to_string()).collect()
}

async fn set_date(bench: &Bench, key: &RecordKey, of: DateOf, ms: i64) {
    bench.store.set_dates(of, vec![(key.clone(), moment(ms))]).await.expect("set");
}

pub(crate) async fn both_are_its_creation_until_they_are_set(bench: &Bench) {
    for (id, at) in [("b", 200), ("a", 100), ("c", 300), ("late", 400)] {
        bench.must_commit(&set(&key(id), 0).at(at).facets("one", "two")).await;
    }
    bench.must_commit(&set(&key("b"), 1).at(900).facets("three", "four")).await;
    bench.must_commit(&set(&RecordKey::new("others", "x"), 0).at(100)).await;
    for by in BOTH {
        let found = told(bench, by, moment(400)).await;
        assert_eq!(found.iter().map(|dated| &*dated.key.id).collect::<Vec<_>>(), ["a", "b", "c"], "{by:?}");
        let facets = Facets { primary: "three".to_owned(), secondary: "four".to_owned() };
        let expected = Dated { key: key("b"), version: 2, facets, updated_at: moment(900), date: moment(200) };
        assert_eq!(found[1], expected, "{by:?}");
    }
}

pub(crate) async fn what_is_told_is_claimed_for_a_while(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0).at(100)).await;
    let claimed = |ms: i64| moment(ms) + DATES_CLAIMED;
    for by in BOTH {
        assert_eq!(ids(bench, by, moment(100)).await, [""; 0], "{by:?}: it is not earlier");
        assert_eq!(ids(bench, by, moment(200)).await, ["a"], "{by:?}");
        assert_eq!(ids(bench, by, moment(200)).await, [""; 0], "{by:?}");
        assert_eq!(ids(bench, by, claimed(200)).await, [""; 0], "{by:?}: not before the claim's end");
        assert_eq!(ids(bench, by, claimed(200) + Duration::from_millis(1)).await, ["a"], "{by:?}: it has run out");
    }
}

pub(crate) async fn they_move_alone_and_no_commit_moves_them(bench: &Bench) {
    let key = key("a");
    bench.must_commit(&set(&key, 0).at(100)).await;
    set_date(bench, &key, DateOf::Primary, 500).await;
    bench.must_commit(&set(&key, 1).at(1_000).facets("x", "y")).await;
    assert_eq!(ids(bench, DateOf::Primary, moment(500)).await, [""; 0]);
    let found = told(bench, DateOf::Secondary, moment(101)).await;
    assert_eq!((found[0].date, found[0].version, found[0].updated_at), (moment(100), 2, moment(1_000)));
    assert_eq!(told(bench, DateOf::Primary, moment(501)).await[0].date, moment(500), "it has its own");
    // Back, too; and what does not exist has none.
    for of in BOTH {
        set_date(bench, &key, of, 50).await;
        set_date(bench, &RecordKey::new("things", "nobody"), of, 50).await;
        assert_eq!(told(bench, of, moment(51)).await[0].date, moment(50));
    }
    let record = bench.read(&key).await.expect("a record");
    assert_eq!((record.version, record.updated_at, &record.body[..]), (2, moment(1_000), &b"body 2"[..]));
}

pub(crate) async fn the_oldest_come_first_set_or_not(bench: &Bench) {
    for n in 0..6_i64 {
        bench.must_commit(&set(&key(&n.to_string()), 0).at(n * 100)).await;
    }
    set_date(bench, &key("0"), DateOf::Primary, 250).await;
    set_date(bench, &key("5"), DateOf::Primary, 50).await;
    let page = async |limit| {
        let told = bench.store.dated(&query(DateOf::Primary, moment(10_000), limit)).await.expect("an answer");
        told.into_iter().map(|dated| dated.key.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(page(2).await, ["5", "1"]);
    assert_eq!(page(0).await, [""; 0]);
    assert_eq!(page(2).await, ["2", "0"]);
    assert_eq!(page(PAGE_MAX + 1).await, ["3", "4"]);
    assert_eq!(page(10).await, [""; 0]);
}

/// Many who ask at once share the work.
pub(crate) async fn nobody_is_told_what_another_was(bench: &Bench) {
    const RECORDS: usize = 60;
    for n in 0..RECORDS {
        bench.must_commit(&set(&key(&n.to_string()), 0)).await;
    }
    let told_of = Arc::new(AtomicUsize::new(0));
    let ask = || {
        let (store, told_of) = (bench.store.clone(), told_of.clone());
        tokio::spawn(async move {
            let mut told = Vec::new();
            // An empty page only says that others are being told of the rest.
            while told_of.load(Ordering::SeqCst) < RECORDS {
                let page = store.dated(&query(DateOf::Primary, moment(1), 7)).await.expect("an answer");
                told_of.fetch_add(page.len(), Ordering::SeqCst);
                told.extend(page.into_iter().map(|dated| dated.key.id.to_string()));
            }
            told
        })
    };
    let askers: Vec<_> = (0..4).map(|_| ask()).collect();
    let mut told = Vec::new();
    for asker in askers {
        told.extend(asker.await.expect("an end"));
    }
    assert_eq!(told.len(), RECORDS);
    assert_eq!(told.into_iter().collect::<HashSet<_>>().len(), RECORDS);
}

/// However many somebody is at work on, those behind them have their turn: a page holds what can be told.
pub(crate) async fn locked_records_hold_back_none_behind_them(bench: &Bench) {
    let mut locks = Vec::new();
    for n in 0..4_i64 {
        let key = key(&n.to_string());
        bench.must_commit(&set(&key, 0).at(n)).await;
        if n < 3 {
            locks.push(bench.store.lock(&key, &[], moment(n), OnLocked::GiveUp).await.expect("locked"));
        }
    }
    for by in BOTH {
        let mut told = Vec::new();
        loop {
            let page = bench.store.dated(&query(by, moment(10), 2)).await.expect("an answer");
            if page.is_empty() {
                break;
            }
            told.extend(page.into_iter().map(|dated| dated.key.id.to_string()));
        }
        assert!(told.contains(&"3".to_owned()), "{by:?}: {told:?}");
    }
}

/// Whoever tidies up waits for nobody, and keeps nobody waiting.
pub(crate) async fn a_locked_record_is_not_waited_for(bench: &Bench) {
    let key = key("a");
    bench.must_commit(&set(&key, 0)).await;
    let locked = bench.store.lock(&key, &[], moment(0), OnLocked::GiveUp).await.expect("locked");
    let _left_out_or_told = told(bench, DateOf::Primary, moment(1)).await;
    set_date(bench, &key, DateOf::Primary, 1).await;
    drop(locked);
    // By whatever has given the lock back by then.
    bench.store.lock(&key, &[], moment(0), OnLocked::Wait(Duration::from_secs(10))).await.map(drop).expect("locked");
    while told(bench, DateOf::Primary, moment(8)).await.is_empty() {
        set_date(bench, &key, DateOf::Primary, 7).await;
    }
    bench.must_commit(&set(&key, 1).at(9)).await;
}
