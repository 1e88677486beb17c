//! What the cases work with.

use std::time::{Duration, Instant};

use lockkeeper_locks::{Ask, Claim, Grant, LeaseId, Mode, RedisLocks, RedisOptions};
use lockkeeper_testbed::Redis;

/// Nothing lapses while a case is at work.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Far above what is waited for, even on a loaded machine.
pub(crate) const IN_TIME: Duration = Duration::from_secs(30);

/// Does what blocks where nobody waits for this thread.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}

pub(crate) async fn server() -> Redis {
    blocking(Redis::start).await
}

/// With leases of at most half a minute.
pub(crate) fn options(url: &str) -> RedisOptions {
    RedisOptions::parse(url).expect("a good url").with_max_ttl(Duration::from_secs(30))
}

pub(crate) async fn open(url: &str) -> RedisLocks {
    RedisLocks::open(options(url)).await.expect("a server for locks")
}

pub(crate) fn ask(owner: &str, resource: &str, ttl: Duration) -> Ask {
    ask_as(LeaseId::random(), owner, &[(resource, Mode::Exclusive)], ttl)
}

pub(crate) fn ask_as(lease: LeaseId, owner: &str, claims: &[(&str, Mode)], ttl: Duration) -> Ask {
    let claims = claims.iter().map(|(resource, mode)| Claim { resource: (*resource).into(), mode: *mode });
    Ask::new(lease, owner, "host", claims, ttl).expect("a good ask")
}

pub(crate) fn fence(grant: &Grant) -> i64 {
    grant.fences[0].expect("Redis has fences")
}

/// Returns what there is once there is something.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(look: impl Fn() -> F) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < IN_TIME, "not in time");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The seed of a case that draws: `LOCKKEEPER_SEED` repeats one.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("LOCKKEEPER_SEED").map_or_else(|_| rand::random(), |text| text.parse().expect("a number"));
    println!("seed: LOCKKEEPER_SEED={seed}");
    seed
}
