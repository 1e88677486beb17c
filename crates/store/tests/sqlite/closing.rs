//! Letting go of a store.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_store::{CommitError, SqliteOptions, SqliteStore, Store, Verdict};
use rusqlite::Connection;

use crate::tools::{key, next, open};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_accepted_is_finished() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let store = Arc::new(open(&path).expect("a store"));
    let tasks: Vec<_> = (0..200)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { (n, store.commit(next(&key(&format!("k{n}")), 0)).await) })
        })
        .collect();
    store.ping().await.expect("a store");
    store.close().await;
    // Twice does no harm; and the old value may live on beside a new store.
    store.close().await;
    let again = open(&path).expect("the same store");
    for task in tasks {
        let (n, answer) = task.await.expect("an end");
        let found = again.read(&key(&format!("k{n}"))).await.expect("an answer").is_some();
        match answer {
            Ok(Verdict::Committed) => assert!(found, "{n} was acknowledged"),
            Err(CommitError::Unavailable(_)) => assert!(!found, "{n} was not written"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_closed_store_is_one_file_and_its_lock() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("store.db")).expect("a store");
    assert_eq!(store.commit(next(&key("a"), 0)).await, Ok(Verdict::Committed));
    assert!(store.read(&key("a")).await.expect("an answer").is_some());
    store.close().await;
    let mut names: Vec<String> = fs::read_dir(folder.path())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["store.db", "store.db.lock"]);
    let connection = Connection::open(folder.path().join("store.db")).expect("a connection");
    let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
    assert_eq!(check, "ok");
}

#[tokio::test]
async fn a_store_that_was_dropped_opens_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    for version in 0..5 {
        let store = open(&path).expect("a store");
        assert_eq!(store.commit(next(&key("a"), version)).await, Ok(Verdict::Committed));
        assert_eq!(store.read(&key("a")).await.expect("an answer").map(|record| record.version), Some(version + 1));
        drop(store);
    }
}

#[tokio::test]
async fn a_full_queue_refuses_within_its_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let wait = Duration::from_millis(20);
    let options = SqliteOptions { queue: 2, queue_wait: wait, ..SqliteOptions::default() };
    let store = Arc::new(SqliteStore::open(&path, options).expect("a store"));
    let other = Connection::open(&path).expect("a connection");
    other.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
    // The writer takes some into its hands and stands still; two wait; then one finds no place.
    let mut accepted = Vec::new();
    let refused = loop {
        let key = key(&format!("k{}", accepted.len()));
        let commit = tokio::spawn({
            let (store, set) = (Arc::clone(&store), next(&key, 0));
            async move { store.commit(set).await }
        });
        let mut commit = Box::pin(commit);
        match tokio::time::timeout(wait * 5, &mut commit).await {
            Ok(answer) => break (key, answer.expect("an end")),
            Err(_) => accepted.push((key, commit)),
        }
    };
    assert!(accepted.len() >= 2, "{}", accepted.len());
    match refused {
        (key, Err(CommitError::Unavailable(reason))) => {
            assert!(reason.contains("full"), "{reason}");
            assert_eq!(store.read(&key).await, Ok(None));
        }
        other => panic!("{other:?}"),
    }
    drop(other);
    for (key, commit) in accepted {
        assert_eq!(commit.await.expect("an end"), Ok(Verdict::Committed), "{key}");
    }
}

#[tokio::test]
async fn a_verdict_that_does_not_come_is_unknown_and_can_be_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let options = SqliteOptions { verdict_wait: Duration::from_millis(100), ..SqliteOptions::default() };
    let store = SqliteStore::open(&path, options).expect("a store");
    let other = Connection::open(&path).expect("a connection");
    other.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
    let set = next(&key("a"), 0);
    assert!(matches!(store.commit(set.clone()).await, Err(CommitError::Unknown(_))));
    assert_eq!(store.committed(&set.key, 0, set.commit_id).await, Ok(false));
    drop(other);
    // It goes on where it stood; whoever gets the next version knows that it is settled.
    while store.ping().await.is_err() {}
    assert_eq!(store.committed(&set.key, 0, set.commit_id).await, Ok(true));
    assert!(matches!(store.commit(next(&set.key, 0)).await, Ok(Verdict::Lost(Some(_)))));
}

#[tokio::test]
async fn a_lock_held_by_another_program_is_waited_for_within_bounds() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let store = open(&path).expect("a store");
    let other = Connection::open(&path).expect("a connection");
    other.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
    match store.commit(next(&key("a"), 0)).await {
        Err(CommitError::Unavailable(reason)) => assert!(reason.contains("locked"), "{reason}"),
        other => panic!("{other:?}"),
    }
    drop(other);
    assert_eq!(store.commit(next(&key("a"), 0)).await, Ok(Verdict::Committed));
}
