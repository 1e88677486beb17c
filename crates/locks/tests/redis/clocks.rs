//! L18: the server's clock is set. Leases expire by it, and fences tell who came later.

use std::time::Duration;

use lockkeeper_locks::{AcquireError, LeaseId, LeaseQuery, LockService as _, Mode, RedisLocks, Release, RenewError};
use lockkeeper_testbed::Redis;

use crate::bench::{LONG, ask, ask_as, blocking, fence, open, options};

const START: i64 = 2_000_000_000_000;

const SECOND: i64 = 1_000;

const HOUR: i64 = 3_600 * SECOND;

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

/// Ann's lease of these names has run out by a clock that jumped, bob has got one of them, and the clock is right again.
async fn taken_over(server: &Redis, service: &RedisLocks, names: &[(&str, Mode)]) -> LeaseId {
    let (ann, bob) = (LeaseId::random(), ask("bob", names[0].0, LONG));
    server.set_clock(START);
    service.acquire(&ask_as(ann, "ann", names, LONG), Duration::ZERO).await.expect("free");
    server.set_clock(START + 25 * SECOND);
    service.acquire(&bob, Duration::ZERO).await.expect("by the clock ann's has run out");
    server.set_clock(START + 2 * SECOND);
    ann
}

async fn holders(service: &RedisLocks) -> Vec<(String, String)> {
    let page = service.list(&LeaseQuery { after: None, limit: 10 }).await.expect("a page");
    let of = |view: lockkeeper_locks::ResourceView| {
        let resource = view.resource.to_string();
        view.holders.into_iter().map(move |holder| (resource.clone(), holder.owner.to_string()))
    };
    page.resources.into_iter().flat_map(of).collect()
}

/// The row of a lease outlives its end, by which others have its names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_corrected_gives_nobody_back_what_another_has() {
    let only_bob = [("a".to_owned(), "bob".to_owned())];
    let names = [("a", Mode::Exclusive), ("b", Mode::Shared)];
    for names in [&names[..1], &names[..]] {
        let server = blocking(Redis::start_with_clock).await;
        let service = open(&server.url()).await;
        let ann = taken_over(&server, &service, names).await;
        let renewed = service.renew(ann).await;
        assert!(matches!(renewed, Err(RenewError::Lost { since: Some(_) })), "{renewed:?}");
        assert_eq!(holders(&service).await, only_bob, "and all that ann had is given up");
    }
    for names in [&names[..1], &names[..]] {
        let server = blocking(Redis::start_with_clock).await;
        let service = open(&server.url()).await;
        let ann = taken_over(&server, &service, names).await;
        let again = service.acquire(&ask_as(ann, "ann", names, LONG), Duration::ZERO).await;
        assert!(matches!(again, Err(AcquireError::Held(_))), "{again:?}");
        assert_eq!(holders(&service).await, only_bob);
    }
    let server = blocking(Redis::start_with_clock).await;
    let service = open(&server.url()).await;
    let ann = taken_over(&server, &service, &names).await;
    let released = service.release(ann, false).await;
    assert!(matches!(released, Ok(Release::AlreadyLost { since: Some(_) })), "{released:?}");
    assert_eq!(holders(&service).await, only_bob);
}

/// Where nodes differ in the longest time to live, the longest counts, though another node was first to notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_time_to_live_of_all_nodes_keeps_an_emptied_server_out() {
    let server = blocking(Redis::start_with_clock).await;
    server.set_clock(START);
    let open = |seconds| RedisLocks::open(options(&server.url()).with_max_ttl(Duration::from_secs(seconds)));
    let (short, long) = (open(60).await.expect("a good server"), open(300).await.expect("a good server"));
    let long_lived = || ask("ann", "r", Duration::from_secs(300));
    long.acquire(&long_lived(), Duration::ZERO).await.expect("free");
    server.command(&["FLUSHALL"]);
    for (after, service) in [(0, &short), (1, &long), (61, &long), (299, &short), (299, &long)] {
        server.set_clock(START + after * SECOND);
        let refused = service.acquire(&ask("bob", "r", LONG), Duration::ZERO).await;
        assert!(matches!(refused, Err(AcquireError::Unavailable(_))), "after {after} s: {refused:?}");
    }
    server.set_clock(START + 301 * SECOND);
    long.acquire(&long_lived(), Duration::ZERO).await.expect("open again");
}
