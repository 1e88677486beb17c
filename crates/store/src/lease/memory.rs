//! Rows in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

use super::{Edge, Holder, LeaseId, LeasePage, LeaseQuery, ResourceView, Table, Waiter};
use crate::Timestamp;
use crate::limits::{EDGES_MAX, PAGE_MAX};

/// A table in memory; also what a database's rows are loaded into while requests are applied to them.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    now: Timestamp,
    floor: i64,
    grants_ahead: bool,
    ticket: i64,
    names: BTreeMap<Arc<str>, Name>,
    held: HashMap<LeaseId, BTreeSet<Arc<str>>>,
    waited: HashMap<LeaseId, Place>,
    ended: HashMap<LeaseId, Timestamp>,
    ended_by_time: BTreeSet<(Timestamp, LeaseId)>,
    /// Names that nobody holds or waits for, with their fences at that time: forgotten once the floor is above.
    idle: VecDeque<(Arc<str>, i64)>,
    /// When holders and waiters end, unless they have been renewed or have gone since; kept without `changes` only.
    ends: BTreeSet<(Timestamp, Arc<str>)>,
    changes: Option<Vec<Change>>,
}

/// One name. Tickets are those of one waiter each.
#[derive(Clone, Debug, Default)]
struct Name {
    fence: i64,
    holders: BTreeMap<LeaseId, Holder>,
    waiters: BTreeMap<i64, Waiter>,
    by_lapse: BTreeSet<(Timestamp, i64)>,
    /// Waiters that were not loaded: they stand behind those that were.
    more_waiters: u64,
}

/// What a lease waits for.
#[derive(Clone, Debug, Default)]
struct Place {
    ticket: i64,
    names: BTreeSet<Arc<str>>,
}

/// What was written to a table whose changes are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A name's last fence.
    Fence(Arc<str>, i64),
    /// A holder, new or changed.
    Holder(Arc<str>, Holder),
    /// A holder that is gone.
    NoHolder(Arc<str>, LeaseId),
    /// A waiter, new or changed.
    Waiter(Arc<str>, Waiter),
    /// A waiter that is gone.
    NoWaiter(Arc<str>, LeaseId),
    /// A try that was ended, and until when that is remembered.
    Ended(LeaseId, Timestamp),
}

impl Memory {
    /// An empty table. With `recorded`, what is written is to be taken by [`Memory::take_changes`].
    pub fn new(now: Timestamp, floor: i64, recorded: bool) -> Self {
        Self { now, floor, changes: recorded.then(Vec::new), ..Self::default() }
    }

    /// Those who wait are granted what they wait for by whoever makes room.
    #[must_use]
    pub fn granting_ahead(self) -> Self {
        Self { grants_ahead: true, ..self }
    }

    /// Sets the clock, and forgets ended tries whose time has passed. Never set back: what has expired stays so.
    pub fn set_now(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        while let Some((_, lease)) = self.ended_by_time.first().filter(|(until, _)| *until <= self.now).copied() {
            self.ended_by_time.pop_first();
            self.ended.remove(&lease);
        }
    }

    /// Fences are above this one from now on; it never goes down. Names that nobody uses, and whose fences are below it,
    /// are forgotten: their next fence is the same either way.
    pub fn raise_floor(&mut self, floor: i64) {
        self.floor = self.floor.max(floor);
        while let Some((resource, _)) = self.idle.front().filter(|(_, fence)| *fence < self.floor) {
            if self.names.get(resource).is_some_and(|name| name.is_idle() && name.fence < self.floor) {
                self.names.remove(resource);
            }
            self.idle.pop_front();
        }
    }

    /// Tickets are above this one from now on.
    pub fn raise_ticket(&mut self, ticket: i64) {
        self.ticket = self.ticket.max(ticket);
    }

    /// Says how many of a name's waiters are not loaded; they stand behind those that are.
    pub fn set_more_waiters(&mut self, resource: &Arc<str>, waiters: u64) {
        self.name(resource).more_waiters = waiters;
    }

    /// How many of a name's waiters are loaded.
    pub fn loaded_waiters(&self, resource: &str) -> u64 {
        self.names.get(resource).map_or(0, |name| name.waiters.len() as u64)
    }

    /// What was written since the last time, in order.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Puts a row there as it was found, without recording it.
    pub fn load(&mut self, row: Change) {
        let recorded = self.changes.take();
        let Ok(()) = match row {
            Change::Fence(resource, fence) => self.put_fence(&resource, fence),
            Change::Holder(resource, holder) => self.put_holder(&resource, &holder),
            Change::NoHolder(resource, lease) => self.remove_holder(&resource, lease),
            Change::Waiter(resource, waiter) => self.put_waiter(&resource, &waiter),
            Change::NoWaiter(resource, lease) => self.remove_waiter(&resource, lease),
            Change::Ended(lease, until) => self.put_ended(lease, until),
        };
        self.changes = recorded;
    }

