//! What is between a node and its server breaks, or the server stands still.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper_locks::{
    Acquire, AcquireError, LeaseQuery, LockService, Locks, RedisLocks, Release, Released, RenewError, Unconfirmed,
};
use lockkeeper_testbed::{Proxy, Redis};

use crate::bench::{LONG, ask, fence, open, server, until};

/// What each call may take beyond its wait: a connection and an answer, each in its time, and a loaded machine.
const BOUND: Duration = Duration::from_secs(8);

/// At once, and not only when something has run out.
const AT_ONCE: Duration = Duration::from_secs(1);

/// A server, a node that is near it, and one behind a proxy.
struct Net {
    server: Redis,
    proxy: Proxy,
    near: RedisLocks,
    far: Arc<RedisLocks>,
}

async fn net() -> Net {
    let server = server().await;
    let proxy = Proxy::start(server.address());
    let near = open(&server.url()).await;
    // So that the server knows the scripts, and each question is one request.
    let warm = ask("warm", "warm", LONG);
    near.acquire(&warm, Duration::ZERO).await.expect("free");
    near.renew(warm.lease()).await.expect("held");
    near.release(warm.lease(), true).await.expect("an answer");
    let far = Arc::new(open(&format!("redis://{}", proxy.address())).await);
    Net { server, proxy, near, far }
}

impl Net {
    fn locks(&self) -> Locks {
        Locks::new(self.far.clone())
    }

    /// Somebody near gets it, and soon.
    async fn is_free(&self, resource: &str) -> i64 {
        let begun = Instant::now();
        let next = ask("next", resource, LONG);
        let grant = self.near.acquire(&next, LONG).await.expect("given back");
        assert!(begun.elapsed() < AT_ONCE, "after {:?}", begun.elapsed());
        self.near.release(next.lease(), true).await.expect("an answer");
        fence(&grant)
    }

    async fn holder(&self, resource: &str) -> Option<String> {
        let page = self.near.list(&LeaseQuery { after: None, limit: 10 }).await.expect("a page");
        let view = page.resources.into_iter().find(|view| &*view.resource == resource)?;
        view.holders.first().map(|holder| holder.owner.to_string())
    }

    async fn waiters(&self) -> u64 {
        let page = self.near.list(&LeaseQuery { after: None, limit: 10 }).await.expect("a page");
        page.resources.iter().map(|view| view.waiters).sum()
    }
}

/// L2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_arrives_after_its_life_is_none_and_is_given_back() {
    let net = net().await;
    net.proxy.delay(Duration::from_millis(250));
    let late = net.locks().acquire("r", Acquire::new().ttl(Duration::from_millis(400))).await;
    assert!(late.is_err(), "{late:?}");
    net.is_free("r").await;
}

/// L4: the server has granted it, and nobody is there to hear of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_acquire_that_was_granted_is_handed_back() {
    let net = net().await;
    let locks = net.locks();
    net.proxy.hold_replies();
    let mut acquire = Box::pin(locks.acquire("r", Acquire::new().owner("ann").ttl(LONG).wait(LONG)));
    let granted = until(|| async { net.holder("r").await });
    tokio::select! {
        early = &mut acquire => panic!("no reply has arrived: {early:?}"),
        owner = granted => assert_eq!(owner, "ann"),
    }
    drop(acquire);
    net.proxy.resume();
    net.is_free("r").await;
}

/// L5: the reply to a release is lost, somebody else locks, the old release is tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_release_tried_again_leaves_a_newer_lock() {
    let net = net().await;
    let (old, new) = (ask("ann", "r", LONG), ask("ann", "r", LONG));
    net.far.acquire(&old, Duration::ZERO).await.expect("free");
    net.proxy.hold_replies();
    let release = tokio::spawn({
        let (far, lease) = (net.far.clone(), old.lease());
        async move { far.release(lease, true).await }
    });
    until(|| async { net.holder("r").await.is_none().then_some(()) }).await;
    net.proxy.cut();
    assert!(matches!(release.await.expect("no panic"), Err(Unconfirmed(_))));
    net.near.acquire(&new, Duration::ZERO).await.expect("the key is gone");
    net.proxy.resume();
    let again = until(|| async { net.far.release(old.lease(), true).await.ok() }).await;
    assert!(matches!(again, Release::AlreadyLost { .. }), "{again:?}");
    net.near.renew(new.lease()).await.expect("the newer lock stays");
}

/// L6: the reply to a renewal is under way while the lease is released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_during_a_renewal_is_the_end() {
    let net = net().await;
    let locks = net.locks();
    let lease = locks.acquire("r", Acquire::new().ttl(Duration::from_secs(1))).await.expect("free");
    lease.renewed().await.expect("it is renewed");
    let before = net.server.calls("evalsha");
    net.proxy.delay(Duration::from_millis(100));
    until(|| async { (net.server.calls("evalsha") > before).then_some(()) }).await;
    assert_eq!(lease.release().await, Released::Released);
    locks.settled().await;
    assert_eq!(locks.lost(), 0);
    net.is_free("r").await;
}

