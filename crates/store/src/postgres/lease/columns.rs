//! Rows as the arrays that the schema's functions take and give.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::{FromSql, Type};
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::worker::REQUESTS_MAX;
use crate::Timestamp;
use crate::lease::{Change, Holder, LeaseId, LeaseRequest, Memory, Mode, Waiter};
use crate::postgres::rows::timestamp;
use crate::postgres::values::Parameter;

/// Waiters of a name that are loaded, from the first: each request of a transaction may take one of them away, and whoever
/// is first then is to be there.
const WAITERS_LOADED: i32 = REQUESTS_MAX as i32 + 1;

/// Names of one transaction.
const NAMES_MAX: i32 = 512;

/// Names of a request by itself: a forced release concerns all names of all who hold one. Each is an entry in a table of
/// the server that has 6,400 of them by default, for all sessions (max_locks_per_transaction times max_connections).
const NAMES_ALONE_MAX: i32 = 2_048;

/// What requests concern, as far as they tell.
pub(super) struct Wanted<'a> {
    leases: Vec<Uuid>,
    resources: Vec<&'a str>,
    forced: Vec<&'a str>,
    waiters: i32,
    /// Whether the lengths of the queues matter.
    count: bool,
    names_max: i32,
}

impl<'a> Wanted<'a> {
    pub(super) fn new(requests: &[&'a LeaseRequest]) -> Self {
        let alone = requests.len() == 1;
        let names_max = if alone { NAMES_ALONE_MAX } else { NAMES_MAX };
        let mut wanted = Self {
            leases: Vec::with_capacity(requests.len()),
            resources: Vec::new(),
            forced: Vec::new(),
            waiters: WAITERS_LOADED,
            count: false,
            names_max,
        };
        for request in requests {
            match request {
                LeaseRequest::Ask { ask, keep } => {
                    wanted.leases.push(*ask.lease().as_uuid());
                    wanted.resources.extend(ask.claims().iter().map(|claim| &*claim.resource));
                    wanted.count |= keep.is_some();
                }
                LeaseRequest::Renew { lease } | LeaseRequest::End { lease, .. } | LeaseRequest::Break { lease, .. } => {
                    wanted.leases.push(*lease.as_uuid())
                }
                LeaseRequest::Force { resource } => wanted.forced.push(resource),
            }
        }
        wanted
    }

    /// Of `lease_open`.
    pub(super) fn parameters<'p>(&'p self, lock_ms: &'p i32) -> [Parameter<'p>; 7] {
        [
            (&self.leases, Type::UUID_ARRAY),
            (&self.resources, Type::TEXT_ARRAY),
            (&self.forced, Type::TEXT_ARRAY),
            (&self.waiters, Type::INT4),
            (&self.count, Type::BOOL),
            (&self.names_max, Type::INT4),
            (lock_ms, Type::INT4),
        ]
    }
}

/// What `lease_open` has told.
pub(super) struct Loaded {
    now: Timestamp,
    fence_floor: i64,
    ticket: i64,
    holders: Vec<(Arc<str>, Holder)>,
    waiters: Vec<(Arc<str>, Waiter)>,
    fences: HashMap<Arc<str>, i64>,
    ended: Vec<(LeaseId, Timestamp)>,
    counts: Vec<(Arc<str>, i64)>,
}

impl Loaded {
    pub(super) fn read(row: &Row) -> Result<Self, Error> {
        let fences = names(row, "f_resources")?.into_iter().zip(column::<i64>(row, "f_lasts")?).collect();
        let ended = column::<Uuid>(row, "e_leases")?.into_iter().zip(column::<i64>(row, "e_untils")?);
        Ok(Self {
            now: timestamp(row.try_get("now_ms")?),
            fence_floor: row.try_get("fence_floor")?,
            ticket: row.try_get("ticket")?,
            holders: holders(row)?,
            waiters: waiters(row)?,
            fences,
            ended: ended.map(|(lease, until)| (lease.into(), timestamp(until))).collect(),
            counts: names(row, "c_resources")?.into_iter().zip(column(row, "c_counts")?).collect(),
        })
    }

    /// The rows as the law's table, and the fences as they were found.
    pub(super) fn into_table(self) -> (Memory, HashMap<Arc<str>, i64>) {
        let mut table = Memory::new(self.now, self.fence_floor, true);
        table.raise_ticket(self.ticket.saturating_sub(1));
        for (resource, fence) in &self.fences {
            table.load(Change::Fence(resource.clone(), *fence));
        }
        for (resource, holder) in self.holders {
            table.load(Change::Holder(resource, holder));
        }
        for (resource, waiter) in self.waiters {
            table.load(Change::Waiter(resource, waiter));
        }
        for (lease, until) in self.ended {
            table.load(Change::Ended(lease, until));
        }
        for (resource, count) in self.counts {
            let more = count.unsigned_abs().saturating_sub(table.loaded_waiters(&resource));
            table.set_more_waiters(&resource, more);
        }
        (table, self.fences)
    }
}

