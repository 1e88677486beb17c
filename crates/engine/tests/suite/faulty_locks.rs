//! A lock service that fails as it is told to.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_locks::{
    Acquire, AcquireError, Ask, Grant, Holder, Lease, LeaseId, LeasePage, LeaseQuery, LockService, Locks, Release,
    RenewError, Renewal, Unavailable, Unconfirmed,
};

/// A lock service with faults on order.
pub struct FaultyLocks {
    inner: Arc<dyn LockService>,
    /// It answers nothing while it is set.
    pub gone: AtomicBool,
    pub asks: AtomicUsize,
    /// Names that were granted, in order, with their fences.
    pub granted: Mutex<Vec<(String, i64)>>,
}

impl FaultyLocks {
    pub fn new(inner: Arc<dyn LockService>) -> Arc<Self> {
        Arc::new(Self { inner, gone: false.into(), asks: AtomicUsize::new(0), granted: Mutex::default() })
    }

    /// Somebody who is no node of ours holds a lock.
    pub async fn somebody(&self, resource: &str) -> Lease {
        let how = Acquire::new().owner("somebody").wait(Duration::from_secs(5));
        Locks::new(self.inner.clone()).acquire(resource, how).await.expect("a free lock")
    }

    /// Everybody who holds a lock loses it.
    pub async fn force(&self, resource: &str) -> Vec<Holder> {
        self.inner.force_release(resource).await.expect("a sound service")
    }

    fn check<E>(&self, error: impl FnOnce(String) -> E) -> Result<(), E> {
        match self.gone.load(Ordering::SeqCst) {
            true => Err(error("cut off".to_owned())),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl LockService for FaultyLocks {
    async fn acquire(&self, ask: &Ask, wait: Duration) -> Result<Grant, AcquireError> {
        self.asks.fetch_add(1, Ordering::SeqCst);
        self.check(AcquireError::Unavailable)?;
        let grant = self.inner.acquire(ask, wait).await?;
        let names = ask.claims().iter().map(|claim| claim.resource.to_string());
        let fences = grant.fences.iter().map(|fence| fence.expect("these services have fences"));
        self.granted.lock().unwrap().extend(names.zip(fences));
        Ok(grant)
    }

    async fn renew(&self, lease: LeaseId) -> Result<Renewal, RenewError> {
        self.check(RenewError::Unavailable)?;
        self.inner.renew(lease).await
    }

    async fn release(&self, lease: LeaseId, bar: bool) -> Result<Release, Unconfirmed> {
        self.check(Unconfirmed)?;
        self.inner.release(lease, bar).await
    }

    async fn force_release(&self, resource: &str) -> Result<Vec<Holder>, Unconfirmed> {
        self.check(Unconfirmed)?;
        self.inner.force_release(resource).await
    }

    async fn list(&self, query: &LeaseQuery) -> Result<LeasePage, Unavailable> {
        self.check(Unavailable)?;
        self.inner.list(query).await
    }

    async fn ping(&self) -> Result<(), Unavailable> {
        self.check(Unavailable)?;
        self.inner.ping().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
