//! What the cases work with.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_locks::{
    AcquireError, Ask, Claim, Grant, HeldBy, LeaseId, LeaseQuery, LockService, Locks, Mode, Release, RenewError,
    ServiceOptions,
};

/// Long enough not to lapse while a case is at work.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Short enough to be waited for, long enough for what is done within it on a loaded machine.
pub(crate) const SHORT: Duration = Duration::from_millis(400);

/// Short enough for several of them, long enough to be renewed in time by a machine that is busy.
pub(crate) const BRISK: Duration = Duration::from_millis(2_000);

/// No time at all.
pub(crate) const NOW: Duration = Duration::ZERO;

/// Deadlocks are looked for often.
pub(crate) fn options() -> ServiceOptions {
    ServiceOptions { deadlock_scan: Duration::from_millis(100), ..ServiceOptions::default() }
}

/// An empty service.
pub(crate) struct Bench {
    pub(crate) service: Arc<dyn LockService>,
    pub(crate) locks: Locks,
    /// Whatever has to live as long.
    _home: Box<dyn Any + Send + Sync>,
}

impl Bench {
    pub(crate) fn new(service: Arc<dyn LockService>, home: Box<dyn Any + Send + Sync>) -> Self {
        Self { locks: Locks::new(service.clone()), service, _home: home }
    }

    /// Asks at once or not at all.
    pub(crate) async fn try_acquire(&self, ask: &Ask) -> Result<Grant, AcquireError> {
        self.service.acquire(ask, NOW).await
    }

    /// Gets what nobody else has.
    pub(crate) async fn acquire(&self, ask: &Ask) -> Grant {
        self.try_acquire(ask).await.expect("it is free")
    }

    /// Releases what is held.
    pub(crate) async fn release(&self, ask: &Ask) {
        assert_eq!(self.service.release(ask.lease(), false).await, Ok(Release::Released));
    }

    /// Who is in the way.
    pub(crate) async fn held(&self, ask: &Ask) -> HeldBy {
        match self.try_acquire(ask).await {
            Err(AcquireError::Held(held_by)) => *held_by,
            other => panic!("not held: {other:?}"),
        }
    }

    pub(crate) async fn is_lost(&self, ask: &Ask) -> bool {
        matches!(self.service.renew(ask.lease()).await, Err(RenewError::Lost { .. }))
    }

    /// Waits for it in a task of its own, until it has a place in the queue, or an answer already.
    pub(crate) async fn queue(&self, ask: &Ask, wait: Duration) -> Waiting {
        let before = self.waiters(&ask.claims()[0].resource).await;
        let (service, asked) = (self.service.clone(), ask.clone());
        let task = tokio::spawn(async move { service.acquire(&asked, wait).await });
        self.until(|| async { task.is_finished() || self.waiters(&ask.claims()[0].resource).await > before }).await;
        Waiting(task)
    }

    /// How many wait for a name.
    pub(crate) async fn waiters(&self, resource: &str) -> u64 {
        let page = self.service.list(&LeaseQuery { after: None, limit: 1_000 }).await.expect("a list");
        page.resources.iter().find(|view| &*view.resource == resource).map_or(0, |view| view.waiters)
    }

    /// Returns when it holds; panics if it does not in time.
    pub(crate) async fn until<T: Future<Output = bool>>(&self, holds: impl Fn() -> T) {
        let wait = async {
            while !holds().await {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), wait).await.expect("it holds in time");
    }
}

/// One who waits.
pub(crate) struct Waiting(tokio::task::JoinHandle<Result<Grant, AcquireError>>);

impl Waiting {
    pub(crate) async fn result(self) -> Result<Grant, AcquireError> {
        let bounded = tokio::time::timeout(Duration::from_secs(30), self.0).await;
        bounded.expect("an answer in time").expect("no panic")
    }

    pub(crate) async fn granted(self) -> Grant {
        self.result().await.expect("a grant")
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_finished()
    }

    /// Drops the wait where it stands.
    pub(crate) async fn abort(self) {
        self.0.abort();
        let _aborted = self.0.await;
    }
}

/// An ask of an owner for one name.
pub(crate) fn ask(owner: &str, resource: &str, ttl: Duration) -> Ask {
    ask_in(Mode::Exclusive, owner, resource, ttl)
}

/// An ask in some mode.
pub(crate) fn ask_in(mode: Mode, owner: &str, resource: &str, ttl: Duration) -> Ask {
    let claim = Claim { resource: resource.into(), mode };
    Ask::new(LeaseId::random(), owner, "host-1", [claim], ttl).expect("a good ask")
}

/// An ask for several names.
pub(crate) fn ask_all(owner: &str, resources: &[&str], ttl: Duration) -> Ask {
    let claims = resources.iter().map(|name| Claim { resource: (*name).into(), mode: Mode::Exclusive });
    Ask::new(LeaseId::random(), owner, "host-1", claims, ttl).expect("a good ask")
}

/// The fence of a grant for one name.
pub(crate) fn fence(grant: &Grant) -> i64 {
    grant.fences[0].expect("the service has fences")
}
