//! Forgetting: one statement, by one node at a time.

use tokio::time::timeout;
use tokio_postgres::types::Type;

use super::failure;
use super::pool::Share;
use super::store::Shared;
use super::values::{Parameter, name};
use crate::CommitError;
use crate::forget::{Forget, Forgotten};
use crate::limits::PURGE_MAX;

/// The call, for a schema. What is locked is being changed, and is not replaced; but what it was remains forgettable. What was
/// replaced is not replaced again, so that of two who do the same one is told so. Readers of the feed pass what is forgotten:
/// it is on disk before they see it.
///
/// Whether that was all is told by what was found: another node may have forgotten some of it since the statement began, and
/// so fewer went.
pub(super) fn call(s: &str) -> String {
    format!(
        "WITH turn AS MATERIALIZED (
             SELECT pg_try_advisory_xact_lock(1282100084, '{s}.records'::regclass::oid::bigint::bit(32)::integer) AS got,
                 CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
                     THEN set_config('synchronous_commit', 'on', true) END AS synced),
         locked AS MATERIALIZED (
             SELECT r.record FROM {s}.records r WHERE (SELECT got FROM turn)
                 AND $6 AND r.space = $1 AND r.id = $2 AND r.version = $3
                 AND (r.primary_facet, r.secondary_facet, r.body) IS DISTINCT FROM ($7::text, $8::text, $9::bytea)
                 FOR UPDATE OF r SKIP LOCKED),
         found AS MATERIALIZED (
             SELECT record FROM locked UNION ALL
             SELECT r.record FROM {s}.records r WHERE (SELECT got FROM turn)
                 AND NOT $6 AND r.space = $1 AND r.id = $2 AND r.version >= $3),
         old AS MATERIALIZED (
             SELECT e.record, e.version FROM {s}.events e
             WHERE e.record = (SELECT record FROM found) AND e.version <= $4 ORDER BY e.version LIMIT $5),
         gone AS (
             DELETE FROM {s}.events e USING old o WHERE e.record = o.record AND e.version = o.version
             RETURNING e.xid::text::bigint AS xid),
         counted AS MATERIALIZED (
             SELECT count(*) AS events, max(xid) AS last, (SELECT count(*) FROM old) < $5 AS whole FROM gone),
         noted AS (
             INSERT INTO {s}.counters AS c (name, value)
             SELECT n.name, n.value FROM counted
                 CROSS JOIN LATERAL (VALUES ('feed_purges', 1), ('feed_purged', counted.last)) n (name, value)
                 WHERE counted.events > 0
             ON CONFLICT (name) DO UPDATE SET
                 value = CASE c.name WHEN 'feed_purges' THEN c.value + 1 ELSE greatest(c.value, excluded.value) END),
         replaced AS (
             UPDATE {s}.records r SET primary_facet = $7, secondary_facet = $8, body = $9 FROM locked, counted
             WHERE r.record = locked.record AND counted.whole)
         SELECT (SELECT got FROM turn), EXISTS (SELECT FROM found), (SELECT events FROM counted),
             (SELECT whole FROM counted)"
    )
}

/// Forgets, at most so many events.
pub(super) async fn forget(shared: &Shared, what: &Forget, limit: usize) -> Result<Forgotten, CommitError> {
    let (space, id) = name(&what.key);
    let limit = limit.clamp(1, PURGE_MAX) as i64;
    let replaces = what.replace.is_some();
    let (primary, secondary, body) = match &what.replace {
        Some((facets, body)) => (facets.primary.as_str(), facets.secondary.as_str(), &body[..]),
        None => ("", "", &[][..]),
    };
    let parameters: [Parameter<'_>; 9] = [
        (&space, Type::TEXT),
        (&id, Type::TEXT),
        (&what.version, Type::INT8),
        (&what.upto, Type::INT8),
        (&limit, Type::INT8),
        (&replaces, Type::BOOL),
        (&primary, Type::TEXT),
        (&secondary, Type::TEXT),
        (&body, Type::BYTEA),
    ];
    let connection = shared.connections.get(Share::Others).await.map_err(CommitError::Unavailable)?;
    let change = connection.change(&shared.calls.forget, &parameters);
    let Ok(answer) = timeout(shared.options.verdict_wait, change).await else {
        connection.give_up();
        return Err(CommitError::Unknown(shared.no_verdict()));
    };
    let rows = answer?;
    connection.done();
    let row = rows.first().ok_or_else(|| CommitError::Unknown("the database gave no answer".to_owned()))?;
    let told = row
        .try_get::<_, bool>(0)
        .and_then(|turn| Ok((turn, row.try_get::<_, bool>(1)?, row.try_get::<_, i64>(2)?, row.try_get::<_, bool>(3)?)));
    Ok(match told.map_err(|error| CommitError::Unknown(failure::explain(&error)))? {
        (false, ..) => Forgotten::Busy,
        (true, false, ..) => Forgotten::Changed,
        (true, true, events, whole) => Forgotten::Events { events: usize::try_from(events).unwrap_or(0), whole },
    })
}