/// One column; none: there are no rows.
fn column<'r, T: FromSql<'r>>(row: &'r Row, name: &str) -> Result<Vec<T>, Error> {
    Ok(row.try_get::<_, Option<Vec<T>>>(name)?.unwrap_or_default())
}

fn names(row: &Row, name: &str) -> Result<Vec<Arc<str>>, Error> {
    Ok(column::<&str>(row, name)?.into_iter().map(Arc::from).collect())
}

fn holders(row: &Row) -> Result<Vec<(Arc<str>, Holder)>, Error> {
    let leases = column::<Uuid>(row, "h_leases")?.into_iter().zip(column::<i32>(row, "h_capacities")?);
    let fences = column::<i64>(row, "h_fences")?.into_iter().zip(column::<i64>(row, "h_sinces")?);
    let times = column::<i64>(row, "h_expiries")?.into_iter().zip(column::<i64>(row, "h_ttls")?);
    let texts = names(row, "h_owners")?.into_iter().zip(names(row, "h_hosts")?);
    let times = times.zip(column::<i32>(row, "h_names")?);
    let columns = leases.zip(fences).zip(times.zip(texts));
    let rows = columns.map(|(((lease, capacity), (fence, since)), (((expires, ttl), names), (owner, host)))| Holder {
        lease: lease.into(),
        names: names.unsigned_abs(),
        owner,
        host,
        mode: Mode::of_capacity(capacity.unsigned_abs()),
        fence: Some(fence),
        since: timestamp(since),
        expires: timestamp(expires),
        ttl: Duration::from_millis(ttl.unsigned_abs()),
    });
    Ok(names(row, "h_resources")?.into_iter().zip(rows).collect())
}

fn waiters(row: &Row) -> Result<Vec<(Arc<str>, Waiter)>, Error> {
    let leases = column::<Uuid>(row, "w_leases")?.into_iter().zip(column::<i32>(row, "w_capacities")?);
    let times = column::<i64>(row, "w_sinces")?.into_iter().zip(column::<i64>(row, "w_lapses")?);
    let texts = names(row, "w_owners")?.into_iter().zip(names(row, "w_hosts")?);
    let rest = column::<i64>(row, "w_tickets")?.into_iter().zip(column::<Option<&str>>(row, "w_cycles")?);
    let columns = leases.zip(times).zip(texts.zip(rest));
    let rows = columns.map(|(((lease, capacity), (since, lapses)), ((owner, host), (ticket, cycle)))| Waiter {
        lease: lease.into(),
        ticket,
        owner,
        host,
        mode: Mode::of_capacity(capacity.unsigned_abs()),
        since: timestamp(since),
        lapses: timestamp(lapses),
        cycle: cycle.and_then(|cycle| serde_json::from_str::<Vec<String>>(cycle).ok()).map(Into::into),
        ttl: None,
    });
    Ok(names(row, "w_resources")?.into_iter().zip(rows).collect())
}

/// What the law has written, in the end.
#[derive(Default)]
pub(super) struct Written {
    now_ms: i64,
    gone: Names,
    held: Names,
    held_capacities: Vec<i32>,
    held_fences: Vec<i64>,
    held_sinces: Vec<i64>,
    held_expiries: Vec<i64>,
    held_ttls: Vec<i64>,
    held_owners: Vec<String>,
    held_hosts: Vec<String>,
    held_names: Vec<i32>,
    left: Names,
    waiting: Names,
    waiting_tickets: Vec<i64>,
    waiting_capacities: Vec<i32>,
    waiting_sinces: Vec<i64>,
    waiting_lapses: Vec<i64>,
    waiting_owners: Vec<String>,
    waiting_hosts: Vec<String>,
    waiting_cycles: Vec<Option<String>>,
    ended: Vec<Uuid>,
    ended_untils: Vec<i64>,
    fenced: Vec<String>,
    fences_before: Vec<i64>,
    fences: Vec<i64>,
}

/// A name and a lease for each row.
#[derive(Default)]
struct Names {
    resources: Vec<String>,
    leases: Vec<Uuid>,
}

impl Names {
    fn push(&mut self, (resource, lease): (Arc<str>, LeaseId)) {
        self.resources.push(resource.to_string());
        self.leases.push(*lease.as_uuid());
    }

    fn parameters(&self) -> [Parameter<'_>; 2] {
        [(&self.resources, Type::TEXT_ARRAY), (&self.leases, Type::UUID_ARRAY)]
    }
}

/// What became of one waiter's row.
#[derive(Default)]
struct Place {
    /// It was taken away at some time: what is there in the end has another ticket.
    left: bool,
    waiter: Option<Waiter>,
}

