//! Leases: the law's table in the writer's transaction.

use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tokio::sync::broadcast;
use uuid::Uuid;

use super::fences;
use super::queue::{Effect, Request};
use crate::lease::{Answered, Holder, LeaseId, LeaseRequest, Mode, Table, Waiter, law};
use crate::limits::{LAPSED_AT_ONCE, TEXT_BYTES_MAX};
use crate::{StoreClock, Timestamp};

const ENDED: &str = "SELECT until_ms > ?2 FROM lease_ended WHERE lease = ?1";
const PUT_ENDED: &str = "INSERT OR REPLACE INTO lease_ended (lease, until_ms) VALUES (?1, ?2)";
const FORGET_ENDED: &str = "DELETE FROM lease_ended WHERE lease IN
    (SELECT lease FROM lease_ended WHERE until_ms <= ?1 ORDER BY until_ms LIMIT ?2)";
pub(super) const HOLDERS: &str =
    "SELECT resource, lease, capacity, fence, since_ms, expires_ms, ttl_ms, owner, host, names
    FROM lease_holders WHERE resource = ?1 ORDER BY lease";
const HELD: &str = "SELECT resource, lease, capacity, fence, since_ms, expires_ms, ttl_ms, owner, host, names
    FROM lease_holders WHERE lease = ?1 ORDER BY resource";
const PUT_HOLDER: &str = "INSERT INTO lease_holders
    (resource, lease, capacity, fence, since_ms, expires_ms, ttl_ms, owner, host, names)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
    ON CONFLICT (resource, lease) DO UPDATE SET expires_ms = excluded.expires_ms, ttl_ms = excluded.ttl_ms";
const REMOVE_HOLDER: &str = "DELETE FROM lease_holders WHERE resource = ?1 AND lease = ?2";
const FIRST_WAITER: &str = "SELECT resource, ticket, lease, capacity, since_ms, lapses_ms, owner, host, cycle
    FROM lease_waiters WHERE resource = ?1 AND lapses_ms > ?2 ORDER BY ticket LIMIT 1";
const WAITED: &str = "SELECT resource, ticket, lease, capacity, since_ms, lapses_ms, owner, host, cycle
    FROM lease_waiters WHERE lease = ?1 ORDER BY resource";
const WAITERS: &str = "SELECT count(*) FROM lease_waiters WHERE resource = ?1";
const DRAW_TICKET: &str = "UPDATE lease_tickets SET last = last + 1 RETURNING last";
const PUT_WAITER: &str = "INSERT INTO lease_waiters
    (resource, ticket, lease, capacity, since_ms, lapses_ms, owner, host, cycle)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
    ON CONFLICT (resource, ticket) DO UPDATE SET lapses_ms = excluded.lapses_ms, cycle = excluded.cycle";
const REMOVE_WAITER: &str = "DELETE FROM lease_waiters WHERE lease = ?2 AND resource = ?1";
const HAS_LAPSED: &str = "SELECT 1 FROM lease_waiters WHERE resource = ?1 AND lapses_ms <= ?2 LIMIT 1";
const REMOVE_LAPSED: &str = "DELETE FROM lease_waiters WHERE (resource, ticket) IN
    (SELECT resource, ticket FROM lease_waiters WHERE resource = ?1 AND lapses_ms <= ?2 ORDER BY lapses_ms LIMIT ?3)";

/// What is done to leases, and what nobody need do again if it is done twice.
pub(super) struct ChangeLeases {
    pub(super) request: LeaseRequest,
    pub(super) clock: StoreClock,
    pub(super) floor: i64,
    /// Where those hear who are to ask again.
    pub(super) woken: broadcast::Sender<LeaseId>,
}

impl Request for ChangeLeases {
    type Answer = Answered;

    fn size(&self) -> usize {
        // A name, an owner and a host in two or three trees.
        match &self.request {
            LeaseRequest::Ask { ask, .. } => ask.claims().len() * 3 * TEXT_BYTES_MAX,
            _ => TEXT_BYTES_MAX,
        }
    }

