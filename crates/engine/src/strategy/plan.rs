//! How a batch is to commit: each command says what it wants, and the strictest wish counts for all that go together.

use std::time::Duration;

use lockkeeper_model::definition::{Concurrency, OnLocked, Strategy};
use tokio::time::Instant;

use crate::contention::Rung;
use crate::pending::Pending;

/// How a batch commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// On a snapshot, by the conditional write alone.
    Snapshot,
    /// Under the row lock, waiting for it until then at most.
    Lock {
        /// The earliest moment at which a command no longer waits.
        until: Instant,
    },
    /// Under the row lock if nobody has it: some do not wait.
    LockIfFree,
}

/// The plan for a batch on a key that stands on `rung`. Locking for some is locking for all: the others would wait for the
/// row as well, in their commit, and as long.
pub(super) fn of(batch: &[Pending], rung: Rung, now: Instant) -> Plan {
    if !batch.iter().any(|pending| wants_lock(pending, rung)) {
        return Plan::Snapshot;
    }
    if batch.iter().any(gives_up) {
        return Plan::LockIfFree;
    }
    let until = batch.iter().map(|pending| waits_until(pending, now)).min().unwrap_or(now);
    Plan::Lock { until }
}

fn wants_lock(pending: &Pending, rung: Rung) -> bool {
    match pending.concurrency.strategy {
        Strategy::Optimistic => false,
        Strategy::Pessimistic => true,
        Strategy::Distributed => pending.locks_gone,
        Strategy::Adaptive => match rung {
            Rung::Optimistic => is_last_attempt(pending),
            Rung::RowLock => true,
            Rung::Lease => pending.lease.is_none(),
        },
    }
}

/// The last attempt of an adaptive command is under the lock, where no other write can come between.
pub(super) fn is_last_attempt(pending: &Pending) -> bool {
    pending.losses + 1 >= pending.concurrency.attempts
}

/// Whether a command does not wait for a row that is locked.
pub(super) fn gives_up(pending: &Pending) -> bool {
    let Concurrency { strategy, on_locked, .. } = pending.concurrency;
    strategy == Strategy::Pessimistic && on_locked != OnLocked::Wait
}

/// When a command stops waiting for the row: `lock_timeout` after it began, and no later than its deadline.
pub(super) fn waits_until(pending: &Pending, now: Instant) -> Instant {
    let begun = pending.waiting_for_row.unwrap_or(now);
    (begun + pending.concurrency.lock_timeout).min(pending.deadline)
}

/// How long a command has waited for the row.
pub(super) fn waited(pending: &Pending, now: Instant) -> Duration {
    pending.waiting_for_row.map_or(Duration::ZERO, |begun| now.saturating_duration_since(begun))
}
