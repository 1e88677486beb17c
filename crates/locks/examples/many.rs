//! Several names, all or none, in whatever order they are given: `cargo run -p lockkeeper-locks --example many`.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_locks::{Acquire, InProcess, Locks, ServiceOptions};

#[tokio::main]
pub(crate) async fn main() {
    let locks = Locks::new(Arc::new(InProcess::open(ServiceOptions::default())));
    let transfer = |from: &'static str, to: &'static str| {
        let locks = locks.clone();
        tokio::spawn(async move {
            for _ in 0..100 {
                let how = Acquire::new().wait(Duration::from_secs(10));
                let both = locks.acquire_all([from, to], how).await.expect("nobody waits for the other");
                assert_eq!(both.fences().len(), 2);
                both.release().await;
            }
        })
    };
    let (there, back) = (transfer("account/1", "account/2"), transfer("account/2", "account/1"));
    there.await.expect("no panic");
    back.await.expect("no panic");
    println!("a hundred transfers each way, and no deadlock");
}
