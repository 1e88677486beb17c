//! Which files are opened, and how the others are refused.

use std::fs;
use std::time::{Duration, Instant};

use chrono::Utc;
use lockkeeper_store::{DateOf, DatedQuery, OpenError, Store, Verdict};
use rusqlite::Connection;

use crate::tools::{key, next, open};

fn message(error: OpenError) -> String {
    error.to_string()
}

#[tokio::test]
async fn a_second_opener_is_told_who_has_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let first = open(&path).expect("a store");
    // By any spelling.
    fs::create_dir(folder.path().join("sub")).expect("a folder");
    std::os::unix::fs::symlink(&path, folder.path().join("alias.db")).expect("a link");
    std::os::unix::fs::symlink(folder.path(), folder.path().join("sub/loop")).expect("a link");
    for spelling in ["store.db", "./store.db", "sub/../store.db", "alias.db", "sub/loop/store.db"] {
        match open(&folder.path().join(spelling)) {
            Err(OpenError::InUse { holder, .. }) => assert_eq!(holder, Some(std::process::id()), "{spelling}"),
            other => panic!("{spelling}: {other:?}"),
        }
    }
    assert!(message(open(&path).expect_err("in use")).contains(&format!("process {}", std::process::id())));
    assert_eq!(first.commit(next(&key("a"), 0)).await, Ok(Verdict::Committed), "the first is not disturbed");
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    drop(open(&path).expect("a store"));
    let connection = Connection::open(&path).expect("a connection");
    let known: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).expect("a number");
    connection.pragma_update(None, "user_version", known + 1).expect("set");
    drop(connection);
    let before = fs::read(&path).expect("the file");
    match open(&path) {
        Err(OpenError::TooNew { found, known: ours, .. }) => assert_eq!((found, ours), (known + 1, known)),
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::read(&path).expect("the file"), before);
}

#[tokio::test]
async fn a_file_of_the_release_before_is_brought_up_to_date() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let store = open(&path).expect("a store");
    for id in ["a", "b"] {
        assert_eq!(store.commit(next(&key(id), 0)).await, Ok(Verdict::Committed));
    }
    drop(store);
    let connection = Connection::open(&path).expect("a connection");
    let back = "DROP INDEX records_undated; DROP INDEX records_by_primary_date; DROP INDEX records_by_secondary_date;
        ALTER TABLE records DROP COLUMN primary_date_ms; ALTER TABLE records DROP COLUMN secondary_date_ms;
        PRAGMA user_version = 4";
    connection.execute_batch(back).expect("as it was");
    drop(connection);
    let store = open(&path).expect("a store");
    assert_eq!(store.commit(next(&key("a"), 1)).await, Ok(Verdict::Committed));
    let query = |by| DatedQuery { space: key("a").space, by, before: Utc::now() + Duration::from_secs(60), limit: 10 };
    for by in [DateOf::Primary, DateOf::Secondary] {
        let told = store.dated(&query(by)).await.expect("an answer");
        assert_eq!(told.iter().map(|dated| &*dated.key.id).collect::<Vec<_>>(), ["a", "b"], "{by:?}");
    }
    assert_eq!(store.commit(next(&key("a"), 2)).await, Ok(Verdict::Committed));
}

#[test]
fn another_file_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let note = folder.path().join("note.txt");
    fs::write(&note, "a note that is a little longer than the header of a database, so that nobody can say it was too short for one.").expect("written");
    let short = folder.path().join("short");
    fs::write(&short, "short").expect("written");
    let theirs = folder.path().join("theirs.db");
    let connection = Connection::open(&theirs).expect("a database");
    connection
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE records (a); INSERT INTO records VALUES (1);")
        .expect("a table");
    drop(connection);
    for path in [note, short, theirs] {
        let before = fs::read(&path).expect("the file");
        match open(&path) {
            Err(OpenError::NotAStore { path: named, detail }) => {
                assert!(named.ends_with(path.file_name().expect("a name")) && !detail.is_empty())
            }
            other => panic!("{}: {other:?}", path.display()),
        }
        assert_eq!(fs::read(&path).expect("the file"), before, "{}", path.display());
    }
}

#[test]
fn an_empty_file_becomes_a_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    fs::write(&path, "").expect("written");
    drop(open(&path).expect("a store"));
    drop(open(&path).expect("the same store"));
    assert!(fs::metadata(&path).expect("the file").len() > 0);
}

#[test]
fn a_place_that_cannot_be_is_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let unusable = |path: &std::path::Path| match open(path) {
        Err(OpenError::Unusable { detail, .. }) => detail,
        other => panic!("{other:?}"),
    };
    assert!(unusable(folder.path()).contains("is a folder"));
    assert!(unusable(&folder.path().join("none/store.db")).contains("create it"));
    let file = folder.path().join("file");
    fs::write(&file, "").expect("written");
    assert!(!unusable(&file.join("store.db")).is_empty());
    std::os::unix::fs::symlink("nowhere", folder.path().join("dangling")).expect("a link");
    assert!(unusable(&folder.path().join("dangling")).contains("link"));
    fs::hard_link(&file, folder.path().join("second name")).expect("a link");
    assert!(unusable(&file).contains("hard links"));
}

#[test]
fn a_damaged_store_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    drop(open(&path).expect("a store"));
    let mut bytes = fs::read(&path).expect("the file");
    // The root page of the schema, behind an intact header.
    bytes[100..200].fill(0xff);
    fs::write(&path, bytes).expect("written");
    match open(&path) {
        Err(OpenError::Unusable { detail, .. }) => assert!(detail.contains("backup"), "{detail}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_lock_file_of_a_dead_process_is_no_obstacle() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    fs::write(folder.path().join("store.db.lock"), "4194304 and some more text than a number has\n").expect("written");
    drop(open(&path).expect("a store"));
    let lock = fs::read_to_string(folder.path().join("store.db.lock")).expect("it stays");
    assert_eq!(lock.trim().parse(), Ok(std::process::id()));
}

#[test]
fn opening_is_quick() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    drop(open(&path).expect("a store"));
    // The best of several: the machine may be busy, the store must not be slow.
    let best = (0..10)
        .map(|_| {
            let start = Instant::now();
            drop(open(&path).expect("a store"));
            start.elapsed()
        })
        .min();
    assert!(best < Some(Duration::from_millis(100)), "{best:?}");
}
