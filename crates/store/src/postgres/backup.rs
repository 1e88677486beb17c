//! Copying the store into a backup, and out of one: table by table, each in one transaction.

use std::path::Path;
use std::time::Duration;

use rusqlite::types::Value;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row};
use uuid::Uuid;

use super::failure;
use super::pool::{Connection, Share};
use super::schema::quoted;
use super::store::Shared;
use super::values::Parameter;
use crate::ReadError;
use crate::sqlite::backup::{self, Awaited};
use crate::sqlite::{BackupError, BackupFile, BackupSummary};

/// Rows of one fetch: the largest are a megabyte.
const FETCH: i64 = 64;

/// Rows and bytes of one insert.
const INSERT: (usize, usize) = (512, 1024 * 1024);

/// Batches that are read ahead.
const BATCHES: usize = 2;

/// How long one statement of a copy may take: the largest has a megabyte, but emptying tables waits for who reads them.
const STATEMENT_WAIT: Duration = Duration::from_secs(60);

/// A transaction that is not ended for taking its time.
const PATIENT: &str = "SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL statement_timeout = 0;
    SET LOCAL lock_timeout = 10000; SET LOCAL idle_in_transaction_session_timeout = 0";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    Bytes,
    Uuid,
}

use Kind::{Bytes, Number, Text, Uuid as Id};

/// A table that both kinds of stores have.
struct Table {
    name: &'static str,
    columns: &'static [(&'static str, Kind)],
    /// In which order it is read here, so that the file's own numbers are in the order of the feed.
    order: &'static str,
}

static TABLES: [Table; 6] = [
    Table {
        name: "records",
        columns: &[
            ("record", Number),
            ("version", Number),
            ("space", Text),
            ("id", Text),
            ("primary_facet", Text),
            ("secondary_facet", Text),
            ("created_ms", Number),
            ("updated_ms", Number),
            ("body", Bytes),
        ],
        order: "record",
    },
    Table {
        name: "events",
        columns: &[("record", Number), ("version", Number), ("commit_id", Id), ("body", Bytes)],
        order: "xid, record, version",
    },
    Table {
        name: "idempotency_keys",
        columns: &[
            ("record", Number),
            ("version", Number),
            ("expires_ms", Number),
            ("key", Text),
            ("fingerprint", Bytes),
            ("outcome", Bytes),
        ],
        order: "record, key",
    },
    Table { name: "alarms", columns: &[("record", Number), ("due_ms", Number)], order: "record" },
    Table {
        name: "fences",
        columns: &[("resource", Text), ("last", Number), ("touched_ms", Number)],
        order: "resource",
    },
    Table { name: "counters", columns: &[("name", Text), ("value", Number)], order: "name" },
];

impl Table {
    fn names(&self) -> String {
        self.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    fn select(&self, schema: &str) -> String {
        format!("SELECT {} FROM {schema}.{} ORDER BY {}", self.names(), self.name, self.order)
    }

    /// The insert into the file.
    fn put(&self) -> String {
        let marks = vec!["?"; self.columns.len()].join(", ");
        format!("INSERT INTO {} ({}) VALUES ({marks})", self.name, self.names())
    }

    /// The insert into the database, of arrays.
    fn insert(&self, schema: &str) -> String {
        let arrays: Vec<String> = (1..=self.columns.len()).map(|n| format!("${n}")).collect();
        // Records keep their numbers, on which everything else hangs.
        let given = if self.name == "records" { "OVERRIDING SYSTEM VALUE" } else { "" };
        let (names, arrays) = (self.names(), arrays.join(", "));
        format!("INSERT INTO {schema}.{} ({names}) {given} SELECT * FROM unnest({arrays})", self.name)
    }
}

fn store_failed(error: &Error) -> BackupError {
    BackupError::Store(failure::read_error(error))
}

fn unavailable(detail: impl Into<String>) -> BackupError {
    BackupError::Store(ReadError::Unavailable(detail.into()))
}

async fn within<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, BackupError> {
    match timeout(STATEMENT_WAIT, work).await {
        Ok(done) => done.map_err(|error| store_failed(&error)),
        Err(_) => Err(unavailable(format!("the database gave no answer within {STATEMENT_WAIT:?}"))),
    }
}

/// A connection in a transaction; it is rolled back when dropped.
async fn begin(shared: &Shared, begin: &str) -> Result<Connection, BackupError> {
    let mut connection = shared.connections.get(Share::Others).await.map_err(unavailable)?;
    connection.in_transaction();
    within(connection.client().batch_execute(&format!("{begin}; {PATIENT}"))).await?;
    Ok(connection)
}

/// Copies the store, as it is at one moment, into a new file. Moves go on meanwhile.
pub(super) async fn make(shared: &Shared, into: &Path) -> Result<BackupSummary, BackupError> {
    let connection = begin(shared, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let schema = quoted(&shared.options.schema);
    let path = into.to_owned();
    let (_waiter, awaited) = Awaited::new();
    let create = move || {
        let file = backup::create(&path, &awaited)?;
        file.execute_batch("BEGIN").map_err(|error| backup::unwritable(&path, &error))?;
        Ok(file)
    };
    let mut file = blocking(create).await?;
    for table in &TABLES {
        let declare = format!("DECLARE lockkeeper_copy NO SCROLL CURSOR FOR {}", table.select(&schema));
        within(connection.client().batch_execute(&declare)).await?;
        loop {
            let fetch = format!("FETCH {FETCH} FROM lockkeeper_copy");
            let rows = within(connection.client().query_typed(&fetch, &[])).await?;
            let last = rows.len() < FETCH as usize;
            let path = into.to_owned();
            file = blocking(move || {
                fill(&file, table, &rows).map_err(|detail| backup::unwritable(&path, &detail))?;
                Ok(file)
            })
            .await?;
            if last {
                break;
            }
        }
        within(connection.client().batch_execute("CLOSE lockkeeper_copy")).await?;
    }
    within(connection.client().batch_execute("ROLLBACK")).await?;
    connection.done();
    let (path, source) = (into.to_owned(), shared.options.describe());
    blocking(move || {
        // Numbers of this database's own feed.
        let end = "DELETE FROM counters WHERE name IN ('feed_purges', 'feed_purged'); COMMIT";
        file.execute_batch(end).map_err(|error| backup::unwritable(&path, &error))?;
        backup::finish(file, &path, &source)
    })
    .await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackupError> + Send + 'static,
) -> Result<T, BackupError> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(unavailable(format!("the copy did not end: {error}"))))
}

