//! Servers that have forgotten leases: nobody gets a new one before those have run out, and fences never go back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper_locks::{AcquireError, LockService as _, RedisLocks, RenewError};
use lockkeeper_store::{SqliteOptions, SqliteStore, Store};
use lockkeeper_testbed::{Proxy, Redis};

use crate::bench::{ask, blocking, fence, options, server, until};

/// Short, for all of it is waited for.
const MAX_TTL: Duration = Duration::from_millis(1_500);

async fn open(url: &str) -> RedisLocks {
    RedisLocks::open(options(url).with_max_ttl(MAX_TTL)).await.expect("a server for locks")
}

/// How long it takes until somebody gets the name, asking again and again; and the fence.
async fn granted_after(service: &RedisLocks, resource: &str) -> (Duration, i64) {
    let begun = Instant::now();
    let grant = until(|| async {
        let ask = ask("next", resource, MAX_TTL);
        match service.acquire(&ask, Duration::ZERO).await {
            Ok(grant) => Some(grant),
            Err(AcquireError::Unavailable(_) | AcquireError::Held(_)) => None,
            Err(other) => panic!("{other}"),
        }
    })
    .await;
    (begun.elapsed(), fence(&grant))
}

/// A little less than the server has: what has passed before the clock was looked at.
const NEARLY: Duration = Duration::from_millis(1_200);

/// L16: a lease was held when the server lost everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_restarted_empty_stays_out_until_what_it_forgot_has_run_out() {
    let mut server = server().await;
    let service = open(&server.url()).await;
    let held = ask("ann", "r", MAX_TTL);
    let first = fence(&service.acquire(&held, Duration::ZERO).await.expect("free, and it is the first time"));
    let restarted = Instant::now();
    let server = blocking(move || {
        server.restart_empty();
        server
    })
    .await;
    let told = until(|| async {
        match service.acquire(&ask("bob", "r", MAX_TTL), Duration::ZERO).await {
            Err(AcquireError::Unavailable(told)) if told.contains("restarted") => Some(told),
            Err(AcquireError::Unavailable(_)) => None,
            other => panic!("{other:?}"),
        }
    })
    .await;
    assert!(told.contains("run out within"), "{told}");
    assert!(service.ping().await.is_err_and(|error| error.0.contains("restarted")));
    assert_eq!(service.renew(held.lease()).await, Err(RenewError::Lost { since: None }));
    // Whoever comes anew is told the same.
    let other = open(&server.url()).await;
    assert!(other.acquire(&ask("cid", "r", MAX_TTL), Duration::ZERO).await.is_err());
    let (_, next) = granted_after(&service, "r").await;
    assert!(restarted.elapsed() >= NEARLY, "after {:?}", restarted.elapsed());
    assert!(next > first, "{next} after {first}");
}

/// The same, emptied while it runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_emptied_stays_out_too() {
    let server = server().await;
    let (service, other) = (open(&server.url()).await, open(&server.url()).await);
    let first = fence(&service.acquire(&ask("ann", "r", MAX_TTL), Duration::ZERO).await.expect("free"));
    let emptied = Instant::now();
    server.command(&["FLUSHALL"]);
    // Somebody who does not know what was there gets there first.
    let newcomer = open(&server.url()).await;
    assert!(service.acquire(&ask("bob", "r", MAX_TTL), Duration::ZERO).await.is_err());
    assert!(other.acquire(&ask("bob", "r", MAX_TTL), Duration::ZERO).await.is_err());
    let (_, next) = granted_after(&newcomer, "r").await;
    assert!(emptied.elapsed() >= NEARLY, "after {:?}", emptied.elapsed());
    assert!(next > first);
}

