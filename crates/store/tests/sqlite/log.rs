//! The log beside the file.

use std::fs;
use std::sync::Arc;

use lockkeeper_store::{Store, Verdict};

use crate::tools::{key, next, open};

const MIB: usize = 1024 * 1024;

/// Where the log is ended at the latest, and room for what is written while that is done.
const LOG_BYTES_MAX: usize = 64 * MIB + 8 * MIB;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_does_not_grow_without_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(open(&folder.path().join("store.db")).expect("a store"));
    let log = || fs::metadata(folder.path().join("store.db-wal")).map_or(0, |log| log.len() as usize);
    // There is always somebody in the middle of a long read.
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                while let Ok(events) = store.events(&key("a"), 0, 8).await {
                    assert!(events.len() <= 8);
                }
            })
        })
        .collect();
    let mut longest = 0;
    for version in 0..(2 * LOG_BYTES_MAX / MIB) as i64 {
        let mut set = next(&key("a"), version);
        set.events = vec![vec![b'x'; MIB].into()];
        assert_eq!(store.commit(set).await, Ok(Verdict::Committed));
        longest = longest.max(log());
    }
    assert!(longest <= LOG_BYTES_MAX, "{longest}");
    store.close().await;
    assert_eq!(log(), 0);
    for reader in readers {
        reader.await.expect("an end");
    }
}

#[tokio::test]
async fn what_a_dead_process_left_in_it_is_settled_on_opening() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("store.db"), folder.path().join("copy.db"));
    let store = open(&path).expect("a store");
    assert_eq!(store.commit(next(&key("a"), 0)).await, Ok(Verdict::Committed));
    // What a power cut would leave: the file and its log as they are.
    fs::copy(&path, &copy).expect("copied");
    fs::copy(folder.path().join("store.db-wal"), folder.path().join("copy.db-wal")).expect("copied");
    let again = open(&copy).expect("the copy");
    assert_eq!(
        fs::metadata(folder.path().join("copy.db-wal")).map_or(0, |log| log.len()),
        0,
        "all of it is in the file"
    );
    assert_eq!(again.read(&key("a")).await.expect("an answer").map(|record| record.version), Some(1));
}
