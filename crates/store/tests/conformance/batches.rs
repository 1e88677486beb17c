//! Several sets in one transaction: each for itself, or all or none.

use std::sync::Arc;

use lockkeeper_store::limits::SETS_PER_COMMIT_MAX;
use lockkeeper_store::{AllVerdict, RecordKey, Store, Verdict};

use crate::bench::{Bench, Set, key, send, set};

/// M15.
pub(crate) async fn a_rejected_set_fails_alone(bench: &Bench) {
    bench.back_door.forbid_event("poison");
    let held = bench.back_door.hold_writes();
    let opener = send(bench, &set(&key("opener"), 0));
    let ids: Vec<String> = (0..20).map(|n| format!("k{n}")).collect();
    let sent: Vec<_> = ids
        .iter()
        .map(|id| {
            let events = if id == "k7" { ["good", "good", "poison", "good"] } else { ["good"; 4] };
            send(bench, &set(&key(id), 0).events(events).key("once", 1000))
        })
        .collect();
    drop(held);
    assert_eq!(opener.await, Ok(Verdict::Committed));
    for (id, commit) in ids.iter().zip(sent) {
        let verdict = commit.await.expect("a verdict");
        if id == "k7" {
            assert!(matches!(verdict, Verdict::Rejected { event: Some(2), .. }), "{verdict:?}");
        } else {
            assert_eq!(verdict, Verdict::Committed, "{id}");
            assert_eq!(bench.version(&key(id)).await, 4);
        }
    }
    assert_eq!(bench.read(&key("k7")).await, None);
    assert_eq!(bench.all_events(&key("k7")).await, []);
    // Folded again without the bad event, with the same key: nothing of the first try is in its way.
    bench.must_commit(&set(&key("k7"), 0).events(["good"; 3]).key("once", 1000)).await;
}

pub(crate) async fn sets_of_one_transaction_see_one_another(bench: &Bench) {
    let held = bench.back_door.hold_writes();
    let opener = send(bench, &set(&key("opener"), 0));
    let first = send(bench, &set(&key("a"), 0).body("first").key("k", 1000));
    let racer = send(bench, &set(&key("a"), 0).body("racer"));
    let next = send(bench, &set(&key("a"), 1).body("next"));
    let again = send(bench, &set(&key("a"), 2).key("k", 1000));
    drop(held);
    assert_eq!(opener.await, Ok(Verdict::Committed));
    assert_eq!(first.await, Ok(Verdict::Committed));
    match racer.await {
        Ok(Verdict::Lost(Some(current))) => assert_eq!((current.version, &current.body[..]), (1, &b"first"[..])),
        other => panic!("{other:?}"),
    }
    assert_eq!(next.await, Ok(Verdict::Committed));
    match again.await {
        Ok(Verdict::KeysTaken(keys)) => assert_eq!((keys[0].key.as_str(), keys[0].version), ("k", 1)),
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.version(&key("a")).await, 2);
}

pub(crate) async fn all_commit_together(bench: &Bench) {
    bench.must_commit(&set(&key("b"), 0)).await;
    let sets = [set(&key("a"), 0).events(["x", "y"]).key("k", 1000), set(&key("b"), 1), set(&key("c"), 0)];
    assert_eq!(bench.commit_all(&sets).await, AllVerdict::Committed);
    for (id, version) in [("a", 2), ("b", 2), ("c", 1)] {
        assert_eq!(bench.version(&key(id)).await, version, "{id}");
    }
    for set in &sets {
        assert!(bench.store.committed(&set.0.key, set.0.expected_version, set.0.commit_id).await.expect("an answer"));
    }
}

pub(crate) async fn none_commits_if_one_is_lost(bench: &Bench) {
    bench.must_commit(&set(&key("c"), 0)).await;
    let current = bench.read(&key("c")).await;
    let sets = [set(&key("a"), 0), set(&key("b"), 0).key("k", 1000), set(&key("c"), 0), set(&key("d"), 9)];
    let expected = AllVerdict::Failed { index: 2, verdict: Verdict::Lost(current) };
    assert_eq!(bench.commit_all(&sets).await, expected);
    nothing_of(bench, &["a", "b", "d"]).await;
    assert_eq!(bench.version(&key("c")).await, 1);
    bench.must_commit(&set(&key("b"), 0).key("k", 1000)).await;
}