/// L7: whoever renews too late has lost it, though nobody holds it any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_after_somebody_else_had_it_makes_nothing() {
    let net = net().await;
    let ann = ask("ann", "r", Duration::from_millis(300));
    let first = fence(&net.far.acquire(&ann, Duration::ZERO).await.expect("free"));
    net.proxy.hold_requests();
    let renewal = tokio::spawn({
        let (far, lease) = (net.far.clone(), ann.lease());
        async move { far.renew(lease).await }
    });
    let bob = ask("bob", "r", LONG);
    let second = fence(&net.near.acquire(&bob, LONG).await.expect("ann's has run out"));
    net.near.release(bob.lease(), true).await.expect("an answer");
    net.proxy.resume();
    assert!(matches!(renewal.await.expect("no panic"), Err(RenewError::Lost { .. })));
    assert!(second > first);
    assert_eq!(net.holder("r").await, None);
}

/// L10: its own deadline ends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_cut_off_does_not_keep_a_wait() {
    let net = net().await;
    net.near.acquire(&ask("ann", "r", LONG), Duration::ZERO).await.expect("free");
    for stall in [true, false] {
        let wait = Duration::from_secs(1);
        let begun = Instant::now();
        let waiting = tokio::spawn({
            let (far, ask) = (net.far.clone(), ask("bob", "r", LONG));
            async move { far.acquire(&ask, wait).await }
        });
        until(|| async { (net.waiters().await > 0).then_some(()) }).await;
        if stall {
            net.proxy.stall()
        } else {
            net.proxy.cut()
        }
        let refused = waiting.await.expect("no panic");
        assert!(matches!(refused, Err(AcquireError::Unavailable(_))), "{refused:?}");
        assert!(begun.elapsed() < wait + BOUND, "after {:?}", begun.elapsed());
        net.proxy.resume();
        until(|| async { net.far.ping().await.ok() }).await;
    }
}

/// A wait outlives its connection, and news that came meanwhile are made up for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_during_a_cut_is_heard_of_after_it() {
    let net = net().await;
    let ann = ask("ann", "r", LONG);
    net.near.acquire(&ann, Duration::ZERO).await.expect("free");
    let waiting = tokio::spawn({
        let (far, ask) = (net.far.clone(), ask("bob", "r", LONG));
        async move { far.acquire(&ask, LONG).await }
    });
    until(|| async { (net.waiters().await == 1).then_some(()) }).await;
    net.proxy.cut();
    net.near.release(ann.lease(), true).await.expect("an answer");
    net.proxy.resume();
    let begun = Instant::now();
    waiting.await.expect("no panic").expect("a grant");
    // Sooner than it would have asked by itself.
    assert!(begun.elapsed() < Duration::from_secs(3), "after {:?}", begun.elapsed());
}

/// Every call ends in its time while the server stands still, and what it did late is undone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_keeps_nobody() {
    let net = net().await;
    let held = ask("ann", "held", LONG);
    net.far.acquire(&held, Duration::ZERO).await.expect("free");
    net.server.pause();
    let (far, late) = (net.far.clone(), ask("bob", "r", LONG));
    let begun = Instant::now();
    let query = LeaseQuery { after: None, limit: 10 };
    let (acquired, renewed, released, forced, listed, pinged) = tokio::join!(
        far.acquire(&late, AT_ONCE),
        far.renew(held.lease()),
        far.release(late.lease(), true),
        far.force_release("other"),
        far.list(&query),
        far.ping(),
    );
    assert!(begun.elapsed() < AT_ONCE + BOUND, "after {:?}", begun.elapsed());
    assert!(matches!(acquired, Err(AcquireError::Unavailable(_))), "{acquired:?}");
    assert!(matches!(renewed, Err(RenewError::Unavailable(_))), "{renewed:?}");
    assert!(released.is_err() && forced.is_err() && listed.is_err() && pinged.is_err());
    // One after the other they do not add up: who comes while nobody answers is told so in the same time.
    let begun = Instant::now();
    futures_util::future::join_all((0..200).map(|_| far.renew(held.lease()))).await;
    assert!(begun.elapsed() < BOUND, "after {:?}", begun.elapsed());
    net.server.resume();
    until(|| async { far.renew(held.lease()).await.ok() }).await;
    until(|| async { far.release(late.lease(), true).await.ok() }).await;
    net.is_free("r").await;
}

/// L15: holding a lease holds no connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_leases_hold_no_connection() {
    let net = net().await;
    let locks = net.locks();
    let mut leases = Vec::new();
    for n in 0..20 {
        leases.push(locks.acquire(&format!("r{n}"), Acquire::new().ttl(LONG)).await.expect("free"));
    }
    // One of each node, and the one that asks.
    assert_eq!(net.server.info("connected_clients").as_deref(), Some("3"));
    net.is_free("another").await;
    for lease in leases {
        assert_eq!(lease.release().await, Released::Released);
    }
}
