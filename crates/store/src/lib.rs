//! Versioned records with events, idempotency keys and alarms.
//!
//! The store knows nothing of workflows: a record is bytes with a version, and each version has one event. Whatever
//! was decided elsewhere is committed by one conditional write, or not at all. Backends: [`sqlite`], [`postgres`].

pub mod alarm;
pub mod change_set;
mod clock;
mod dates;
pub mod error;
mod feed;
mod fence;
mod forget;
pub mod lease;
pub mod limits;
mod place;
pub mod postgres;
pub mod record;
pub mod row_lock;
pub mod scratch;
pub mod sqlite;
mod verify;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use tokio::sync::broadcast;
use uuid::Uuid;

pub use alarm::{Alarm, Due};
pub use change_set::{AllVerdict, ChangeSet, NewKey, Requirement, Verdict};
pub use clock::{StoreClock, since_boot};
pub use dates::{DateOf, Dated, DatedQuery};
pub use error::{CommitError, OpenError, ReadError};
pub use feed::{FeedCursor, FeedFrom, FeedGap, FeedItem, FeedPage};
pub use fence::Fence;
pub use forget::{Forget, Forgotten};
pub use lease::{Edge, LeaseAnswer, LeaseId, LeasePage, LeaseQuery, LeaseRequest};
pub use postgres::{PostgresOptions, PostgresStore};
pub use record::{Confirmation, Event, Facets, ListOrder, ListQuery, Page, Record, RecordKey, StoredKey};
pub use row_lock::{LockError, Locked, OnLocked, RowLock};
pub use scratch::Scratch;
pub use sqlite::{BackupError, BackupFile, BackupSummary, SqliteOptions, SqliteStore, restore_sqlite};

/// A point in time, UTC; stored in whole milliseconds.
pub type Timestamp = chrono::DateTime<chrono::Utc>;

