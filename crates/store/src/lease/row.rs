//! Rows as they are told.

use std::sync::Arc;
use std::time::Duration;

use super::{LeaseId, Mode};
use crate::Timestamp;

/// One holder of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The lease; it may hold other names as well.
    pub lease: LeaseId,
    /// How many names the lease has, this one included: with fewer rows than these it is lost.
    pub names: u32,
    /// Who holds it.
    pub owner: Arc<str>,
    /// Where the owner is.
    pub host: Arc<str>,
    /// How the name is held.
    pub mode: Mode,
    /// The fencing token; none: the backend has none.
    pub fence: Option<i64>,
    /// When it was granted.
    pub since: Timestamp,
    /// When it ends unless it is renewed.
    pub expires: Timestamp,
    /// How far each renewal moves that.
    pub ttl: Duration,
}

/// One who waits for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The lease that it is to be.
    pub lease: LeaseId,
    /// Grows with each newcomer, over all names: whoever has the lower one goes first.
    pub ticket: i64,
    /// Who waits.
    pub owner: Arc<str>,
    /// Where the owner is.
    pub host: Arc<str>,
    /// How the name is to be held.
    pub mode: Mode,
    /// Since when.
    pub since: Timestamp,
    /// Until when the place is kept without another ask.
    pub lapses: Timestamp,
    /// Set once it was chosen to break a circle: the owners that wait for each other.
    pub cycle: Option<Arc<[String]>>,
    /// The time to live that it asks for; none: the rows do not keep it, for nobody is granted what it waits for before
    /// it asks again.
    pub ttl: Option<Duration>,
}

/// One name as lists tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceView {
    /// The name.
    pub resource: Arc<str>,
    /// Who holds it now.
    pub holders: Vec<Holder>,
    /// How many wait.
    pub waiters: u64,
}

/// Which names to list: those that are held or waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseQuery {
    /// Names after this one, by bytes; none: from the first.
    pub after: Option<String>,
    /// How many at most (itself at least 1 and at most [`crate::limits::PAGE_MAX`]).
    pub limit: usize,
}

/// One page of names, sorted by bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeasePage {
    /// The names.
    pub resources: Vec<ResourceView>,
    /// Where the next page begins; none: there is none.
    pub next: Option<String>,
    /// The time by the clock that the leases expire by.
    pub now: Timestamp,
}
