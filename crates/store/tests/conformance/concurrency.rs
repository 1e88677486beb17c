//! Many at once.

use std::collections::HashSet;
use std::sync::Arc;

use lockkeeper_store::{CommitError, ListOrder, ReadError, RecordKey, Store, Verdict};
use uuid::Uuid;

use crate::bench::{Bench, key, moment, query, send, set};

const WRITERS: usize = 64;

/// A counter behind the conditional write: what each writer was told must be what history says, with no gap and no
/// version given out twice.
pub(crate) async fn every_version_is_committed_once(bench: &Bench) {
    const TIMES: usize = 20;
    let writers: Vec<_> =
        (0..WRITERS).map(|who| tokio::spawn(count(Arc::clone(&bench.store), key("counter"), who, TIMES))).collect();
    let mut told: Vec<(i64, String)> = Vec::new();
    for writer in writers {
        told.extend(writer.await.expect("an end"));
    }
    told.sort();
    let written: Vec<(i64, String)> = bench
        .all_events(&key("counter"))
        .await
        .into_iter()
        .map(|event| (event.version, String::from_utf8_lossy(&event.body).into_owned()))
        .collect();
    assert_eq!(told, written);
    let versions: Vec<i64> = written.iter().map(|(version, _)| *version).collect();
    assert_eq!(versions, (1..=(WRITERS * TIMES) as i64).collect::<Vec<_>>());
    assert_eq!(bench.version(&key("counter")).await, (WRITERS * TIMES) as i64);
}

/// Commits `times` events, taking the current version from each loss; says which version each became.
async fn count(store: Arc<dyn Store>, key: RecordKey, who: usize, times: usize) -> Vec<(i64, String)> {
    let mut version = 0;
    let mut told = Vec::new();
    for n in 0..times {
        let text = format!("{who}:{n}");
        loop {
            match store.commit(set(&key, version).events([text.clone()]).0).await.expect("a verdict") {
                Verdict::Committed => break,
                Verdict::Lost(Some(current)) => {
                    assert!(current.version > version, "a loss shows what came between");
                    version = current.version;
                }
                other => panic!("{other:?}"),
            }
        }
        version += 1;
        told.push((version, text));
    }
    told
}