/// A database's error is told as the file's here: what cannot be read is not written.
fn fill(file: &rusqlite::Connection, table: &Table, rows: &[Row]) -> Result<(), String> {
    let mut put = file.prepare_cached(&table.put()).map_err(|error| error.to_string())?;
    for row in rows {
        let value = |(place, (_, kind)): (usize, &(&str, Kind))| -> Result<Value, Error> {
            Ok(match kind {
                Number => Value::Integer(row.try_get(place)?),
                Text => Value::Text(row.try_get(place)?),
                Bytes => Value::Blob(row.try_get(place)?),
                Id => Value::Blob(row.try_get::<_, Uuid>(place)?.as_bytes().to_vec()),
            })
        };
        let values: Result<Vec<Value>, Error> = table.columns.iter().enumerate().map(value).collect();
        let values = values.map_err(|error| failure::explain(&error))?;
        put.execute(rusqlite::params_from_iter(values)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Restores a backup into this store, in one transaction: all of it or nothing. With `replace` what is there goes.
pub(super) async fn restore(shared: &Shared, from: BackupFile, replace: bool) -> Result<BackupSummary, BackupError> {
    let connection = begin(shared, "BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    let schema = quoted(&shared.options.schema);
    let client = connection.client();
    clear(client, shared, &schema, replace).await?;
    let summary = from.summary().clone();
    let (sender, mut batches) = mpsc::channel(BATCHES);
    let reading = spawn_blocking(move || read_all(&from, &sender));
    while let Some((table, batch)) = batches.recv().await {
        let parameters: Vec<Parameter<'_>> = batch.iter().map(Column::parameter).collect();
        within(client.query_typed(&table.insert(&schema), &parameters)).await?;
    }
    reading.await.unwrap_or_else(|error| Err(unavailable(format!("the backup was not read to its end: {error}"))))?;
    within(client.batch_execute(&renew(&schema))).await?;
    match timeout(STATEMENT_WAIT, client.batch_execute("COMMIT")).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(store_failed(&error)),
        Err(_) => return Err(unavailable("whether it was restored is not known: look whether the store is empty")),
    }
    connection.done();
    Ok(summary)
}

async fn clear(client: &Client, shared: &Shared, schema: &str, replace: bool) -> Result<(), BackupError> {
    // Whoever commits waits, and then finds another life.
    within(client.batch_execute(&format!("LOCK TABLE {schema}.records, {schema}.fences IN ACCESS EXCLUSIVE MODE")))
        .await?;
    let rows = within(client.query_typed(&format!("SELECT count(*) FROM {schema}.records"), &[])).await?;
    let records: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(|error| store_failed(&error))?;
    if records > 0 && !replace {
        return Err(BackupError::NotEmpty { store: shared.options.describe(), records: records.unsigned_abs() });
    }
    let empty =
        ["records", "events", "idempotency_keys", "alarms", "fences", "lease_holders", "lease_waiters", "lease_ended"];
    let empty: Vec<String> = empty.iter().map(|name| format!("{schema}.{name}")).collect();
    // Numbers of the counters only grow: what the backup has is put beside them first.
    let counters = format!(
        "CREATE TEMPORARY TABLE lockkeeper_counters ON COMMIT DROP AS SELECT * FROM {schema}.counters;
         DELETE FROM {schema}.counters"
    );
    within(client.batch_execute(&format!("TRUNCATE {}; {counters}", empty.join(", ")))).await
}

/// The store begins another life: fences are above all that were given before, whoever held a lock is late.
fn renew(s: &str) -> String {
    format!(
        "INSERT INTO {s}.counters AS new (name, value) SELECT name, value FROM lockkeeper_counters
             ON CONFLICT (name) DO UPDATE SET value = greatest(new.value, excluded.value);
         DELETE FROM {s}.counters WHERE name IN ('life', 'feed_purges', 'feed_purged');
         SELECT setval(pg_get_serial_sequence('{s}.records', 'record'), max(record)) FROM {s}.records HAVING count(*) > 0;
         SELECT {s}.begin_life();
         SELECT {s}.fence_floor(0);
         UPDATE {s}.fences SET last = least(greatest(last + 1, {s}.fence_floor(0)), 9007199254740991)"
    )
}

/// Rows, column by column.
type Batch = Vec<Column>;

/// Reads the file, batch by batch, as fast as they are taken.
fn read_all(from: &BackupFile, batches: &mpsc::Sender<(&'static Table, Batch)>) -> Result<(), BackupError> {
    let file = from.reader()?;
    for table in &TABLES {
        read_table(&file, table, batches)
            .map_err(|error| unavailable(format!("the backup cannot be read: {error}")))?;
    }
    Ok(())
}

fn read_table(
    file: &rusqlite::Connection,
    table: &'static Table,
    batches: &mpsc::Sender<(&'static Table, Batch)>,
) -> rusqlite::Result<()> {
    // The order of the file's own numbers is that of the feed.
    let order = if table.name == "events" { "event" } else { table.order };
    // What only keeps a number of the feed from being given out again has the record 0.
    let only = if table.name == "events" { "WHERE record > 0" } else { "" };
    let mut select = file.prepare(&format!("SELECT {} FROM {} {only} ORDER BY {order}", table.names(), table.name))?;
    let mut found = select.query([])?;
    let empty = || -> Batch { table.columns.iter().map(|(_, kind)| Column::new(*kind)).collect() };
    let (mut batch, mut rows, mut bytes) = (empty(), 0, 0);
    loop {
        let row = found.next()?;
        if rows > 0 && (row.is_none() || rows >= INSERT.0 || bytes >= INSERT.1) {
            if batches.blocking_send((table, std::mem::replace(&mut batch, empty()))).is_err() {
                // Whoever takes them has failed, and says why.
                return Ok(());
            }
            (rows, bytes) = (0, 0);
        }
        let Some(row) = row else { return Ok(()) };
        for (place, column) in batch.iter_mut().enumerate() {
            bytes += column.push(row, place)?;
        }
        rows += 1;
    }
}

enum Column {
    Numbers(Vec<i64>),
    Texts(Vec<String>),
    Bytes(Vec<Vec<u8>>),
    Ids(Vec<Uuid>),
}

impl Column {
    fn new(kind: Kind) -> Self {
        match kind {
            Number => Self::Numbers(Vec::new()),
            Text => Self::Texts(Vec::new()),
            Bytes => Self::Bytes(Vec::new()),
            Id => Self::Ids(Vec::new()),
        }
    }

    fn parameter(&self) -> Parameter<'_> {
        let (values, kind): (&(dyn ToSql + Sync), Type) = match self {
            Self::Numbers(values) => (values, Type::INT8_ARRAY),
            Self::Texts(values) => (values, Type::TEXT_ARRAY),
            Self::Bytes(values) => (values, Type::BYTEA_ARRAY),
            Self::Ids(values) => (values, Type::UUID_ARRAY),
        };
        (values, kind)
    }

    /// Adds a value; says how many bytes it has.
    fn push(&mut self, row: &rusqlite::Row<'_>, place: usize) -> rusqlite::Result<usize> {
        Ok(match self {
            Self::Numbers(values) => {
                values.push(row.get(place)?);
                8
            }
            Self::Texts(values) => {
                values.push(row.get(place)?);
                values.last().map_or(0, String::len)
            }
            Self::Bytes(values) => {
                values.push(row.get(place)?);
                values.last().map_or(0, Vec::len)
            }
            Self::Ids(values) => {
                values.push(Uuid::from_bytes(row.get(place)?));
                16
            }
        })
    }
}
