//! Many read, one writes, and no reader passes a writer that waits:
//! `cargo run -p lockkeeper-locks --example read_write`.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_locks::{Acquire, InProcess, Locks, ServiceOptions};

#[tokio::main]
pub(crate) async fn main() {
    let locks = Locks::new(Arc::new(InProcess::open(ServiceOptions::default())));
    let patient = Acquire::new().wait(Duration::from_secs(5));

    let ann = locks.acquire("catalogue", Acquire::new().shared()).await.expect("nobody writes");
    let bob = locks.acquire("catalogue", Acquire::new().shared()).await.expect("readers share");
    assert_eq!(ann.fence(), bob.fence(), "one generation");

    let writer = tokio::spawn({
        let (locks, patient) = (locks.clone(), patient.clone());
        async move { locks.acquire("catalogue", patient).await }
    });
    ann.release().await;
    bob.release().await;
    let writing = writer.await.expect("no panic").expect("the readers are gone");
    println!("writing under fence {:?}", writing.fence());

    let refused = locks.acquire("catalogue", Acquire::new().shared()).await;
    println!("a reader meanwhile: {}", refused.expect_err("it is written"));
    writing.release().await;
    locks.acquire("catalogue", patient.shared()).await.expect("written").release().await;
}
