//! The connections of one node: shared out so that nobody starves, and whole after whatever callers do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockkeeper_store::{CommitError, LockError, OnLocked, PostgresStore, ReadError, Store, Verdict};
use lockkeeper_testbed::Session;

use crate::tools::{
    LONG, Role, SHORT, blocking, database, eventually, execute, impatient, key, keyed, must_commit, next, now, open,
    open_with, options, query, version,
};

async fn lock(store: &PostgresStore, id: &str, on_locked: OnLocked) -> Result<lockkeeper_store::Locked, LockError> {
    store.lock(&key(id), &[], now(), on_locked).await
}

/// P8: row locks take up a share of the connections, not the others'.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_of_rows_keep_nobody_from_a_connection() {
    let database = database().await;
    let mut few = impatient(&database.url());
    few.connections = 8;
    let store = open_with(few).await;
    let mut held = Vec::new();
    for n in 0..4 {
        must_commit(&store, next(&key(&format!("held{n}")), 0)).await;
        held.push(lock(&store, &format!("held{n}"), OnLocked::Wait(LONG)).await.expect("locked"));
    }
    must_commit(&store, next(&key("one more"), 0)).await;
    let begun = Instant::now();
    let refused = lock(&store, "one more", OnLocked::GiveUp).await;
    assert!(matches!(refused, Err(LockError::Unavailable(_))), "{refused:?}");
    let late = lock(&store, "one more", OnLocked::Wait(SHORT)).await;
    // That is no lock of another session's, and is not called one.
    assert!(matches!(late, Err(LockError::Unavailable(_))), "{late:?}");
    assert!(begun.elapsed() >= SHORT, "{:?}", begun.elapsed());
    assert!(begun.elapsed() < SHORT * 6, "{:?}", begun.elapsed());
    // A commit that waits for a held row is one of them; the others go on.
    let waiting = store.commit(next(&key("held0"), 1));
    let others = join_all((0..50).map(|n| {
        let store = &store;
        async move {
            must_commit(store, next(&key(&format!("k{n}")), 0)).await;
            assert_eq!(version(store, &key(&format!("k{n}"))).await, 1);
        }
    }));
    let (waited, _) = futures_util::future::join(waiting, others).await;
    assert!(matches!(waited, Ok(Verdict::LockTimeout { .. })), "{waited:?}");
    for (n, locked) in held.into_iter().enumerate() {
        assert_eq!(locked.hold.commit(next(&key(&format!("held{n}")), 1)).await, Ok(Verdict::Committed));
    }
    assert!(lock(&store, "one more", OnLocked::GiveUp).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_beyond_the_pool_end_at_their_bound_and_commits_go_on() {
    let database = database().await;
    let mut few = options(&database.url());
    (few.connections, few.connection_wait) = (4, SHORT);
    let store = open_with(few).await;
    must_commit(&store, next(&key("a"), 0)).await;
    let url = database.url();
    let session = blocking(move || Session::open(&url)).await;
    session.execute("BEGIN; LOCK TABLE lockkeeper.idempotency_keys IN ACCESS EXCLUSIVE MODE");
    let keys = ["k".to_owned()];
    let a = key("a");
    let stuck = join_all((0..2).map(|_| store.confirm(&a, &keys, now())));
    let rest = async {
        eventually("both wait", || async {
            let waiting = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'";
            execute(&database, waiting).await == "2"
        })
        .await;
        let begun = Instant::now();
        let refused = store.read(&key("a")).await;
        assert!(matches!(refused, Err(ReadError::Unavailable(_))), "{refused:?}");
        let took = begun.elapsed();
        assert!(took >= SHORT && took < SHORT * 4, "{took:?}");
        // The lanes have connections of their own.
        for version in 1..20 {
            must_commit(&store, next(&key("a"), version)).await;
        }
        session.execute("COMMIT");
    };
    let (stuck, ()) = futures_util::future::join(stuck, rest).await;
    assert!(stuck.iter().all(Result::is_ok), "{stuck:?}");
    assert_eq!(version(&store, &key("a")).await, 20);
}

/// A server that has room for fewer than the node may have: what there is is shared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_room_is_shared() {
    let database = database().await;
    open(&database.url()).await.close().await;
    let role = Role::create(&database, "CONNECTION LIMIT 3").await;
    let grant = "GRANT USAGE ON SCHEMA lockkeeper TO {};
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA lockkeeper TO {}";
    execute(&database, grant.replace("{}", role.name())).await;
    let store = open(&role.url()).await;
    let tasks: Vec<_> = (0..60)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let key = key(&format!("k{n}"));
                must_commit(&store, next(&key, 0)).await;
                assert_eq!(version(&store, &key).await, 1);
                let locked = store.lock(&key, &[], now(), OnLocked::Wait(LONG)).await.expect("locked");
                assert_eq!(locked.hold.commit(next(&key, 1)).await, Ok(Verdict::Committed));
                assert_eq!(version(&store, &key).await, 2);
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("an end");
    }
    store.close().await;
}