    /// The names that are held or waited for.
    pub fn list(&self, query: &LeaseQuery) -> LeasePage {
        let limit = query.limit.clamp(1, PAGE_MAX);
        let after = query.after.as_deref().map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let mut resources: Vec<ResourceView> = self
            .names
            .range::<str, _>((after, std::ops::Bound::Unbounded))
            .map(|(resource, name)| self.view(resource, name))
            .filter(|view| !view.holders.is_empty() || view.waiters > 0)
            .take(limit + 1)
            .collect();
        let more = resources.len() > limit;
        resources.truncate(limit);
        let next = resources.last().filter(|_| more).map(|last| last.resource.to_string());
        LeasePage { resources, next, now: self.now }
    }

    /// Who waits for whom: the first in each queue for the holders, and each other for the one before it. Of holders that
    /// need not all go for there to be room (permits) nobody waits for each.
    pub fn edges(&self) -> Vec<Edge> {
        let mut edges = Vec::new();
        for name in self.names.values() {
            let mut before: Option<&Waiter> = None;
            for waiter in name.waiters.values().filter(|waiter| waiter.lapses > self.now && waiter.cycle.is_none()) {
                let edge = |blocker: &Arc<str>| Edge {
                    waiter: waiter.lease,
                    ticket: waiter.ticket,
                    owner: waiter.owner.clone(),
                    blocker: blocker.clone(),
                };
                match before.replace(waiter) {
                    Some(before) => edges.push(edge(&before.owner)),
                    None => {
                        let all_must_go = |holder: &&Holder| waiter.mode.capacity() == 1 || holder.mode.capacity() == 1;
                        let holders = name.holders.values().filter(|holder| holder.expires > self.now);
                        edges.extend(holders.filter(all_must_go).map(|holder| edge(&holder.owner)));
                    }
                }
            }
        }
        edges.sort_by_key(|edge| std::cmp::Reverse(edge.ticket));
        edges.truncate(EDGES_MAX);
        edges
    }

    /// Some names whose holders or waiters have ended by now, without anybody having asked for the name since.
    pub fn take_ended(&mut self, limit: usize) -> Vec<Arc<str>> {
        let mut ended = Vec::new();
        while ended.len() < limit
            && let Some((at, _)) = self.ends.first()
            && *at <= self.now
            && let Some((_, resource)) = self.ends.pop_first()
        {
            ended.push(resource);
        }
        ended
    }

    fn view(&self, resource: &Arc<str>, name: &Name) -> ResourceView {
        ResourceView {
            resource: resource.clone(),
            holders: name.holders.values().filter(|holder| holder.expires > self.now).cloned().collect(),
            waiters: name.waiters.values().filter(|waiter| waiter.lapses > self.now).count() as u64 + name.more_waiters,
        }
    }

    fn name(&mut self, resource: &Arc<str>) -> &mut Name {
        self.names.entry(resource.clone()).or_default()
    }

    fn record(&mut self, change: impl FnOnce() -> Change) {
        if let Some(changes) = &mut self.changes {
            changes.push(change());
        }
    }

    fn ends_at(&mut self, at: Timestamp, resource: &Arc<str>) {
        if self.changes.is_none() {
            self.ends.insert((at, resource.clone()));
        }
    }

    /// Remembers to forget a name once nobody uses it.
    fn settle(&mut self, resource: &str) {
        if let Some((resource, name)) = self.names.get_key_value(resource).filter(|(_, name)| name.is_idle()) {
            self.idle.push_back((resource.clone(), name.fence));
        }
    }
}

impl Name {
    fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.waiters.is_empty() && self.more_waiters == 0
    }
}

impl Table for Memory {
    type Error = Infallible;

    fn now(&self) -> Timestamp {
        self.now
    }

    fn grants_ahead(&self) -> bool {
        self.grants_ahead
    }

    fn floor(&mut self) -> Result<i64, Infallible> {
        Ok(self.floor)
    }

    fn is_ended(&mut self, lease: LeaseId) -> Result<bool, Infallible> {
        Ok(self.ended.get(&lease).is_some_and(|until| *until > self.now))
    }

    fn put_ended(&mut self, lease: LeaseId, until: Timestamp) -> Result<(), Infallible> {
        if let Some(before) = self.ended.insert(lease, until) {
            self.ended_by_time.remove(&(before, lease));
        }
        self.ended_by_time.insert((until, lease));
        self.record(|| Change::Ended(lease, until));
        Ok(())
    }

