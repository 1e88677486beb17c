//! M19: rows that others hold, among nodes and beside sessions that know nothing of them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use lockkeeper_store::{
    AllVerdict, ChangeSet, CommitError, LockError, OnLocked, PostgresStore, RecordKey, Store, Verdict,
};
use lockkeeper_testbed::{Session, TestDatabase};
use tokio::task::JoinSet;

use crate::tools::{
    LONG, SHORT, blocking, database, eventually, execute, impatient, key, must_commit, next, now, open, open_with,
    options, requiring, version,
};

/// Two nodes on one database, and a session of somebody else.
struct Bench {
    nodes: [Arc<PostgresStore>; 2],
    session: Arc<Mutex<Session>>,
    database: Arc<TestDatabase>,
}

impl Bench {
    async fn start() -> Self {
        let database = database().await;
        see_deadlocks(&database, database.name()).await;
        let nodes = [open(&database.url()).await, open(&database.url()).await];
        let url = database.url();
        let session = Arc::new(Mutex::new(blocking(move || Session::open(&url)).await));
        Self { nodes, session, database }
    }

    async fn session(&self, sql: &str) {
        let (session, sql) = (self.session.clone(), sql.to_owned());
        blocking(move || session.lock().expect("nobody panics with it").execute(&sql)).await;
    }

    /// The session takes a row.
    async fn hold(&self, id: &str) {
        let row = format!("BEGIN; SELECT 1 FROM lockkeeper.records WHERE id = '{id}' FOR UPDATE");
        self.session(&row).await;
    }