    fn perform(&self, connection: &Connection) -> rusqlite::Result<(Answered, Effect)> {
        let mut rows = Rows { connection, now: self.clock.now(), floor: self.floor };
        let answered = law::apply(&mut rows, &self.request)?;
        let effect = if answered.wrote { Effect::Wrote } else { Effect::Nothing };
        Ok((answered, effect))
    }

    /// Told here, and not by whoever asked: it may have gone.
    fn done(&self, answered: &Answered) {
        for woken in &answered.woken {
            // Nobody may be listening.
            let _unheard = self.woken.send(woken.lease);
        }
    }
}

/// The rows of leases in the transaction that is open.
struct Rows<'a> {
    connection: &'a Connection,
    now: Timestamp,
    floor: i64,
}

impl Rows<'_> {
    fn now_ms(&self) -> i64 {
        self.now.timestamp_millis()
    }

    fn execute(&self, sql: &str, parameters: impl rusqlite::Params) -> rusqlite::Result<usize> {
        self.connection.prepare_cached(sql)?.execute(parameters)
    }
}

impl Table for Rows<'_> {
    type Error = rusqlite::Error;

    fn now(&self) -> Timestamp {
        self.now
    }

    fn floor(&mut self) -> rusqlite::Result<i64> {
        Ok(fences::floor(self.connection)?.max(self.floor))
    }

    fn is_ended(&mut self, lease: LeaseId) -> rusqlite::Result<bool> {
        let mut select = self.connection.prepare_cached(ENDED)?;
        let kept = select.query_row(params![bytes(&lease), self.now_ms()], |row| row.get(0)).optional()?;
        Ok(kept.unwrap_or(false))
    }

    fn put_ended(&mut self, lease: LeaseId, until: Timestamp) -> rusqlite::Result<()> {
        self.execute(FORGET_ENDED, params![self.now_ms(), LAPSED_AT_ONCE as i64])?;
        self.execute(PUT_ENDED, params![bytes(&lease), until.timestamp_millis()])?;
        Ok(())
    }

    fn last_fence(&mut self, resource: &str) -> rusqlite::Result<i64> {
        Ok(fences::last(self.connection, resource)?.unwrap_or(0))
    }

    fn put_fence(&mut self, resource: &Arc<str>, fence: i64) -> rusqlite::Result<()> {
        fences::raise(self.connection, resource, fence, self.now_ms())
    }

    fn holders(&mut self, resource: &str) -> rusqlite::Result<Vec<Holder>> {
        let mut select = self.connection.prepare_cached(HOLDERS)?;
        select.query_map([resource], holder)?.collect()
    }

    fn held(&mut self, lease: LeaseId) -> rusqlite::Result<Vec<(Arc<str>, Holder)>> {
        let mut select = self.connection.prepare_cached(HELD)?;
        select.query_map([bytes(&lease)], |row| Ok((row.get(0)?, holder(row)?)))?.collect()
    }

    fn put_holder(&mut self, resource: &Arc<str>, holder: &Holder) -> rusqlite::Result<()> {
        let Holder { lease, names, owner, host, mode, fence, since, expires, ttl } = holder;
        let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        self.execute(
            PUT_HOLDER,
            params![
                &**resource,
                bytes(lease),
                mode.capacity(),
                fence,
                since.timestamp_millis(),
                expires.timestamp_millis(),
                ttl,
                &**owner,
                &**host,
                names
            ],
        )?;
        Ok(())
    }

    fn remove_holder(&mut self, resource: &str, lease: LeaseId) -> rusqlite::Result<()> {
        self.execute(REMOVE_HOLDER, params![resource, bytes(&lease)])?;
        Ok(())
    }

    fn first_waiter(&mut self, resource: &str) -> rusqlite::Result<Option<Waiter>> {
        let mut select = self.connection.prepare_cached(FIRST_WAITER)?;
        select.query_row(params![resource, self.now_ms()], waiter).optional()
    }

    fn waiters(&mut self, resource: &str) -> rusqlite::Result<u64> {
        let mut select = self.connection.prepare_cached(WAITERS)?;
        let count = select.query_row([resource], |row| row.get::<_, i64>(0))?;
        Ok(count.unsigned_abs())
    }

    fn waited(&mut self, lease: LeaseId) -> rusqlite::Result<Vec<(Arc<str>, Waiter)>> {
        let mut select = self.connection.prepare_cached(WAITED)?;
        select.query_map([bytes(&lease)], |row| Ok((row.get(0)?, waiter(row)?)))?.collect()
    }

    fn draw_ticket(&mut self) -> rusqlite::Result<i64> {
        self.connection.prepare_cached(DRAW_TICKET)?.query_row([], |row| row.get(0))
    }

    fn put_waiter(&mut self, resource: &Arc<str>, waiter: &Waiter) -> rusqlite::Result<()> {
        let Waiter { lease, ticket, owner, host, mode, since, lapses, cycle, ttl: _ } = waiter;
        let cycle = cycle.as_deref().and_then(|cycle| serde_json::to_string(cycle).ok());
        self.execute(
            PUT_WAITER,
            params![
                &**resource,
                ticket,
                bytes(lease),
                mode.capacity(),
                since.timestamp_millis(),
                lapses.timestamp_millis(),
                &**owner,
                &**host,
                cycle
            ],
        )?;
        Ok(())
    }

    fn remove_waiter(&mut self, resource: &str, lease: LeaseId) -> rusqlite::Result<()> {
        self.execute(REMOVE_WAITER, params![resource, bytes(&lease)])?;
        Ok(())
    }

    fn remove_lapsed(&mut self, resource: &str) -> rusqlite::Result<bool> {
        if !self.connection.prepare_cached(HAS_LAPSED)?.exists(params![resource, self.now_ms()])? {
            return Ok(false);
        }
        let removed = self.execute(REMOVE_LAPSED, params![resource, self.now_ms(), LAPSED_AT_ONCE as i64])?;
        Ok(removed > 0)
    }
}

