//! What is read of one record.

use std::ops::RangeInclusive;
use std::time::Instant;

use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::readers::ReadFailure;
use super::{change, rows};
use crate::limits::{PAGE_BYTES_MAX, PAGE_MAX};
use crate::{Confirmation, Event, ReadError, Record, RecordKey, Timestamp};

const HEAD: &str = "SELECT record, version FROM records WHERE space = ?1 AND id = ?2";
const COMMITS_BELOW: &str = "SELECT version, commit_id FROM events
    WHERE record = ?1 AND version < ?2 ORDER BY version DESC LIMIT ?3";

/// Events looked at by one statement of a search, so that none holds the log for long.
const SEARCH_STEP: usize = 4096;

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
        None => Confirmation { version: 0, keys: Vec::new() },
        Some((record, version)) => {
            let names = keys.iter().map(String::as_str);
            Confirmation { version, keys: change::keys(&snapshot, record, names, now.timestamp_millis())? }
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

/// The versions written under a commit id, searched from the newest backwards.
///
/// There is no index of commit ids: it would cost every commit a page written at a random place, and the question is
/// asked only after an answer was lost, about versions near the end. The search is exact however many versions came
/// since; it gives up, with an error and never with a wrong "no", at `deadline`.
pub(super) fn committed(
    connection: &Connection,
    key: &RecordKey,
    commit_id: Uuid,
    deadline: Instant,
) -> Result<Option<RangeInclusive<i64>>, ReadFailure> {
    let Some((record, newest)) = head(connection, key)? else { return Ok(None) };
    let mut found: Option<RangeInclusive<i64>> = None;
    let mut below = Some(newest);
    while let Some(from) = below {
        let step = search_step(connection, record, from, commit_id, found)?;
        (found, below) = (step.0, step.1);
        if below.is_some() && Instant::now() > deadline {
            let reason = "the search for a commit took too long".to_owned();
            return Err(ReadFailure::Told(ReadError::Unavailable(reason)));
        }
    }
    Ok(found)
}

type SearchStep = (Option<RangeInclusive<i64>>, Option<i64>);

/// Looks at events from version `from` down; says what is found so far, and from where to go on.
fn search_step(
    connection: &Connection,
    record: i64,
    from: i64,
    commit_id: Uuid,
    mut found: Option<RangeInclusive<i64>>,
) -> Result<SearchStep, ReadFailure> {
    let mut select = connection.prepare_cached(COMMITS_BELOW)?;
    let mut rows = select.query(params![record, from.saturating_add(1), SEARCH_STEP as i64])?;
    let mut seen = 0;
    let mut last = from;
    while let Some(row) = rows.next()? {
        seen += 1;
        last = row.get(0)?;
        if super::rows::commit_id(row, 1)? == commit_id {
            let end = found.as_ref().map_or(last, |found| *found.end());
            found = Some(last..=end);
        } else if found.is_some() {
            // The versions of one commit follow one another: this one ends them.
            return Ok((found, None));
        }
    }
    Ok((found, (seen == SEARCH_STEP).then_some(last.saturating_sub(1))))
}

fn head(connection: &Connection, key: &RecordKey) -> rusqlite::Result<Option<(i64, i64)>> {
    let mut select = connection.prepare_cached(HEAD)?;
    select.query_row(params![&*key.space, &*key.id], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}
