//! A process that dies while it commits.

use std::os::unix::process::ExitStatusExt;

use lockkeeper_store::OpenError;

use crate::process::{COMMIT_FOREVER, Process, assert_kept};
use crate::tools::open;

const SIGKILL: i32 = 9;

#[tokio::test]
async fn every_acknowledged_commit_outlives_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let mut acknowledged = Vec::new();
    for round in 1..=8 {
        let mut child = Process::start(COMMIT_FOREVER, &path, &[]);
        // Another place in the work each time.
        child.await_acknowledged(37 * round);
        match open(&path) {
            Err(OpenError::InUse { holder, .. }) => assert_ne!(holder, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
        child.kill();
        assert_eq!(child.end().signal(), Some(SIGKILL));
        acknowledged.append(&mut child.acknowledged);
        assert_kept(&path, &acknowledged).await;
    }
}
