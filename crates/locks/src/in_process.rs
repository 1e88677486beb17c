//! Locks in this process: for one node, tests, and code that is to run on one machine or on many.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use chrono::{SubsecRound, Utc};
use lockkeeper_store::Timestamp;
use lockkeeper_store::lease::{self, Edge, LeaseAnswer, LeasePage, LeaseQuery, LeaseRequest, Memory, law};
use lockkeeper_store::limits::CLAIMS_MAX;

use crate::{Clock, Leases, Moment, Served, ServiceOptions, Unavailable, Waiters};

/// A lock service in memory.
pub type InProcess = Served<InMemory>;

/// Leases in memory; they expire by the service's own clock.
#[derive(Debug)]
pub struct InMemory {
    // A std mutex: held for one request, never over an await.
    rows: Mutex<Memory>,
    clock: Arc<dyn Clock>,
    /// What the clock and the time of day showed when this was made.
    start: (Moment, Timestamp),
    waiters: Waiters,
}

/// Names that each request looks at besides its own, so that those are forgotten that nobody asks for again: more than it
/// can add.
const SWEPT_AT_ONCE: usize = 2 * CLAIMS_MAX;

impl InProcess {
    /// An empty one. Must be made within a tokio runtime.
    pub fn open(options: ServiceOptions) -> Self {
        let now = Utc::now().trunc_subsecs(3);
        let leases = InMemory {
            rows: Mutex::new(Memory::new(now, lease::floor(now), false).granting_ahead()),
            start: (options.clock.now(), now),
            clock: options.clock.clone(),
            waiters: Waiters::default(),
        };
        Self::new(leases, options)
    }
}

impl InMemory {
    fn with<T>(&self, work: impl FnOnce(&mut Memory) -> T) -> T {
        let (moment, time) = self.start;
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (time + self.clock.now().since(moment)).trunc_subsecs(3);
        rows.set_now(now);
        rows.raise_floor(lease::floor(now));
        for resource in rows.take_ended(SWEPT_AT_ONCE) {
            let Ok(woken) = law::sweep(&mut *rows, &resource);
            woken.into_iter().for_each(|woken| self.waiters.tell(woken));
        }
        work(&mut rows)
    }
}

#[async_trait]
impl Leases for InMemory {
    async fn change(&self, request: LeaseRequest) -> Result<LeaseAnswer, Unavailable> {
        let Ok(answered) = self.with(|rows| law::apply(rows, &request));
        answered.woken.into_iter().for_each(|woken| self.waiters.tell(woken));
        Ok(answered.answer)
    }

    async fn page(&self, query: &LeaseQuery) -> Result<LeasePage, Unavailable> {
        Ok(self.with(|rows| rows.list(query)))
    }

    async fn edges(&self) -> Result<Vec<Edge>, Unavailable> {
        Ok(self.with(|rows| rows.edges()))
    }

    async fn ping(&self) -> Result<(), Unavailable> {
        Ok(())
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    async fn close(&self) {}

    fn describe(&self) -> String {
        "in this process".to_owned()
    }
}
