//! What is read of one record.

use std::time::Instant;

use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use super::failure;
use super::pool::Share;
use super::rows;
use super::store::Shared;
use super::values::{Parameter, name};
use crate::limits::{PAGE_BYTES_MAX, PAGE_MAX};
use crate::{Confirmation, Event, ReadError, Record, RecordKey, Timestamp};

/// Runs a query on a connection of the pool. A connection that turns out to be broken is replaced once: the server may
/// have been restarted since it was used.
pub(super) async fn run(shared: &Shared, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, ReadError> {
    let until = Instant::now() + shared.options.connection_wait + shared.options.verdict_wait;
    let mut again = true;
    loop {
        let connection = shared.connections.get(Share::Others).await.map_err(ReadError::Unavailable)?;
        let left = until.saturating_duration_since(Instant::now()).min(shared.options.verdict_wait);
        let Ok(answer) = timeout(left, connection.call(sql, parameters)).await else {
            connection.give_up_reading();
            return Err(ReadError::Unavailable(shared.no_verdict()));
        };
        match answer {
            Ok(rows) => {
                connection.done();
                return Ok(rows);
            }
            Err(error) if again && failure::breaks(&error) => again = false,
            Err(error) => return Err(failure::read_error(&error)),
        }
    }
}

/// The record as last committed.
pub(super) async fn read(shared: &Shared, key: &RecordKey) -> Result<Option<Record>, ReadError> {
    let (space, id) = name(key);
    let found = run(shared, &shared.calls.read, &[(&space, Type::TEXT), (&id, Type::TEXT)]).await?;
    let Some(row) = found.first() else { return Err(no_answer()) };
    let exists = row.try_get::<_, Option<i64>>("version").map_err(|error| failure::read_error(&error))?.is_some();
    let record = exists.then(|| rows::record(row, key.clone())).transpose();
    record.map_err(|error| failure::read_error(&error))
}

/// What `confirm` is asked.
struct Question<'a> {
    space: &'a str,
    id: &'a str,
    keys: Vec<&'a str>,
    at: i64,
}

impl<'a> Question<'a> {
    fn new(key: &'a RecordKey, keys: &'a [String], now: Timestamp) -> Self {
        let (space, id) = name(key);
        Self { space, id, keys: keys.iter().map(String::as_str).collect(), at: now.timestamp_millis() }
    }

    fn parameters(&self) -> [Parameter<'_>; 4] {
        [(&self.space, Type::TEXT), (&self.id, Type::TEXT), (&self.keys, Type::TEXT_ARRAY), (&self.at, Type::INT8)]
    }
}

/// Version and keys, of one instant.
pub(super) async fn confirm(
    shared: &Shared,
    key: &RecordKey,
    keys: &[String],
    now: Timestamp,
) -> Result<Confirmation, ReadError> {
    let question = Question::new(key, keys, now);
    let found = run(shared, &shared.calls.confirm, &question.parameters()).await?;
    let row = found.first().ok_or_else(no_answer)?;
    confirmation(row).map_err(|error| failure::read_error(&error))
}

/// The same question on a connection that is at hand.
pub(super) async fn ask_confirm(
    shared: &Shared,
    client: &Client,
    key: &RecordKey,
    keys: &[String],
    now: Timestamp,
) -> Result<Confirmation, ReadError> {
    let question = Question::new(key, keys, now);
    let found = client.query_typed(&shared.calls.confirm, &question.parameters()).await;
    let found = found.map_err(|error| failure::read_error(&error))?;
    let row = found.first().ok_or_else(no_answer)?;
    confirmation(row).map_err(|error| failure::read_error(&error))
}

fn confirmation(row: &Row) -> Result<Confirmation, tokio_postgres::Error> {
    let version: Option<i64> = row.try_get("version")?;
    Ok(Confirmation { version: version.unwrap_or(0), keys: rows::taken_keys(row)?, life: row.try_get("life")? })
}

/// Whether the version after `expected_version` was written under `commit_id`.
pub(super) async fn committed(
    shared: &Shared,
    key: &RecordKey,
    expected_version: i64,
    commit_id: Uuid,
) -> Result<bool, ReadError> {
    let Some(version) = expected_version.checked_add(1) else { return Ok(false) };
    let (space, id) = name(key);
    let parameters: [Parameter<'_>; 4] =
        [(&space, Type::TEXT), (&id, Type::TEXT), (&version, Type::INT8), (&commit_id, Type::UUID)];
    let found = run(shared, &shared.calls.committed, &parameters).await?;
    let row = found.first().ok_or_else(no_answer)?;
    row.try_get("committed").map_err(|error| failure::read_error(&error))
}

fn no_answer() -> ReadError {
    ReadError::Unavailable("the database gave no answer".to_owned())
}

/// Events above `after`.
pub(super) async fn events(
    shared: &Shared,
    key: &RecordKey,
    after: i64,
    limit: usize,
) -> Result<Vec<Event>, ReadError> {
    let (space, id) = name(key);
    let (limit, bytes) = (limit.clamp(1, PAGE_MAX) as i64, PAGE_BYTES_MAX as i64);
    let parameters: [Parameter<'_>; 5] =
        [(&space, Type::TEXT), (&id, Type::TEXT), (&after, Type::INT8), (&limit, Type::INT8), (&bytes, Type::INT8)];
    let found = run(shared, &shared.calls.events, &parameters).await?;
    found.iter().map(rows::event).collect::<Result<_, _>>().map_err(|error| failure::read_error(&error))
}
