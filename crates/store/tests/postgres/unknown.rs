//! Commits whose answer does not come: `Unknown` exactly if they were sent, and the store itself tells in the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all, join3};
use lockkeeper_store::{AllVerdict, CommitError, LockError, OnLocked, PostgresStore, ReadError, Store, Verdict};
use lockkeeper_testbed::{Postgres, Proxy, TestDatabase};

use crate::tools::{
    LONG, SHORT, blocking, database, eventually, impatient, key, must_commit, next, now, open, open_with, version,
};

/// A store behind a network that can be broken, and one that is not.
struct Bench {
    store: Arc<PostgresStore>,
    beside: Arc<PostgresStore>,
    proxy: Proxy,
    _database: Arc<TestDatabase>,
}

impl Bench {
    async fn start() -> Self {
        let database = database().await;
        let url = database.url();
        let (_, address) = url.split_once('@').expect("the shared server's URL names a user");
        let (server, name) = address.split_once('/').expect("and a database");
        let proxy = Proxy::start(server.parse().expect("an address"));
        let through = format!("postgres://postgres@{}/{name}", proxy.address());
        Self { beside: open(&url).await, store: open_with(impatient(&through)).await, proxy, _database: database }
    }

    async fn committed(&self, set: &lockkeeper_store::ChangeSet) -> bool {
        self.beside.committed(&set.key, set.expected_version, set.commit_id).await.expect("an answer")
    }
}

fn is_unknown<T>(told: &Result<T, CommitError>) -> bool {
    matches!(told, Err(CommitError::Unknown(_)))
}

/// M16: the old connection delivers what was sent long after the node has given it up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_arrives_late_is_unknown_until_it_is_there() {
    let bench = Bench::start().await;
    must_commit(&bench.store, next(&key("a"), 0)).await;
    bench.proxy.hold_requests();
    let late = next(&key("a"), 1);
    let told = bench.store.commit(late.clone()).await;
    assert!(is_unknown(&told), "{told:?}");
    assert!(!bench.committed(&late).await, "it has not arrived");
    bench.proxy.resume();
    eventually("the old session commits", || bench.committed(&late)).await;
    assert_eq!(bench.store.committed(&late.key, 1, late.commit_id).await, Ok(true));
    match bench.store.commit(next(&key("a"), 1)).await {
        Ok(Verdict::Lost(Some(current))) => assert_eq!(current.version, 2),
        other => panic!("{other:?}"),
    }
}

