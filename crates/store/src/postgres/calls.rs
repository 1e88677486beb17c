//! The calls of the schema's functions, written once for a schema.

use tokio_postgres::{Error, Row};

use super::schema::quoted;
use super::{feed, forget, rows};
use crate::{ChangeSet, Fence, Verdict};

/// The SQL of each call.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) check_one: String,
    pub(super) write_one: String,
    pub(super) commit_one: String,
    pub(super) commit_carefully: String,
    pub(super) commit_fenced: String,
    pub(super) commit_alarmed: String,
    pub(super) keep_fences: String,
    pub(super) share: String,
    pub(super) share_now: String,
    pub(super) commit_many: String,
    pub(super) commit_many_alarmed: String,
    pub(super) put_alarm_of: String,
    pub(super) set_alarm: String,
    pub(super) claim_alarms: String,
    pub(super) claim_dated: String,
    pub(super) set_dates: String,
    pub(super) confirm: String,
    pub(super) read: String,
    pub(super) committed: String,
    pub(super) events: String,
    pub(super) feed: String,
    pub(super) forget: String,
    pub(super) purge: String,
    pub(super) purge_fences: String,
    pub(super) purge_leases: String,
    pub(super) fence_floor: String,
    pub(super) lease_open: String,
    pub(super) lease_write: String,
    pub(super) leases: String,
    pub(super) lease_edges: String,
    pub(super) lease_channel: String,
    pub(super) lease_tell: String,
    pub(super) ping: String,
    pub(super) lists: Lists,
}

/// The lists' SQL, one for each order and filter.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) by_id: String,
    pub(super) newest: String,
    pub(super) newest_by_primary: String,
    pub(super) newest_by_secondary: String,
    /// Records by their numbers, in the order given, until their bodies fill a page.
    pub(super) bodies: String,
}