fn bytes(lease: &LeaseId) -> &[u8; 16] {
    lease.as_uuid().as_bytes()
}

/// A row of [`HOLDERS`].
pub(super) fn holder(row: &Row<'_>) -> rusqlite::Result<Holder> {
    Ok(Holder {
        lease: lease(row, 1)?,
        mode: Mode::of_capacity(row.get(2)?),
        fence: row.get(3)?,
        since: time(row, 4)?,
        expires: time(row, 5)?,
        ttl: Duration::from_millis(row.get::<_, i64>(6)?.unsigned_abs()),
        owner: row.get(7)?,
        host: row.get(8)?,
        names: row.get(9)?,
    })
}

fn waiter(row: &Row<'_>) -> rusqlite::Result<Waiter> {
    let cycle: Option<String> = row.get(8)?;
    Ok(Waiter {
        ticket: row.get(1)?,
        lease: lease(row, 2)?,
        mode: Mode::of_capacity(row.get(3)?),
        since: time(row, 4)?,
        lapses: time(row, 5)?,
        owner: row.get(6)?,
        host: row.get(7)?,
        cycle: cycle.and_then(|cycle| serde_json::from_str::<Vec<String>>(&cycle).ok()).map(Into::into),
        ttl: None,
    })
}

pub(super) fn lease(row: &Row<'_>, column: usize) -> rusqlite::Result<LeaseId> {
    let bytes: [u8; 16] = row.get(column)?;
    Ok(Uuid::from_bytes(bytes).into())
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    let millis = row.get(column)?;
    DateTime::from_timestamp_millis(millis).ok_or(rusqlite::Error::FromSqlConversionFailure(
        column,
        Type::Integer,
        "no such time".into(),
    ))
}
