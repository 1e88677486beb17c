//! Locks as a load: each client locks its resource and unlocks it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use lockkeeper_locks::{Acquire, Ask, Claim, LeaseId, LockService, Locks, Mode, Release, Released};
use uuid::Uuid;

use crate::bench::target::{Answer, Target};
use crate::failure::Failure;

/// Longer than any row takes.
const TTL: Duration = Duration::from_secs(60);

/// How long a client waits for its turn.
const WAIT: Duration = Duration::from_secs(30);

/// How the clients get their leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By calls of the service: what a client in another language does, less the network.
    Calls,
    /// By leases that a task renews.
    Leases,
}

/// Resources, each with a count that only its holder changes.
pub(crate) struct LockTarget {
    service: Arc<dyn LockService>,
    locks: Locks,
    way: Way,
    resources: Vec<(Arc<str>, AtomicI64)>,
}

impl LockTarget {
    pub(crate) fn new(service: Arc<dyn LockService>, way: Way, keys: u32) -> Self {
        let run = Uuid::new_v4();
        let resources = (0..keys).map(|n| (format!("bench/{run}/{n}").into(), AtomicI64::new(0))).collect();
        Self { locks: Locks::new(service.clone()), service, way, resources }
    }

    async fn pair(&self, client: u32) -> bool {
        let (resource, count) = &self.resources[client as usize % self.resources.len()];
        match self.way {
            Way::Calls => {
                let claim = Claim { resource: resource.clone(), mode: Mode::Exclusive };
                let Ok(ask) = Ask::new(LeaseId::random(), "bench", "bench", [claim], TTL) else { return false };
                let granted = self.service.acquire(&ask, WAIT).await.is_ok();
                if granted {
                    add_one(count).await;
                }
                granted && self.service.release(ask.lease(), false).await == Ok(Release::Released)
            }
            Way::Leases => {
                let how = Acquire::new().ttl(TTL).wait(WAIT);
                let Ok(lease) = self.locks.acquire(resource, how).await else { return false };
                add_one(count).await;
                lease.release().await == Released::Released
            }
        }
    }
}

/// Reads, lets others run, and writes: two holders at once would lose one of their steps.
async fn add_one(count: &AtomicI64) {
    let before = count.load(Ordering::Relaxed);
    tokio::task::yield_now().await;
    count.store(before + 1, Ordering::Relaxed);
}

impl Target for LockTarget {
    /// Each client has its own resource, as long as there are as many.
    fn step(&self, client: u32, _key: u32) -> Answer<'_, bool> {
        Box::pin(self.pair(client))
    }

    fn versions(&self) -> Answer<'_, Result<i64, Failure>> {
        let sum = self.resources.iter().map(|(_, count)| count.load(Ordering::Relaxed)).sum();
        Box::pin(async move { Ok(sum) })
    }
}
