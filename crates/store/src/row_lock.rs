//! A record held by one session while it decides.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;

use crate::{ChangeSet, CommitError, ReadError, Record, StoredKey, Timestamp, Verdict};

/// What to do about a record that another session has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLocked {
    /// Wait for it, at most so long.
    Wait(Duration),
    /// Give up at once.
    GiveUp,
}

/// A record that is locked, as it was when the lock was got.
pub struct Locked {
    /// The record; none: there is none, and nothing is locked.
    pub record: Option<Record>,
    /// Those of the keys asked for that it has.
    pub keys: Vec<StoredKey>,
    /// Whether another session had it locked first.
    pub contended: bool,
    /// How long it took to get, the way there and back included.
    pub waited: Duration,
    /// The life of the store: see [`crate::ChangeSet::life`].
    pub life: i64,
    /// The lock itself. Dropped: given back without a change.
    pub hold: Box<dyn RowLock>,
}

impl fmt::Debug for Locked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { record, keys, contended, waited, life, hold: _ } = self;
        f.debug_struct("Locked")
            .field("record", record)
            .field("keys", keys)
            .field("contended", contended)
            .field("waited", waited)
            .field("life", life)
            .finish_non_exhaustive()
    }
}

/// A lock on a record. Dropping it gives the lock back, without waiting.
#[async_trait]
pub trait RowLock: Send {
    /// Those of `keys` that the locked record has and that have not expired at `now`.
    ///
    /// # Errors
    /// [`ReadError`]: the store did not answer; the lock is of no more use.
    async fn taken(&mut self, keys: &[String], now: Timestamp) -> Result<Vec<StoredKey>, ReadError>;

    /// Gives the lock back, and says whether it was held until now. With `told`, what other sessions have committed is
    /// about to be told as acknowledged, and has first to be where acknowledged changes are (on a synchronous standby).
    ///
    /// # Errors
    /// [`ReadError`]: the lock may have been lost earlier.
    async fn release(self: Box<Self>, told: bool) -> Result<(), ReadError>;

    /// Commits a change set of the locked record under the lock, and gives the lock back.
    ///
    /// # Errors
    /// As [`crate::Store::commit`].
    async fn commit(self: Box<Self>, set: ChangeSet) -> Result<Verdict, CommitError>;
}

/// A lock that was not got; nothing is held.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LockError {
    /// The store did not answer.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// Another session has it, and had it for as long as this one would wait.
    #[error("another session has had the record locked for {} ms", waited.as_millis())]
    Locked {
        /// How long it was waited for; zero: it was not.
        waited: Duration,
    },
}
