//! One change set: first its checks, then its writes, both in the transaction that the writer has open.

use rusqlite::{Connection, Error, OptionalExtension, params};

use super::{alarms, failure, fences, rows};
use crate::{ChangeSet, NewKey, Record, Requirement, StoredKey, Verdict, verify};

const FIND: &str = "SELECT record, version, primary_facet = ?3 AND secondary_facet = ?4 FROM records
    WHERE space = ?1 AND id = ?2";
const VERSION: &str = "SELECT version FROM records WHERE space = ?1 AND id = ?2";
const INSERT: &str = "INSERT INTO records
    (space, id, version, primary_facet, secondary_facet, created_ms, updated_ms, body)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7)";
// Two forms of one update: an index is written for each of its columns that an update names, changed or not.
const UPDATE: &str = "UPDATE records SET version = ?3, updated_ms = ?4, body = ?5 WHERE record = ?1 AND version = ?2";
const UPDATE_FACETS: &str = "UPDATE records
    SET version = ?3, updated_ms = ?4, body = ?5, primary_facet = ?6, secondary_facet = ?7
    WHERE record = ?1 AND version = ?2";
const INSERT_EVENT: &str = "INSERT INTO events (record, version, commit_id, body) VALUES (?1, ?2, ?3, ?4)";
// Only an expired key can be there: the checks have seen to it.
const PUT_KEY: &str = "INSERT OR REPLACE INTO idempotency_keys
    (record, key, version, expires_ms, fingerprint, outcome) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// The record as the checks found it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    record: i64,
    same_facets: bool,
}

/// What the checks say.
#[derive(Debug)]
pub(super) enum Checked {
    /// It may be written; none: the record is new.
    Passed(Option<Found>),
    /// It has no effect.
    Failed(Verdict),
}

/// Checks a set against what is stored: its keys, then its version, then its requirements, then its fences.
pub(super) fn check(connection: &Connection, set: &ChangeSet) -> rusqlite::Result<Checked> {
    let found = find(connection, set)?;
    if let Some((found, _)) = found {
        let taken =
            keys(connection, found.record, set.keys.iter().map(|key| key.key.as_str()), set.at.timestamp_millis())?;
        if !taken.is_empty() {
            return Ok(Checked::Failed(Verdict::KeysTaken(taken)));
        }
    }
    let version = found.map_or(0, |(_, version)| version);
    if version != set.expected_version || set.life.is_some_and(|life| life != rows::LIFE) {
        let current = found.map(|(found, _)| record(connection, found.record)).transpose()?;
        return Ok(Checked::Failed(Verdict::Lost(current)));
    }
    for requirement in &set.requires {
        let actual = version_of(connection, requirement)?;
        if actual != requirement.version {
            return Ok(Checked::Failed(Verdict::Unmet { requirement: requirement.clone(), actual }));
        }
    }
    if let Some(late) = fences::late(connection, &set.fences)? {
        return Ok(Checked::Failed(late));
    }
    Ok(Checked::Passed(found.map(|(found, _)| found)))
}

/// Writes a set that has passed its checks. None: all is written; else the verdict, and what was written of the set
/// must be taken back.
pub(super) fn write(
    connection: &Connection,
    set: &ChangeSet,
    found: Option<Found>,
) -> rusqlite::Result<Option<Verdict>> {
    // `verify` has seen that there is such a number.
    let Some(version) = verify::new_version(set) else { return Ok(Some(Verdict::Lost(None))) };
    let record = match write_record(connection, set, found, version) {
        Ok(record) => record,
        Err(error) => return reject(None, error).map(Some),
    };
    let mut insert = connection.prepare_cached(INSERT_EVENT)?;
    for (index, (version, body)) in (set.expected_version + 1..=version).zip(&set.events).enumerate() {
        if let Err(error) = insert.execute(params![record, version, set.commit_id.as_bytes(), &body[..]]) {
            return reject(Some(index), error).map(Some);
        }
    }
    for key in &set.keys {
        if let Err(error) = write_key(connection, record, key) {
            return reject(verify::event_index(set, key.version), error).map(Some);
        }
    }
    if let Some(alarm) = set.alarm.column() {
        alarms::put(connection, record, alarm)?;
    }
    for fence in &set.fences {
        fences::raise(connection, &fence.resource, fence.fence, set.at.timestamp_millis())?;
    }
    Ok(None)
}

/// Those of `names` that the record has and that have not expired at `now_ms`.
pub(super) fn keys<'a>(
    connection: &Connection,
    record: i64,
    names: impl Iterator<Item = &'a str>,
    now_ms: i64,
) -> rusqlite::Result<Vec<StoredKey>> {
    let mut select = connection.prepare_cached(rows::KEY_BY_NAME)?;
    let mut taken = Vec::new();
    for name in names {
        let key = select.query_row(params![record, name], |row| rows::stored_key(row, now_ms)).optional()?;
        taken.extend(key.flatten());
    }
    Ok(taken)
}

fn find(connection: &Connection, set: &ChangeSet) -> rusqlite::Result<Option<(Found, i64)>> {
    let mut select = connection.prepare_cached(FIND)?;
    let names = params![&*set.key.space, &*set.key.id, set.facets.primary, set.facets.secondary];
    select.query_row(names, |row| Ok((Found { record: row.get(0)?, same_facets: row.get(2)? }, row.get(1)?))).optional()
}

fn record(connection: &Connection, record: i64) -> rusqlite::Result<Record> {
    connection.prepare_cached(rows::RECORD_BY_ROW)?.query_row([record], rows::record)
}

fn version_of(connection: &Connection, requirement: &Requirement) -> rusqlite::Result<i64> {
    let mut select = connection.prepare_cached(VERSION)?;
    let found =
        select.query_row(params![&*requirement.key.space, &*requirement.key.id], |row| row.get(0)).optional()?;
    Ok(found.unwrap_or(0))
}

fn write_record(connection: &Connection, set: &ChangeSet, found: Option<Found>, version: i64) -> rusqlite::Result<i64> {
    let at_ms = set.at.timestamp_millis();
    let body = &set.body[..];
    let (primary, secondary) = (&set.facets.primary, &set.facets.secondary);
    let Some(Found { record, same_facets }) = found else {
        let mut insert = connection.prepare_cached(INSERT)?;
        return insert.insert(params![&*set.key.space, &*set.key.id, version, primary, secondary, at_ms, body]);
    };
    let changed = if same_facets {
        connection.prepare_cached(UPDATE)?.execute(params![record, set.expected_version, version, at_ms, body])?
    } else {
        let mut update = connection.prepare_cached(UPDATE_FACETS)?;
        update.execute(params![record, set.expected_version, version, at_ms, body, primary, secondary])?
    };
    // The law of the house, once more where it is carried out: no row, no move.
    if changed == 1 { Ok(record) } else { Err(Error::StatementChangedRows(changed)) }
}

fn write_key(connection: &Connection, record: i64, key: &NewKey) -> rusqlite::Result<()> {
    let mut put = connection.prepare_cached(PUT_KEY)?;
    let expires_ms = key.expires_at.timestamp_millis();
    put.execute(params![record, key.key, key.version, expires_ms, key.fingerprint, &key.outcome[..]])?;
    Ok(())
}

fn reject(event: Option<usize>, error: Error) -> rusqlite::Result<Verdict> {
    match failure::rejection(&error) {
        Some(reason) => Ok(Verdict::Rejected { event, reason }),
        None => Err(error),
    }
}