impl Calls {
    pub(super) fn new(schema: &str) -> Self {
        let s = quoted(schema);
        let call = |function: &str, parameters: usize| {
            let numbers: Vec<String> = (1..=parameters).map(|n| format!("${n}")).collect();
            format!("SELECT * FROM {s}.{function}({})", numbers.join(", "))
        };
        let primary = primary(&s);
        let share = format!("SELECT 1 FROM {s}.records r WHERE r.space = $1 AND r.id = $2");
        Self {
            check_one: call("check_one", 11),
            write_one: call("write_one", 15),
            commit_one: call("commit_one", 20),
            commit_carefully: call("commit_carefully", 20),
            commit_fenced: call("commit_fenced", 23),
            commit_alarmed: call("commit_alarmed", 24),
            keep_fences: call("keep_fences", 3),
            share: format!("{share} FOR SHARE"),
            share_now: format!("{share} FOR SHARE NOWAIT"),
            commit_many: call("commit_many", 24),
            commit_many_alarmed: call("commit_many_alarmed", 26),
            put_alarm_of: call("put_alarm_of", 3),
            set_alarm: format!("SELECT {s}.set_alarm($1, $2, $3, $4)::int::bigint"),
            claim_alarms: call("claim_alarms", 2),
            claim_dated: call("claim_dated", 5),
            set_dates: format!("SELECT {s}.set_dates($1, $2, $3, $4)"),
            confirm: call("confirm", 4),
            read: format!(
                "SELECT now.life, {} FROM (SELECT {s}.life()) now (life)
                 LEFT JOIN {s}.records r ON r.space = $1 AND r.id = $2",
                rows::RECORD
            ),
            committed: call("committed", 4),
            // The running sum of sizes ends the page; one row is always given.
            events: format!(
                "SELECT version, commit_id, body FROM (
                     SELECT e.version, e.commit_id, e.body,
                         sum(octet_length(e.body)) OVER (ORDER BY e.version) - octet_length(e.body) AS before,
                         sum(octet_length(e.body)) OVER (ORDER BY e.version) AS upto
                     FROM (SELECT * FROM {s}.events e WHERE {primary} AND e.version > $3
                         AND e.record = (SELECT r.record FROM {s}.records r WHERE r.space = $1 AND r.id = $2)
                         ORDER BY e.version LIMIT $4) e
                 ) page WHERE upto <= $5 OR before = 0 ORDER BY version"
            ),
            feed: feed::call(&s),
            forget: forget::call(&s),
            purge: format!(
                "WITH gone AS (DELETE FROM {s}.idempotency_keys WHERE (record, key) IN (
                     SELECT record, key FROM {s}.idempotency_keys WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT $2
                     FOR UPDATE SKIP LOCKED) RETURNING 1)
                 SELECT count(*) FROM gone"
            ),
            // What a change of leases has locked at this moment is none that ended long ago.
            purge_fences: format!(
                "WITH fences AS (DELETE FROM {s}.fences WHERE resource IN (
                     SELECT f.resource FROM {s}.fences f WHERE f.touched_ms < $1
                     AND NOT EXISTS (SELECT FROM {s}.lease_holders h WHERE h.resource = f.resource AND h.expires_ms >= $1)
                     ORDER BY f.touched_ms LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING last),
                 -- What is forgotten is not given out again.
                 floor AS (INSERT INTO {s}.counters AS c (name, value)
                     SELECT 'fence_floor', max(last) + 1 FROM fences HAVING count(*) > 0
                     ON CONFLICT (name) DO UPDATE SET value = greatest(c.value, excluded.value))
                 SELECT count(*) FROM fences"
            ),
            purge_leases: format!(
                "WITH holders AS (DELETE FROM {s}.lease_holders WHERE (resource, lease) IN (
                     SELECT h.resource, h.lease FROM {s}.lease_holders h WHERE h.expires_ms < $1
                     LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING 1),
                 waiters AS (DELETE FROM {s}.lease_waiters WHERE (resource, ticket) IN (
                     SELECT w.resource, w.ticket FROM {s}.lease_waiters w WHERE w.lapses_ms < $1
                     LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING 1),
                 ended AS (DELETE FROM {s}.lease_ended WHERE lease IN (
                     SELECT e.lease FROM {s}.lease_ended e WHERE e.until_ms < $1
                     ORDER BY e.until_ms LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING 1)
                 SELECT (SELECT count(*) FROM holders) + (SELECT count(*) FROM waiters) + (SELECT count(*) FROM ended)"
            ),
            fence_floor: format!("SELECT {s}.fence_floor($1)"),
            lease_open: call("lease_open", 7),
            lease_write: call("lease_write", 29),
            // Each table gives its share in order, so that a page costs what it holds.
            leases: format!(
                "WITH now AS MATERIALIZED (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms),
                 names AS MATERIALIZED (
                     SELECT n.resource, (SELECT count(*) FROM {s}.lease_waiters w, now
                         WHERE w.resource = n.resource AND w.lapses_ms > now.ms) AS waiters
                     FROM ((SELECT DISTINCT h.resource FROM {s}.lease_holders h, now
                             WHERE h.resource > $1 AND h.expires_ms > now.ms ORDER BY h.resource LIMIT $2)
                         UNION (SELECT DISTINCT w.resource FROM {s}.lease_waiters w, now
                             WHERE w.resource > $1 AND w.lapses_ms > now.ms ORDER BY w.resource LIMIT $2)
                         ORDER BY resource LIMIT $2) n)
                 SELECT now.ms AS now_ms, n.resource, n.waiters, h.lease, h.capacity, h.fence, h.since_ms, h.expires_ms,
                     h.ttl_ms, h.owner, h.host, h.names
                 FROM now LEFT JOIN names n ON true
                 LEFT JOIN {s}.lease_holders h ON h.resource = n.resource AND h.expires_ms > now.ms
                 WHERE {primary} ORDER BY n.resource, h.lease"
            ),
            lease_edges: format!(
                "WITH now AS MATERIALIZED (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms),
                 waiting AS (SELECT w.* FROM {s}.lease_waiters w, now
                     WHERE w.lapses_ms > now.ms AND w.cycle IS NULL AND {primary})
                 SELECT w.lease, w.ticket, w.owner, h.owner AS blocker FROM now, waiting w
                     JOIN {s}.lease_holders h ON h.resource = w.resource AND (w.capacity = 1 OR h.capacity = 1)
                     WHERE h.expires_ms > now.ms AND NOT EXISTS (SELECT FROM {s}.lease_waiters n
                         WHERE n.resource = w.resource AND n.ticket < w.ticket AND n.lapses_ms > now.ms)
                 UNION ALL SELECT w.lease, w.ticket, w.owner, b.owner FROM now, waiting w CROSS JOIN LATERAL (
                     SELECT b.owner FROM {s}.lease_waiters b WHERE b.resource = w.resource AND b.ticket < w.ticket
                         AND b.lapses_ms > now.ms ORDER BY b.ticket DESC LIMIT 1) b
                 ORDER BY ticket DESC LIMIT $1"
            ),
            lease_channel: format!("SELECT {s}.lease_channel(), pg_backend_pid()"),
            lease_tell: format!("SELECT pg_notify({s}.lease_channel(), part) FROM unnest($1) part"),
            ping: format!(
                "SELECT {s}.life(), current_setting('transaction_read_only')::boolean, current_setting('fsync')::boolean"
            ),
            lists: Lists::new(&s),
        }
    }
}

