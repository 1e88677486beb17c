//! The embedded store as the trait tells it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{broadcast, mpsc};
use uuid::Uuid;

use super::alarms::Claims;
use super::backup::{self, Awaited, BackupError, BackupSummary, LongReads};
use super::checkpoint::Checkpoints;
use super::dates::{ClaimDated, SetDates};
use super::forget::ForgetSome;
use super::lease::ChangeLeases;
use super::lock_file::LockFile;
use super::options::SqliteOptions;
use super::probe::Probe;
use super::readers::Readers;
use super::requests::{CommitAll, CommitOne, FenceFloor, Ping, Purge, PurgeFences, PurgeLeases, SetAlarm};
use super::row_locks::{Held, Rows};
use super::writer::{Ended, Writer};
use super::writer_queue::WriterQueue;
use super::{alarms, connection, feed, lease_list, list, place, queries, rows};
use crate::lease::{self, Edge, LeaseAnswer, LeaseId, LeasePage, LeaseQuery, LeaseRequest};
use crate::limits::WOKEN_KEPT;
use crate::{
    Alarm, AllVerdict, ChangeSet, CommitError, Confirmation, DateOf, Dated, DatedQuery, Due, Event, FeedFrom, FeedPage,
    Forget, Forgotten, ListQuery, LockError, Locked, OnLocked, OpenError, Page, ReadError, Record, RecordKey, Store,
    StoreClock, Timestamp, Verdict, verify,
};

/// How long closing waits for the writer: a full queue of large sets on a slow disk, and the last checkpoint.
const CLOSE_WAIT: Duration = Duration::from_secs(30);

/// A store in one SQLite file, which belongs to this process while it is open.
#[derive(Debug)]
pub struct SqliteStore {
    given: PathBuf,
    /// The one name that the file goes by.
    file: PathBuf,
    /// Backups under way.
    long_reads: LongReads,
    writer: Arc<WriterQueue>,
    readers: Arc<Readers>,
    rows: Arc<Rows>,
    ended: Arc<Ended>,
    clock: StoreClock,
    claims: Arc<Claims>,
    probe: Probe,
    /// Fences are above this one: what the file keeps, and the moment in which it was opened, so that a file that was put
    /// back from a backup does not give out again what it has forgotten.
    fence_floor: i64,
    woken: broadcast::Sender<LeaseId>,
}

impl SqliteStore {
    /// Opens the store at `path`, or creates it. Blocks for some milliseconds, or for as long as it takes to write out
    /// what a killed process has left in its log.
    ///
    /// # Errors
    /// [`OpenError`], which says what to do.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Self, OpenError> {
        let settled = place::settle(path)?;
        let lock = LockFile::acquire(&settled)?;
        let unusable = |error: std::io::Error| OpenError::Unusable { path: path.to_owned(), detail: error.to_string() };
        place::mend(&settled).map_err(unusable)?;
        // What a killed restore has left: it only takes room.
        let _gone = place::clear(&place::beside(&settled, place::RESTORING));
        let connection = connection::open_writer(&settled)?;
        let (sender, receiver) = mpsc::channel(options.queue.max(1));
        let long_reads = LongReads::default();
        let checkpoints = Checkpoints::start(&settled, long_reads.clone())?;
        let ended = Writer::start(receiver, connection, checkpoints, lock)
            .map_err(|error| connection::no_thread(path, &error))?;
        let file = settled.clone();
        let readers = Arc::new(Readers::new(settled, options.readers, options.read_wait));
        let writer = Arc::new(WriterQueue::new(sender, &options));
        let fence_floor = lease::floor(options.clock.now());
        Ok(Self {
            given: path.to_owned(),
            file,
            long_reads,
            writer,
            readers,
            rows: Arc::default(),
            ended,
            clock: options.clock,
            claims: Arc::default(),
            probe: Probe::default(),
            fence_floor,
            woken: broadcast::Sender::new(WOKEN_KEPT),
        })
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn commit(&self, set: ChangeSet) -> Result<Verdict, CommitError> {
        if let Err(breach) = verify::change_set(&set) {
            return Ok(breach.into());
        }
        self.writer.submit(CommitOne(set)).await
    }

    async fn commit_all(&self, sets: Vec<ChangeSet>) -> Result<AllVerdict, CommitError> {
        if let Err((index, breach)) = verify::all(&sets) {
            return Ok(AllVerdict::Failed { index, verdict: breach.into() });
        }
        self.writer.submit(CommitAll(sets)).await
    }

    /// One process has the file, so its own locks are all that there are.
    async fn lock(
        &self,
        key: &RecordKey,
        keys: &[String],
        now: Timestamp,
        on_locked: OnLocked,
    ) -> Result<Locked, LockError> {
        let begun = Instant::now();
        let unavailable = |error: ReadError| LockError::Unavailable(error.to_string());
        // What is locked is the name, so a record that is not there yet is locked as well.
        let (guard, contended) = self.rows.lock(key, on_locked).await?;
        let record = self.read(key).await.map_err(unavailable)?;
        let keys = match keys.is_empty() {
            true => Vec::new(),
            false => self.confirm(key, keys, now).await.map_err(unavailable)?.keys,
        };
        let hold = Box::new(Held { writer: self.writer.clone(), readers: self.readers.clone(), guard });
        Ok(Locked { record, keys, contended, waited: begun.elapsed(), life: rows::LIFE, hold })
    }

    async fn read(&self, key: &RecordKey) -> Result<Option<Record>, ReadError> {
        let key = key.clone();
        self.readers.run(move |connection| queries::read(connection, &key)).await
    }

