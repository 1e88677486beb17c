//! Alarms, and who has been told of them.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use chrono::DateTime;
use rusqlite::{Connection, OptionalExtension, params};

use super::readers::ReadFailure;
use super::rows;
use crate::limits::{ALARM_CLAIMED, DUE_MAX};
use crate::{Due, RecordKey, StoreClock};

const PUT: &str = "INSERT INTO alarms (record, due_ms) VALUES (?1, ?2)
    ON CONFLICT (record) DO UPDATE SET due_ms = excluded.due_ms";
const REMOVE: &str = "DELETE FROM alarms WHERE record = ?1";
const RECORD_AT: &str = "SELECT record FROM records WHERE space = ?1 AND id = ?2 AND version = ?3";
const DUE: &str = "SELECT record, due_ms FROM alarms WHERE due_ms <= ?1 ORDER BY due_ms, record";
const NEXT: &str = "SELECT min(due_ms) FROM alarms WHERE due_ms > ?1";
const NAME: &str = "SELECT space, id FROM records WHERE record = ?1";

/// An alarm of a record: one that is set anew is another.
type Claim = (i64, i64);

/// The alarms that somebody has been told of. In memory: one process has the file, and when it ends nobody works on them
/// any more. A claim lives for one to two times [`ALARM_CLAIMED`], so that they need not be looked through.
// A std mutex: held by reads on threads for blocking work, never over an await.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    /// When `new` began, by the store's clock.
    since_ms: i64,
    new: HashSet<Claim>,
    old: HashSet<Claim>,
}

impl Generations {
    fn turn(&mut self, now_ms: i64) {
        let span_ms = i64::try_from(ALARM_CLAIMED.as_millis()).unwrap_or(i64::MAX);
        let age_ms = now_ms.saturating_sub(self.since_ms);
        if (0..span_ms).contains(&age_ms) {
            return;
        }
        let ended = std::mem::take(&mut self.new);
        // After a longer pause, or on a clock that was set back, no claim is good.
        self.old = if (0..2 * span_ms).contains(&age_ms) { ended } else { HashSet::new() };
        self.since_ms = now_ms;
    }

    fn claim(&mut self, claim: Claim) -> bool {
        !self.old.contains(&claim) && self.new.insert(claim)
    }
}

/// Writes what [`crate::Alarm`] has as its column.
pub(super) fn put(connection: &Connection, record: i64, due_ms: i64) -> rusqlite::Result<()> {
    match due_ms < 0 {
        true => connection.prepare_cached(REMOVE)?.execute([record])?,
        false => connection.prepare_cached(PUT)?.execute([record, due_ms])?,
    };
    Ok(())
}

/// The number of a record that is at `version`.
pub(super) fn record_at(connection: &Connection, key: &RecordKey, version: i64) -> rusqlite::Result<Option<i64>> {
    let mut select = connection.prepare_cached(RECORD_AT)?;
    select.query_row(params![&*key.space, &*key.id, version], |row| row.get(0)).optional()
}

/// What is due and not claimed; claims it.
pub(super) fn due(
    connection: &Connection,
    claims: &Claims,
    clock: &StoreClock,
    limit: usize,
) -> Result<Due, ReadFailure> {
    let mut claims = claims.0.lock().unwrap_or_else(PoisonError::into_inner);
    // Under the lock: whoever comes later is no earlier.
    let now = clock.now();
    let (limit, now_ms) = (limit.min(DUE_MAX), now.timestamp_millis());
    claims.turn(now_ms);
    let mut records = Vec::new();
    let (mut select, mut name) = (connection.prepare_cached(DUE)?, connection.prepare_cached(NAME)?);
    let mut found = select.query([now_ms])?;
    while records.len() < limit
        && let Some(row) = found.next()?
    {
        let (record, due_ms): Claim = (row.get(0)?, row.get(1)?);
        if !claims.claim((record, due_ms)) {
            continue;
        }
        let key = name.query_row([record], |row| Ok(RecordKey::new(rows::text(row, 0)?, rows::text(row, 1)?)));
        records.extend(key.optional()?.zip(DateTime::from_timestamp_millis(due_ms)));
    }
    let next: Option<i64> = connection.prepare_cached(NEXT)?.query_row([now_ms], |row| row.get(0))?;
    Ok(Due { now, records, next: next.and_then(DateTime::from_timestamp_millis) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_runs_out_and_never_outlives_a_clock_that_is_set_back() {
        let span = ALARM_CLAIMED.as_millis() as i64;
        let mut claims = Generations::default();
        let mut told = |now: i64, claim: Claim| {
            claims.turn(now);
            claims.claim(claim)
        };
        let start = 1_000_000_000;
        assert!(told(start, (1, 7)));
        assert!(!told(start + span - 1, (1, 7)));
        assert!(told(start + span - 1, (2, 7)));
        assert!(told(start + span - 1, (1, 8)), "it is set anew: another alarm");
        assert!(!told(start + span, (1, 7)), "not before its time");
        assert!(told(start + 2 * span, (1, 7)), "run out");
        assert!(told(start - 3_600_000, (1, 7)), "set back");
        assert!(!told(start - 3_600_000, (1, 7)));
        assert!(told(start + 86_400_000, (1, 7)), "a long pause");
    }
}