pub(crate) async fn none_commits_if_one_is_rejected(bench: &Bench) {
    bench.back_door.forbid_event("poison");
    let sets = [set(&key("a"), 0), set(&key("b"), 0), set(&key("c"), 0).events(["x", "poison"])];
    match bench.commit_all(&sets).await {
        AllVerdict::Failed { index: 2, verdict: Verdict::Rejected { event: Some(1), .. } } => {}
        other => panic!("{other:?}"),
    }
    nothing_of(bench, &["a", "b", "c"]).await;
    assert_eq!(bench.commit_all(&sets[..2]).await, AllVerdict::Committed);
}

async fn nothing_of(bench: &Bench, ids: &[&str]) {
    for id in ids {
        assert_eq!(bench.read(&key(id)).await, None, "{id}");
        assert_eq!(bench.all_events(&key(id)).await, [], "{id}");
    }
}

pub(crate) async fn no_record_may_come_twice(bench: &Bench) {
    let sets = [set(&key("a"), 0), set(&key("b"), 0), set(&key("a"), 1)];
    match bench.commit_all(&sets).await {
        AllVerdict::Failed { index: 2, verdict: Verdict::Rejected { event: None, .. } } => {}
        other => panic!("{other:?}"),
    }
    nothing_of(bench, &["a", "b"]).await;
}

pub(crate) async fn nothing_at_all_is_committed_at_once(bench: &Bench) {
    assert_eq!(bench.commit_all(&[]).await, AllVerdict::Committed);
}

pub(crate) async fn too_many_are_refused(bench: &Bench) {
    let sets: Vec<Set> = (0..=SETS_PER_COMMIT_MAX).map(|n| set(&key(&format!("k{n}")), 0)).collect();
    match bench.commit_all(&sets).await {
        AllVerdict::Failed { index: SETS_PER_COMMIT_MAX, verdict: Verdict::Rejected { .. } } => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.read(&key("k0")).await, None);
    assert_eq!(bench.commit_all(&sets[..SETS_PER_COMMIT_MAX]).await, AllVerdict::Committed);
}

pub(crate) async fn requirements_mean_the_state_before(bench: &Bench) {
    for id in ["a", "b"] {
        bench.must_commit(&set(&key(id), 0)).await;
    }
    // Each requires the other as it was: true whichever is written first.
    let (a, b) = (set(&key("a"), 1).requires(&key("b"), 1), set(&key("b"), 1).requires(&key("a"), 1));
    assert_eq!(bench.commit_all(&[a, b]).await, AllVerdict::Committed);
    let (a, b) = (set(&key("a"), 2), set(&key("b"), 2).requires(&key("a"), 3));
    match bench.commit_all(&[a, b]).await {
        AllVerdict::Failed { index: 1, verdict: Verdict::Unmet { actual: 2, .. } } => {}
        other => panic!("{other:?}"),
    }
}

/// M8.
pub(crate) async fn opposite_orders_end(bench: &Bench) {
    const ROUNDS: i64 = 100;
    let (a, b) = (key("a"), key("b"));
    let orders = [[a.clone(), b.clone()], [b.clone(), a.clone()]];
    let tasks: Vec<_> = orders
        .into_iter()
        .enumerate()
        .map(|(who, order)| {
            let store = Arc::clone(&bench.store);
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    advance_both(&*store, &order, &format!("{who}:{round}")).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("an end");
    }
    let (left, right) = (bench.all_events(&a).await, bench.all_events(&b).await);
    assert_eq!(left.len() as i64, 2 * ROUNDS);
    // Both were always moved by the same hand in the same breath.
    let bodies = |events: Vec<lockkeeper_store::Event>| events.into_iter().map(|event| event.body).collect::<Vec<_>>();
    assert_eq!(bodies(left), bodies(right));
}

/// Moves both records once, however often it takes.
async fn advance_both(store: &dyn Store, order: &[RecordKey; 2], text: &str) {
    loop {
        let mut sets = Vec::new();
        for key in order {
            let version = store.read(key).await.expect("an answer").map_or(0, |record| record.version);
            sets.push(set(key, version).events([text.to_owned()]).0);
        }
        match store.commit_all(sets).await.expect("a verdict") {
            AllVerdict::Committed => return,
            AllVerdict::Failed { verdict: Verdict::Lost(_), .. } => {}
            other => panic!("{other:?}"),
        }
    }
}