/// A later commit on the same version settles it as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_arrives_too_late_has_no_effect() {
    let bench = Bench::start().await;
    must_commit(&bench.store, next(&key("a"), 0)).await;
    bench.proxy.hold_requests();
    let late = next(&key("a"), 1);
    assert!(is_unknown(&bench.store.commit(late.clone()).await));
    let instead = next(&key("a"), 1);
    must_commit(&bench.beside, instead.clone()).await;
    bench.proxy.resume();
    must_commit(&bench.store, next(&key("a"), 2)).await;
    assert!(!bench.committed(&late).await);
    assert!(bench.committed(&instead).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_lost_after_the_commit_is_unknown() {
    let bench = Bench::start().await;
    must_commit(&bench.store, next(&key("b"), 0)).await;
    let locked = bench.store.lock(&key("b"), &[], now(), OnLocked::Wait(LONG)).await.expect("locked");
    // Leaves a connection that the next one can use.
    must_commit(&bench.store, next(&key("a"), 0)).await;
    bench.proxy.hold_replies();
    let (alone, under_lock) = (next(&key("a"), 1), next(&key("b"), 1));
    let both = join(bench.store.commit(alone.clone()), locked.hold.commit(under_lock.clone()));
    // Both have arrived; then the connections are cut, which is noticed at once.
    let watch = async {
        eventually("they are committed", || async {
            bench.committed(&alone).await && bench.committed(&under_lock).await
        })
        .await;
        bench.proxy.cut();
    };
    let (both, ()) = join(both, watch).await;
    assert!(is_unknown(&both.0) && is_unknown(&both.1), "{both:?}");
    bench.proxy.resume();
    for set in [alone, under_lock] {
        assert_eq!(bench.store.committed(&set.key, 1, set.commit_id).await, Ok(true));
    }
    must_commit(&bench.store, next(&key("a"), 2)).await;
}

/// All or none: until COMMIT is sent, nothing is unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_were_cut_off_before_their_commit_are_unavailable() {
    let bench = Bench::start().await;
    must_commit(&bench.store, next(&key("a"), 0)).await;
    bench.proxy.hold_requests();
    let told = bench.store.commit_all(vec![next(&key("a"), 1), next(&key("b"), 0)]).await;
    assert!(matches!(told, Err(CommitError::Unavailable(_))), "{told:?}");
    bench.proxy.resume();
    eventually("the rows are free", || async {
        let both = vec![next(&key("a"), 1), next(&key("b"), 0)];
        bench.store.commit_all(both).await == Ok(AllVerdict::Committed)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_never_sent_is_unavailable() {
    let bench = Bench::start().await;
    must_commit(&bench.store, next(&key("a"), 0)).await;
    // Closed while they lay in the pool.
    bench.proxy.cut();
    for _ in 0..10 {
        let told = bench.store.commit(next(&key("a"), 1)).await;
        assert!(matches!(told, Err(CommitError::Unavailable(_))), "{told:?}");
        assert!(matches!(bench.store.read(&key("a")).await, Err(ReadError::Unavailable(_))));
        assert!(matches!(bench.store.ping().await, Err(CommitError::Unavailable(_))));
    }
    bench.proxy.resume();
    must_commit(&bench.store, next(&key("a"), 1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_between_two_commits_is_not_noticed() {
    let mut server = blocking(Postgres::start).await;
    let store = open(&server.url()).await;
    for version in 0..3 {
        let records: Vec<_> = (0..10).map(|n| key(&format!("k{n}"))).collect();
        for told in join_all(records.iter().map(|key| store.commit(next(key, version)))).await {
            assert_eq!(told, Ok(Verdict::Committed));
        }
        server = blocking(move || {
            server.restart();
            server
        })
        .await;
    }
}

/// Every call ends at its bound, says what is so, and leaves no connection occupied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_ends_nothing_but_patience() {
    const CALLS: usize = 30;
    let server = Arc::new(blocking(Postgres::start).await);
    let store = open_with(impatient(&server.url())).await;
    let records: Vec<_> = (0..CALLS).map(|n| key(&format!("k{n}"))).collect();
    for told in join_all(records.iter().map(|key| store.commit(next(key, 0)))).await {
        assert_eq!(told, Ok(Verdict::Committed));
    }
    let held = store.lock(&key("k0"), &[], now(), OnLocked::Wait(LONG)).await.expect("locked").hold;
    // Leaves connections for everybody: what follows is sent at once.
    let warm = join_all(records[1..8].iter().map(|key| store.lock(key, &[], now(), OnLocked::Wait(LONG)))).await;
    assert!(warm.iter().all(Result::is_ok));
    drop(warm);
    eventually("they are at rest", || async {
        let under_way = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'";
        let server = server.clone();
        blocking(move || server.execute(under_way)).await == "1"
    })
    .await;
    store.ping().await.expect("an answer");
    let paused = server.clone();
    blocking(move || paused.pause()).await;
    let begun = Instant::now();
    let sets: Vec<_> = records.iter().map(|key| next(key, 1)).collect();
    let commits = join_all(sets.iter().map(|set| store.commit(set.clone())));
    let all = store.commit_all(vec![next(&key("x"), 0), next(&key("y"), 0)]);
    let under_lock = next(&key("k0"), 1);
    // After the commits, so that these have connections and are sent.
    let others = async {
        tokio::time::sleep(SHORT / 10).await;
        let locks = join_all(records[1..9].iter().map(|key| store.lock(key, &[], now(), OnLocked::Wait(SHORT))));
        join(locks, join_all(records.iter().map(|key| store.read(key)))).await
    };
    let writes = join3(commits, all, held.commit(under_lock.clone()));
    let ((commits, all, under), (locks, reads)) = join(writes, others).await;
    // Waiting for a turn, a connection, a row and the verdict, each within its own bound.
    let took = begun.elapsed();
    assert!(took < SHORT * 6, "{took:?}");
    assert!(commits.iter().all(Result::is_err), "{commits:?}");
    assert!(commits.iter().any(is_unknown), "some were sent");
    assert!(matches!(all, Err(CommitError::Unavailable(_))), "{all:?}");
    assert!(is_unknown(&under), "{under:?}");
    for told in locks {
        assert!(matches!(told, Err(LockError::Unavailable(_) | LockError::Locked { .. })), "{told:?}");
    }
    assert!(reads.iter().all(Result::is_err));
    // By now it is known that nobody answers: nothing is sent, so nothing is unknown.
    let told = store.commit(next(&key("z"), 0)).await;
    assert!(matches!(told, Err(CommitError::Unavailable(_))), "{told:?}");
    let paused = server.clone();
    blocking(move || paused.resume()).await;
    eventually("it goes on", || async { store.ping().await.is_ok() }).await;
    for (set, told) in sets.iter().zip(&commits).chain([(&under_lock, &under)]) {
        let expected = set.expected_version;
        // What was sent before the pause may still be at work for a moment.
        let settled = || async { store.committed(&set.key, expected, set.commit_id).await.expect("an answer") };
        if !is_unknown(told) {
            assert!(!settled().await, "{} was told to be unavailable", set.key);
        }
    }
    for key in &records {
        eventually("its history is decided", || async {
            let version = version(&store, key).await;
            store.commit(next(key, version)).await == Ok(Verdict::Committed)
        })
        .await;
    }
    tokio::time::timeout(Duration::from_secs(5), store.close()).await.expect("it closes");
}
