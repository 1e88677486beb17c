//! A lock service that can be broken.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_locks::{
    AcquireError, Ask, Clock, Grant, Holder, InProcess, LeaseId, LeasePage, LeaseQuery, LockService, Locks,
    ManualClock, Release, RenewError, Renewal, ServiceOptions, Unavailable, Unconfirmed,
};
use tokio::sync::{Notify, Semaphore};

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It never arrives, and its caller hears so.
    NotSent,
    /// It is served, and its answer is lost.
    AnswerLost,
    /// It is served, and its answer is held back until it is let go.
    AnswerHeld,
    /// It is held back before it is served, until it is let go.
    CallHeld,
}

/// Which calls are broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Acquire,
    Renew,
    Release,
}

/// A service in memory, and what is to happen to the next calls.
pub(crate) struct Broken {
    inner: InProcess,
    faults: Mutex<VecDeque<(Kind, Fault)>>,
    always: Mutex<Option<(Kind, Fault)>>,
    held: Semaphore,
    calls: [AtomicU64; 3],
    /// Something was called, served or held back.
    pub(crate) moved: Notify,
}

impl Broken {
    /// What happens to the next call of this kind that has no fault yet.
    pub(crate) fn next(&self, kind: Kind, fault: Fault) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).push_back((kind, fault));
    }

    /// What happens to every call of this kind from now on; none: nothing.
    pub(crate) fn always(&self, fault: Option<(Kind, Fault)>) {
        *self.always.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Lets go of one that is held back.
    pub(crate) fn let_go(&self) {
        self.held.add_permits(1);
    }

    /// How many calls of a kind there were.
    pub(crate) fn calls(&self, kind: Kind) -> u64 {
        self.calls[kind as usize].load(Ordering::SeqCst)
    }

    fn fault(&self, kind: Kind) -> Option<Fault> {
        self.calls[kind as usize].fetch_add(1, Ordering::SeqCst);
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let place = faults.iter().position(|(of, _)| *of == kind);
        let once = place.and_then(|place| faults.remove(place)).map(|(_, fault)| fault);
        let always = *self.always.lock().unwrap_or_else(PoisonError::into_inner);
        once.or(always.filter(|(of, _)| *of == kind).map(|(_, fault)| fault))
    }

    async fn hold(&self) {
        self.moved.notify_waiters();
        if let Ok(permit) = self.held.acquire().await {
            permit.forget();
        }
    }

    async fn serve<T, E>(&self, kind: Kind, call: impl Future<Output = Result<T, E>>, lost: E) -> Result<T, E> {
        let fault = self.fault(kind);
        self.moved.notify_waiters();
        match fault {
            None => call.await,
            Some(Fault::NotSent) => Err(lost),
            Some(Fault::AnswerLost) => call.await.and(Err(lost)),
            Some(Fault::AnswerHeld) => {
                let answer = call.await;
                self.hold().await;
                answer
            }
            Some(Fault::CallHeld) => {
                self.hold().await;
                call.await
            }
        }
    }
}

const LOST: &str = "lost on the way";

#[async_trait]
impl LockService for Broken {
    async fn acquire(&self, ask: &Ask, wait: Duration) -> Result<Grant, AcquireError> {
        // The instant counts from here, as it does for whoever asks over a network.
        self.serve(Kind::Acquire, self.inner.acquire(ask, wait), AcquireError::Unavailable(LOST.to_owned())).await
    }

    async fn renew(&self, lease: LeaseId) -> Result<Renewal, RenewError> {
        self.serve(Kind::Renew, self.inner.renew(lease), RenewError::Unavailable(LOST.to_owned())).await
    }

    async fn release(&self, lease: LeaseId, bar: bool) -> Result<Release, Unconfirmed> {
        self.serve(Kind::Release, self.inner.release(lease, bar), Unconfirmed(LOST.to_owned())).await
    }

    async fn force_release(&self, resource: &str) -> Result<Vec<Holder>, Unconfirmed> {
        self.inner.force_release(resource).await
    }

    async fn list(&self, query: &LeaseQuery) -> Result<LeasePage, Unavailable> {
        self.inner.list(query).await
    }

    async fn ping(&self) -> Result<(), Unavailable> {
        self.inner.ping().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// A broken service, its clock, and leases of it.
pub(crate) struct Bench {
    pub(crate) service: Arc<Broken>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) locks: Locks,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let options = ServiceOptions { clock: clock.clone(), ..ServiceOptions::default() };
        let service = Arc::new(Broken {
            inner: InProcess::open(options),
            faults: Mutex::default(),
            always: Mutex::default(),
            held: Semaphore::new(0),
            calls: Default::default(),
            moved: Notify::new(),
        });
        let locks = Locks::with_clock(service.clone(), clock.clone());
        Self { service, clock, locks }
    }

    /// Lets all that can run now run, without any time passing.
    pub(crate) async fn settle(&self) {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }

    /// Moves the clock in small steps, and lets everything run in between.
    pub(crate) async fn pass(&self, time: Duration) {
        const STEPS: u32 = 50;
        for _ in 0..STEPS {
            self.clock.advance(time / STEPS);
            self.settle().await;
        }
    }

    /// Who has a name, as the service sees it.
    pub(crate) async fn holders(&self, resource: &str) -> usize {
        let page = self.service.inner.list(&LeaseQuery { after: None, limit: 100 }).await.expect("a page");
        page.resources.iter().find(|view| &*view.resource == resource).map_or(0, |view| view.holders.len())
    }

    pub(crate) async fn waiters(&self, resource: &str) -> u64 {
        let page = self.service.inner.list(&LeaseQuery { after: None, limit: 100 }).await.expect("a page");
        page.resources.iter().find(|view| &*view.resource == resource).map_or(0, |view| view.waiters)
    }

    pub(crate) fn now(&self) -> lockkeeper_locks::Moment {
        self.clock.now()
    }
}
