//! Leases as lists tell them, and who waits for whom.

use std::sync::Arc;

use rusqlite::{Connection, params};

use super::lease::{HOLDERS, holder, lease};
use super::readers::ReadFailure;
use crate::Timestamp;
use crate::lease::{Edge, LeasePage, LeaseQuery, ResourceView};
use crate::limits::{EDGES_MAX, PAGE_MAX};

// Each table gives its share in order, so that a page costs what it holds.
const NAMES: &str = "SELECT resource FROM (SELECT DISTINCT resource FROM lease_holders
        WHERE resource > ?1 AND expires_ms > ?2 ORDER BY resource LIMIT ?3)
    UNION SELECT resource FROM (SELECT DISTINCT resource FROM lease_waiters
        WHERE resource > ?1 AND lapses_ms > ?2 ORDER BY resource LIMIT ?3)
    ORDER BY resource LIMIT ?3";
const WAITERS: &str = "SELECT count(*) FROM lease_waiters WHERE resource = ?1 AND lapses_ms > ?2";
const EDGES: &str = "SELECT w.lease, w.ticket, w.owner, b.owner FROM lease_waiters w
        JOIN lease_holders b ON b.resource = w.resource AND b.expires_ms > ?1 AND (w.capacity = 1 OR b.capacity = 1)
        WHERE w.lapses_ms > ?1 AND w.cycle IS NULL AND NOT EXISTS (SELECT 1 FROM lease_waiters n
            WHERE n.resource = w.resource AND n.ticket < w.ticket AND n.lapses_ms > ?1)
    UNION ALL SELECT w.lease, w.ticket, w.owner, b.owner FROM lease_waiters w
        JOIN lease_waiters b ON b.resource = w.resource AND b.lapses_ms > ?1 AND b.ticket =
            (SELECT max(ticket) FROM lease_waiters n
             WHERE n.resource = w.resource AND n.ticket < w.ticket AND n.lapses_ms > ?1)
        WHERE w.lapses_ms > ?1 AND w.cycle IS NULL
    ORDER BY 2 DESC LIMIT ?2";

/// One page of the names that are held or waited for.
pub(super) fn page(connection: &Connection, query: &LeaseQuery, now: Timestamp) -> Result<LeasePage, ReadFailure> {
    let limit = query.limit.clamp(1, PAGE_MAX);
    let now_ms = now.timestamp_millis();
    let snapshot = connection.unchecked_transaction()?;
    let mut select = snapshot.prepare_cached(NAMES)?;
    let after = query.after.as_deref().unwrap_or_default();
    let names = select.query_map(params![after, now_ms, (limit + 1) as i64], |row| row.get(0))?;
    let mut names: Vec<Arc<str>> = names.collect::<Result<_, _>>()?;
    let more = names.len() > limit;
    names.truncate(limit);
    let next = names.last().filter(|_| more).map(ToString::to_string);
    let mut resources = Vec::with_capacity(names.len());
    for resource in names {
        let mut holders = snapshot.prepare_cached(HOLDERS)?;
        let mut holders = holders.query_map([&*resource], holder)?.collect::<Result<Vec<_>, _>>()?;
        holders.retain(|holder| holder.expires > now);
        let mut count = snapshot.prepare_cached(WAITERS)?;
        let waiters = count.query_row(params![&*resource, now_ms], |row| row.get::<_, i64>(0))?;
        resources.push(ResourceView { resource, holders, waiters: waiters.unsigned_abs() });
    }
    Ok(LeasePage { resources, next, now })
}

/// Who waits for whom, from one snapshot: see [`crate::lease::Memory::edges`].
pub(super) fn edges(connection: &Connection, now: Timestamp) -> Result<Vec<Edge>, ReadFailure> {
    let mut select = connection.prepare_cached(EDGES)?;
    let edges = select.query_map(params![now.timestamp_millis(), EDGES_MAX as i64], |row| {
        Ok(Edge { waiter: lease(row, 0)?, ticket: row.get(1)?, owner: row.get(2)?, blocker: row.get(3)? })
    })?;
    Ok(edges.collect::<Result<_, _>>()?)
}
