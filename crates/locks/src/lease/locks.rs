//! Getting leases.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_store::lease::{Ask, LeaseId};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use super::acquire::Acquire;
use super::actor::Actor;
use super::handle::Lease;
use super::keeper::Plan;
use crate::{AcquireError, Clock, LockService, SystemClock};

/// Gets leases from a lock service, and keeps them.
#[derive(Clone)]
pub struct Locks {
    service: Arc<dyn LockService>,
    clock: Arc<dyn Clock>,
    host: Arc<str>,
    counters: Arc<Counters>,
    tasks: TaskTracker,
}

/// What has become of leases so far.
#[derive(Debug, Default)]
pub(super) struct Counters {
    dropped: AtomicU64,
    lost: AtomicU64,
}

impl Counters {
    pub(super) fn dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }
}

impl Locks {
    /// Leases of this service, by the machine's clock.
    pub fn new(service: Arc<dyn LockService>) -> Self {
        Self::with_clock(service, Arc::new(SystemClock))
    }

    /// Leases of this service, judged by this clock, which must be the service's own.
    pub fn with_clock(service: Arc<dyn LockService>, clock: Arc<dyn Clock>) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        // Names that cannot be told to others are not the host's.
        let host = if host.is_empty() || host.chars().any(char::is_control) { "localhost".to_owned() } else { host };
        let (counters, tasks) = (Arc::default(), TaskTracker::new());
        Self { service, clock, host: host.into(), counters, tasks }
    }

    /// The service.
    pub fn service(&self) -> &Arc<dyn LockService> {
        &self.service
    }

    /// The clock that leases are judged by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Gets a lease on one name. Dropping the future gives up; what may have been granted is given back.
    ///
    /// # Errors
    /// [`AcquireError`].
    pub async fn acquire(&self, resource: &str, how: Acquire) -> Result<Lease, AcquireError> {
        self.acquire_all([resource], how).await
    }

    /// Gets one lease on several names, all or none; a name that is given twice is asked for once. Whoever asks in
    /// whatever order, two of them never wait for each other.
    ///
    /// # Errors
    /// [`AcquireError`].
    pub async fn acquire_all(
        &self,
        resources: impl IntoIterator<Item = &str>,
        how: Acquire,
    ) -> Result<Lease, AcquireError> {
        let lease = LeaseId::random();
        let owner = how.owner.clone().unwrap_or_else(|| format!("{}:{lease}", std::process::id()).into());
        let ask = Ask::new(lease, &owner, &self.host, how.claims(resources), how.ttl)
            .map_err(|bad| AcquireError::Unsupported(bad.to_string()))?;
        self.acquire_ask(ask, how).await
    }

    /// Gets the lease that is asked for: several names in modes of their own, under a name that the caller chose.
    ///
    /// # Errors
    /// [`AcquireError`].
    pub async fn acquire_ask(&self, ask: Ask, how: Acquire) -> Result<Lease, AcquireError> {
        let jitter_percent = 50 + (ask.lease().as_uuid().as_bytes()[0] % 51) as u32;
        let plan = Plan { ttl: ask.ttl(), wait: how.wait, max_hold: how.max_hold, jitter_percent };
        let (granted, arrival) = oneshot::channel();
        let (service, clock, counters) = (self.service.clone(), self.clock.clone(), self.counters.clone());
        self.tasks.spawn(Actor::new(service, clock, counters, (ask, plan), granted).run());
        let ended = |_| AcquireError::Unavailable("the runtime is shutting down".to_owned());
        arrival.await.map_err(ended)?
    }

    /// Leases that were dropped while they were held, without a release.
    pub fn dropped(&self) -> u64 {
        self.counters.dropped.load(Ordering::Relaxed)
    }

    /// Leases that were lost while somebody had them.
    pub fn lost(&self) -> u64 {
        self.counters.lost.load(Ordering::Relaxed)
    }

    /// Leases that are held, asked for, or being given back now.
    pub fn kept(&self) -> usize {
        self.tasks.len()
    }

    /// Returns when everything that was dropped or released has been given back, and nobody holds a lease any more.
    pub async fn settled(&self) {
        let tasks = self.tasks.clone();
        tasks.close();
        tasks.wait().await;
        tasks.reopen();
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").field("service", &self.service.describe()).finish_non_exhaustive()
    }
}
