//! L18: the server's clock is set. Leases expire by it, and fences tell who came later.

use std::time::Duration;

use lockkeeper_locks::{AcquireError, LockService as _, RenewError};
use lockkeeper_testbed::Redis;

use crate::bench::{LONG, ask, blocking, fence, open};

const START: i64 = 2_000_000_000_000;

const HOUR: i64 = 3_600_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_forward_ends_leases_and_their_holders_hear_of_it() {
    let server = blocking(Redis::start_with_clock).await;
    server.set_clock(START);
    let service = open(&server.url()).await;
    let (ann, bob) = (ask("ann", "r", LONG), ask("bob", "r", LONG));
    let first = fence(&service.acquire(&ann, Duration::ZERO).await.expect("free"));
    server.set_clock(START + HOUR);
    let second = fence(&service.acquire(&bob, Duration::ZERO).await.expect("by the clock ann's has run out"));
    assert!(second > first, "so that ann's late write is told from bob's");
    assert!(matches!(service.renew(ann.lease()).await, Err(RenewError::Lost { .. })));
    // And back: nobody gets what bob has.
    server.set_clock(START);
    service.renew(bob.lease()).await.expect("held");
    let refused = service.acquire(&ask("cid", "r", LONG), Duration::ZERO).await;
    assert!(matches!(refused, Err(AcquireError::Held(_))), "{refused:?}");
    service.release(bob.lease(), true).await.expect("an answer");
    let third = fence(&service.acquire(&ask("cid", "r", LONG), Duration::ZERO).await.expect("free"));
    assert!(third > second);
}

/// The time for which nobody gets a lease is bounded, wherever the clock goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_set_back_does_not_keep_a_server_out() {
    let server = blocking(Redis::start_with_clock).await;
    server.set_clock(START);
    let service = open(&server.url()).await;
    service.ping().await.expect("open");
    server.command(&["FLUSHALL"]);
    let refused = service.acquire(&ask("ann", "r", LONG), Duration::ZERO).await;
    assert!(matches!(refused, Err(AcquireError::Unavailable(_))), "{refused:?}");
    server.set_clock(START - HOUR);
    let refused = service.acquire(&ask("ann", "r", LONG), Duration::ZERO).await;
    assert!(matches!(refused, Err(AcquireError::Unavailable(_))), "{refused:?}");
    server.set_clock(START - HOUR + 30_001);
    service.acquire(&ask("ann", "r", LONG), Duration::ZERO).await.expect("open again");
}
