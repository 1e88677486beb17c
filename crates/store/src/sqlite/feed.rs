//! The feed: events in the order in which the one writer has numbered them, which is that of the commits.

use rusqlite::{Connection, OptionalExtension, params};

use super::readers::ReadFailure;
use super::rows;
use crate::feed::{FeedCursor, FeedFrom, FeedGap, FeedItem, FeedPage, FeedState};
use crate::limits::{PAGE_BYTES_MAX, PAGE_MAX};
use crate::{Event, RecordKey};

const COUNTER: &str = "SELECT value FROM counters WHERE name = ?1";
const END: &str = "SELECT max(event) FROM events";
// CROSS JOIN: events are read in their order, whatever the planner thinks of it. What only keeps a number from being given
// out again (`purge`) has no record.
const PAGE: &str = "SELECT e.version, e.commit_id, e.body, e.event, r.space, r.id FROM events e
    CROSS JOIN records r ON r.record = e.record WHERE e.event > ?1 ORDER BY e.event LIMIT ?2";

/// The counter of the store's life; without it: 0.
pub(super) const LIFE: &str = "life";

/// How often events were forgotten.
pub(super) const PURGES: &str = "feed_purges";

/// The last event that was forgotten.
pub(super) const PURGED: &str = "feed_purged";

/// One page.
pub(super) fn page(connection: &Connection, from: FeedFrom, limit: usize) -> Result<FeedPage, ReadFailure> {
    let snapshot = connection.unchecked_transaction()?;
    let page = read(&snapshot, from, limit)?;
    snapshot.commit()?;
    Ok(page)
}

fn read(snapshot: &Connection, from: FeedFrom, limit: usize) -> Result<FeedPage, ReadFailure> {
    let limit = limit.clamp(1, PAGE_MAX);
    let last: i64 = snapshot.prepare_cached(END)?.query_row([], |row| row.get::<_, Option<i64>>(0))?.unwrap_or(0);
    let state = FeedState {
        life: counter(snapshot, LIFE)?,
        purges: counter(snapshot, PURGES)?,
        purged: (counter(snapshot, PURGED)?, 0, 0),
        end: (last, 0, 0),
        bound: (last, 0, 0),
    };
    let (after, gap) = state.begin(from);
    let mut page = FeedPage { from: after, items: Vec::new(), next: after, gap, more: false, held_back: false };
    if gap == Some(FeedGap::AnotherLife) {
        return Ok(page);
    }
    let mut select = snapshot.prepare_cached(PAGE)?;
    // One more than is given, to tell whether there is one more.
    let mut found = select.query(params![after.place.0, (limit + 1) as i64])?;
    let mut bytes = 0;
    while let Some(row) = found.next()? {
        let event: Event = rows::event(row)?;
        bytes += event.body.len();
        if page.items.len() == limit || (bytes > PAGE_BYTES_MAX && !page.items.is_empty()) {
            page.more = true;
            return Ok(page);
        }
        let cursor = FeedCursor { place: (row.get(3)?, 0, 0), ..after };
        let key = RecordKey::new(rows::text(row, 4)?, rows::text(row, 5)?);
        page.items.push(FeedItem { cursor, key, event });
        page.next = cursor;
    }
    page.next.place = page.next.place.max(state.end);
    Ok(page)
}

/// A number that never falls; 0: it was never raised.
pub(super) fn counter(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    let value = connection.prepare_cached(COUNTER)?.query_row([name], |row| row.get(0)).optional()?;
    Ok(value.unwrap_or(0))
}