    /// Ends everything, and says how many deadlocks the server had to end.
    async fn deadlocks(self) -> String {
        for node in &self.nodes {
            node.close().await;
        }
        drop((self.nodes, self.session));
        // A session reports what it has counted before it is gone.
        let others = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        eventually("all sessions end", || async { execute(&self.database, others).await == "0" }).await;
        execute(&self.database, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").await
    }
}

/// Far below the bounds of waits for locks, which would end a deadlock before it is seen.
async fn see_deadlocks(database: &Arc<TestDatabase>, name: &str) {
    execute(database, format!("ALTER DATABASE {name} SET deadlock_timeout = '5ms'")).await;
}

fn names(count: usize) -> Vec<RecordKey> {
    // Small and capital letters: bytes and dictionaries order them differently.
    (0..count).map(|n| key(&format!("{}{n}", if n % 2 == 0 { 'a' } else { 'B' }))).collect()
}

async fn make(store: &PostgresStore, keys: &[RecordKey]) {
    for told in join_all(keys.iter().map(|key| store.commit(next(key, 0)))).await {
        assert_eq!(told, Ok(Verdict::Committed));
    }
}

/// Moves a record once, from whatever version it is at.
async fn advance(store: &PostgresStore, key: &RecordKey) {
    let mut version = 0;
    loop {
        match store.commit(next(key, version)).await {
            Ok(Verdict::Committed) => return,
            Ok(Verdict::Lost(current)) => version = current.map_or(0, |record| record.version),
            other => panic!("{other:?}"),
        }
    }
}

/// Moves records together once.
async fn advance_all(store: &PostgresStore, keys: &[RecordKey]) {
    loop {
        let mut sets = Vec::new();
        for key in keys {
            sets.push(next(key, version(store, key).await));
        }
        match store.commit_all(sets).await {
            Ok(AllVerdict::Committed) => return,
            Ok(AllVerdict::Failed { verdict: Verdict::Lost(_), .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_held_row_keeps_nobody_from_the_others() {
    const KEYS: usize = 10;
    let bench = Bench::start().await;
    let keys = names(KEYS);
    make(&bench.nodes[0], &keys).await;
    bench.hold("B5").await;
    let held = keys.iter().position(|key| &*key.id == "B5").expect("one of them");
    // Singly and all together, in opposite orders.
    let mut waiting = JoinSet::new();
    let mut going_on = JoinSet::new();
    for (node, reversed) in bench.nodes.iter().zip([false, true]) {
        let mut keys = keys.clone();
        if reversed {
            keys.reverse();
        }
        let (single, held) = (node.clone(), keys.iter().position(|key| &*key.id == "B5").expect("one of them"));
        let held_key = keys.remove(held);
        waiting.spawn({
            let held_key = held_key.clone();
            async move { advance(&single, &held_key).await }
        });
        let (both, all) = (node.clone(), keys.iter().chain([&held_key]).cloned().collect::<Vec<_>>());
        waiting.spawn(async move { advance_all(&both, &all).await });
        let node = node.clone();
        going_on.spawn(async move {
            for _ in 0..5 {
                join_all(keys.iter().map(|key| advance(&node, key))).await;
            }
        });
    }
    while let Some(done) = going_on.join_next().await {
        done.expect("an end");
    }
    assert_eq!(version(&bench.nodes[0], &keys[held]).await, 1, "its row is held all the while");
    assert!(version(&bench.nodes[0], &keys[0]).await > 10, "the others went on");
    assert_eq!(waiting.len(), 4);
    assert!(waiting.try_join_next().is_none(), "they wait for the row");
    bench.session("COMMIT").await;
    while let Some(done) = waiting.join_next().await {
        done.expect("an end");
    }
    assert_eq!(version(&bench.nodes[0], &keys[held]).await, 5);
    assert_eq!(bench.deadlocks().await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_a_row_is_told_at_the_bound() {
    let bench = Bench::start().await;
    let node = open_with(impatient(&bench.database.url())).await;
    make(&node, &names(3)).await;
    bench.hold("B1").await;
    let begun = Instant::now();
    let held = key("B1");
    let alone = node.commit(next(&held, 1));
    let all = node.commit_all(vec![next(&key("a0"), 1), next(&held, 1), next(&key("a2"), 1)]);
    let lock = node.lock(&held, &[], now(), OnLocked::Wait(SHORT));
    let (alone, (all, lock)) = join(alone, join(all, lock)).await;
    match alone {
        Ok(Verdict::LockTimeout { waited }) => assert!(waited >= SHORT, "{waited:?}"),
        other => panic!("{other:?}"),
    }
    match all {
        Ok(AllVerdict::Failed { index: 1, verdict: Verdict::LockTimeout { waited } }) => {
            assert!(waited >= SHORT, "{waited:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(lock, Err(LockError::Locked { waited }) if waited >= SHORT), "{lock:?}");
    assert!(begun.elapsed() < LONG);
    // What is lost anyway waits for nobody.
    let lost = node.commit_all(vec![next(&key("B1"), 1), next(&key("a0"), 7)]).await;
    assert!(matches!(lost, Ok(AllVerdict::Failed { index: 1, verdict: Verdict::Lost(Some(_)) })), "{lost:?}");
    assert_eq!(version(&node, &key("a0")).await, 1, "all or none");
}

/// The name of a record that somebody is making cannot be passed over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_another_is_making_is_waited_for_alone() {
    let bench = Bench::start().await;
    for (end, made) in [("ROLLBACK", false), ("COMMIT", true)] {
        let name = format!("{end} new");
        let insert = format!(
            "BEGIN; INSERT INTO lockkeeper.records (space, id, version, primary_facet, secondary_facet, created_ms,
             updated_ms, body) VALUES ('things', '{name}', 1, '', '', 0, 0, '')"
        );
        bench.session(&insert).await;
        let others: Vec<RecordKey> = (0..20).map(|n| key(&format!("{end} {n}"))).collect();
        let contended = key(&name);
        let work = async {
            let waiting = bench.nodes[0].commit(next(&contended, 0));
            let going_on = async {
                make(&bench.nodes[0], &others).await;
                make(&bench.nodes[0], &[key(&format!("{end} once more"))]).await;
                bench.session(end).await;
            };
            join(waiting, going_on).await.0
        };
        match work.await {
            Ok(Verdict::Committed) if !made => {}
            Ok(Verdict::Lost(Some(current))) if made => assert_eq!(current.version, 1),
            other => panic!("{end}: {other:?}"),
        }
    }
    assert_eq!(bench.deadlocks().await, "0");
}

/// Bytes order the names, whatever the database's language: batches and requests of many meet without a circle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_records_are_made_in_one_order_by_everybody() {
    const ROUNDS: usize = 15;
    let outer = database().await;
    if execute(&outer, "SELECT current_setting('server_version_num')::int < 150000").await == "t" {
        // No database of a language's order.
        return;
    }
    let name = format!("{}_icu", outer.name());
    execute(
        &outer,
        format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'en'"),
    )
    .await;
    see_deadlocks(&outer, &name).await;
    let url = outer.url().replace(outer.name(), &name);
    let nodes = [open(&url).await, open(&url).await];
    for round in 0..ROUNDS {
        let keys: Vec<RecordKey> = names(16).iter().map(|one| key(&format!("{} {round}", one.id))).collect();
        let all = nodes[0].commit_all(keys.iter().map(|key| next(key, 0)).collect());
        let singly = join_all(keys.iter().rev().map(|key| nodes[1].commit(next(key, 0))));
        let (all, singly) = join(all, singly).await;
        let made = singly.iter().filter(|told| **told == Ok(Verdict::Committed)).count();
        let expected = if all == Ok(AllVerdict::Committed) { 0 } else { keys.len() };
        assert_eq!(made, expected, "{all:?} {singly:?}");
    }
    for node in &nodes {
        node.close().await;
    }
    drop(nodes);
    let others = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'");
    eventually("all sessions end", || async { execute(&outer, others.clone()).await == "0" }).await;
    let deadlocks = format!("SELECT deadlocks FROM pg_stat_database WHERE datname = '{name}'");
    assert_eq!(execute(&outer, deadlocks).await, "0");
    execute(&outer, format!("DROP DATABASE {name}")).await;
}

/// Of two requests that rely on what the other changes, one is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_required_stays_so_until_the_commit() {
    let bench = Bench::start().await;
    let (a, b) = (key("a"), key("b"));
    make(&bench.nodes[0], &[a.clone(), b.clone()]).await;
    for _ in 0..20 {
        let (at_a, at_b) = (version(&bench.nodes[0], &a).await, version(&bench.nodes[0], &b).await);
        let one = bench.nodes[0].commit_all(vec![requiring(&a, at_a, &b, at_b)]);
        let other = bench.nodes[1].commit_all(vec![requiring(&b, at_b, &a, at_a)]);
        let both = join(one, other).await;
        match both {
            (Ok(AllVerdict::Committed), Ok(AllVerdict::Failed { verdict: Verdict::Unmet { .. }, .. }))
            | (Ok(AllVerdict::Failed { verdict: Verdict::Unmet { .. }, .. }), Ok(AllVerdict::Committed)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(bench.deadlocks().await, "0");
}

/// L19: whether they go alone or together, whether the record is there or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_of_another_life_are_lost_in_batches_too() {
    let bench = Bench::start().await;
    let there = names(10);
    make(&bench.nodes[0], &there).await;
    let new: Vec<RecordKey> = (0..10).map(|n| key(&format!("new{n}"))).collect();
    let life = bench.nodes[0].confirm(&there[0], &[], now()).await.expect("an answer").life;
    let sets = || there.iter().map(|key| next(key, 1)).chain(new.iter().map(|key| next(key, 0)));
    let of = |life: i64| sets().map(move |set| ChangeSet { life: Some(life), ..set });
    for told in join_all(of(life - 1).map(|set| bench.nodes[0].commit(set))).await {
        assert!(matches!(told, Ok(Verdict::Lost(_))), "{told:?}");
    }
    let all = bench.nodes[0].commit_all(of(life - 1).collect()).await;
    assert!(matches!(all, Ok(AllVerdict::Failed { verdict: Verdict::Lost(_), .. })), "{all:?}");
    for told in join_all(of(life).map(|set| bench.nodes[0].commit(set))).await {
        assert_eq!(told, Ok(Verdict::Committed));
    }
}

/// A holder that is stopped, or has forgotten its lock, keeps the row for a while only, and learns that it has lost it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_holder_loses_the_row() {
    let database = database().await;
    let mut short = options(&database.url());
    short.row_lock_silence = Duration::from_millis(300);
    let silent = open_with(short).await;
    let other = open(&database.url()).await;
    must_commit(&silent, next(&key("a"), 0)).await;
    let held = silent.lock(&key("a"), &[], now(), OnLocked::Wait(LONG)).await.expect("locked");
    let begun = Instant::now();
    let locked = other.lock(&key("a"), &[], now(), OnLocked::Wait(LONG)).await.expect("locked");
    assert!(locked.contended && begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(locked.hold.commit(next(&key("a"), 1)).await, Ok(Verdict::Committed));
    let told = held.hold.commit(next(&key("a"), 1)).await;
    assert!(matches!(told, Err(CommitError::Unavailable(_))), "{told:?}");
    assert_eq!(version(&silent, &key("a")).await, 2);
}
