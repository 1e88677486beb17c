//! Locks on a file outlive the processes that use it; and a file from yesterday does not give out yesterday's fences.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_locks::{AcquireError, Ask, Claim, Durable, Grant, LeaseId, LockService, Mode, Release, ServiceOptions};
use lockkeeper_store::{SqliteOptions, SqliteStore, Store};

const LONG: Duration = Duration::from_secs(60);

/// A service on a file, for as long as this lives.
struct Home {
    store: Arc<SqliteStore>,
    service: Durable,
}

impl Home {
    fn open(path: &Path) -> Self {
        let store = Arc::new(SqliteStore::open(path, SqliteOptions::default()).expect("a store"));
        Self { service: Durable::open(store.clone(), ServiceOptions::default()), store }
    }

    async fn close(self) {
        self.service.close().await;
        self.store.close().await;
    }

    async fn acquire(&self, ask: &Ask) -> Grant {
        self.service.acquire(ask, Duration::ZERO).await.expect("it is free")
    }
}

fn ask(owner: &str, mode: Mode) -> Ask {
    let claim = Claim { resource: "r".into(), mode };
    Ask::new(LeaseId::random(), owner, "host", [claim], LONG).expect("a good ask")
}

#[tokio::test]
async fn a_lease_and_a_place_in_the_queue_outlive_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let (ann, bob) = (ask("ann", Mode::Exclusive), ask("bob", Mode::Exclusive));
    let home = Home::open(&path);
    let first = home.acquire(&ann).await;
    let waited = home.service.acquire(&bob, Duration::from_millis(50)).await;
    assert!(matches!(waited, Err(AcquireError::LockTimeout { .. })), "{waited:?}");
    home.close().await;

    let home = Home::open(&path);
    home.service.renew(ann.lease()).await.expect("still held");
    assert_eq!(home.acquire(&ann).await.fences, first.fences, "granted again, to who lost the answer");
    assert_eq!(home.service.release(ann.lease(), false).await, Ok(Release::Released));
    let hasty = home.service.acquire(&ask("cid", Mode::Shared), Duration::ZERO).await;
    assert!(matches!(hasty, Err(AcquireError::Held(_))), "bob's place is kept: {hasty:?}");
    assert!(home.acquire(&bob).await.fences > first.fences);
    home.close().await;
}

#[tokio::test]
async fn an_old_file_gives_out_new_fences() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, backup) = (folder.path().join("store.db"), folder.path().join("backup.db"));
    let home = Home::open(&path);
    home.acquire(&ask("ann", Mode::Exclusive)).await;
    home.close().await;
    std::fs::copy(&path, &backup).expect("a backup");

    let home = Home::open(&path);
    let mut last = Vec::new();
    for n in 0..50 {
        home.service.force_release("r").await.expect("an answer");
        last = home.acquire(&ask(&format!("o{n}"), Mode::Exclusive)).await.fences;
    }
    home.close().await;

    // The floor counts in seconds.
    let second = chrono::Utc::now().timestamp();
    while chrono::Utc::now().timestamp() == second {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    std::fs::copy(&backup, &path).expect("the backup put back");
    let home = Home::open(&path);
    home.service.force_release("r").await.expect("an answer");
    let fences = home.acquire(&ask("after", Mode::Exclusive)).await.fences;
    assert!(fences > last, "{fences:?} after {last:?}");
    home.close().await;
}
