//! What is read of one record.

use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::readers::ReadFailure;
use super::{change, rows};
use crate::limits::{PAGE_BYTES_MAX, PAGE_MAX};
use crate::{Confirmation, Event, Record, RecordKey, Timestamp};

const HEAD: &str = "SELECT record, version FROM records WHERE space = ?1 AND id = ?2";
const COMMIT_OF: &str = "SELECT commit_id FROM events WHERE record = ?1 AND version = ?2";

/// The record as last committed.
pub(super) fn read(connection: &Connection, key: &RecordKey) -> Result<Option<Record>, ReadFailure> {
    let mut select = connection.prepare_cached(rows::RECORD_BY_NAME)?;
    Ok(select.query_row(params![&*key.space, &*key.id], rows::record).optional()?)
}

/// Version and keys, from one snapshot.
pub(super) fn confirm(
    connection: &Connection,
    key: &RecordKey,
    keys: &[String],
    now: Timestamp,
) -> Result<Confirmation, ReadFailure> {
    let snapshot = connection.unchecked_transaction()?;
    let confirmation = match head(&snapshot, key)? {
        None => Confirmation { version: 0, keys: Vec::new(), life: rows::LIFE },
        Some((record, version)) => {
            let names = keys.iter().map(String::as_str);
            Confirmation {
                version,
                keys: change::keys(&snapshot, record, names, now.timestamp_millis())?,
                life: rows::LIFE,
            }
        }
    };
    snapshot.commit()?;
    Ok(confirmation)
}

/// Events above `after`.
pub(super) fn events(
    connection: &Connection,
    key: &RecordKey,
    after: i64,
    limit: usize,
) -> Result<Vec<Event>, ReadFailure> {
    let Some((record, _)) = head(connection, key)? else { return Ok(Vec::new()) };
    let limit = limit.clamp(1, PAGE_MAX);
    let mut select = connection.prepare_cached(rows::EVENTS_ABOVE)?;
    let mut found = select.query(params![record, after, limit as i64])?;
    let mut events = Vec::new();
    let mut bytes = 0;
    while let Some(row) = found.next()? {
        let event = rows::event(row)?;
        bytes += event.body.len();
        if bytes > PAGE_BYTES_MAX && !events.is_empty() {
            break;
        }
        events.push(event);
    }
    Ok(events)
}

/// Whether the version after `expected_version` was written under `commit_id`.
pub(super) fn committed(
    connection: &Connection,
    key: &RecordKey,
    expected_version: i64,
    commit_id: Uuid,
) -> Result<bool, ReadFailure> {
    let Some((record, _)) = head(connection, key)? else { return Ok(false) };
    let Some(version) = expected_version.checked_add(1) else { return Ok(false) };
    let mut select = connection.prepare_cached(COMMIT_OF)?;
    let found = select.query_row(params![record, version], |row| rows::commit_id(row, 0)).optional()?;
    Ok(found == Some(commit_id))
}

fn head(connection: &Connection, key: &RecordKey) -> rusqlite::Result<Option<(i64, i64)>> {
    let mut select = connection.prepare_cached(HEAD)?;
    select.query_row(params![&*key.space, &*key.id], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}
