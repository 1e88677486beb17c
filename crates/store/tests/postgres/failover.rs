//! Standbys that take over: what was acknowledged with a synchronous one is there; what a lagging one lost is lost, and
//! nobody takes the new history for the old one.

use std::sync::Arc;

use lockkeeper_store::{CommitError, PostgresStore, Store, Verdict};
use lockkeeper_testbed::{Postgres, Proxy, Replication, StopMode};

use crate::tools::{blocking, eventually, impatient, key, must_commit, next, open_with, options, version};
use crate::writers::{Writers, history};

/// Both servers, the primary first.
fn url_of_both(primary: &Postgres, standby: &Postgres) -> String {
    format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres", primary.port(), standby.port())
}

async fn start(kind: Replication) -> (Postgres, Postgres) {
    blocking(move || {
        let primary = Postgres::start();
        let standby = primary.standby(kind);
        (primary, standby)
    })
    .await
}

async fn life(store: &PostgresStore) -> i64 {
    store.confirm(&key("a"), &[], crate::tools::now()).await.expect("an answer").life
}

/// L19.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_lagged_begins_another_life() {
    let (mut primary, mut standby) = start(Replication::Asynchronous).await;
    let url = url_of_both(&primary, &standby);
    let store = open_with(options(&format!("{url}?target_session_attrs=read-write"))).await;
    must_commit(&store, next(&key("a"), 0)).await;
    must_commit(&store, next(&key("a"), 1)).await;
    standby = blocking(move || {
        // It follows up to here; what it has not received when it stops it never will.
        let there = "SELECT count(*) FROM lockkeeper.events";
        while standby.try_execute(there).as_deref() != Ok("2") {}
        standby.stop(StopMode::Fast);
        standby
    })
    .await;
    let lost = next(&key("a"), 2);
    must_commit(&store, lost.clone()).await;
    let before = store.read(&key("a")).await.expect("an answer").expect("a record");
    assert_eq!((before.version, before.life), (3, life(&store).await));
    blocking(move || primary.kill()).await;
    let standby = blocking(move || {
        standby.restart();
        standby.promote();
        standby
    })
    .await;

    eventually("the standby serves", || async { store.ping().await.is_ok() }).await;
    assert!(life(&store).await > before.life);
    assert_eq!(version(&store, &key("a")).await, 2, "what was not replicated is lost");
    assert_eq!(store.committed(&key("a"), 2, lost.commit_id).await, Ok(false));
    // Decided on a version that is there no more.
    let mut stale = next(&key("a"), 3);
    stale.life = Some(before.life);
    assert!(matches!(store.commit(stale.clone()).await, Ok(Verdict::Lost(Some(_)))));
    let mut again = next(&key("a"), 2);
    again.life = Some(life(&store).await);
    must_commit(&store, again.clone()).await;
    // The number is there again, and means something else.
    match store.commit(stale.clone()).await {
        Ok(Verdict::Lost(Some(current))) => {
            assert_eq!((current.version, Some(current.life)), (stale.expected_version, again.life));
        }
        other => panic!("{other:?}"),
    }
    stale.life = again.life;
    must_commit(&store, stale).await;
    let ids: Vec<_> = history(&store, &key("a")).await.into_iter().map(|(version, _)| version).collect();
    assert_eq!(ids, [1, 2, 3, 4]);
    drop(standby);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_synchronous_standby_has_everything_that_was_acknowledged() {
    let (mut primary, standby) = start(Replication::Synchronous).await;
    // Without the hint: a host that is a standby is passed over.
    let store = open_with(options(&url_of_both(&standby, &primary))).await;
    let writers = Writers::start(&store, 8);
    writers.progress(100).await;
    blocking(move || primary.kill()).await;
    let standby = blocking(move || {
        standby.promote();
        standby
    })
    .await;
    writers.progress(100).await;
    writers.check().await;
    drop(standby);
}

