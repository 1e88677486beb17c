//! The store in PostgreSQL as the trait tells it.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{Semaphore, broadcast};
use tokio::time::timeout;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::calls::Calls;
use super::lanes::Lanes;
use super::options::PostgresOptions;
use super::pool::{Connections, Share};
use super::values::{Parameter, name};
use super::{alarms, all, backup, dates, failure, feed, forget, lease, list, queries, row_lock, schema};
use crate::lease::{Forced, check_resource};
use crate::limits::PURGE_MAX;
use crate::sqlite::{BackupError, BackupFile, BackupSummary};
use crate::{
    Alarm, AllVerdict, ChangeSet, CommitError, Confirmation, DateOf, Dated, DatedQuery, Due, Edge, Event, FeedFrom,
    FeedPage, Forget, Forgotten, LeaseAnswer, LeaseId, LeasePage, LeaseQuery, LeaseRequest, ListQuery, LockError,
    Locked, OnLocked, OpenError, Page, ReadError, Record, RecordKey, Store, Timestamp, Verdict, verify,
};

/// A store in a schema of a PostgreSQL database. Any number of nodes may have it open.
#[derive(Debug)]
pub struct PostgresStore {
    shared: Arc<Shared>,
    lanes: Lanes,
    leases: lease::Queue,
}

/// What all parts of the store use.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: PostgresOptions,
    pub(super) calls: Calls,
    pub(super) connections: Arc<Connections>,
    /// Those who hold a row, or wait for one: half the pool, so that the others always get on. The lanes have theirs.
    pub(super) row_waits: Arc<Semaphore>,
}

impl Shared {
    pub(super) fn no_verdict(&self) -> String {
        format!("the database gave no answer within {:?}", self.options.verdict_wait)
    }
}

impl PostgresStore {
    /// Opens the store: reaches the database, checks that it keeps what it acknowledges, and brings the schema to this
    /// release. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`OpenError`], which says what to do.
    pub async fn open(options: PostgresOptions) -> Result<Self, OpenError> {
        let connections = Connections::new(&options)?;
        let unusable = |detail: String| OpenError::NoDatabase { url: options.describe(), detail };
        let mut connection = connections.get(Share::Others).await.map_err(unusable)?;
        schema::migrate(&mut connection, &options).await?;
        connection.done();
        connections.opened();
        let others = options.connections.saturating_sub(options.lanes);
        let row_waits = Arc::new(Semaphore::new((options.connections / 2).min(others.saturating_sub(1)).max(1)));
        let shared = Arc::new(Shared { calls: Calls::new(&options.schema), connections, row_waits, options });
        Ok(Self { lanes: Lanes::start(&shared), leases: lease::Queue::start(&shared), shared })
    }

    /// Restores a backup into this store, in one transaction. The store must be empty, or `replace` be set: then what is
    /// there goes, for good. It begins another life: fences are above all that were given before, leases are gone.
    ///
    /// # Errors
    /// [`BackupError`]: nothing has changed, unless the answer to COMMIT was lost; that is said.
    pub async fn restore(&self, backup: BackupFile, replace: bool) -> Result<BackupSummary, BackupError> {
        backup::restore(&self.shared, backup, replace).await
    }

