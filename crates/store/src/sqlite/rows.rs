//! How rows become records.

use bytes::Bytes;
use chrono::DateTime;
use rusqlite::types::Type;
use rusqlite::{Error, Row};
use uuid::Uuid;

use crate::{Event, Facets, Record, RecordKey, StoredKey, Timestamp};

/// A file has one life: what a process acknowledged is in it, and nobody else's is put in its place while it is open.
pub(super) const LIFE: i64 = 0;

/// A record by its row number; read with [`record`].
pub(super) const RECORD_BY_ROW: &str =
    "SELECT space, id, version, primary_facet, secondary_facet, created_ms, updated_ms, body
    FROM records WHERE record = ?1";

/// A record by its name; read with [`record`].
pub(super) const RECORD_BY_NAME: &str =
    "SELECT space, id, version, primary_facet, secondary_facet, created_ms, updated_ms, body
    FROM records WHERE space = ?1 AND id = ?2";

/// Events above a version; read with [`event`].
pub(super) const EVENTS_ABOVE: &str = "SELECT version, commit_id, body FROM events
    WHERE record = ?1 AND version > ?2 ORDER BY version LIMIT ?3";

/// An idempotency key; read with [`stored_key`].
pub(super) const KEY_BY_NAME: &str = "SELECT key, version, expires_ms, fingerprint, outcome FROM idempotency_keys
    WHERE record = ?1 AND key = ?2";

/// A row of [`RECORD_BY_ROW`] or [`RECORD_BY_NAME`].
pub(super) fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    Ok(Record {
        key: RecordKey::new(text(row, 0)?, text(row, 1)?),
        version: row.get(2)?,
        facets: Facets { primary: text(row, 3)?.to_owned(), secondary: text(row, 4)?.to_owned() },
        created_at: timestamp(row, 5)?,
        updated_at: timestamp(row, 6)?,
        body: bytes(row, 7)?,
        life: LIFE,
    })
}

/// A row of [`EVENTS_ABOVE`].
pub(super) fn event(row: &Row<'_>) -> rusqlite::Result<Event> {
    Ok(Event { version: row.get(0)?, commit_id: commit_id(row, 1)?, body: bytes(row, 2)? })
}

/// A row of [`KEY_BY_NAME`], if the key has not expired at `now_ms`.
pub(super) fn stored_key(row: &Row<'_>, now_ms: i64) -> rusqlite::Result<Option<StoredKey>> {
    let expires_ms: i64 = row.get(2)?;
    if expires_ms <= now_ms {
        return Ok(None);
    }
    Ok(Some(StoredKey {
        key: text(row, 0)?.to_owned(),
        version: row.get(1)?,
        fingerprint: row.get(3)?,
        outcome: bytes(row, 4)?,
    }))
}

/// A commit id.
pub(super) fn commit_id(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    let bytes: [u8; 16] = row.get(column)?;
    Ok(Uuid::from_bytes(bytes))
}

/// A text, without copying it.
pub(super) fn text<'row>(row: &'row Row<'_>, column: usize) -> rusqlite::Result<&'row str> {
    row.get_ref(column)?.as_str().map_err(|error| Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

fn bytes(row: &Row<'_>, column: usize) -> rusqlite::Result<Bytes> {
    let found = row.get_ref(column)?.as_blob();
    let found = found.map_err(|error| Error::FromSqlConversionFailure(column, Type::Blob, Box::new(error)))?;
    Ok(Bytes::copy_from_slice(found))
}

/// A time.
pub(super) fn timestamp(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    let millis: i64 = row.get(column)?;
    DateTime::from_timestamp_millis(millis).ok_or(Error::IntegralValueOutOfRange(column, millis))
}