/// Numbers that are different for each seed, and the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Callers that leave in the middle of whatever it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pool_is_whole_after_a_thousand_callers_have_left() {
    const CALLERS: u64 = 20;
    const CALLS: u64 = 50;
    const CONNECTIONS: usize = 8;
    let database = database().await;
    let mut few = options(&database.url());
    few.connections = CONNECTIONS;
    let store = open_with(few).await;
    for n in 0..4 {
        must_commit(&store, next(&key(&format!("k{n}")), 0)).await;
    }
    let callers: Vec<_> =
        (0..CALLERS).map(|seed| tokio::spawn(leave_often(store.clone(), Chance(seed), CALLS))).collect();
    for caller in callers {
        caller.await.expect("an end");
    }
    let sessions = |state: &str| {
        format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND {state}"
        )
    };
    eventually("nothing is under way", || async { execute(&database, sessions("state <> 'idle'")).await == "0" }).await;
    let open: usize = execute(&database, sessions("true")).await.parse().expect("a number");
    assert!(open <= CONNECTIONS, "{open} sessions");
    // Everybody finds a place at once.
    let mut held = Vec::new();
    for n in 0..4 {
        held.push(lock(&store, &format!("k{n}"), OnLocked::GiveUp).await.expect("no row is locked any more"));
    }
    let others = (0..20).map(|n| {
        let store = &store;
        async move { must_commit(store, next(&key(&format!("other{n}")), 0)).await }
    });
    join_all(others).await;
    drop(held);
    for n in 0..4 {
        let key = key(&format!("k{n}"));
        let version = version(&store, &key).await;
        assert_eq!(crate::writers::history(&store, &key).await.len() as i64, version);
        must_commit(&store, next(&key, version)).await;
    }
}

async fn leave_often(store: Arc<PostgresStore>, mut chance: Chance, calls: u64) {
    for _ in 0..calls {
        let (one, two) = (key(&format!("k{}", chance.below(4))), key(&format!("k{}", chance.below(4))));
        let patience = Duration::from_micros(chance.below(6_000));
        let what = chance.below(6);
        let call = async {
            let at = version(&store, &one).await;
            match what {
                0 => drop(store.commit(next(&one, at)).await),
                1 if one == two => {}
                1 => drop(store.commit_all(vec![next(&one, at), next(&two, version(&store, &two).await)]).await),
                2 => {
                    let locked = store.lock(&one, &[], now(), OnLocked::Wait(LONG)).await;
                    tokio::task::yield_now().await;
                    drop(locked);
                }
                3 => {
                    let Ok(locked) = store.lock(&one, &[], now(), OnLocked::Wait(LONG)).await else { return };
                    let at = locked.record.as_ref().map_or(0, |record| record.version);
                    drop(locked.hold.commit(next(&one, at)).await);
                }
                4 => drop(store.commit(keyed(&one, at, "a key")).await),
                _ => drop(store.list(&query(lockkeeper_store::ListOrder::Newest)).await),
            }
        };
        let _left = tokio::time::timeout(patience, call).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_store_lets_go_of_everything() {
    let database = database().await;
    let store = open(&database.url()).await;
    must_commit(&store, next(&key("a"), 0)).await;
    let held = lock(&store, "a", OnLocked::Wait(LONG)).await.expect("locked");
    store.close().await;
    assert!(matches!(lock(&store, "a", OnLocked::GiveUp).await, Err(LockError::Unavailable(_))));
    assert!(matches!(store.commit(next(&key("a"), 1)).await, Err(CommitError::Unavailable(_))));
    // Who has a lock may still use it.
    assert_eq!(held.hold.commit(next(&key("a"), 1)).await, Ok(Verdict::Committed));
    let sessions =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    eventually("all sessions end", || async { execute(&database, sessions).await == "0" }).await;
}