impl Written {
    /// The last word on each row; of a name whose fence is `before`, the last fence.
    pub(super) fn new(now: Timestamp, changes: Vec<Change>, before: &HashMap<Arc<str>, i64>) -> Self {
        let mut holders: BTreeMap<(Arc<str>, LeaseId), Option<Holder>> = BTreeMap::new();
        let mut waiters: BTreeMap<(Arc<str>, LeaseId), Place> = BTreeMap::new();
        let mut fences = BTreeMap::new();
        let mut ended = BTreeMap::new();
        for change in changes {
            match change {
                Change::Fence(resource, fence) => drop(fences.insert(resource, fence)),
                Change::Holder(resource, holder) => drop(holders.insert((resource, holder.lease), Some(holder))),
                Change::NoHolder(resource, lease) => drop(holders.insert((resource, lease), None)),
                Change::Waiter(resource, waiter) => {
                    let place = waiters.entry((resource, waiter.lease)).or_default();
                    place.waiter = Some(waiter);
                }
                Change::NoWaiter(resource, lease) => {
                    waiters.insert((resource, lease), Place { left: true, waiter: None });
                }
                Change::Ended(lease, until) => drop(ended.insert(lease, until)),
            }
        }
        let mut written = Self { now_ms: now.timestamp_millis(), ..Self::default() };
        for (name, holder) in holders {
            written.add_holder(name, holder);
        }
        for (name, place) in waiters {
            written.add_waiter(name, place);
        }
        for (lease, until) in ended {
            written.ended.push(*lease.as_uuid());
            written.ended_untils.push(until.timestamp_millis());
        }
        for (resource, fence) in fences {
            written.fences_before.push(before.get(&resource).copied().unwrap_or(0));
            written.fenced.push(resource.to_string());
            written.fences.push(fence);
        }
        written
    }

    fn add_holder(&mut self, name: (Arc<str>, LeaseId), holder: Option<Holder>) {
        let Some(holder) = holder else { return self.gone.push(name) };
        self.held.push(name);
        self.held_capacities.push(capacity(holder.mode));
        self.held_fences.push(holder.fence.unwrap_or_default());
        self.held_sinces.push(holder.since.timestamp_millis());
        self.held_expiries.push(holder.expires.timestamp_millis());
        self.held_ttls.push(i64::try_from(holder.ttl.as_millis()).unwrap_or(i64::MAX));
        self.held_owners.push(holder.owner.to_string());
        self.held_hosts.push(holder.host.to_string());
        self.held_names.push(i32::try_from(holder.names).unwrap_or(i32::MAX));
    }

    fn add_waiter(&mut self, name: (Arc<str>, LeaseId), place: Place) {
        if place.left {
            self.left.push(name.clone());
        }
        let Some(waiter) = place.waiter else { return };
        self.waiting.push(name);
        self.waiting_tickets.push(waiter.ticket);
        self.waiting_capacities.push(capacity(waiter.mode));
        self.waiting_sinces.push(waiter.since.timestamp_millis());
        self.waiting_lapses.push(waiter.lapses.timestamp_millis());
        self.waiting_owners.push(waiter.owner.to_string());
        self.waiting_hosts.push(waiter.host.to_string());
        self.waiting_cycles.push(waiter.cycle.and_then(|cycle| serde_json::to_string(&*cycle).ok()));
    }

    /// Of `lease_write`.
    pub(super) fn parameters(&self) -> Vec<Parameter<'_>> {
        let mut all: Vec<Parameter<'_>> = vec![(&self.now_ms, Type::INT8)];
        all.extend(self.gone.parameters());
        all.extend(self.held.parameters());
        all.extend::<[Parameter<'_>; 8]>([
            (&self.held_capacities, Type::INT4_ARRAY),
            (&self.held_fences, Type::INT8_ARRAY),
            (&self.held_sinces, Type::INT8_ARRAY),
            (&self.held_expiries, Type::INT8_ARRAY),
            (&self.held_ttls, Type::INT8_ARRAY),
            (&self.held_owners, Type::TEXT_ARRAY),
            (&self.held_hosts, Type::TEXT_ARRAY),
            (&self.held_names, Type::INT4_ARRAY),
        ]);
        all.extend(self.left.parameters());
        all.extend::<[Parameter<'_>; 14]>([
            (&self.waiting.resources, Type::TEXT_ARRAY),
            (&self.waiting_tickets, Type::INT8_ARRAY),
            (&self.waiting.leases, Type::UUID_ARRAY),
            (&self.waiting_capacities, Type::INT4_ARRAY),
            (&self.waiting_sinces, Type::INT8_ARRAY),
            (&self.waiting_lapses, Type::INT8_ARRAY),
            (&self.waiting_owners, Type::TEXT_ARRAY),
            (&self.waiting_hosts, Type::TEXT_ARRAY),
            (&self.waiting_cycles, Type::TEXT_ARRAY),
            (&self.ended, Type::UUID_ARRAY),
            (&self.ended_untils, Type::INT8_ARRAY),
            (&self.fenced, Type::TEXT_ARRAY),
            (&self.fences_before, Type::INT8_ARRAY),
            (&self.fences, Type::INT8_ARRAY),
        ]);
        all
    }
}

fn capacity(mode: Mode) -> i32 {
    i32::try_from(mode.capacity()).unwrap_or(i32::MAX)
}
