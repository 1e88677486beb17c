//! Only one of us at a time: `cargo run -p lockkeeper-locks --example exclusive`.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_locks::{Acquire, AcquireError, InProcess, Locks, Released, ServiceOptions};

#[tokio::main]
pub(crate) async fn main() {
    // The same on a store (`Durable`) or on Redis (`RedisLocks`): only this line differs.
    let locks = Locks::new(Arc::new(InProcess::open(ServiceOptions::default())));

    let lease = locks.acquire("inventory/sku-1", Acquire::new()).await.expect("nobody has it");
    println!("held for {:?} at a time, renewed while it is held; fence {:?}", lease.remaining(), lease.fence());

    // Whoever does not wait hears who has it.
    let refused = locks.acquire("inventory/sku-1", Acquire::new()).await.expect_err("it is held");
    assert!(matches!(refused, AcquireError::Held(_)));
    println!("somebody else: {refused}");

    // The work ends where it stands if the lease is lost.
    let counted = lease.run(|lease| async move { lease.fence().map(|_| 42) }).await.expect("the lease is held");
    println!("counted {counted:?}");

    assert_eq!(lease.release().await, Released::Released);
    let next = locks.acquire("inventory/sku-1", Acquire::new().wait(Duration::from_secs(5))).await.expect("free again");
    // Dropping it gives it back as well, without waiting.
    drop(next);
    locks.settled().await;
}
