//! The latest fence of each lock that was seen, and the floor under all of them.

use rusqlite::{Connection, OptionalExtension, params};

use crate::limits::{FENCE_MAX, FENCE_TOUCHED_WITHIN};
use crate::{Fence, Timestamp, Verdict};

const LAST: &str = "SELECT last FROM fences WHERE resource = ?1";
const STATE: &str = "SELECT last, touched_ms FROM fences WHERE resource = ?1";
const INSERT: &str = "INSERT INTO fences (resource, last, touched_ms) VALUES (?1, ?2, ?3)";
// The index is written for each of its columns that an update names, changed or not.
const RAISE: &str = "UPDATE fences SET last = ?2 WHERE resource = ?1";
const TOUCH: &str = "UPDATE fences SET last = ?2, touched_ms = ?3 WHERE resource = ?1";
const PURGE_FENCES: &str =
    "DELETE FROM fences WHERE resource IN (SELECT f.resource FROM fences f WHERE f.touched_ms < ?1
        AND NOT EXISTS (SELECT 1 FROM lease_holders h WHERE h.resource = f.resource AND h.expires_ms >= ?1)
        ORDER BY f.touched_ms LIMIT ?2) RETURNING last";
const PURGE_LEASES: [&str; 3] = [
    "DELETE FROM lease_holders WHERE (resource, lease) IN
        (SELECT resource, lease FROM lease_holders WHERE expires_ms < ?1 LIMIT ?2)",
    "DELETE FROM lease_waiters WHERE (resource, ticket) IN
        (SELECT resource, ticket FROM lease_waiters WHERE lapses_ms < ?1 LIMIT ?2)",
    "DELETE FROM lease_ended WHERE lease IN
        (SELECT lease FROM lease_ended WHERE until_ms < ?1 ORDER BY until_ms LIMIT ?2)",
];
const FLOOR: &str = "SELECT value FROM counters WHERE name = 'fence_floor'";
const PUT_FLOOR: &str = "INSERT INTO counters (name, value) VALUES ('fence_floor', ?1)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/// The latest fence of a resource; none: none is known.
pub(super) fn last(connection: &Connection, resource: &str) -> rusqlite::Result<Option<i64>> {
    connection.prepare_cached(LAST)?.query_row([resource], |row| row.get(0)).optional()
}

/// The first of `fences` after which a later one has been seen, as the verdict on its set.
pub(super) fn late(connection: &Connection, fences: &[Fence]) -> rusqlite::Result<Option<Verdict>> {
    if fences.is_empty() {
        return Ok(None);
    }
    for Fence { resource, fence } in fences {
        if let Some(last) = last(connection, resource)?.filter(|last| last > fence) {
            return Ok(Some(Verdict::Fenced { resource: resource.clone(), fence: *fence, last }));
        }
    }
    Ok(None)
}

/// Keeps a fence that is not late. What is there already is left as it is.
pub(super) fn raise(connection: &Connection, resource: &str, fence: i64, now_ms: i64) -> rusqlite::Result<()> {
    let mut select = connection.prepare_cached(STATE)?;
    let state = select.query_row([resource], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))).optional()?;
    let Some((last, touched_ms)) = state else {
        connection.prepare_cached(INSERT)?.execute(params![resource, fence, now_ms])?;
        return Ok(());
    };
    let within_ms = i64::try_from(FENCE_TOUCHED_WITHIN.as_millis()).unwrap_or(i64::MAX);
    if now_ms.saturating_sub(touched_ms) >= within_ms {
        connection.prepare_cached(TOUCH)?.execute(params![resource, fence.max(last), now_ms])?;
    } else if fence > last {
        connection.prepare_cached(RAISE)?.execute(params![resource, fence])?;
    }
    Ok(())
}

/// Forgets at most `limit` fences that were last used before that time; says how many.
pub(super) fn purge(connection: &Connection, before: Timestamp, limit: usize) -> rusqlite::Result<usize> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut select = connection.prepare_cached(PURGE_FENCES)?;
    let lasts = select.query_map(params![before.timestamp_millis(), limit], |row| row.get(0))?;
    let lasts: Vec<i64> = lasts.collect::<Result<_, _>>()?;
    if let Some(last) = lasts.iter().max() {
        // What is forgotten is not given out again.
        raise_floor(connection, last.saturating_add(1))?;
    }
    Ok(lasts.len())
}

/// Forgets at most `limit` rows of each table of leases that ended before that time; says how many of all.
pub(super) fn purge_leases(connection: &Connection, before: Timestamp, limit: usize) -> rusqlite::Result<usize> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut purged = 0;
    for purge in PURGE_LEASES {
        purged += connection.prepare_cached(purge)?.execute(params![before.timestamp_millis(), limit])?;
    }
    Ok(purged)
}

/// The floor; 0: there is none yet.
pub(super) fn floor(connection: &Connection) -> rusqlite::Result<i64> {
    let floor: Option<i64> = connection.prepare_cached(FLOOR)?.query_row([], |row| row.get(0)).optional()?;
    Ok(floor.unwrap_or(0))
}

/// Raises the floor; says what it was and what it is.
pub(super) fn raise_floor(connection: &Connection, at_least: i64) -> rusqlite::Result<(i64, i64)> {
    let before = floor(connection)?;
    let floor = at_least.clamp(before, FENCE_MAX.max(before));
    if floor > before {
        connection.prepare_cached(PUT_FLOOR)?.execute([floor])?;
    }
    Ok((before, floor))
}
