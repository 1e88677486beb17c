//! A holder that stood still must not write after another: `cargo run -p lockkeeper-locks --example fenced_write`.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_locks::{Acquire, InProcess, Locks, ManualClock, ServiceOptions};

/// Something outside that lets nobody write who is older than the last writer.
#[derive(Default)]
struct Warehouse {
    last: i64,
    stock: u32,
}

impl Warehouse {
    fn write(&mut self, stock: u32, fence: i64) -> Result<(), i64> {
        if fence < self.last {
            return Err(self.last);
        }
        (self.last, self.stock) = (fence, stock);
        Ok(())
    }
}

#[tokio::main]
pub(crate) async fn main() {
    let clock = Arc::new(ManualClock::default());
    let options = ServiceOptions { clock: clock.clone(), ..ServiceOptions::default() };
    let locks = Locks::with_clock(Arc::new(InProcess::open(options)), clock.clone());
    let mut warehouse = Warehouse::default();

    let slow = locks.acquire("sku-1", Acquire::new().ttl(Duration::from_secs(30))).await.expect("nobody has it");
    let slow_fence = slow.fence().expect("this service has fences");

    // The process stands still for a minute: nothing renews.
    clock.advance(Duration::from_secs(60));
    assert!(!slow.is_held(), "it knows at once");

    let quick = locks.acquire("sku-1", Acquire::new()).await.expect("lapsed");
    warehouse.write(7, quick.fence().expect("this service has fences")).expect("the newest writer");

    let last = warehouse.write(9, slow_fence).expect_err("too late");
    println!("fenced: {slow_fence} is older than {last}; the stock is {}", warehouse.stock);
    assert_eq!(warehouse.stock, 7);
}
