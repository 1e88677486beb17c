//! Forgetting, by the writer.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::feed::{PURGED, PURGES};
use super::queue::{Effect, Request};
use crate::forget::{Forget, Forgotten};
use crate::limits::PURGE_MAX;
use crate::record::Facets;

const FIND: &str = "SELECT record FROM records WHERE space = ?1 AND id = ?2 AND version >= ?3";
// What was replaced is not replaced again, so that of two who do the same one is told so.
const FIND_TO_REPLACE: &str = "SELECT record FROM records WHERE space = ?1 AND id = ?2 AND version = ?3
    AND (primary_facet, secondary_facet, body) <> (?4, ?5, ?6)";
const END: &str = "SELECT max(event) FROM events";
const DELETE: &str = "DELETE FROM events WHERE event IN
    (SELECT event FROM events WHERE record = ?1 AND version <= ?2 ORDER BY version LIMIT ?3) RETURNING event";
// The number of the last event is not given out again: readers of the feed have passed it.
const ANCHOR: &str =
    "INSERT INTO events (event, record, version, commit_id, body) VALUES (?1, 0, ?1, zeroblob(16), x'')";
const OLD_ANCHORS: &str = "DELETE FROM events WHERE record = 0 AND event < ?1";
const REPLACE: &str = "UPDATE records SET primary_facet = ?2, secondary_facet = ?3, body = ?4 WHERE record = ?1";
const COUNT: &str =
    "INSERT INTO counters (name, value) VALUES (?1, 1) ON CONFLICT (name) DO UPDATE SET value = value + 1";
const RAISE: &str = "INSERT INTO counters (name, value) VALUES (?1, ?2)
    ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)";

/// Forget, at most so many events.
pub(super) struct ForgetSome(pub(super) Forget, pub(super) usize);

impl Request for ForgetSome {
    type Answer = Forgotten;

    fn size(&self) -> usize {
        0
    }

    fn perform(&self, connection: &Connection) -> rusqlite::Result<(Forgotten, Effect)> {
        let Self(Forget { key, version, upto, replace }, limit) = self;
        let found = |row: &Row<'_>| row.get::<_, i64>(0);
        let found = match replace {
            None => connection.prepare_cached(FIND)?.query_row(params![&*key.space, &*key.id, version], found),
            Some((Facets { primary, secondary }, body)) => connection
                .prepare_cached(FIND_TO_REPLACE)?
                .query_row(params![&*key.space, &*key.id, version, primary, secondary, &body[..]], found),
        };
        let Some(record) = found.optional()? else { return Ok((Forgotten::Changed, Effect::Nothing)) };
        let limit = (*limit).clamp(1, PURGE_MAX);
        let end: Option<i64> = connection.prepare_cached(END)?.query_row([], |row| row.get(0))?;
        let mut delete = connection.prepare_cached(DELETE)?;
        let gone = delete.query_map(params![record, upto, limit as i64], |row| row.get(0))?;
        let gone: Vec<i64> = gone.collect::<rusqlite::Result<_>>()?;
        let whole = gone.len() < limit;
        if let Some(last) = gone.iter().max() {
            if end == Some(*last) {
                connection.prepare_cached(ANCHOR)?.execute([last])?;
            }
            connection.prepare_cached(OLD_ANCHORS)?.execute([end])?;
            connection.prepare_cached(COUNT)?.execute([PURGES])?;
            connection.prepare_cached(RAISE)?.execute(params![PURGED, last])?;
        }
        let mut wrote = !gone.is_empty();
        if let (true, Some((facets, body))) = (whole, replace) {
            let values = params![record, facets.primary, facets.secondary, &body[..]];
            connection.prepare_cached(REPLACE)?.execute(values)?;
            wrote = true;
        }
        let effect = if wrote { Effect::Wrote } else { Effect::Nothing };
        Ok((Forgotten::Events { events: gone.len(), whole }, effect))
    }
}
