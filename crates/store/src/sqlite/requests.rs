//! What the writer is asked to do.

use rusqlite::{Connection, params};

use super::change::{self, Checked};
use super::queue::{Effect, Request};
use super::{alarms, fences, schema};
use crate::limits::PURGE_MAX;
use crate::{Alarm, AllVerdict, ChangeSet, RecordKey, Timestamp, Verdict, verify};

const PURGE: &str = "DELETE FROM idempotency_keys WHERE entry IN
    (SELECT entry FROM idempotency_keys WHERE expires_ms <= ?1 ORDER BY expires_ms LIMIT ?2)";

/// Commit one set.
pub(super) struct CommitOne(pub(super) ChangeSet);

/// Commit several sets, all or none.
pub(super) struct CommitAll(pub(super) Vec<ChangeSet>);

/// Forget keys that had expired.
pub(super) struct Purge {
    /// At this time.
    pub(super) now: Timestamp,
    /// So many at most.
    pub(super) limit: usize,
}

/// Forget fences that were last used before a time.
pub(super) struct PurgeFences {
    /// That time.
    pub(super) before: Timestamp,
    /// So many at most.
    pub(super) limit: usize,
}

/// Forget what is left of leases that ended before a time.
pub(super) struct PurgeLeases {
    /// That time.
    pub(super) before: Timestamp,
    /// So many at most, of each table.
    pub(super) limit: usize,
}

/// Raise the floor of fences to this at least.
pub(super) struct FenceFloor(pub(super) i64);

/// Set an alarm if the record is at a version.
pub(super) struct SetAlarm {
    /// Which record.
    pub(super) key: RecordKey,
    /// That version.
    pub(super) version: i64,
    /// What to.
    pub(super) alarm: Alarm,
}

/// Show that a transaction can be begun, and committed if it is to write.
pub(super) struct Ping {
    /// Whether it is to write.
    pub(super) writes: bool,
}

impl Request for CommitOne {
    type Answer = Verdict;

    fn size(&self) -> usize {
        verify::size(&self.0)
    }

    fn perform(&self, connection: &Connection) -> rusqlite::Result<(Verdict, Effect)> {
        let found = match change::check(connection, &self.0)? {
            Checked::Passed(found) => found,
            Checked::Failed(verdict) => return Ok((verdict, Effect::Nothing)),
        };
        Ok(match change::write(connection, &self.0, found)? {
            None => (Verdict::Committed, Effect::Wrote),
            Some(verdict) => (verdict, Effect::Undo),
        })
    }
}

impl Request for CommitAll {
    type Answer = AllVerdict;

    fn size(&self) -> usize {
        self.0.iter().map(verify::size).sum()
    }

    /// All are checked before any is written, so that a requirement on a record of the same commit means its state
    /// before.
    fn perform(&self, connection: &Connection) -> rusqlite::Result<(AllVerdict, Effect)> {
        let mut found = Vec::with_capacity(self.0.len());
        for (index, set) in self.0.iter().enumerate() {
            match change::check(connection, set)? {
                Checked::Passed(record) => found.push(record),
                Checked::Failed(verdict) => return Ok((AllVerdict::Failed { index, verdict }, Effect::Nothing)),
            }
        }
        for (index, (set, found)) in self.0.iter().zip(found).enumerate() {
            if let Some(verdict) = change::write(connection, set, found)? {
                return Ok((AllVerdict::Failed { index, verdict }, Effect::Undo));
            }
        }
        Ok((AllVerdict::Committed, if self.0.is_empty() { Effect::Nothing } else { Effect::Wrote }))
    }
}

impl Request for Purge {
    type Answer = usize;

    fn size(&self) -> usize {
        0
    }

    fn perform(&self, connection: &Connection) -> rusqlite::Result<(usize, Effect)> {
        let limit = self.limit.min(PURGE_MAX) as i64;
        let purged = connection.prepare_cached(PURGE)?.execute(params![self.now.timestamp_millis(), limit])?;
        Ok((purged, if purged > 0 { Effect::Wrote } else { Effect::Nothing }))
    }
}

impl Request for PurgeFences {
    type Answer = usize;

    fn size(&self) -> usize {
        0
    }

    fn perform(&self, connection: &Connection) -> rusqlite::Result<(usize, Effect)> {
        let purged = fences::purge(connection, self.before, self.limit.min(PURGE_MAX))?;
        Ok((purged, if purged > 0 { Effect::Wrote } else { Effect::Nothing }))
    }
}

impl Request for PurgeLeases {
    type Answer = usize;

    fn size(&self) -> usize {
        0
    }

    fn perform(&self, connection: &Connection) -> rusqlite::Result<(usize, Effect)> {
        let purged = fences::purge_leases(connection, self.before, self.limit.min(PURGE_MAX))?;
        Ok((purged, if purged > 0 { Effect::Wrote } else { Effect::Nothing }))
    }
}

impl Request for FenceFloor {
    type Answer = i64;

    fn size(&self) -> usize {
        0
    }

    fn perform(&self, connection: &Connection) -> rusqlite::Result<(i64, Effect)> {
        let (before, floor) = fences::raise_floor(connection, self.0)?;
        Ok((floor, if floor > before { Effect::Wrote } else { Effect::Nothing }))
    }
}

impl Request for SetAlarm {
    type Answer = bool;

    fn size(&self) -> usize {
        0
    }

    fn perform(&self, connection: &Connection) -> rusqlite::Result<(bool, Effect)> {
        let Some(alarm) = self.alarm.column() else { return Ok((false, Effect::Nothing)) };
        let Some(record) = alarms::record_at(connection, &self.key, self.version)? else {
            return Ok((false, Effect::Nothing));
        };
        alarms::put(connection, record, alarm)?;
        Ok((true, Effect::Wrote))
    }
}

impl Request for Ping {
    type Answer = ();

    fn size(&self) -> usize {
        0
    }

    /// That it is done is the answer. What is written is a number of the file's first page that it has already: SQLite writes
    /// the page to its log and syncs it all the same, and nothing has changed.
    fn perform(&self, connection: &Connection) -> rusqlite::Result<((), Effect)> {
        if !self.writes {
            return Ok(((), Effect::Nothing));
        }
        connection.pragma_update(None, "user_version", schema::KNOWN)?;
        Ok(((), Effect::Wrote))
    }
}