/// True on the primary; on a standby, or a server that has become one, an error, whether there are rows or not. Asked
/// once a query.
fn primary(s: &str) -> String {
    format!("(SELECT {s}.life()) IS NOT NULL")
}

impl Lists {
    fn new(s: &str) -> Self {
        let primary = primary(s);
        let list = |condition: &str, order: &str| {
            format!(
                "SELECT r.record, r.id, r.primary_facet, r.secondary_facet FROM {s}.records r
                 WHERE {primary} AND r.space = $1 AND {condition} ORDER BY {order} LIMIT $3"
            )
        };
        Self {
            by_id: list("r.id > $2", "r.id"),
            newest: list("r.record < $2", "r.record DESC"),
            newest_by_primary: list("r.record < $2 AND r.primary_facet = $4", "r.record DESC"),
            newest_by_secondary: list("r.record < $2 AND r.secondary_facet = $4", "r.record DESC"),
            bodies: format!(
                "SELECT r.record, (SELECT {s}.life()) AS life, {} FROM (
                     SELECT r.*, wanted.place, sum(octet_length(r.body)) OVER (ORDER BY wanted.place)
                         - octet_length(r.body) AS before
                     FROM unnest($1) WITH ORDINALITY wanted (record, place)
                     JOIN {s}.records r ON r.record = wanted.record
                 ) r WHERE r.before < $2 OR r.before = 0 ORDER BY r.place",
                rows::RECORD
            ),
        }
    }
}

/// What a check or a conditional write has answered.
pub(super) enum Told {
    Verdict(Verdict),
    /// The checks have passed (and, by `commit_one`, it is written).
    Passed {
        /// The record's number; none: there is no record.
        record: Option<i64>,
    },
    /// Another session has the row.
    Locked,
}

/// Reads the answer of `check_one` or of a function that commits one set.
pub(super) fn told(row: &Row, set: &ChangeSet) -> Result<Told, Error> {
    const PASSED: i32 = 0;
    const LOST: i32 = 1;
    const TAKEN: i32 = 2;
    const UNMET: i32 = 3;
    const REJECTED: i32 = 5;
    const FENCED: i32 = 6;
    // Places count from 1.
    let place = || Ok::<_, Error>(usize::try_from(row.try_get::<_, i32>("place")?).ok().and_then(|n| n.checked_sub(1)));
    Ok(match row.try_get("verdict")? {
        PASSED => Told::Passed { record: row.try_get("record")? },
        LOST => {
            let exists = row.try_get::<_, Option<i64>>("version")?.is_some();
            let current = exists.then(|| rows::record(row, set.key.clone())).transpose()?;
            Told::Verdict(Verdict::Lost(current))
        }
        TAKEN => Told::Verdict(Verdict::KeysTaken(rows::taken_keys(row)?)),
        UNMET => match place()?.and_then(|place| set.requires.get(place)) {
            Some(requirement) => {
                Told::Verdict(Verdict::Unmet { requirement: requirement.clone(), actual: row.try_get("actual")? })
            }
            None => Told::Locked,
        },
        REJECTED => Told::Verdict(Verdict::Rejected { event: place()?, reason: row.try_get("reason")? }),
        FENCED => match place()?.and_then(|place| set.fences.get(place)) {
            Some(late) => Told::Verdict(fenced(late, row.try_get("actual")?)),
            None => Told::Locked,
        },
        _ => Told::Locked,
    })
}

/// The verdict on a set with this fence, when a later one has been seen.
pub(super) fn fenced(late: &Fence, last: i64) -> Verdict {
    Verdict::Fenced { resource: late.resource.clone(), fence: late.fence, last }
}
