//! What these tests are written with.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lockkeeper_store::{
    Alarm, ChangeSet, Facets, ListOrder, ListQuery, NewKey, OpenError, PostgresOptions, PostgresStore, RecordKey,
    Requirement, Store, Timestamp, Verdict,
};
use lockkeeper_testbed::{TestDatabase, shared_database};
use uuid::Uuid;

/// Far above what anything takes, even in a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// A bound of a store that tests wait for.
pub(crate) const SHORT: Duration = Duration::from_millis(700);

/// Runs what blocks where it does not keep others from running.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}

/// An empty database on the shared server.
pub(crate) async fn database() -> Arc<TestDatabase> {
    Arc::new(blocking(shared_database).await)
}

/// Executes statements in it.
pub(crate) async fn execute(database: &Arc<TestDatabase>, sql: impl Into<String>) -> String {
    let (database, sql) = (database.clone(), sql.into());
    blocking(move || database.execute(&sql)).await
}

pub(crate) fn options(url: &str) -> PostgresOptions {
    PostgresOptions::from_url(url).expect("a good url")
}

/// As [`options`], with every bound so short that it can be waited for.
pub(crate) fn impatient(url: &str) -> PostgresOptions {
    let mut options = options(url);
    (options.connection_wait, options.verdict_wait, options.lock_wait) = (SHORT, SHORT, SHORT);
    options
}

/// Opens a store.
pub(crate) async fn open_with(options: PostgresOptions) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::open(options).await.expect("a store"))
}

/// Opens a store with the defaults.
pub(crate) async fn open(url: &str) -> Arc<PostgresStore> {
    open_with(options(url)).await
}

/// Why a store cannot be opened.
pub(crate) async fn refused(url: &str) -> OpenError {
    PostgresStore::open(impatient(url)).await.expect_err("refused")
}

/// A record.
pub(crate) fn key(id: &str) -> RecordKey {
    RecordKey::new("things", id)
}

/// The next version of a record, with one event that names it.
pub(crate) fn next(key: &RecordKey, expected: i64) -> ChangeSet {
    ChangeSet {
        key: key.clone(),
        commit_id: Uuid::new_v4(),
        expected_version: expected,
        facets: Facets::default(),
        body: Bytes::from(format!("body {}", expected + 1)),
        events: vec![Bytes::from(format!("event {}", expected + 1))],
        keys: Vec::new(),
        requires: Vec::new(),
        fences: Vec::new(),
        alarm: Alarm::Keep,
        at: now(),
        life: None,
    }
}

/// The same, with an idempotency key.
pub(crate) fn keyed(key: &RecordKey, expected: i64, name: &str) -> ChangeSet {
    let mut set = next(key, expected);
    let expires_at = now() + Duration::from_secs(1000);
    let outcome = Bytes::from_static(b"outcome");
    set.keys.push(NewKey { key: name.into(), fingerprint: [7; 32], outcome, version: expected + 1, expires_at });
    set
}

/// The same, if another record is at a version.
pub(crate) fn requiring(key: &RecordKey, expected: i64, other: &RecordKey, version: i64) -> ChangeSet {
    let mut set = next(key, expected);
    set.requires.push(Requirement { key: other.clone(), version });
    set
}

pub(crate) fn now() -> Timestamp {
    chrono::Utc::now()
}

pub(crate) async fn must_commit(store: &PostgresStore, set: ChangeSet) {
    let name = format!("{} after {}", set.key, set.expected_version);
    assert_eq!(store.commit(set).await, Ok(Verdict::Committed), "{name}");
}

pub(crate) async fn version(store: &PostgresStore, key: &RecordKey) -> i64 {
    store.read(key).await.expect("an answer").map_or(0, |record| record.version)
}

/// A list of all records.
pub(crate) fn query(order: ListOrder) -> ListQuery {
    ListQuery::all("things", order, 50)
}

/// Asks until the answer is yes.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut asked: impl FnMut() -> F) {
    let begun = Instant::now();
    while !asked().await {
        assert!(begun.elapsed() < LONG, "{what}: not after {LONG:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A role of its own on the shared server, with rights on one database only; dropped with this value.
pub(crate) struct Role {
    name: String,
    database: Arc<TestDatabase>,
}

impl Role {
    /// Creates it; `with` is what CREATE ROLE takes.
    pub(crate) async fn create(database: &Arc<TestDatabase>, with: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("role_{}_{}", database.name(), NEXT.fetch_add(1, Ordering::Relaxed));
        execute(database, format!("CREATE ROLE {name} LOGIN {with}")).await;
        Self { name, database: database.clone() }
    }

    /// A role that may create the store, and whose sessions begin with this setting.
    pub(crate) async fn with_setting(database: &Arc<TestDatabase>, setting: &str) -> Self {
        let role = Self::create(database, "").await;
        let (name, database_name) = (&role.name, database.name());
        let grant = format!("GRANT ALL ON DATABASE {database_name} TO {name}; ALTER ROLE {name} SET {setting}");
        execute(database, grant).await;
        role
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The database's URL for this role.
    pub(crate) fn url(&self) -> String {
        let url = self.database.url();
        let (_, address) = url.split_once('@').expect("the shared server's URL names a user");
        format!("postgres://{}@{address}", self.name)
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let name = &self.name;
        // Sessions that are about to end still belong to it; they do not keep it.
        self.database.execute(&format!("DROP OWNED BY {name} CASCADE; DROP ROLE {name}"));
    }
}
