//! Locks on the store: they outlive every node, and need no other server.

use std::sync::Arc;

use async_trait::async_trait;
use lockkeeper_store::lease::{Edge, LeaseAnswer, LeaseId, LeasePage, LeaseQuery, LeaseRequest};
use lockkeeper_store::{CommitError, ReadError, Store};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{Leases, Served, ServiceOptions, Unavailable, Waiters};

/// A lock service on a store.
pub type Durable = Served<Stored>;

/// Leases in a store; they expire by its clock. A jump of that clock can end them early: their holders hear of it at their
/// next renewal, and until then their fences protect what checks them.
#[derive(Debug)]
pub struct Stored {
    store: Shared,
    waiters: Arc<Waiters>,
    _listener: DropGuard,
}

/// The store, which cannot be printed.
#[derive(Clone)]
struct Shared(Arc<dyn Store>);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.describe())
    }
}

impl Durable {
    /// A service on this store, which others may use as well; closing the service leaves it open. Must be made within a
    /// tokio runtime.
    pub fn open(store: Arc<dyn Store>, options: ServiceOptions) -> Self {
        let (waiters, stopped) = (Arc::new(Waiters::default()), CancellationToken::new());
        tokio::spawn(listen(store.woken(), waiters.clone(), stopped.clone()));
        Self::new(Stored { store: Shared(store), waiters, _listener: stopped.drop_guard() }, options)
    }
}

/// Passes on who is to ask again.
async fn listen(mut woken: Receiver<LeaseId>, waiters: Arc<Waiters>, stopped: CancellationToken) {
    while let Some(news) = stopped.run_until_cancelled(woken.recv()).await {
        match news {
            Ok(lease) => waiters.wake(lease),
            Err(RecvError::Lagged(_)) => waiters.wake_all(),
            Err(RecvError::Closed) => return,
        }
    }
}

#[async_trait]
impl Leases for Stored {
    async fn change(&self, request: LeaseRequest) -> Result<LeaseAnswer, Unavailable> {
        self.store.0.lease(request).await.map_err(|error| match error {
            CommitError::Unavailable(detail) | CommitError::Unknown(detail) => Unavailable(detail),
        })
    }

    async fn page(&self, query: &LeaseQuery) -> Result<LeasePage, Unavailable> {
        self.store.0.leases(query).await.map_err(unread)
    }

    async fn edges(&self) -> Result<Vec<Edge>, Unavailable> {
        self.store.0.lease_edges().await.map_err(unread)
    }

    async fn ping(&self) -> Result<(), Unavailable> {
        self.store.0.ping().await.map_err(|error| Unavailable(error.to_string()))
    }

    fn hears_others(&self) -> bool {
        self.store.0.hears_others()
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    async fn close(&self) {}

    fn describe(&self) -> String {
        self.store.0.describe()
    }
}

fn unread(error: ReadError) -> Unavailable {
    Unavailable(error.to_string())
}
