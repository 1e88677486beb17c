//! Roles whose sessions begin otherwise than usual: the store is right all the same.

use std::time::Duration;

use futures_util::future::join_all;
use lockkeeper_store::{AllVerdict, CommitError, ListOrder, OnLocked, OpenError, Store, Verdict};

use crate::tools::{
    LONG, Role, blocking, database, eventually, execute, key, keyed, must_commit, next, now, open, options, query,
    refused, version,
};
use crate::writers::{Writers, history};
use lockkeeper_testbed::Session;

/// Everything, with many at once.
async fn works(setting: &str) {
    let database = database().await;
    let role = Role::with_setting(&database, setting).await;
    let store = open(&role.url()).await;
    let writers = Writers::start(&store, 12);
    writers.progress(200).await;
    writers.check().await;
    for n in 0..10 {
        must_commit(&store, keyed(&key(&format!("k{n}")), 0, "once")).await;
    }
    assert!(matches!(store.commit(keyed(&key("k1"), 1, "once")).await, Ok(Verdict::KeysTaken(_))));
    let all = (0..10).map(|n| next(&key(&format!("k{n}")), 1)).collect();
    assert_eq!(store.commit_all(all).await, Ok(AllVerdict::Committed));
    let lockers = (0..10).map(|_| {
        let store = &store;
        async move {
            let locked = store.lock(&key("k0"), &[], now(), OnLocked::Wait(LONG)).await.expect("locked");
            let at = locked.record.as_ref().expect("it is there").version;
            assert_eq!(locked.hold.commit(next(&key("k0"), at)).await, Ok(Verdict::Committed));
        }
    });
    join_all(lockers).await;
    assert_eq!(version(&store, &key("k0")).await, 12);
    assert_eq!(history(&store, &key("k0")).await.len(), 12);
    for order in [ListOrder::Id, ListOrder::Newest] {
        let page = store.list(&query(order)).await.expect("an answer");
        assert!(page.records.len() > 10, "{} records", page.records.len());
    }
    let confirmed = store.confirm(&key("k2"), &["once".to_owned()], now()).await.expect("an answer");
    assert_eq!((confirmed.version, confirmed.keys.len()), (2, 1));
    assert_eq!(store.purge_keys(now() + Duration::from_secs(10_000), 100).await, Ok(10));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serializable_transactions() {
    works("default_transaction_isolation = 'serializable'").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeatable_reads() {
    works("default_transaction_isolation = 'repeatable read'").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deferrable_transactions() {
    works("default_transaction_deferrable = on").await;
}

/// Operators and functions that are looked up before PostgreSQL's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_mean_something_else() {
    let database = database().await;
    let theirs = "CREATE SCHEMA theirs;
        CREATE FUNCTION theirs.never(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false';
        CREATE FUNCTION theirs.never(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false';
        CREATE FUNCTION theirs.never(integer, integer) RETURNS boolean LANGUAGE sql AS 'SELECT false';
        CREATE OPERATOR theirs.= (LEFTARG = text, RIGHTARG = text, FUNCTION = theirs.never);
        CREATE OPERATOR theirs.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = theirs.never);
        CREATE OPERATOR theirs.> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = theirs.never);
        CREATE OPERATOR theirs.> (LEFTARG = integer, RIGHTARG = integer, FUNCTION = theirs.never);
        CREATE FUNCTION theirs.current_setting(text) RETURNS text LANGUAGE sql AS 'SELECT ''off''::text';
        CREATE FUNCTION theirs.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT ''''::text';
        CREATE FUNCTION theirs.cardinality(anyarray) RETURNS integer LANGUAGE sql AS 'SELECT 0';
        CREATE FUNCTION theirs.octet_length(bytea) RETURNS integer LANGUAGE sql AS 'SELECT 1000000000';
        CREATE TABLE theirs.pg_database (datname name, encoding integer);
        GRANT USAGE ON SCHEMA theirs TO PUBLIC";
    execute(&database, theirs).await;
    let role = Role::with_setting(&database, "search_path = 'theirs, pg_catalog'").await;
    let store = open(&role.url()).await;
    let writers = Writers::start(&store, 6);
    writers.progress(60).await;
    writers.check().await;
    for n in 0..5 {
        must_commit(&store, keyed(&key(&format!("k{n}")), 0, "once")).await;
    }
    assert!(matches!(store.commit(keyed(&key("k1"), 1, "once")).await, Ok(Verdict::KeysTaken(_))));
    let all = (0..5).map(|n| next(&key(&format!("k{n}")), 1)).collect();
    assert_eq!(store.commit_all(all).await, Ok(AllVerdict::Committed));
    let locked = store.lock(&key("k0"), &["once".to_owned()], now(), OnLocked::GiveUp).await.expect("locked");
    assert_eq!((locked.record.as_ref().map(|record| record.version), locked.keys.len()), (Some(2), 1));
    drop(locked);
    let page = store.list(&query(ListOrder::Newest)).await.expect("an answer");
    assert!(page.records.len() >= 5, "{} records", page.records.len());
    assert_eq!(history(&store, &key("k0")).await.len(), 2);
    store.close().await;
}

/// What the administrator bounds more tightly ends sooner; what is told is so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tight_bounds_of_statements_and_locks() {
    let database = database().await;
    let role = Role::with_setting(&database, "statement_timeout = '300ms'").await;
    execute(&database, format!("ALTER ROLE {} SET lock_timeout = '20ms'", role.name())).await;
    let mut patient = options(&role.url());
    patient.lock_wait = Duration::from_millis(900);
    let store = crate::tools::open_with(patient).await;
    for id in ["a", "b"] {
        must_commit(&store, next(&key(id), 0)).await;
    }
    let url = database.url();
    let session = blocking(move || Session::open(&url)).await;
    session.execute("BEGIN; SELECT 1 FROM lockkeeper.records WHERE id = 'a' FOR UPDATE");
    // A row is waited for as long as this node says: longer than the role's statements may take.
    match store.commit(next(&key("a"), 1)).await {
        Ok(Verdict::LockTimeout { waited }) => assert!(waited >= Duration::from_millis(900), "{waited:?}"),
        other => panic!("{other:?}"),
    }
    let held = key("a");
    let waiting = store.lock(&held, &[], now(), OnLocked::Wait(LONG));
    let release = async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        session.execute("COMMIT");
    };
    let (locked, ()) = futures_util::future::join(waiting, release).await;
    assert!(locked.expect("locked").waited >= Duration::from_millis(400));
    // What the role's bound ends has not taken place.
    session.execute("BEGIN; LOCK TABLE lockkeeper.events IN EXCLUSIVE MODE");
    let told = store.commit(next(&key("b"), 1)).await;
    assert!(matches!(told, Err(CommitError::Unavailable(_)) | Ok(Verdict::LockTimeout { .. })), "{told:?}");
    session.execute("COMMIT");
    must_commit(&store, next(&key("b"), 1)).await;
    store.close().await;
}

/// Set to keep writers away: it is not overruled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_takes_no_changes_is_refused() {
    let database = database().await;
    let store = open(&database.url()).await;
    must_commit(&store, next(&key("a"), 0)).await;
    execute(&database, format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name())).await;
    match refused(&database.url()).await {
        OpenError::NoDatabase { detail, .. } => assert!(detail.contains("default_transaction_read_only"), "{detail}"),
        other => panic!("{other:?}"),
    }
    // Also by the sessions that follow those of before.
    let others = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    eventually("the others have ended", || async { execute(&database, others).await == "0" }).await;
    let told = store.commit(next(&key("a"), 1)).await;
    assert!(matches!(told, Err(CommitError::Unavailable(_))), "{told:?}");
    execute(
        &database,
        format!(
            "SET default_transaction_read_only = off; ALTER DATABASE {} RESET default_transaction_read_only",
            database.name()
        ),
    )
    .await;
    must_commit(&store, next(&key("a"), 1)).await;
}