/// With its data it may still have lost the last second. Leases that it has are renewed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_restarted_with_its_data_stays_out_too_and_renews() {
    let mut server = blocking(|| Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always"])).await;
    let service = open(&server.url()).await;
    let held = ask("ann", "r", MAX_TTL);
    let first = fence(&service.acquire(&held, Duration::ZERO).await.expect("free"));
    let restarted = Instant::now();
    let _server = blocking(move || {
        server.kill();
        server.restart();
        server
    })
    .await;
    until(|| async { service.renew(held.lease()).await.ok() }).await;
    let refused = service.acquire(&ask("bob", "other", MAX_TTL), Duration::ZERO).await;
    assert!(matches!(refused, Err(AcquireError::Unavailable(_))), "{refused:?}");
    let (_, other) = granted_after(&service, "other").await;
    assert!(restarted.elapsed() >= NEARLY, "after {:?}", restarted.elapsed());
    service.release(held.lease(), true).await.expect("an answer");
    let (waited, next) = granted_after(&service, "r").await;
    assert!(next > first && other > first);
    assert!(waited < Duration::from_secs(1), "only once: {waited:?}");
}

/// L19: a replica that has not heard of the last lease is promoted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_promoted_behind_stays_out_and_fences_do_not_go_back() {
    let master = server().await;
    let (mut master, replica) = blocking(move || {
        let replica = master.replica();
        (master, replica)
    })
    .await;
    let proxy = Arc::new(Proxy::start(master.address()));
    let service = open(&format!("redis://{}", proxy.address())).await;
    let ann = ask("ann", "r", MAX_TTL);
    service.acquire(&ann, Duration::ZERO).await.expect("free");
    service.release(ann.lease(), true).await.expect("an answer");
    until(|| async { replica.command(&["EXISTS", "lockkeeper:{locks}:life"]).int().filter(|is| *is == 1) }).await;
    // From here on the replica hears nothing.
    replica.pause();
    let mut last = 0;
    for _ in 0..50 {
        let bob = ask("bob", "r", MAX_TTL);
        last = fence(&service.acquire(&bob, Duration::ZERO).await.expect("free"));
        service.release(bob.lease(), true).await.expect("an answer");
    }
    last = last.max(fence(&service.acquire(&ask("cid", "r", MAX_TTL), Duration::ZERO).await.expect("free")));
    let promoted = Instant::now();
    let (at, replica) = (replica.address(), replica);
    let replica = blocking(move || {
        master.kill();
        replica.resume();
        replica.promote();
        replica
    })
    .await;
    proxy.retarget(at);
    proxy.cut();
    proxy.resume();
    let (_, next) = granted_after(&service, "r").await;
    assert!(promoted.elapsed() >= NEARLY, "after {:?}", promoted.elapsed());
    assert!(next > last, "{next} after {last}");
    drop(replica);
}

/// The floor is the store's, so that a new process knows it too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_floor_of_fences_is_kept_in_the_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(&folder.path().join("store.db"), SqliteOptions::default()).expect("an empty store");
    let store: Arc<dyn Store> = Arc::new(store);
    // Another node's clock is an hour ahead.
    let ahead = (chrono::Utc::now().timestamp() + 3_600) << 20;
    store.fence_floor(ahead).await.expect("raised");
    let mut server = server().await;
    let with_store = |url: &str| options(url).with_max_ttl(MAX_TTL).with_floor(Arc::new(store.clone()));
    let service = RedisLocks::open(with_store(&server.url())).await.expect("a server for locks");
    let (_, first) = granted_after(&service, "r").await;
    assert!(first > ahead);
    let _server = blocking(move || {
        server.restart_empty();
        server
    })
    .await;
    let (_, next) = granted_after(&service, "r").await;
    assert!(next > first, "{next} after {first}");
}

/// What the first one of all does is not held up by anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_never_used_is_open_at_once() {
    let server = server().await;
    for _ in 0..3 {
        let service = open(&server.url()).await;
        service
            .acquire(&ask("ann", &lockkeeper_locks::LeaseId::random().to_string(), MAX_TTL), Duration::ZERO)
            .await
            .expect("free");
        service.close().await;
    }
}
