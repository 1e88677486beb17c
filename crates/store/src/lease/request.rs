//! What can be asked of leases, and the answers.

use std::sync::Arc;
use std::time::Duration;

use super::{Ask, LeaseId};
use crate::Timestamp;

/// A change of leases, done in one transaction. Doing one twice is the same as doing it once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseRequest {
    /// Get a lease, or a place in the queue.
    Ask {
        /// Which.
        ask: Ask,
        /// How long the place in the queue is kept if the lease is not to be had now; none: no place is taken (and one
        /// taken earlier is given up).
        keep: Option<Duration>,
    },
    /// Move a lease's end to its time to live from now.
    Renew {
        /// Which.
        lease: LeaseId,
    },
    /// Give a lease back, and its place in the queue.
    End {
        /// Which.
        lease: LeaseId,
        /// See to it that a late [`LeaseRequest::Ask`] of the same name gets nothing any more.
        bar: bool,
    },
    /// Take a name from all who hold it. Their leases are gone, with all other names that they hold.
    Force {
        /// Which.
        resource: Arc<str>,
    },
    /// Tell one who waits that it is the one to give up, for these owners wait for each other.
    Break {
        /// Who.
        lease: LeaseId,
        /// The ticket with which it waited in the circle.
        ticket: i64,
        /// The owners, each waiting for the next, the last for the first.
        cycle: Arc<[String]>,
    },
}

/// The answer to a [`LeaseRequest`], of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// To an ask.
    Asked(Asked),
    /// To a renewal.
    Renewed(Renewed),
    /// To an end.
    Ended(Ended),
    /// To a forced release.
    Forced(Forced),
    /// To a break: whether it still waited.
    Broken(bool),
}

/// An answer, and whom it concerns besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The answer.
    pub answer: LeaseAnswer,
    /// Those who wait and have something to hear now.
    pub woken: Vec<Woken>,
    /// Whether anything was written.
    pub wrote: bool,
}

/// Why one who waits is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Woken {
    /// Who.
    pub lease: LeaseId,
    /// It has been granted what it waits for; none: it is to ask again, for it may be granted.
    pub granted: Option<GrantedAhead>,
}

/// A grant to one who waits, before it asks again. It lives for the time to live from now, but no longer than the place
/// in the queue would have been kept: so that one who has died does not keep others away for longer than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedAhead {
    /// The ticket with which it waited.
    pub ticket: i64,
    /// The fence of each claim, sorted by name.
    pub fences: Vec<i64>,
}

/// What became of an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It is held, from now for its time to live. Asked again it is granted again, from then on, with the same fences.
    Granted {
        /// The fence of each claim, in the order of the claims.
        fences: Vec<i64>,
    },
    /// It has a place in the queue.
    Waiting {
        /// Who is in its way.
        held_by: HeldBy,
        /// If it is next: after what time somebody's lease ends, unless it is renewed.
        look_again: Option<Duration>,
        /// Its number in the queue.
        ticket: i64,
    },
    /// It is not to be had now, and has no place in the queue.
    Held(HeldBy),
    /// So many wait already that nobody else may.
    Full {
        /// For this name.
        resource: Arc<str>,
        /// How many.
        waiters: u64,
    },
    /// It was ended: each try to get a lease needs a name of its own.
    Over,
    /// The lease or the place is there, for other names or in other modes: the name was used twice.
    Mismatch,
    /// It waited in a circle and was chosen to give up; its place is gone.
    Deadlock {
        /// The owners, each waiting for the next, the last for the first.
        cycle: Arc<[String]>,
    },
}

/// One who is in the way: who holds a name, or is to have it next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeldBy {
    /// The name.
    pub resource: Arc<str>,
    /// Who.
    pub owner: Arc<str>,
    /// Where that is.
    pub host: Arc<str>,
    /// Since when it is held, or waited for.
    pub since: Timestamp,
    /// Whether it is held; otherwise it is kept for who waits first.
    pub holds: bool,
}

/// What became of a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// It lives for its time to live from now.
    Renewed {
        /// The time to live.
        ttl: Duration,
    },
    /// There is no such lease (any more). A renewal never makes one.
    Lost {
        /// Since when, where that is known.
        since: Option<Timestamp>,
    },
}

/// What became of an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was held until now.
    Released,
    /// It was not held any more, or never.
    AlreadyLost {
        /// Since when, where that is known.
        since: Option<Timestamp>,
    },
    /// It waited, and does not any more.
    Left,
}

/// Who was made to give a name up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forced {
    /// Whose leases are gone.
    pub holders: Vec<super::Holder>,
}