/// Somebody ends the wait for a standby that is away. The commit has taken place on the primary, and nowhere else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_did_not_wait_for_its_standby_is_unknown() {
    let (primary, standby) = start(Replication::Synchronous).await;
    let primary = Arc::new(primary);
    let store = open_with(options(&primary.url())).await;
    let impatient = open_with(impatient(&primary.url())).await;
    must_commit(&store, next(&key("a"), 0)).await;
    let standby = blocking(move || {
        standby.pause();
        standby
    })
    .await;
    for (way, pids) in [("alone", "pg_cancel_backend"), ("ended", "pg_terminate_backend")] {
        let set = next(&key(way), 0);
        let ender = primary.clone();
        let end = blocking(move || {
            let waiting = format!(
                "SELECT count({pids}(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%commit_one%'"
            );
            while ender.execute(&waiting) == "0" {}
        });
        let (told, ()) = futures_util::future::join(store.commit(set.clone()), end).await;
        assert!(matches!(told, Err(CommitError::Unknown(_))), "{way}: {told:?}");
        // It is there, but whoever asks is told only once the standby has it.
        assert_eq!(primary_version(&primary, way).await, "1");
        assert!(impatient.committed(&set.key, 0, set.commit_id).await.is_err(), "{way}: the standby is still away");
    }
    let standby = blocking(move || {
        standby.resume();
        standby
    })
    .await;
    eventually("the standby catches up", || async { store.ping().await.is_ok() }).await;
    for way in ["alone", "ended"] {
        eventually("it is found", || async {
            let id = history(&store, &key(way)).await[0].1;
            store.committed(&key(way), 0, id).await == Ok(true)
        })
        .await;
    }
    drop(standby);
}

async fn primary_version(primary: &Arc<Postgres>, id: &str) -> String {
    let (primary, sql) = (primary.clone(), format!("SELECT version FROM lockkeeper.records WHERE id = '{id}'"));
    blocking(move || primary.execute(&sql)).await
}

/// The old primary goes on running. Whoever has seen the new one does not go back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_former_primary_is_refused() {
    let (primary, standby) = start(Replication::Asynchronous).await;
    let (old, new) = (primary.address(), standby.address());
    let proxy = Proxy::start(old);
    let url = format!("postgres://postgres@{}/postgres", proxy.address());
    let store = open_with(impatient(&url)).await;
    must_commit(&store, next(&key("a"), 0)).await;
    let first = life(&store).await;
    let (primary, standby) = blocking(move || {
        while standby.try_execute("SELECT count(*) FROM lockkeeper.events").as_deref() != Ok("1") {}
        standby.promote();
        (primary, standby)
    })
    .await;
    proxy.retarget(new);
    proxy.cut_clients();
    eventually("the new primary serves", || async { life_now(&store).await.is_some_and(|life| life > first) }).await;
    must_commit(&store, next(&key("a"), 1)).await;

    proxy.retarget(old);
    proxy.cut_clients();
    eventually("the old connections are noticed to be gone", || async { store.ping().await.is_err() }).await;
    match store.commit(next(&key("a"), 2)).await {
        Err(CommitError::Unavailable(why)) => assert!(why.contains("former primary"), "{why}"),
        other => panic!("{other:?}"),
    }
    // A node that starts now does not know better; its life is the old one, and what it decides on it stays there.
    let newcomer = open_with(impatient(&url)).await;
    assert_eq!(life(&newcomer).await, first);
    proxy.retarget(new);
    eventually("the new primary is back", || async { store.ping().await.is_ok() }).await;
    let mut stale = next(&key("a"), 2);
    stale.life = Some(first);
    assert!(matches!(store.commit(stale).await, Ok(Verdict::Lost(Some(_)))));
    must_commit(&store, next(&key("a"), 2)).await;
    drop((primary, standby));
}

async fn life_now(store: &PostgresStore) -> Option<i64> {
    store.confirm(&key("a"), &[], crate::tools::now()).await.ok().map(|confirmed| confirmed.life)
}

/// Two standbys of one primary: each is promoted to the same next timeline, and yet they are not the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_histories_on_one_timeline_are_two_lives() {
    let (mut primary, first) = start(Replication::Asynchronous).await;
    let proxy = Proxy::start(primary.address());
    let store = open_with(impatient(&format!("postgres://postgres@{}/postgres", proxy.address()))).await;
    must_commit(&store, next(&key("a"), 0)).await;
    let (first, second) = blocking(move || {
        let second = primary.standby(Replication::Asynchronous);
        while first.try_execute("SELECT count(*) FROM lockkeeper.events").as_deref() != Ok("1") {}
        primary.kill();
        first.promote();
        (first, second)
    })
    .await;
    proxy.retarget(first.address());
    eventually("the first serves", || async { store.ping().await.is_ok() }).await;
    must_commit(&store, next(&key("a"), 1)).await;
    let before = store.read(&key("a")).await.expect("an answer").expect("a record");
    let second = blocking(move || {
        drop(first);
        second.promote();
        second
    })
    .await;
    assert_eq!(second.execute("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"), "00000002");
    proxy.retarget(second.address());
    eventually("the second serves", || async { store.ping().await.is_ok() }).await;
    // Version 2 again, of another history.
    must_commit(&store, next(&key("a"), 1)).await;
    let mut stale = next(&key("a"), 2);
    stale.life = Some(before.life);
    assert!(matches!(store.commit(stale).await, Ok(Verdict::Lost(Some(current))) if current.version == 2));
}
