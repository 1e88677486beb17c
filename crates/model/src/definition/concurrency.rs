//! How commands on one instance commit.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::LockKey;
use crate::limits::{
    ATTEMPTS_DEFAULT, BACKOFF_DEFAULT, ESCALATE_ABOVE_DEFAULT, LOCK_TIMEOUT_DEFAULT, LOCK_TTL_DEFAULT,
};

/// What stands between two writers of one instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Decide on a snapshot, write on the condition that it is still current; a lost write is tried again.
    Optimistic,
    /// Lock the row, decide, write.
    Pessimistic,
    /// Hold a lease on the lock that `lock_key` names, decide, write on the condition that nobody has held it since.
    Distributed,
    /// Optimistic, and under the row lock while the instance is contended; the last attempt always is. With a
    /// `lock_key`, under a lease where the row lock is contended too.
    #[default]
    Adaptive,
}

impl Strategy {
    /// All of them, in the order in which they are named to people.
    pub(super) const ALL: [Self; 4] = [Self::Optimistic, Self::Pessimistic, Self::Distributed, Self::Adaptive];

    /// Whether it may take leases.
    pub(super) fn may_lease(self) -> bool {
        matches!(self, Self::Distributed | Self::Adaptive)
    }

    /// Its name in definitions and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Optimistic => "optimistic",
            Self::Pessimistic => "pessimistic",
            Self::Distributed => "distributed",
            Self::Adaptive => "adaptive",
        }
    }
}

/// What a command does that finds the row locked by somebody else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLocked {
    /// It waits for as long as `lock_timeout`, then answers `lock_timeout`.
    #[default]
    Wait,
    /// It answers `lock_timeout` at once.
    Nowait,
    /// It answers `busy` at once: whoever serves a list of instances goes on to the next one.
    SkipLocked,
}

impl OnLocked {
    /// All of them, in the order in which they are named to people.
    pub(super) const ALL: [Self; 3] = [Self::Wait, Self::Nowait, Self::SkipLocked];

    /// Its name in definitions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Nowait => "nowait",
            Self::SkipLocked => "skip_locked",
        }
    }
}

/// What a command does that needs a lease while the lock service is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLockLoss {
    /// It commits under the row lock: right for what the store alone has to keep.
    #[default]
    RowLock,
    /// It is refused as `unavailable`: right where the lock also guards work outside of the store.
    Refuse,
}

impl OnLockLoss {
    /// All of them, in the order in which they are named to people.
    pub(super) const ALL: [Self; 2] = [Self::RowLock, Self::Refuse];

    /// What is done under `strategy` where nothing is said.
    pub(super) fn default_of(strategy: Strategy) -> Self {
        if strategy == Strategy::Distributed { Self::Refuse } else { Self::RowLock }
    }

    /// Its name in definitions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RowLock => "row_lock",
            Self::Refuse => "refuse",
        }
    }
}

/// How commands on one instance commit.
///
/// The workflow's block stands on the defaults, and a transition's block on the workflow's: what a block does not say is
/// what it stands on says. A preset says several fields at once, and a field beside it says otherwise. Last, whatever
/// the strategy makes no use of is put to its default: so a transition with another strategy than its workflow's takes
/// over the fields that both use, and begins from the defaults for those that only its own does (and for `on_lock_loss`,
/// whose default is the strategy's).
#[derive(Clone, Debug, PartialEq)]
pub struct Concurrency {
    /// Optimistic, pessimistic, distributed or adaptive.
    pub strategy: Strategy,
    /// Attempts of one command, from 1; optimistic: before `conflict`.
    pub attempts: u32,
    /// The first backoff; doubled with each further attempt, with full jitter.
    pub backoff: Duration,
    /// The longest wait for a row that somebody else has locked, or for a lease, in whole milliseconds. Without use if
    /// optimistic.
    pub lock_timeout: Duration,
    /// What is done about such a row. Of use if pessimistic; adaptive always waits.
    pub on_locked: OnLocked,
    /// The part of contended commands above which an instance goes to the row lock: 0.05 of 1. Of use if adaptive.
    pub escalate_above: f64,
    /// Whether commands that wait for the same instance commit together. One for all of a workflow.
    pub combine: bool,
    /// The lock that is leased. Always there if distributed; of use if adaptive.
    pub lock_key: Option<LockKey>,
    /// How long a lease lives without being renewed, in whole milliseconds. Of use with a `lock_key`.
    pub lock_ttl: Duration,
    /// What is done while the lock service is gone. Of use with a `lock_key`.
    pub on_lock_loss: OnLockLoss,
}

impl Default for Concurrency {
    /// Adaptive: three attempts, 50 ms, 5 s for a lock, above 5 %, combining.
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            attempts: ATTEMPTS_DEFAULT,
            backoff: BACKOFF_DEFAULT,
            lock_timeout: LOCK_TIMEOUT_DEFAULT,
            on_locked: OnLocked::default(),
            escalate_above: ESCALATE_ABOVE_DEFAULT,
            combine: true,
            lock_key: None,
            lock_ttl: LOCK_TTL_DEFAULT,
            on_lock_loss: OnLockLoss::default(),
        }
    }
}

impl Concurrency {
    /// The same with the default in each field that the strategy makes no use of.
    pub(super) fn fitted(self) -> Self {
        let default = Self::default();
        let strategy = self.strategy;
        let lock_key = self.lock_key.filter(|_| strategy.may_lease());
        let (lock_ttl, on_lock_loss) = match &lock_key {
            Some(_) => (self.lock_ttl, self.on_lock_loss),
            None => (default.lock_ttl, OnLockLoss::default_of(strategy)),
        };
        Self {
            lock_key,
            lock_ttl,
            on_lock_loss,
            lock_timeout: if strategy == Strategy::Optimistic { default.lock_timeout } else { self.lock_timeout },
            on_locked: if strategy == Strategy::Pessimistic { self.on_locked } else { default.on_locked },
            escalate_above: if strategy == Strategy::Adaptive { self.escalate_above } else { default.escalate_above },
            ..self
        }
    }
}
