//! Idempotency keys.

use std::sync::Arc;

use lockkeeper_store::limits::KEYS_PER_SET_MAX;
use lockkeeper_store::{StoredKey, Verdict};

use crate::bench::{Bench, key, moment, set};

pub(crate) async fn a_taken_key_returns_its_outcome(bench: &Bench) {
    let key = key("a");
    bench.must_commit(&set(&key, 0).events(["x", "y"]).key("one", 1000).key_at("two", 1000, 2)).await;
    let mut again = set(&key, 2).key("two", 1000).key("new", 1000);
    again.0.keys[0].fingerprint = [9; 32];
    let kept = StoredKey { key: "two".into(), fingerprint: [7; 32], outcome: "outcome of two in 2".into(), version: 2 };
    assert_eq!(bench.commit(&again).await, Verdict::KeysTaken(vec![kept]));
    assert_eq!(bench.version(&key).await, 2);
}

pub(crate) async fn a_taken_key_goes_before_a_lost_version(bench: &Bench) {
    let key = key("a");
    bench.must_commit(&set(&key, 0).key("k", 1000)).await;
    match bench.commit(&set(&key, 0).key("k", 1000)).await {
        Verdict::KeysTaken(keys) => assert_eq!(keys.len(), 1),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn keys_belong_to_their_record(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0).key("k", 1000)).await;
    bench.must_commit(&set(&key("b"), 0).key("k", 1000)).await;
    let confirmed = bench.store.confirm(&key("c"), &["k".to_owned()], moment(0)).await.expect("an answer");
    assert_eq!((confirmed.version, confirmed.keys), (0, Vec::new()));
}

pub(crate) async fn an_expired_key_is_replaced(bench: &Bench) {
    let key = key("a");
    bench.must_commit(&set(&key, 0).key("k", 1000)).await;
    assert!(matches!(bench.commit(&set(&key, 1).key("k", 2000).at(999)).await, Verdict::KeysTaken(_)));
    bench.must_commit(&set(&key, 1).key("k", 2000).at(1000)).await;
    let confirmed = bench.store.confirm(&key, &["k".to_owned()], moment(1500)).await.expect("an answer");
    assert_eq!(confirmed.keys.len(), 1);
    assert_eq!((confirmed.keys[0].version, &confirmed.keys[0].outcome[..]), (2, &b"outcome of k in 2"[..]));
}

pub(crate) async fn confirm_finds_live_keys_and_the_version(bench: &Bench) {
    let key = key("a");
    let mut first = set(&key, 0);
    for n in 0..KEYS_PER_SET_MAX {
        first = first.key(&format!("k{n}"), if n % 2 == 0 { 1000 } else { 2000 });
    }
    bench.must_commit(&first).await;
    let names: Vec<String> = (0..KEYS_PER_SET_MAX).map(|n| format!("k{n}")).chain(["none".to_owned()]).collect();
    let confirmed = bench.store.confirm(&key, &names, moment(999)).await.expect("an answer");
    assert_eq!((confirmed.version, confirmed.keys.len()), (1, KEYS_PER_SET_MAX));
    let later = bench.store.confirm(&key, &names, moment(1000)).await.expect("an answer");
    assert_eq!(later.keys.len(), KEYS_PER_SET_MAX / 2);
    assert!(later.keys.iter().all(|found| found.key[1..].parse::<usize>().is_ok_and(|n| n % 2 == 1)));
    let none = bench.store.confirm(&key, &[], moment(0)).await.expect("an answer");
    assert_eq!((none.version, none.keys), (1, Vec::new()));
}

pub(crate) async fn a_refused_set_keeps_no_key(bench: &Bench) {
    let key = key("a");
    bench.must_commit(&set(&key, 0).key("taken", 1000)).await;
    assert!(matches!(bench.commit(&set(&key, 5).key("lost", 1000)).await, Verdict::Lost(_)));
    let taken = set(&key, 1).key("taken", 1000).key("beside", 1000);
    assert!(matches!(bench.commit(&taken).await, Verdict::KeysTaken(_)));
    let names = ["lost".to_owned(), "beside".to_owned()];
    let confirmed = bench.store.confirm(&key, &names, moment(0)).await.expect("an answer");
    assert_eq!(confirmed.keys, []);
}

pub(crate) async fn purge_forgets_what_has_expired(bench: &Bench) {
    let key = key("a");
    let mut first = set(&key, 0);
    for n in 0..10 {
        first = first.key(&format!("k{n}"), 1000 + n);
    }
    bench.must_commit(&first).await;
    let purge = async |ms, limit| bench.store.purge_keys(moment(ms), limit).await;
    assert_eq!(purge(999, 100).await, Ok(0));
    assert_eq!(purge(1004, 3).await, Ok(3), "a limit is kept");
    assert_eq!(purge(1004, 100).await, Ok(2));
    assert_eq!(purge(1004, 0).await, Ok(0));
    let names: Vec<String> = (0..10).map(|n| format!("k{n}")).collect();
    let left = bench.store.confirm(&key, &names, moment(0)).await.expect("an answer").keys;
    assert_eq!(left.iter().map(|key| key.key.as_str()).collect::<Vec<_>>(), ["k5", "k6", "k7", "k8", "k9"]);
    assert_eq!(purge(9999, 100).await, Ok(5));
    assert_eq!(bench.version(&key).await, 1, "only keys are forgotten");
}

pub(crate) async fn one_key_for_many_racers_is_taken_once(bench: &Bench) {
    let key = key("a");
    let racers: Vec<_> = (0..64)
        .map(|n| {
            let (store, racer) = (Arc::clone(&bench.store), set(&key, 0).body(format!("{n}")).key("once", 1000));
            tokio::spawn(async move { store.commit(racer.0).await.expect("a verdict") })
        })
        .collect();
    let mut committed = 0;
    for racer in racers {
        match racer.await.expect("an end") {
            Verdict::Committed => committed += 1,
            Verdict::KeysTaken(keys) => assert_eq!((keys.len(), keys[0].version), (1, 1)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((committed, bench.version(&key).await), (1, 1));
}
