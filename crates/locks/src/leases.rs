//! Leases as rows that are changed by requests: what the service is built on.

use async_trait::async_trait;
use lockkeeper_store::lease::{Ask, Edge, LeaseAnswer, LeasePage, LeaseQuery, LeaseRequest};

use crate::{Unavailable, Waiters};

/// A place that changes leases by the law of [`lockkeeper_store::lease::law`], one request at a time.
#[async_trait]
pub trait Leases: Send + Sync + 'static {
    /// Does what is asked. Whatever happens, the same may be asked again.
    ///
    /// # Errors
    /// [`Unavailable`]: it may or may not have been done.
    async fn change(&self, request: LeaseRequest) -> Result<LeaseAnswer, Unavailable>;

    /// Names that are held or waited for.
    ///
    /// # Errors
    /// [`Unavailable`].
    async fn page(&self, query: &LeaseQuery) -> Result<LeasePage, Unavailable>;

    /// Who waits for whom, all of one moment; empty where deadlocks are not looked for.
    ///
    /// # Errors
    /// [`Unavailable`].
    async fn edges(&self) -> Result<Vec<Edge>, Unavailable>;

    /// Answers once a lease could be had.
    ///
    /// # Errors
    /// [`Unavailable`] with the reason.
    async fn ping(&self) -> Result<(), Unavailable>;

    /// Why an ask cannot be served here as it is, and what would do; none: it can be.
    fn unsupported(&self, _ask: &Ask) -> Option<String> {
        None
    }

    /// Those of this node who wait: whoever makes room for one of them, here or elsewhere, wakes it there.
    fn waiters(&self) -> &Waiters;

    /// Whether room that is made on other nodes is heard of here. If not, whoever waits asks more often.
    fn hears_others(&self) -> bool {
        true
    }

    /// Lets go of connections and ends background work.
    async fn close(&self);

    /// What it is and where, for people.
    fn describe(&self) -> String;
}