pub(crate) async fn one_of_many_creates_the_record(bench: &Bench) {
    let racers: Vec<_> = (0..WRITERS)
        .map(|n| {
            let (store, racer) = (Arc::clone(&bench.store), set(&key("a"), 0).body(format!("{n}")));
            tokio::spawn(async move { (n, store.commit(racer.0).await.expect("a verdict")) })
        })
        .collect();
    let (mut winners, mut seen) = (Vec::new(), HashSet::new());
    for racer in racers {
        match racer.await.expect("an end") {
            (n, Verdict::Committed) => winners.push(format!("{n}")),
            (_, Verdict::Lost(Some(current))) => {
                seen.insert(String::from_utf8_lossy(&current.body).into_owned());
            }
            (_, other) => panic!("{other:?}"),
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(seen, HashSet::from_iter(winners), "the losers all see the one winner");
}

pub(crate) async fn what_was_answered_is_read(bench: &Bench) {
    let tasks: Vec<_> = (0..16)
        .map(|n| {
            let (store, key) = (Arc::clone(&bench.store), key(&format!("k{n}")));
            tokio::spawn(async move {
                for version in 0..20 {
                    let next = set(&key, version);
                    let id = next.0.commit_id;
                    assert_eq!(store.commit(next.0).await, Ok(Verdict::Committed));
                    let read = store.read(&key).await.expect("an answer").expect("a record");
                    assert_eq!(read.version, version + 1);
                    let confirmed = store.confirm(&key, &[], moment(0)).await.expect("an answer");
                    assert_eq!(confirmed.version, version + 1);
                    assert_eq!(store.committed(&key, version, id).await, Ok(true));
                    assert_eq!(store.events(&key, version, 10).await.expect("an answer").len(), 1);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("an end");
    }
}

pub(crate) async fn a_dropped_commit_leaves_no_half(bench: &Bench) {
    let ids: Vec<String> = (0..40).map(|n| format!("k{n}")).collect();
    let sets: Vec<_> = ids.iter().map(|id| set(&key(id), 0).events(["x", "y", "z"]).key_at("k", 1000, 3)).collect();
    let held = bench.back_door.hold_writes();
    let mut sent: Vec<_> = sets.iter().map(|set| Some(send(bench, set))).collect();
    // Some leave before anything is written, some at any later time.
    sent.iter_mut().step_by(3).for_each(|commit| *commit = None);
    drop(held);
    for (n, commit) in sent.iter_mut().enumerate() {
        match commit.take() {
            Some(commit) if n % 3 == 1 => assert_eq!(commit.await, Ok(Verdict::Committed)),
            left => drop(left),
        }
    }
    assert_eq!(bench.store.ping().await, Ok(()), "what was sent before is done");
    for (n, set) in sets.iter().enumerate() {
        let version = bench.version(&set.0.key).await;
        assert!(version == 3 || (version == 0 && n % 3 != 1), "{n}: {version}");
        assert_eq!(bench.all_events(&set.0.key).await.len() as i64, version);
        let confirmed = bench.store.confirm(&set.0.key, &["k".to_owned()], moment(0)).await.expect("an answer");
        assert_eq!(confirmed.keys.len() as i64, version / 3);
        let found = bench.store.committed(&set.0.key, 0, set.0.commit_id).await;
        assert_eq!(found, Ok(version == 3));
    }
}

pub(crate) async fn readers_see_whole_commits(bench: &Bench) {
    let key = key("a");
    let store = Arc::clone(&bench.store);
    let writer = tokio::spawn({
        let key = key.clone();
        async move {
            for n in 0..60 {
                let next = set(&key, n * 5).events(vec!["x"; 5]).key_at("last", 1000, n * 5 + 5).at(n * 1000);
                assert_eq!(store.commit(next.0).await, Ok(Verdict::Committed));
            }
        }
    });
    let mut reads = 0;
    while !writer.is_finished() || reads == 0 {
        let confirmed = bench.store.confirm(&key, &["last".to_owned()], moment(-1)).await.expect("an answer");
        assert_eq!(confirmed.version % 5, 0);
        if let Some(last) = confirmed.keys.first() {
            assert_eq!(last.version, confirmed.version, "version and keys are of one instant");
        }
        let events = bench.store.events(&key, 0, 1000).await.expect("an answer");
        assert!(events.len() as i64 >= confirmed.version && events.len() % 5 == 0);
        reads += 1;
    }
    writer.await.expect("an end");
    assert_eq!(bench.version(&key).await, 300);
}

pub(crate) async fn after_close_all_is_unavailable(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0)).await;
    bench.store.close().await;
    let closed = |error: CommitError| matches!(error, CommitError::Unavailable(_));
    assert!(bench.store.commit(set(&key("a"), 1).0).await.is_err_and(closed));
    assert!(bench.store.commit_all(vec![set(&key("a"), 1).0]).await.is_err_and(closed));
    assert!(bench.store.purge_keys(moment(0), 1).await.is_err_and(closed));
    assert!(bench.store.purge_fences(moment(0), 1).await.is_err_and(closed));
    assert!(bench.store.fence_floor(0).await.is_err_and(closed));
    assert!(bench.store.ping().await.is_err_and(closed));
    let closed = |error: ReadError| matches!(error, ReadError::Unavailable(_));
    assert!(bench.store.read(&key("a")).await.is_err_and(closed));
    assert!(bench.store.confirm(&key("a"), &[], moment(0)).await.is_err_and(closed));
    assert!(bench.store.committed(&key("a"), 0, Uuid::new_v4()).await.is_err_and(closed));
    assert!(bench.store.events(&key("a"), 0, 1).await.is_err_and(closed));
    assert!(bench.store.list(&query(ListOrder::Id)).await.is_err_and(closed));
}