    fn last_fence(&mut self, resource: &str) -> Result<i64, Infallible> {
        Ok(self.names.get(resource).map_or(0, |name| name.fence))
    }

    fn put_fence(&mut self, resource: &Arc<str>, fence: i64) -> Result<(), Infallible> {
        self.name(resource).fence = fence;
        self.record(|| Change::Fence(resource.clone(), fence));
        Ok(())
    }

    fn holders(&mut self, resource: &str) -> Result<Vec<Holder>, Infallible> {
        Ok(self.names.get(resource).map(|name| name.holders.values().cloned().collect()).unwrap_or_default())
    }

    fn held(&mut self, lease: LeaseId) -> Result<Vec<(Arc<str>, Holder)>, Infallible> {
        let names = self.held.get(&lease).into_iter().flatten();
        Ok(names
            .filter_map(|resource| Some((resource.clone(), self.names.get(resource)?.holders.get(&lease)?.clone())))
            .collect())
    }

    fn put_holder(&mut self, resource: &Arc<str>, holder: &Holder) -> Result<(), Infallible> {
        self.name(resource).holders.insert(holder.lease, holder.clone());
        self.held.entry(holder.lease).or_default().insert(resource.clone());
        self.ends_at(holder.expires, resource);
        self.record(|| Change::Holder(resource.clone(), holder.clone()));
        Ok(())
    }

    fn remove_holder(&mut self, resource: &str, lease: LeaseId) -> Result<(), Infallible> {
        let Some(name) = self.names.get_mut(resource) else { return Ok(()) };
        name.holders.remove(&lease);
        if let Some(names) = self.held.get_mut(&lease) {
            names.remove(resource);
            if names.is_empty() {
                self.held.remove(&lease);
            }
        }
        self.settle(resource);
        self.record(|| Change::NoHolder(resource.into(), lease));
        Ok(())
    }

    fn first_waiter(&mut self, resource: &str) -> Result<Option<Waiter>, Infallible> {
        let now = self.now;
        let mut waiters = self.names.get(resource).into_iter().flat_map(|name| name.waiters.values());
        Ok(waiters.find(|waiter| waiter.lapses > now).cloned())
    }

    fn waiters(&mut self, resource: &str) -> Result<u64, Infallible> {
        Ok(self.names.get(resource).map_or(0, |name| name.waiters.len() as u64 + name.more_waiters))
    }

    fn waited(&mut self, lease: LeaseId) -> Result<Vec<(Arc<str>, Waiter)>, Infallible> {
        let Some(Place { ticket, names }) = self.waited.get(&lease) else { return Ok(Vec::new()) };
        Ok(names
            .iter()
            .filter_map(|resource| Some((resource.clone(), self.names.get(resource)?.waiters.get(ticket)?.clone())))
            .collect())
    }

    fn draw_ticket(&mut self) -> Result<i64, Infallible> {
        self.ticket += 1;
        Ok(self.ticket)
    }

    fn put_waiter(&mut self, resource: &Arc<str>, waiter: &Waiter) -> Result<(), Infallible> {
        let name = self.name(resource);
        if let Some(before) = name.waiters.insert(waiter.ticket, waiter.clone()) {
            name.by_lapse.remove(&(before.lapses, before.ticket));
        }
        name.by_lapse.insert((waiter.lapses, waiter.ticket));
        let place = self.waited.entry(waiter.lease).or_default();
        place.ticket = waiter.ticket;
        place.names.insert(resource.clone());
        self.ends_at(waiter.lapses, resource);
        self.record(|| Change::Waiter(resource.clone(), waiter.clone()));
        Ok(())
    }

    fn remove_waiter(&mut self, resource: &str, lease: LeaseId) -> Result<(), Infallible> {
        let Some(place) = self.waited.get_mut(&lease) else { return Ok(()) };
        place.names.remove(resource);
        let ticket = place.ticket;
        if place.names.is_empty() {
            self.waited.remove(&lease);
        }
        if let Some(name) = self.names.get_mut(resource)
            && let Some(waiter) = name.waiters.remove(&ticket)
        {
            name.by_lapse.remove(&(waiter.lapses, ticket));
        }
        self.settle(resource);
        self.record(|| Change::NoWaiter(resource.into(), lease));
        Ok(())
    }

    fn remove_lapsed(&mut self, resource: &str) -> Result<bool, Infallible> {
        let mut any = false;
        while let Some(name) = self.names.get(resource)
            && let Some((_, ticket)) = name.by_lapse.first().filter(|(lapses, _)| *lapses <= self.now)
            && let Some(lease) = name.waiters.get(ticket).map(|waiter| waiter.lease)
        {
            any = true;
            self.remove_waiter(resource, lease)?;
        }
        Ok(any)
    }
}
