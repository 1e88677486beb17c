//! A lock service that is measured.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_locks::{
    AcquireError, Ask, Claim, Clock, Grant, Holder, LeaseId, LeasePage, LeaseQuery, LockService, Moment, Release,
    RenewError, Renewal, SystemClock, Unavailable, Unconfirmed,
};
use moka::sync::Cache;
use prometheus_client::metrics::gauge::Gauge;

use super::locks::{AskLabels, AskOutcome, LockMetrics};
use crate::limits::{LEASE_TIMED_FOR, LEASES_TIMED, RELEASE_TIMED_FOR, RELEASES_TIMED};

/// Passes everything on, and measures it.
pub(super) struct Metered {
    service: Arc<dyn LockService>,
    metrics: LockMetrics,
    /// The leases that were granted here, since when, and what they hold.
    held: Cache<LeaseId, (Moment, Arc<[Claim]>)>,
    /// The names that were given back here a moment ago.
    released: Cache<Arc<str>, Moment>,
}

/// Counts one who waits, as long as this lives: whoever drops a future waits no more.
struct Waiting(Gauge);

impl Waiting {
    fn count(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metered {
    pub(super) fn new(service: Arc<dyn LockService>, metrics: LockMetrics) -> Self {
        let held = Cache::builder().max_capacity(LEASES_TIMED).time_to_idle(LEASE_TIMED_FOR).build();
        let released = Cache::builder().max_capacity(RELEASES_TIMED).time_to_live(RELEASE_TIMED_FOR).build();
        Self { service, metrics, held, released }
    }

    fn granted(&self, ask: &Ask, begun: Moment) {
        let now = SystemClock.now();
        if self.held.contains_key(&ask.lease()) {
            // Asked again by somebody who missed the first answer.
            return;
        }
        self.metrics.wait.observe(now.since(begun).as_secs_f64());
        for claim in ask.claims().iter() {
            // Released before this ask came, it was free, and not handed over.
            if let Some(released) = self.released.remove(&claim.resource).filter(|released| *released >= begun) {
                self.metrics.hand_off.observe(now.since(released).as_secs_f64());
            }
        }
        self.held.insert(ask.lease(), (now, ask.claims().clone()));
    }

    fn released(&self, lease: LeaseId) {
        let Some((since, claims)) = self.held.remove(&lease) else { return };
        let now = SystemClock.now();
        self.metrics.hold.observe(now.since(since).as_secs_f64());
        for claim in claims.iter() {
            self.released.insert(claim.resource.clone(), now);
        }
    }

    fn lost(&self, lease: LeaseId) {
        self.held.invalidate(&lease);
        self.metrics.losses.inc();
    }
}

fn outcome(result: &Result<Grant, AcquireError>) -> AskOutcome {
    match result {
        Ok(_) => AskOutcome::granted,
        Err(AcquireError::Held(_)) => AskOutcome::held,
        Err(AcquireError::LockTimeout { .. }) => AskOutcome::lock_timeout,
        Err(AcquireError::Deadlock { .. }) => AskOutcome::deadlock,
        Err(AcquireError::Busy { .. }) => AskOutcome::busy,
        Err(AcquireError::Reused { .. } | AcquireError::Unsupported(_)) => AskOutcome::refused,
        Err(AcquireError::Unavailable(_)) => AskOutcome::unavailable,
    }
}

#[async_trait]
impl LockService for Metered {
    async fn acquire(&self, ask: &Ask, wait: Duration) -> Result<Grant, AcquireError> {
        let begun = SystemClock.now();
        let waiting = (!wait.is_zero()).then(|| Waiting::count(&self.metrics.waiters));
        let result = self.service.acquire(ask, wait).await;
        drop(waiting);
        self.metrics.asks.get_or_create(&AskLabels { outcome: outcome(&result) }).inc();
        if result.is_ok() {
            self.granted(ask, begun);
        }
        result
    }

    async fn renew(&self, lease: LeaseId) -> Result<Renewal, RenewError> {
        let result = self.service.renew(lease).await;
        match &result {
            Ok(_) => {
                // Looked at, it is remembered for longer.
                let _touched = self.held.get(&lease);
                self.metrics.renewals.inc();
            }
            Err(RenewError::Lost { .. }) => self.lost(lease),
            Err(RenewError::Unavailable(_)) => _ = self.metrics.renewal_failures.inc(),
        }
        result
    }

    async fn release(&self, lease: LeaseId, bar: bool) -> Result<Release, Unconfirmed> {
        let result = self.service.release(lease, bar).await;
        match &result {
            Ok(Release::Released) => self.released(lease),
            // Never granted, it cannot be lost.
            Ok(Release::AlreadyLost { .. }) if self.held.contains_key(&lease) => self.lost(lease),
            Ok(Release::AlreadyLost { .. }) | Err(_) => {}
        }
        result
    }

    async fn force_release(&self, resource: &str) -> Result<Vec<Holder>, Unconfirmed> {
        let result = self.service.force_release(resource).await;
        if result.as_ref().is_ok_and(|holders| !holders.is_empty()) {
            self.released.insert(resource.into(), SystemClock.now());
        }
        result
    }

    async fn list(&self, query: &LeaseQuery) -> Result<LeasePage, Unavailable> {
        self.service.list(query).await
    }

    async fn ping(&self) -> Result<(), Unavailable> {
        self.service.ping().await
    }

    async fn close(&self) {
        self.service.close().await;
    }

    fn describe(&self) -> String {
        self.service.describe()
    }
}
