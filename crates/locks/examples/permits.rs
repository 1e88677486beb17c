//! So many at once, and no more: `cargo run -p lockkeeper-locks --example permits`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper_locks::{Acquire, InProcess, Locks, ServiceOptions};

const PERMITS: u32 = 3;

#[tokio::main]
pub(crate) async fn main() {
    let locks = Locks::new(Arc::new(InProcess::open(ServiceOptions::default())));
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let calls = (0..10).map(|_| {
        let (locks, inside, most) = (locks.clone(), inside.clone(), most.clone());
        tokio::spawn(async move {
            let how = Acquire::new().permits(PERMITS).wait(Duration::from_secs(10));
            let permit = locks.acquire("erp-calls", how).await.expect("its turn comes");
            most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            permit.release().await;
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.expect("no panic");
    }
    let most = most.load(Ordering::SeqCst);
    println!("ten calls, at most {most} at once");
    assert!(most >= 1 && most <= PERMITS as usize);
}
