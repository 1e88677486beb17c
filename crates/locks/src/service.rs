//! What a backend of locks can do.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_store::Timestamp;
use lockkeeper_store::lease::{Ask, HeldBy, Holder, LeaseId, LeasePage, LeaseQuery};
use thiserror::Error;

use crate::Moment;

/// A place where leases are kept.
///
/// Every backend passes the same conformance suite. All methods may be called from many tasks at once, and each may be
/// called again after any failure: an ask, a renewal and an end done twice are done once. Every call ends within a
/// bounded time of its own (for an ask: beyond its wait), whatever the servers do. A future of `acquire` that is dropped
/// may have been granted what it asked for: whoever drops it has to end the lease with `bar`.
#[async_trait]
pub trait LockService: Send + Sync + 'static {
    /// Asks for a lease and waits for it, at most `wait`. With a wait of zero, whoever cannot have it now has no place in
    /// the queue; otherwise the place is kept for [`place_kept`] after [`AcquireError::LockTimeout`], for who asks
    /// again. Asked again while it is held, it is granted again, for its time to live from then.
    ///
    /// # Errors
    /// [`AcquireError`].
    async fn acquire(&self, ask: &Ask, wait: Duration) -> Result<Grant, AcquireError>;

    /// Moves a lease's end to its time to live from now. Never makes a lease.
    ///
    /// # Errors
    /// [`RenewError`].
    async fn renew(&self, lease: LeaseId) -> Result<Renewal, RenewError>;

    /// Gives a lease back, or a place in the queue. With `bar`, a late ask of the same name cannot get it any more.
    ///
    /// # Errors
    /// [`Unconfirmed`]: it may or may not be given back; ask again.
    async fn release(&self, lease: LeaseId, bar: bool) -> Result<Release, Unconfirmed>;

    /// Takes a name from all who hold it; who that was. They hear of it at their next renewal, and until then their
    /// fences protect what checks them.
    ///
    /// # Errors
    /// [`Unconfirmed`]: it may or may not have been done; ask again.
    async fn force_release(&self, resource: &str) -> Result<Vec<Holder>, Unconfirmed>;

    /// Names that are held or waited for, sorted by bytes.
    ///
    /// # Errors
    /// [`Unavailable`].
    async fn list(&self, query: &LeaseQuery) -> Result<LeasePage, Unavailable>;

    /// Answers once a lease could be had.
    ///
    /// # Errors
    /// [`Unavailable`] with the reason.
    async fn ping(&self) -> Result<(), Unavailable>;

    /// Lets go of connections and ends background work. Later calls answer `Unavailable`.
    async fn close(&self);

    /// What kind of service it is and where, for people: `redis://127.0.0.1:6379`. Never a password.
    fn describe(&self) -> String;
}

/// How long a place in the queue outlives the last ask: long enough to ask again, and a dead one does not hold the
/// others up for longer.
pub fn place_kept(ttl: Duration) -> Duration {
    (ttl / 3).clamp(PLACE_KEPT_MIN, PLACE_KEPT_MAX)
}

/// A client needs its round trips to ask again, however short its lease.
const PLACE_KEPT_MIN: Duration = Duration::from_millis(500);

/// Requests are answered within half of it.
pub(crate) const PLACE_KEPT_MAX: Duration = Duration::from_secs(60);

/// A lease that was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The instant before the request was sent that the grant answers, on the caller's own clock. One that had waited may
    /// have been granted for less than its time to live from then: it is to be renewed soon.
    pub asked: Moment,
    /// The fence of each claim, in the order of the ask's claims; none: the backend has none.
    pub fences: Vec<Option<i64>>,
    /// How much of the time that it was granted for may be used, from then: less what clocks may differ and answers may take.
    pub usable: Duration,
}

impl Grant {
    /// Until when it may be used.
    pub fn valid_until(&self) -> Moment {
        self.asked + self.usable
    }
}

/// A lease that was renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// The instant before the renewal was sent.
    pub asked: Moment,
    /// How much of the time to live may be used, from then.
    pub usable: Duration,
}

impl Renewal {
    /// Until when it may be used.
    pub fn valid_until(&self) -> Moment {
        self.asked + self.usable
    }
}

/// What may be used of a time to live: clocks that run at different speeds may differ by a hundredth of it, and two
/// milliseconds (a twentieth of shorter ones) are kept for the granularity of timers (Redlock, "Is the Algorithm
/// Asynchronous?", <https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>).
pub fn usable(ttl: Duration) -> Duration {
    ttl.saturating_sub(ttl / 100).saturating_sub((ttl / 20).min(Duration::from_millis(2)))
}

/// What became of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Release {
    /// The lease was held until now.
    Released,
    /// It was not held any more, or never.
    AlreadyLost {
        /// Since when, where that is known.
        since: Option<Timestamp>,
    },
}

/// A lease that was not got; nothing is held, except after `Unavailable` and `Unknown`, where nobody knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
pub enum AcquireError {
    /// Somebody else has it, and this ask does not wait.
    #[error("{} is {}", .0.resource, describe(.0))]
    Held(Box<HeldBy>),
    /// Somebody else had it for as long as this ask waits.
    #[error("{} is {}, after {} ms", held_by.resource, describe(held_by), waited.as_millis())]
    LockTimeout {
        /// How long it waited.
        waited: Duration,
        /// Who is in the way.
        held_by: Box<HeldBy>,
    },
    /// It waited in a circle, and was chosen to give up.
    #[error("these wait for each other: {}", cycle.join(" -> "))]
    Deadlock {
        /// The owners, each waiting for the next, the last for the first.
        cycle: Arc<[String]>,
    },
    /// Too many wait already.
    #[error("{waiters} wait for {resource} already")]
    Busy {
        /// For this name.
        resource: Arc<str>,
        /// How many.
        waiters: u64,
    },
    /// This try was ended, or was made for other names: each try to get a lease needs a name of its own.
    #[error("this attempt {}: each attempt needs a name of its own", if *.ended { "has ended" } else { "asked for something else" })]
    Reused {
        /// Whether it was ended; otherwise it asked for something else.
        ended: bool,
    },
    /// The backend cannot serve it as it is asked, and says what would do.
    #[error("{0}")]
    Unsupported(String),
    /// The backend did not answer. It may have granted the lease.
    #[error("the lock service is unavailable: {0}")]
    Unavailable(String),
}

/// `held by ann on host-1 since ...`.
pub fn describe(held_by: &HeldBy) -> String {
    let HeldBy { owner, host, since, holds, .. } = held_by;
    let verb = if *holds { "held by" } else { "kept for" };
    format!("{verb} {owner} on {host} since {}", since.to_rfc3339_opts(chrono::SecondsFormat::Millis, true))
}

/// A lease that was not renewed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RenewError {
    /// It is not held any more, and never will be again.
    #[error("the lease is lost")]
    Lost {
        /// Since when, where that is known.
        since: Option<Timestamp>,
    },
    /// The backend did not answer; it may have been renewed.
    #[error("the lock service is unavailable: {0}")]
    Unavailable(String),
}

/// A change that may or may not have been made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not confirmed: {0}")]
pub struct Unconfirmed(pub String);

/// A service that does not answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the lock service is unavailable: {0}")]
pub struct Unavailable(pub String);
