//! Servers that have forgotten leases: nobody gets a new one before those have run out, and fences never go back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lockkeeper_locks::{AcquireError, FenceFloor, LockService as _, RedisLocks, RenewError, Unavailable};
use lockkeeper_store::{PostgresOptions, PostgresStore, SqliteOptions, SqliteStore, Store};
use lockkeeper_testbed::{Proxy, Redis, shared_database};

use crate::bench::{LONG, ask, blocking, fence, options, server, until};

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

fn store_in(folder: &tempfile::TempDir) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(&folder.path().join("store.db"), SqliteOptions::default()).expect("an empty store"))
}

/// A node whose floor is kept in this store.
async fn open_with(url: &str, store: &Arc<dyn Store>) -> RedisLocks {
    let options = options(url).with_max_ttl(MAX_TTL).with_floor(Arc::new(store.clone()));
    RedisLocks::open(options).await.expect("a server for locks")
}

/// The floor is the store's, so that a new process knows it too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_floor_of_fences_is_kept_in_the_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = store_in(&folder);
    // Another node's clock is an hour ahead.
    let ahead = (chrono::Utc::now().timestamp() + 3_600) << 20;
    store.fence_floor(ahead).await.expect("raised");
    let mut server = server().await;
    let service = open_with(&server.url(), &store).await;
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

/// Also with a store, whatever that begins its floor with; and for all nodes that come at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_never_used_is_open_at_once_with_a_new_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = blocking(shared_database).await;
    let postgres = PostgresOptions::from_url(&database.url()).expect("a good url");
    let postgres = PostgresStore::open(postgres).await.expect("an empty store");
    for store in [store_in(&folder), Arc::new(postgres)] {
        let server = server().await;
        let url = server.url();
        let nodes = futures_util::future::join_all((0..4).map(|_| open_with(&url, &store))).await;
        for (n, node) in nodes.iter().enumerate() {
            node.acquire(&ask("ann", &format!("r{n}"), MAX_TTL), Duration::ZERO).await.expect("free");
        }
    }
}

/// What a node that knows of nothing finds empty was used, by what the store tells. `ahead`: other nodes' clocks, so that
/// this one's does not make up for what it does not know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_comes_first_to_an_emptied_server_keeps_it_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = store_in(&folder);
    let mut server = server().await;
    let before = open_with(&server.url(), &store).await;
    let ahead = (chrono::Utc::now().timestamp() + 3_600) << 20;
    store.fence_floor(ahead).await.expect("raised");
    before.ping().await.expect("open");
    for restarted in [false, true] {
        // Not asked for anything afterwards: it believes in its lease.
        let (_, held) = granted_after(&before, "r").await;
        let emptied = Instant::now();
        server = blocking(move || {
            if restarted {
                server.restart_empty();
            } else {
                server.command(&["FLUSHALL"]);
            }
            server
        })
        .await;
        let fresh = open_with(&server.url(), &store).await;
        let (_, next) = granted_after(&fresh, "r").await;
        assert!(emptied.elapsed() >= NEARLY, "after {:?}", emptied.elapsed());
        assert!(next > held, "{next} after {held}");
    }
}

/// Behind the same address there is another server, which has been there for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_server_with_a_long_life_stays_out_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = store_in(&folder);
    let (first, second, third) = (server().await, server().await, server().await);
    let proxy = Arc::new(Proxy::start(first.address()));
    let url = format!("redis://{}", proxy.address());
    let mut known = open_with(&url, &store).await;
    for (server, is_known) in [(&second, true), (&third, false)] {
        let old = || async { server.info("uptime_in_seconds")?.parse().ok().filter(|uptime: &u64| *uptime >= 4) };
        until(old).await;
        let (_, held) = granted_after(&known, "r").await;
        let replaced = Instant::now();
        proxy.retarget(server.address());
        proxy.cut();
        proxy.resume();
        if !is_known {
            known.close().await;
            known = open_with(&url, &store).await;
        }
        let (_, next) = granted_after(&known, "r").await;
        assert!(replaced.elapsed() >= NEARLY, "after {:?}", replaced.elapsed());
        assert!(next > held, "{next} after {held}");
    }
}

/// A memory of the floor that can be away.
#[derive(Default)]
struct Away(AtomicBool);

#[async_trait]
impl FenceFloor for Away {
    async fn raise(&self, at_least: i64) -> Result<i64, Unavailable> {
        if self.0.load(Ordering::SeqCst) { Err(Unavailable("the store is away".to_owned())) } else { Ok(at_least) }
    }

    fn is_kept(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_away_keeps_newcomers_out_and_takes_nothing_from_others() {
    let (server, floor) = (server().await, Arc::new(Away::default()));
    let options = options(&server.url()).with_floor(floor.clone());
    let service = RedisLocks::open(options.clone()).await.expect("a server for locks");
    let held = ask("ann", "r", LONG);
    service.acquire(&held, Duration::ZERO).await.expect("free");
    floor.0.store(true, Ordering::SeqCst);
    let told = service.ping().await.expect_err("the store is away").0;
    assert!(told.contains("the store is away"), "{told}");
    RedisLocks::open(options).await.expect_err("the store is away");
    service.renew(held.lease()).await.expect("held");
    service.acquire(&ask("bob", "s", LONG), Duration::ZERO).await.expect("free");
    floor.0.store(false, Ordering::SeqCst);
    service.ping().await.expect("all is well");
}
