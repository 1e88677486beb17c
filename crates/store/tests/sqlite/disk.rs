//! A disk that fails: `tests/shims/disk.c`, compiled here and loaded into a child.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lockkeeper_store::{CommitError, Store, Verdict};

use crate::process::{COMMIT_FOREVER, LOSE_THE_DISK, MEET_A_FULL_DISK, Process, assert_kept};
use crate::tools::{key, next, open};

const SIGABRT: i32 = 6;

/// How often a readiness that is to change is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Compiles the shim into `folder`. The same compiler has built SQLite, so there is one.
fn shim(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shims/disk.c");
    let library = folder.join("disk.so");
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .output()
        .expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

/// P2: a failed fsync ends the process, and nothing that was acknowledged is lost with it.
async fn a_failed_sync_ends_the_process(suffix: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, trigger) = (folder.path().join("store.db"), folder.path().join("trigger"));
    let library = shim(folder.path());
    let environment = [("LD_PRELOAD", &*library), ("SHIM_FSYNC_FAILS", &*trigger), ("SHIM_SUFFIX", Path::new(suffix))];
    let mut child = Process::start(COMMIT_FOREVER, &path, &environment);
    child.await_acknowledged(100);
    fs::write(&trigger, "").expect("written");
    assert_eq!(child.end().signal(), Some(SIGABRT));
    assert_kept(&path, &child.acknowledged).await;
}

#[tokio::test]
async fn a_failed_sync_of_the_log_ends_the_process() {
    a_failed_sync_ends_the_process("-wal").await;
}

#[tokio::test]
async fn nothing_is_acknowledged_without_a_sync() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let (library, trigger) = (shim(folder.path()), trigger_beside(&path));
    let environment = [("LD_PRELOAD", &*library), ("SHIM_FSYNC_FAILS", &*trigger), ("SHIM_SUFFIX", Path::new("-wal"))];
    let mut child = Process::start(LOSE_THE_DISK, &path, &environment);
    assert_eq!(child.end().signal(), Some(SIGABRT));
    assert_eq!(child.acknowledged, [("a".to_owned(), 1), ("a".to_owned(), 2)]);
    assert_kept(&path, &child.acknowledged).await;
}

/// What the child does in the last test. The log has been begun when the disk is lost: what fails is a commit's own sync.
pub(crate) async fn lose_the_disk(path: &Path) {
    let store = open(path).expect("a store");
    for version in 0.. {
        if version == 2 {
            fs::write(trigger_beside(path), "").expect("written");
        }
        assert_eq!(store.commit(next(&key("a"), version)).await, Ok(Verdict::Committed));
        println!("ack a {}", version + 1);
    }
}

#[tokio::test]
async fn a_failed_sync_in_a_checkpoint_ends_the_process() {
    a_failed_sync_ends_the_process(".db").await;
}

#[tokio::test]
async fn a_full_disk_refuses_and_the_store_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let library = shim(folder.path());
    let trigger = trigger_beside(&path);
    let environment = [("LD_PRELOAD", &*library), ("SHIM_DISK_FULL", &*trigger), ("SHIM_SUFFIX", Path::new("-wal"))];
    let mut child = Process::start(MEET_A_FULL_DISK, &path, &environment);
    assert!(child.end().success());
    assert_eq!(child.acknowledged, [("small".to_owned(), 1), ("small".to_owned(), 2), ("large".to_owned(), 20)]);
    assert_kept(&path, &child.acknowledged).await;
}

fn trigger_beside(path: &Path) -> PathBuf {
    path.with_file_name("trigger")
}

/// What the child does in the last test.
pub(crate) async fn meet_a_full_disk(path: &Path) {
    let store = open(path).expect("a store");
    let (small, large) = (key("small"), key("large"));
    // More than the writer's cache holds: it is written to the log before its COMMIT.
    let mut spilling = next(&large, 0);
    spilling.events = vec![vec![b'x'; 1024 * 1024].into(); 20];
    let full = |answer| matches!(answer, Err(CommitError::Unavailable(reason)) if reason.contains("full"));

    assert_eq!(store.commit(next(&small, 0)).await, Ok(Verdict::Committed));
    println!("ack small 1");
    assert_eq!(store.ping().await, Ok(()));
    fs::write(trigger_beside(path), "").expect("the disk is full");
    assert!(full(store.commit(next(&small, 1)).await));
    // What was told a moment ago may be told once more.
    while store.ping().await.is_ok() {
        tokio::time::sleep(LOOK).await;
    }
    assert!(full(store.commit(spilling.clone()).await));
    assert!(full(store.commit(next(&small, 1)).await));
    let read = store.read(&small).await.expect("reads go on").expect("a record");
    assert_eq!(read.version, 1);
    assert!(matches!(store.commit(next(&small, 0)).await, Ok(Verdict::Lost(Some(_)))), "refusals need no disk");
    assert!(store.ping().await.is_err());
    fs::remove_file(trigger_beside(path)).expect("there is room again");
    while store.ping().await.is_err() {
        tokio::time::sleep(LOOK).await;
    }
    assert_eq!(store.commit(next(&small, 1)).await, Ok(Verdict::Committed));
    println!("ack small 2");
    assert_eq!(store.read(&large).await, Ok(None));
    assert_eq!(store.commit(spilling).await, Ok(Verdict::Committed));
    println!("ack large 20");
    store.close().await;
}
