//! What is committed: one record's next versions, on the condition that nothing came between.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use crate::Timestamp;
use crate::alarm::Alarm;
use crate::fence::Fence;
use crate::record::{Facets, Record, RecordKey, StoredKey};

/// The next versions of one record.
///
/// It takes effect only while none of its idempotency keys is taken, the record is at `expected_version`, every
/// requirement holds and no later fence has been seen; then all of it takes effect at once. They are checked in this
/// order: what has taken effect already is told as such, whatever came since; and of a fence, which many records may
/// share, as little time as possible passes between its check and the end of the commit.
#[derive(Clone, Debug)]
pub struct ChangeSet {
    /// Which record.
    pub key: RecordKey,
    /// Drawn at random for each commit that is sent; settles what became of it when the answer is lost.
    pub commit_id: Uuid,
    /// The version that was decided on; 0: there was no record.
    pub expected_version: i64,
    /// The record's facets after the last event.
    pub facets: Facets,
    /// The record's body after the last event.
    pub body: Bytes,
    /// One event for each new version, `expected_version + 1` onwards; at least one.
    pub events: Vec<Bytes>,
    /// Idempotency keys of the commands that took effect.
    pub keys: Vec<NewKey>,
    /// Other records that must still be as they were.
    pub requires: Vec<Requirement>,
    /// The locks under which it was decided, each resource once. None of them may have been granted again since, as far
    /// as the store has heard: by a later fence in a change set that took effect, or by a lock of its own. In any order.
    pub fences: Vec<Fence>,
    /// What becomes of the record's alarm.
    pub alarm: Alarm,
    /// When it was decided.
    pub at: Timestamp,
    /// The life of the store in which the version was read that was decided on; none: any.
    ///
    /// A store begins another life when it may have forgotten what it acknowledged and gives the same version numbers
    /// out again: a standby was promoted that lagged behind, a backup was restored. A set of an earlier life is
    /// [`Verdict::Lost`], whatever the version.
    pub life: Option<i64>,
}

/// An idempotency key to be kept.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// The key, scoped to the record.
    pub key: String,
    /// Which command it belongs to.
    pub fingerprint: [u8; 32],
    /// What the command is answered.
    pub outcome: Bytes,
    /// The version that the command takes effect in: one of the set's new versions.
    pub version: i64,
    /// From when on it may be forgotten.
    pub expires_at: Timestamp,
}

/// Another record's version, checked in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The other record.
    pub key: RecordKey,
    /// The version that it must be at; 0: it must not exist.
    pub version: i64,
}

/// What became of a change set. Only `Committed` has an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is on stable storage.
    Committed,
    /// The record was at another version: here it is (none: there is no record).
    Lost(Option<Record>),
    /// Some of its idempotency keys are taken.
    KeysTaken(Vec<StoredKey>),
    /// A requirement does not hold; `actual` is that record's version (0: it does not exist).
    Unmet {
        /// The requirement.
        requirement: Requirement,
        /// What was found.
        actual: i64,
    },
    /// A later fence of one of its resources has been seen: whoever decided it has lost that lock, and will not get it
    /// back under this fence.
    Fenced {
        /// The lock's name.
        resource: Arc<str>,
        /// The fence of the set.
        fence: i64,
        /// The latest fence that was seen; above `fence`.
        last: i64,
    },
    /// Another session had the record, or one of the fences, locked for as long as this one may wait.
    LockTimeout {
        /// How long it waited.
        waited: Duration,
    },
    /// It breaks a rule of the store (a size, a constraint).
    Rejected {
        /// The event at fault, by its place in the set; none: the record itself.
        event: Option<usize>,
        /// Which rule.
        reason: String,
    },
}

/// What became of several change sets that stand or fall together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllVerdict {
    /// All of them are on stable storage.
    Committed,
    /// None had an effect; this one was the first that could not be.
    Failed {
        /// The set's place.
        index: usize,
        /// Why; never [`Verdict::Committed`].
        verdict: Verdict,
    },
}
