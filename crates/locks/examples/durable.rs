//! A lock that outlives its process, in a file and without a server: `cargo run -p lockkeeper-locks --example durable`.

use std::sync::Arc;

use lockkeeper_locks::{Acquire, Durable, Locks, Released, ServiceOptions};
use lockkeeper_store::{SqliteOptions, SqliteStore, Store};

#[tokio::main]
pub(crate) async fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("locks.db");
    let open = || Arc::new(SqliteStore::open(&path, SqliteOptions::default()).expect("a store"));

    let store = open();
    let locks = Locks::new(Arc::new(Durable::open(store.clone(), ServiceOptions::default())));
    let lease = locks.acquire("nightly-report", Acquire::new().owner("job 1")).await.expect("nobody has it");
    let fence = lease.fence();
    // As if the process had died: nothing is given back.
    std::mem::forget(lease);
    drop(locks);
    store.close().await;
    drop(store);

    let locks = Locks::new(Arc::new(Durable::open(open(), ServiceOptions::default())));
    let refused = locks.acquire("nightly-report", Acquire::new()).await.expect_err("still held");
    println!("after the restart: {refused}");
    assert!(refused.to_string().contains("job 1"));

    locks.service().force_release("nightly-report").await.expect("an answer");
    let next = locks.acquire("nightly-report", Acquire::new()).await.expect("free");
    assert!(next.fence() > fence, "whatever the old job still writes is older");
    assert_eq!(next.release().await, Released::Released);
}