/// A place that keeps what it acknowledged.
///
/// Every backend passes the same conformance suite. All methods may be called from many tasks at once; dropping a
/// returned future never leaves a half-made change (a commit that was begun may still be completed).
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Commits one change set, synced to stable storage before it returns [`Verdict::Committed`].
    ///
    /// Sets of other callers may share the transaction; each stands or falls alone.
    ///
    /// # Errors
    /// [`CommitError::Unavailable`]: nothing was written. [`CommitError::Unknown`]: the commit was sent and its fate is
    /// not known; [`Store::committed`] tells once the store answers again.
    async fn commit(&self, set: ChangeSet) -> Result<Verdict, CommitError>;

    /// Commits several change sets of different records, all or none. No record may appear twice.
    ///
    /// # Errors
    /// As [`Store::commit`].
    async fn commit_all(&self, sets: Vec<ChangeSet>) -> Result<AllVerdict, CommitError>;

    /// Locks a record against other lockers, then reads it, with those of `keys` that it has and that have not expired
    /// at `now`. A record that does not exist cannot be locked; then nobody is kept away, and the conditional write
    /// decides as ever.
    ///
    /// The lock ends with the returned [`Locked`], and with the connection behind it. It is advice: a commit without it
    /// may come first on some backends, and the holder's own commit is as conditional as any.
    ///
    /// # Errors
    /// [`LockError`]: not locked.
    async fn lock(
        &self,
        key: &RecordKey,
        keys: &[String],
        now: Timestamp,
        on_locked: OnLocked,
    ) -> Result<Locked, LockError>;

    /// The record as last committed.
    ///
    /// # Errors
    /// [`ReadError`]: the store did not answer.
    async fn read(&self, key: &RecordKey) -> Result<Option<Record>, ReadError>;

    /// The record's current version (0: there is none) and which of `keys` it has, read at one instant: one read
    /// proves a snapshot and finds replays. Keys that have expired at `now` are not found.
    ///
    /// # Errors
    /// [`ReadError`]: the store did not answer.
    async fn confirm(&self, key: &RecordKey, keys: &[String], now: Timestamp) -> Result<Confirmation, ReadError>;

    /// Whether the commit `commit_id`, which expected `expected_version`, took place: then the event of the next version
    /// carries its id. One row is looked at, however long the history.
    ///
    /// # Errors
    /// [`ReadError`]: the store did not answer.
    async fn committed(&self, key: &RecordKey, expected_version: i64, commit_id: Uuid) -> Result<bool, ReadError>;

    /// Events of `key` with versions above `after`, oldest first, at most `limit` (itself at least 1 and at most
    /// [`limits::PAGE_MAX`]). An unknown record has none. Large events end a page early
    /// ([`limits::PAGE_BYTES_MAX`]): only an empty answer says that there are no more.
    ///
    /// # Errors
    /// [`ReadError`]: the store did not answer.
    async fn events(&self, key: &RecordKey, after: i64, limit: usize) -> Result<Vec<Event>, ReadError>;

    /// One page of the feed: events of all records, at most `limit` (itself at least 1 and at most [`limits::PAGE_MAX`]), in
    /// an order in which nothing ever appears before a place that a reader has passed. What was committed before this is
    /// called may still be held back ([`FeedPage::held_back`]).
    ///
    /// # Errors
    /// [`ReadError`]: the store did not answer.
    async fn feed(&self, from: FeedFrom, limit: usize) -> Result<FeedPage, ReadError>;

    /// One page of the records of a space. A page may be short, or empty, and still have a `next`: a search looks at a
    /// bounded number of records at a time.
    ///
    /// # Errors
    /// [`ReadError`]: the store did not answer, or the cursor is not one of its own.
    async fn list(&self, query: &ListQuery) -> Result<Page, ReadError>;

    /// At most `limit` records (itself at most [`limits::DUE_MAX`]) whose alarms are due by the store's clock and that
    /// nobody has claimed, oldest first; they are claimed from then on.
    ///
    /// # Errors
    /// [`ReadError`]: the store did not answer. Some may have been claimed all the same; such claims run out.
    async fn due(&self, limit: usize) -> Result<Due, ReadError>;

    /// Sets a record's alarm without changing the record, if it is at `version` and nobody is changing it; says whether
    /// it did. For alarms that whoever wrote the record did not know of.
    ///
    /// # Errors
    /// As [`Store::commit`]; it is safe to ask again.
    async fn set_alarm(&self, key: &RecordKey, version: i64, alarm: Alarm) -> Result<bool, CommitError>;

    /// Records of a space by one of their dates ([`DateOf`]), oldest first. By that date they are claimed from then on: nobody who
    /// asks for the same age is told of them for [`limits::DATES_CLAIMED`], unless their date is set meanwhile. Those
    /// that somebody is changing may be left out.
    ///
    /// # Errors
    /// [`ReadError`]: the store did not answer. Some may have been claimed all the same; such claims run out.
    async fn dated(&self, query: &DatedQuery) -> Result<Vec<Dated>, ReadError>;

    /// Sets one of the dates of records, at most [`limits::PAGE_MAX`] at once; that of a record that somebody is changing may
    /// stay as it is.
    ///
    /// # Errors
    /// As [`Store::commit`]; it is safe to ask again.
    async fn set_dates(&self, of: DateOf, dates: Vec<(RecordKey, Timestamp)>) -> Result<(), CommitError>;

    /// Changes leases by [`lease::law`], in one transaction that is synced before this returns. The time is that of the
    /// store's own clock. Whatever happens, the same may be asked again.
    ///
    /// # Errors
    /// As [`Store::commit`].
    async fn lease(&self, request: LeaseRequest) -> Result<LeaseAnswer, CommitError>;

    /// Names that are held or waited for, sorted by bytes.
    ///
    /// # Errors
    /// [`ReadError`]: the store did not answer.
    async fn leases(&self, query: &LeaseQuery) -> Result<LeasePage, ReadError>;

    /// Who waits for whom, all of one moment; at most [`limits::EDGES_MAX`], those of the youngest first.
    ///
    /// # Errors
    /// [`ReadError`]: the store did not answer.
    async fn lease_edges(&self) -> Result<Vec<Edge>, ReadError>;

    /// Hears of those who wait and are to ask again, whoever's change it was that made room for them. Nobody is told
    /// twice, and news may be lost: whoever waits asks again from time to time anyway.
    fn woken(&self) -> broadcast::Receiver<LeaseId>;

    /// Whether the news of other nodes are heard. If not, whoever waits has to ask more often.
    fn hears_others(&self) -> bool {
        true
    }

    /// Forgets at most `limit` idempotency keys (itself at most [`limits::PURGE_MAX`]) that had expired at `now`; says
    /// how many.
    ///
    /// # Errors
    /// [`CommitError`], as [`Store::commit`].
    async fn purge_keys(&self, now: Timestamp, limit: usize) -> Result<usize, CommitError>;

    /// Forgets at most `limit` resources' fences (itself at most [`limits::PURGE_MAX`]) that no change set and no grant has
    /// named since `before` and that no lease holds; says how many. From then on a fence of any age passes for such a resource, so `before` must lie far enough back:
    /// [`limits::FENCES_KEPT`]. One that was named a day after `before` at the latest may be forgotten too.
    ///
    /// # Errors
    /// [`CommitError`], as [`Store::commit`].
    async fn purge_fences(&self, before: Timestamp, limit: usize) -> Result<usize, CommitError>;

    /// Forgets at most `limit` rows of each table of leases that ended before that time, and that nobody has asked for
    /// since; says how many of all.
    ///
    /// # Errors
    /// [`CommitError`], as [`Store::commit`].
    async fn purge_leases(&self, before: Timestamp, limit: usize) -> Result<usize, CommitError>;

    /// A number that never falls, for those who grant fences elsewhere and may forget what they granted: raises it to
    /// `at_least` (0 to [`limits::FENCE_MAX`]; what is outside is brought there), and says what it is then, synced.
    ///
    /// # Errors
    /// [`CommitError`], as [`Store::commit`]; after [`CommitError::Unknown`] it is safe to ask again.
    async fn fence_floor(&self, at_least: i64) -> Result<i64, CommitError>;

    /// Forgets a record's oldest events, at most `limit` (itself at most [`limits::PURGE_MAX`]) at once. Its version stays. A
    /// reader of the feed that has not passed them is told of a gap.
    ///
    /// # Errors
    /// [`CommitError`], as [`Store::commit`]; after [`CommitError::Unknown`] it is safe to ask again.
    async fn forget(&self, what: &Forget, limit: usize) -> Result<Forgotten, CommitError>;

    /// Copies the whole store, as it is at one moment, into a new or empty file at `into`, synced. Commits go on
    /// meanwhile. Dropped: the copying ends at once.
    ///
    /// # Errors
    /// [`BackupError`]; what is left at `into` is of no use.
    async fn backup(&self, into: &Path) -> Result<BackupSummary, BackupError>;

    /// A folder with room for a backup on its way elsewhere.
    fn scratch(&self) -> PathBuf {
        std::env::temp_dir()
    }

    /// Answers once the store can take a write. Where a full disk would show only then, a write is tried, at most once a
    /// second; the answer may be so old.
    ///
    /// # Errors
    /// [`CommitError::Unavailable`] with the reason.
    async fn ping(&self) -> Result<(), CommitError>;

    /// Finishes what was accepted and lets go of the store. Later calls answer `Unavailable`.
    async fn close(&self);

    /// What kind of store it is and where, for people: `sqlite://lockkeeper.db`. Never a password.
    fn describe(&self) -> String;
}