    async fn confirm(&self, key: &RecordKey, keys: &[String], now: Timestamp) -> Result<Confirmation, ReadError> {
        let (key, keys) = (key.clone(), keys.to_vec());
        self.readers.run(move |connection| queries::confirm(connection, &key, &keys, now)).await
    }

    async fn committed(&self, key: &RecordKey, expected_version: i64, commit_id: Uuid) -> Result<bool, ReadError> {
        let key = key.clone();
        self.readers.run(move |connection| queries::committed(connection, &key, expected_version, commit_id)).await
    }

    async fn events(&self, key: &RecordKey, after: i64, limit: usize) -> Result<Vec<Event>, ReadError> {
        let key = key.clone();
        self.readers.run(move |connection| queries::events(connection, &key, after, limit)).await
    }

    async fn feed(&self, from: FeedFrom, limit: usize) -> Result<FeedPage, ReadError> {
        self.readers.run(move |connection| feed::page(connection, from, limit)).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, ReadError> {
        let query = query.clone();
        self.readers.run(move |connection| list::page(connection, &query)).await
    }

    async fn due(&self, limit: usize) -> Result<Due, ReadError> {
        let (claims, clock) = (self.claims.clone(), self.clock.clone());
        self.readers.run(move |connection| alarms::due(connection, &claims, &clock, limit)).await
    }

    async fn set_alarm(&self, key: &RecordKey, version: i64, alarm: Alarm) -> Result<bool, CommitError> {
        self.writer.submit(SetAlarm { key: key.clone(), version, alarm }).await
    }

    async fn dated(&self, query: &DatedQuery) -> Result<Vec<Dated>, ReadError> {
        let told = self.writer.submit(ClaimDated(query.clone())).await;
        told.map_err(|error| ReadError::Unavailable(error.to_string()))
    }

    async fn set_dates(&self, of: DateOf, dates: Vec<(RecordKey, Timestamp)>) -> Result<(), CommitError> {
        self.writer.submit(SetDates(of, dates)).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<LeaseAnswer, CommitError> {
        let (clock, floor, woken) = (self.clock.clone(), self.fence_floor, self.woken.clone());
        Ok(self.writer.submit(ChangeLeases { request, clock, floor, woken }).await?.answer)
    }

    async fn leases(&self, query: &LeaseQuery) -> Result<LeasePage, ReadError> {
        let (query, now) = (query.clone(), self.clock.now());
        self.readers.run(move |connection| lease_list::page(connection, &query, now)).await
    }

    async fn lease_edges(&self) -> Result<Vec<Edge>, ReadError> {
        let now = self.clock.now();
        self.readers.run(move |connection| lease_list::edges(connection, now)).await
    }

    fn woken(&self) -> broadcast::Receiver<LeaseId> {
        self.woken.subscribe()
    }

    async fn purge_keys(&self, now: Timestamp, limit: usize) -> Result<usize, CommitError> {
        self.writer.submit(Purge { now, limit }).await
    }

    async fn purge_fences(&self, before: Timestamp, limit: usize) -> Result<usize, CommitError> {
        self.writer.submit(PurgeFences { before, limit }).await
    }

    async fn purge_leases(&self, before: Timestamp, limit: usize) -> Result<usize, CommitError> {
        self.writer.submit(PurgeLeases { before, limit }).await
    }

    async fn fence_floor(&self, at_least: i64) -> Result<i64, CommitError> {
        self.writer.submit(FenceFloor(at_least)).await
    }

    async fn forget(&self, what: &Forget, limit: usize) -> Result<Forgotten, CommitError> {
        self.writer.submit(ForgetSome(what.clone(), limit)).await
    }

    async fn backup(&self, into: &Path) -> Result<BackupSummary, BackupError> {
        let (file, into, source, reads) =
            (self.file.clone(), into.to_owned(), self.describe(), self.long_reads.clone());
        let (_waiter, awaited) = Awaited::new();
        let made = tokio::task::spawn_blocking(move || backup::make(&file, &into, &source, &reads, &awaited)).await;
        made.unwrap_or_else(|error| Err(ReadError::Unavailable(format!("the copy did not end: {error}")).into()))
    }

    fn scratch(&self) -> PathBuf {
        self.file.parent().map_or_else(std::env::temp_dir, Path::to_path_buf)
    }

    async fn ping(&self) -> Result<(), CommitError> {
        let begun = Instant::now();
        let last = self.probe.last(begun);
        if let Some(Err(error)) = last {
            return Err(error);
        }
        let writes = last.is_none();
        let answer = self.writer.submit(Ping { writes }).await;
        if writes {
            self.probe.note(begun, &answer);
        }
        answer
    }

    async fn close(&self) {
        self.writer.close();
        // Readers first: the last connection to close is then the writer's, which empties the log.
        self.readers.close().await;
        let ended = Arc::clone(&self.ended);
        match tokio::task::spawn_blocking(move || ended.wait(CLOSE_WAIT)).await {
            Ok(true) => {}
            Ok(false) => tracing::error!("the store's writer did not end within {CLOSE_WAIT:?}"),
            Err(error) => tracing::error!(%error, "the end of the store's writer could not be awaited"),
        }
    }

    fn describe(&self) -> String {
        format!("sqlite://{}", self.given.display())
    }
}

impl Drop for SqliteStore {
    /// Lets the writer finish what it accepted, so that the file is free when this returns.
    fn drop(&mut self) {
        self.writer.close();
        self.ended.wait(CLOSE_WAIT);
    }
}
