//! The feed: events by transaction, as far as no earlier transaction is still open.

use tokio_postgres::types::Type;
use tokio_postgres::{Error, Row};

use super::failure;
use super::queries::run;
use super::rows;
use super::store::Shared;
use super::values::Parameter;
use crate::feed::{FeedCursor, FeedFrom, FeedGap, FeedItem, FeedPage, FeedState};
use crate::limits::{PAGE_BYTES_MAX, PAGE_MAX};
use crate::{ReadError, RecordKey};

/// The call, for a schema and the condition that the primary answers.
///
/// All of it is one statement, and so one snapshot: of a transaction below `bound` it sees all, and of one that it does not
/// see, nothing is below.
///
/// A page costs what it shows: the page, the last event and the last below `bound` (`told`) are read from their place in the
/// index, and each record by its number. ORDER BY with LIMIT makes every other way dearer to the planner, which EXISTS does
/// not; and it does not know the place that is asked for (a subselect), of which old statistics may tell it that hardly
/// anything is behind.
pub(super) fn call(s: &str) -> String {
    format!(
        "WITH now AS MATERIALIZED (
             SELECT n.life, pg_snapshot_xmin(pg_current_snapshot()) AS bound FROM (SELECT {s}.life()) n (life)),
         marks AS MATERIALIZED (
             SELECT coalesce(max(c.value) FILTER (WHERE c.name = 'feed_purges'), 0) AS purges,
                 coalesce(max(c.value) FILTER (WHERE c.name = 'feed_purged'), 0) AS purged
             FROM {s}.counters c WHERE c.name IN ('feed_purges', 'feed_purged')),
         newest AS MATERIALIZED (
             SELECT e.xid FROM {s}.events e ORDER BY e.xid DESC, e.record DESC, e.version DESC LIMIT 1),
         told AS MATERIALIZED (
             SELECT e.xid, e.record, e.version FROM {s}.events e WHERE e.xid < (SELECT bound FROM now)
             ORDER BY e.xid DESC, e.record DESC, e.version DESC LIMIT 1),
         found AS MATERIALIZED (
             SELECT * FROM (
                 SELECT e.*, sum(octet_length(e.body)) OVER (ORDER BY e.xid, e.record, e.version) AS upto FROM (
                     SELECT e.xid, e.record, e.version, e.commit_id, e.body FROM {s}.events e
                     WHERE (e.xid, e.record, e.version) > ((SELECT $1::text::xid8), (SELECT $2), (SELECT $3))
                         AND e.xid < (SELECT bound FROM now)
                     ORDER BY e.xid, e.record, e.version LIMIT $4) e) page
             WHERE page.upto <= $5 OR page.upto = octet_length(page.body)),
         page_end AS MATERIALIZED (
             SELECT f.xid, f.record, f.version FROM found f ORDER BY f.xid DESC, f.record DESC, f.version DESC LIMIT 1)
         SELECT now.life, now.bound::text::bigint AS bound, marks.purges, marks.purged,
             coalesce(told.xid::text::bigint, 0) AS told,
             coalesce(newest.xid >= now.bound, false) AS held_back,
             coalesce((told.xid, told.record, told.version) > (page_end.xid, page_end.record, page_end.version), false)
                 AS more,
             f.xid::text::bigint AS xid, f.record, f.version, f.commit_id, f.body, f.space, f.id
         FROM now CROSS JOIN marks LEFT JOIN newest ON true LEFT JOIN told ON true LEFT JOIN page_end ON true
         LEFT JOIN (SELECT * FROM found CROSS JOIN LATERAL (
             SELECT r.space, r.id FROM {s}.records r WHERE r.record = found.record OFFSET 0) r) f ON true
         ORDER BY f.xid, f.record, f.version"
    )
}

/// One page.
pub(super) async fn page(shared: &Shared, from: FeedFrom, limit: usize) -> Result<FeedPage, ReadError> {
    let (commit, record, version) = from.place();
    let (limit, bytes) = (limit.clamp(1, PAGE_MAX) as i64, PAGE_BYTES_MAX as i64);
    let parameters: [Parameter<'_>; 5] = [
        (&commit, Type::INT8),
        (&record, Type::INT8),
        (&version, Type::INT8),
        (&limit, Type::INT8),
        (&bytes, Type::INT8),
    ];
    let rows = run(shared, &shared.calls.feed, &parameters).await?;
    read(&rows, from)
        .map_err(|error| failure::read_error(&error))?
        .ok_or_else(|| ReadError::Unavailable("the database gave no answer".to_owned()))
}

fn read(rows: &[Row], from: FeedFrom) -> Result<Option<FeedPage>, Error> {
    let Some(first) = rows.first() else { return Ok(None) };
    // All of a transaction: which of its events were forgotten is not known.
    let behind = |commit: i64| if commit == 0 { (0, 0, 0) } else { (commit, i64::MAX, i64::MAX) };
    let purged = behind(first.try_get("purged")?);
    // No event has the record 0: before all of that transaction.
    let bound = (first.try_get("bound")?, 0, 0);
    let state = FeedState {
        life: first.try_get("life")?,
        purges: first.try_get("purges")?,
        purged,
        // An event's transaction is on disk, and its number is not given out again; others' are, after a crash. What was
        // forgotten beyond the bound, where something is held back, has others before it that are still to be told.
        end: behind(first.try_get("told")?).max(purged).min(bound),
        bound,
    };
    let (after, gap) = state.begin(from);
    let held_back = first.try_get("held_back")?;
    let mut page = FeedPage { from: after, items: Vec::new(), next: after, gap, more: false, held_back };
    if gap == Some(FeedGap::AnotherLife) {
        return Ok(Some(page));
    }
    for row in rows {
        let Some(commit) = row.try_get::<_, Option<i64>>("xid")? else { continue };
        let cursor = FeedCursor { place: (commit, row.try_get("record")?, row.try_get("version")?), ..after };
        let key = RecordKey::new(row.try_get("space")?, row.try_get("id")?);
        page.items.push(FeedItem { cursor, key, event: rows::event(row)? });
        page.next = cursor;
    }
    page.more = !page.items.is_empty() && first.try_get("more")?;
    if !page.more {
        page.next.place = page.next.place.max(state.end);
    }
    Ok(Some(page))
}