    async fn purge(&self, sql: &str, before: Timestamp, limit: usize) -> Result<usize, CommitError> {
        let (before, limit) = (before.timestamp_millis(), limit.min(PURGE_MAX) as i64);
        let parameters: [Parameter<'_>; 2] = [(&before, Type::INT8), (&limit, Type::INT8)];
        Ok(usize::try_from(self.number(sql, &parameters).await?).unwrap_or(0))
    }

    /// Makes a change that answers with a number.
    async fn number(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<i64, CommitError> {
        let connection = self.shared.connections.get(Share::Others).await.map_err(CommitError::Unavailable)?;
        let change = connection.change(sql, parameters);
        let Ok(answer) = timeout(self.shared.options.verdict_wait, change).await else {
            connection.give_up();
            return Err(CommitError::Unknown(self.shared.no_verdict()));
        };
        let rows = answer?;
        connection.done();
        let number = rows.first().map_or(Ok(0), |row| row.try_get(0));
        number.map_err(|error| CommitError::Unknown(failure::explain(&error)))
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn commit(&self, set: ChangeSet) -> Result<Verdict, CommitError> {
        if let Err(breach) = verify::change_set(&set) {
            return Ok(breach.into());
        }
        self.lanes.commit(set, &self.shared).await
    }

    async fn commit_all(&self, sets: Vec<ChangeSet>) -> Result<AllVerdict, CommitError> {
        if let Err((index, breach)) = verify::all(&sets) {
            return Ok(AllVerdict::Failed { index, verdict: breach.into() });
        }
        all::commit(&self.shared, &sets).await
    }

    async fn lock(
        &self,
        key: &RecordKey,
        keys: &[String],
        now: Timestamp,
        on_locked: OnLocked,
    ) -> Result<Locked, LockError> {
        row_lock::lock(&self.shared, key, keys, now, on_locked).await
    }

    async fn read(&self, key: &RecordKey) -> Result<Option<Record>, ReadError> {
        queries::read(&self.shared, key).await
    }

    async fn confirm(&self, key: &RecordKey, keys: &[String], now: Timestamp) -> Result<Confirmation, ReadError> {
        queries::confirm(&self.shared, key, keys, now).await
    }

    async fn committed(&self, key: &RecordKey, expected_version: i64, commit_id: Uuid) -> Result<bool, ReadError> {
        queries::committed(&self.shared, key, expected_version, commit_id).await
    }

    async fn events(&self, key: &RecordKey, after: i64, limit: usize) -> Result<Vec<Event>, ReadError> {
        queries::events(&self.shared, key, after, limit).await
    }

    async fn feed(&self, from: FeedFrom, limit: usize) -> Result<FeedPage, ReadError> {
        feed::page(&self.shared, from, limit).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, ReadError> {
        list::page(&self.shared, query).await
    }

    async fn due(&self, limit: usize) -> Result<Due, ReadError> {
        alarms::due(&self.shared, limit).await
    }

    async fn set_alarm(&self, key: &RecordKey, version: i64, alarm: Alarm) -> Result<bool, CommitError> {
        let Some(alarm) = alarm.column() else { return Ok(false) };
        let (space, id) = name(key);
        let parameters: [Parameter<'_>; 4] =
            [(&space, Type::TEXT), (&id, Type::TEXT), (&version, Type::INT8), (&alarm, Type::INT8)];
        Ok(self.number(&self.shared.calls.set_alarm, &parameters).await? == 1)
    }

    async fn dated(&self, query: &DatedQuery) -> Result<Vec<Dated>, ReadError> {
        dates::claim(&self.shared, query).await
    }

    async fn set_dates(&self, of: DateOf, dates: Vec<(RecordKey, Timestamp)>) -> Result<(), CommitError> {
        dates::set(&self.shared, of, &dates).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<LeaseAnswer, CommitError> {
        if let LeaseRequest::Force { resource } = &request
            && check_resource(resource).is_err()
        {
            // What cannot be asked for is held by nobody.
            return Ok(LeaseAnswer::Forced(Forced { holders: Vec::new() }));
        }
        self.leases.change(request, &self.shared).await
    }

    async fn leases(&self, query: &LeaseQuery) -> Result<LeasePage, ReadError> {
        lease::page(&self.shared, query).await
    }

    async fn lease_edges(&self) -> Result<Vec<Edge>, ReadError> {
        lease::edges(&self.shared).await
    }

    fn hears_others(&self) -> bool {
        self.leases.hears_others()
    }

    fn woken(&self) -> broadcast::Receiver<LeaseId> {
        self.leases.woken()
    }

    async fn purge_keys(&self, now: Timestamp, limit: usize) -> Result<usize, CommitError> {
        let (at, limit) = (now.timestamp_millis(), limit.min(PURGE_MAX) as i64);
        let purged = self.number(&self.shared.calls.purge, &[(&at, Type::INT8), (&limit, Type::INT8)]).await?;
        Ok(usize::try_from(purged).unwrap_or(0))
    }

    async fn purge_fences(&self, before: Timestamp, limit: usize) -> Result<usize, CommitError> {
        self.purge(&self.shared.calls.purge_fences, before, limit).await
    }

    async fn purge_leases(&self, before: Timestamp, limit: usize) -> Result<usize, CommitError> {
        self.purge(&self.shared.calls.purge_leases, before, limit).await
    }

    async fn fence_floor(&self, at_least: i64) -> Result<i64, CommitError> {
        self.number(&self.shared.calls.fence_floor, &[(&at_least, Type::INT8)]).await
    }

    async fn forget(&self, what: &Forget, limit: usize) -> Result<Forgotten, CommitError> {
        forget::forget(&self.shared, what, limit).await
    }

    async fn backup(&self, into: &Path) -> Result<BackupSummary, BackupError> {
        backup::make(&self.shared, into).await
    }

    async fn ping(&self) -> Result<(), CommitError> {
        let unavailable = |detail: String| CommitError::Unavailable(detail);
        let rows = queries::run(&self.shared, &self.shared.calls.ping, &[]).await;
        let rows = rows.map_err(|error| unavailable(error.to_string()))?;
        let row = rows.first().ok_or_else(|| unavailable("the database gave no answer".to_owned()))?;
        let told = row.try_get(1).and_then(|read_only| Ok((read_only, row.try_get(2)?)));
        match told.map_err(|error| unavailable(failure::explain(&error)))? {
            (true, _) => Err(unavailable("the database is read-only".to_owned())),
            (_, false) => Err(unavailable("the database runs with fsync=off by now: turn it on".to_owned())),
            (false, true) => Ok(()),
        }
    }

    async fn close(&self) {
        self.lanes.close().await;
        self.leases.close().await;
        self.shared.row_waits.close();
        self.shared.connections.close();
    }

    fn describe(&self) -> String {
        self.shared.options.describe()
    }
}
