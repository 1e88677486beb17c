//! Who gets a name, and who waits: the one law of leases, whatever the rows lie in.
//!
//! Invariants, for each name:
//! - As many hold it as the strictest of its holders allows: one exclusive, many shared, so many permits.
//! - Nobody passes a waiter whose place has not lapsed, whatever the modes: so none starves. All names of an ask have the
//!   same ticket, and an ask is granted all of its names at once or none: so two asks never wait for each other.
//! - A grant on a name that nobody holds begins a generation: its fence is above all before. Whoever joins holders has
//!   their fence, so that they do not fence each other off.
//! - A release, and whatever else makes room, wakes the first waiter alone; it asks again, and its own grant wakes the
//!   next one if there is room for it too. Where the table grants ahead, the first waiter is granted in that same turn if
//!   all of its names are to be had, and hears of it: a hand-off costs it no further request.
//! - A lease that has expired is nobody's, whether its rows are still there or not; renewals and ends never make one.

use std::sync::Arc;
use std::time::Duration;

use super::{
    Answered, Ask, Asked, Claim, Ended, Forced, GrantedAhead, HeldBy, Holder, LeaseAnswer, LeaseId, LeaseRequest, Mode,
    Renewed, Table, Waiter, Woken,
};
use crate::Timestamp;
use crate::limits::{AHEAD_MIN, ENDED_KEPT, FENCE_MAX, GRANTS_AHEAD_MAX, WAITERS_MAX};

/// Does what is asked.
///
/// # Errors
/// Those of the table; what was written until then has to be taken back.
pub fn apply<T: Table>(table: &mut T, request: &LeaseRequest) -> Result<Answered, T::Error> {
    let asker = match request {
        LeaseRequest::Ask { ask, .. } => Some(ask.lease()),
        _ => None,
    };
    let mut turn = Turn { table, asker, woken: Vec::new(), wrote: false };
    let answer = match request {
        LeaseRequest::Ask { ask, keep } => LeaseAnswer::Asked(turn.ask(ask, *keep)?),
        LeaseRequest::Renew { lease } => LeaseAnswer::Renewed(turn.renew(*lease)?),
        LeaseRequest::End { lease, bar } => LeaseAnswer::Ended(turn.end(*lease, *bar)?),
        LeaseRequest::Force { resource } => LeaseAnswer::Forced(turn.force(resource)?),
        LeaseRequest::Break { lease, ticket, cycle } => LeaseAnswer::Broken(turn.break_circle(*lease, *ticket, cycle)?),
    };
    Ok(Answered { answer, woken: turn.woken, wrote: turn.wrote })
}

/// Takes away what has ended on a name that nobody may ask for again; those who wait and have something to hear.
///
/// # Errors
/// Those of the table.
pub fn sweep<T: Table>(table: &mut T, resource: &Arc<str>) -> Result<Vec<Woken>, T::Error> {
    let mut turn = Turn { table, asker: None, woken: Vec::new(), wrote: false };
    turn.clear(resource)?;
    Ok(turn.woken)
}

/// One request at work.
struct Turn<'a, T> {
    table: &'a mut T,
    /// Whose turn it is, if somebody asks: that one hears by the answer.
    asker: Option<LeaseId>,
    woken: Vec<Woken>,
    wrote: bool,
}

/// Who is to hold some names.
struct Grantee<'a> {
    lease: LeaseId,
    owner: &'a Arc<str>,
    host: &'a Arc<str>,
    ttl: Duration,
}

/// What stands between an ask and one of its names.
struct Obstacle {
    held_by: HeldBy,
    /// When it may be gone, if the ask is the first that waits.
    until: Option<Timestamp>,
}

impl<T: Table> Turn<'_, T> {
    fn ask(&mut self, ask: &Ask, keep: Option<Duration>) -> Result<Asked, T::Error> {
        let lease = ask.lease();
        if self.table.is_ended(lease)? {
            return Ok(Asked::Over);
        }
        let held = self.live(lease)?;
        if !held.is_empty() {
            return self.grant_again(ask, held);
        }
        let mut dropped = Vec::new();
        for Claim { resource, .. } in ask.claims().iter() {
            if self.drop_dead(resource)? {
                dropped.push(resource);
            }
        }
        let asked = self.ask_of_the_living(ask, keep)?;
        // Not before: the asker itself may be the first there.
        for resource in dropped {
            self.wake(resource)?;
        }
        let granted = self.woken.iter().any(|woken| woken.lease == lease && woken.granted.is_some());
        if granted {
            self.woken.retain(|woken| woken.lease != lease);
            // By one that was granted in between and shares a name with it.
            let held = self.table.held(lease)?;
            return self.grant_again(ask, held);
        }
        Ok(asked)
    }

    /// Decides an ask for names whose dead have been taken away.
    fn ask_of_the_living(&mut self, ask: &Ask, keep: Option<Duration>) -> Result<Asked, T::Error> {
        let waited = self.own_places(ask)?;
        if let Some(cycle) = waited.iter().find_map(|(_, waiter)| waiter.cycle.clone()) {
            self.leave(&waited)?;
            return Ok(Asked::Deadlock { cycle });
        }
        if !waited.is_empty() && !same_claims(ask, waited.iter().map(|(name, waiter)| (name, waiter.mode))) {
            return Ok(Asked::Mismatch);
        }
        let ticket = waited.first().map(|(_, waiter)| waiter.ticket);
        match self.obstacle(ask.claims().iter().map(wanted), ticket)? {
            None => self.grant(ask, &waited),
            Some(obstacle) => self.queue(ask, keep, &waited, obstacle),
        }
    }

    /// A lease that is held already: the answer to its ask was lost. It lives on from now.
    fn grant_again(&mut self, ask: &Ask, held: Vec<(Arc<str>, Holder)>) -> Result<Asked, T::Error> {
        if !same_claims(ask, held.iter().map(|(name, holder)| (name, holder.mode))) {
            return Ok(Asked::Mismatch);
        }
        let mut fences = Vec::with_capacity(held.len());
        for claim in ask.claims().iter() {
            let Some((resource, holder)) = held.iter().find(|(name, _)| *name == claim.resource) else { continue };
            fences.push(holder.fence.unwrap_or_default());
            self.prolong(resource, Holder { ttl: ask.ttl(), ..holder.clone() })?;
        }
        Ok(Asked::Granted { fences })
    }

    /// The places of an ask that is waiting. Lapsed ones are none, and are taken away.
    fn own_places(&mut self, ask: &Ask) -> Result<Vec<(Arc<str>, Waiter)>, T::Error> {
        let waited = self.table.waited(ask.lease())?;
        if waited.iter().any(|(_, waiter)| waiter.lapses <= self.table.now()) {
            self.leave(&waited)?;
            return Ok(Vec::new());
        }
        Ok(waited)
    }

    /// What keeps an ask from its names now: told is the first of them, and until when the last of them is held.
    /// `ticket`: its place in the queue, if it has one.
    fn obstacle<'a>(
        &mut self,
        names: impl IntoIterator<Item = (&'a Arc<str>, Mode)>,
        ticket: Option<i64>,
    ) -> Result<Option<Obstacle>, T::Error> {
        let mut obstacle: Option<Obstacle> = None;
        for (resource, mode) in names {
            let first = self.table.first_waiter(resource)?;
            if let Some(first) = first.filter(|first| ticket.is_none_or(|ticket| first.ticket < ticket)) {
                return Ok(Some(Obstacle { held_by: kept_for(resource, &first), until: None }));
            }
            let holders = self.table.holders(resource)?;
            if has_room(mode, &holders) {
                continue;
            }
            // The first of them to expire: only then can there be room, unless somebody releases.
            let Some(until) = holders.iter().map(|holder| holder.expires).min() else { continue };
            match &mut obstacle {
                None => {
                    let held_by = held_by(resource, &holders[0]);
                    obstacle = Some(Obstacle { held_by, until: Some(until) });
                }
                Some(other) => other.until = other.until.max(Some(until)),
            }
        }
        Ok(obstacle)
    }

    fn grant(&mut self, ask: &Ask, waited: &[(Arc<str>, Waiter)]) -> Result<Asked, T::Error> {
        self.leave_quietly(waited)?;
        let grantee = Grantee { lease: ask.lease(), owner: ask.owner(), host: ask.host(), ttl: ask.ttl() };
        let fences = self.hold(&grantee, ask.claims().iter().map(wanted), None)?;
        for claim in ask.claims().iter() {
            self.wake(&claim.resource)?;
        }
        Ok(Asked::Granted { fences })
    }

    /// Gives it these names; its fences. With `at_most`, as long as a grant ahead lasts.
    fn hold<'a>(
        &mut self,
        grantee: &Grantee<'_>,
        names: impl ExactSizeIterator<Item = (&'a Arc<str>, Mode)>,
        at_most: Option<Timestamp>,
    ) -> Result<Vec<i64>, T::Error> {
        let mut fences = Vec::with_capacity(names.len());
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        for (resource, mode) in names {
            let holders = self.table.holders(resource)?;
            // Whoever joins is of the holders' generation.
            let fence = match holders.iter().filter_map(|holder| holder.fence).max() {
                Some(fence) => fence,
                None => self.next_fence(resource)?,
            };
            let now = self.table.now();
            let ends = at_most.map_or(now + grantee.ttl, |at_most| at_most.min(now + grantee.ttl.max(AHEAD_MIN)));
            let holder = Holder {
                lease: grantee.lease,
                names: count,
                owner: grantee.owner.clone(),
                host: grantee.host.clone(),
                mode,
                fence: Some(fence),
                since: now,
                expires: ends + BEGUN,
                ttl: grantee.ttl,
            };
            self.wrote = true;
            self.table.put_holder(resource, &holder)?;
            fences.push(fence);
        }
        Ok(fences)
    }

    fn next_fence(&mut self, resource: &Arc<str>) -> Result<i64, T::Error> {
        let last = self.table.last_fence(resource)?;
        // Two hundred years of fences are left above any floor of today; only a commit that carries a fence that was
        // never given can come near the end, and then the name has no further generation to tell apart.
        let fence = last.saturating_add(1).max(self.table.floor()?).min(FENCE_MAX);
        self.table.put_fence(resource, fence)?;
        Ok(fence)
    }

    fn queue(
        &mut self,
        ask: &Ask,
        keep: Option<Duration>,
        waited: &[(Arc<str>, Waiter)],
        obstacle: Obstacle,
    ) -> Result<Asked, T::Error> {
        let Some(keep) = keep else {
            self.leave(waited)?;
            return Ok(Asked::Held(obstacle.held_by));
        };
        if waited.is_empty() {
            for claim in ask.claims().iter() {
                let waiters = self.table.waiters(&claim.resource)?;
                if waiters >= WAITERS_MAX {
                    return Ok(Asked::Full { resource: claim.resource.clone(), waiters });
                }
            }
        }
        let now = self.table.now();
        let (ticket, since) = match waited.first() {
            Some((_, waiter)) => (waiter.ticket, waiter.since),
            None => (self.table.draw_ticket()?, now),
        };
        // What an earlier ask of the same name was told holds, too.
        let lapses = waited.iter().map(|(_, waiter)| waiter.lapses).fold(now + keep, Timestamp::max);
        let ttl = waited.iter().filter_map(|(_, waiter)| waiter.ttl).fold(ask.ttl(), Duration::max);
        for claim in ask.claims().iter() {
            let waiter = Waiter {
                lease: ask.lease(),
                ticket,
                owner: ask.owner().clone(),
                host: ask.host().clone(),
                mode: claim.mode,
                since,
                lapses,
                cycle: None,
                ttl: Some(ttl),
            };
            self.wrote = true;
            self.table.put_waiter(&claim.resource, &waiter)?;
        }
        let look_again = obstacle.until.map(|until| (until - now).to_std().unwrap_or_default());
        Ok(Asked::Waiting { held_by: obstacle.held_by, look_again, ticket })
    }

    fn renew(&mut self, lease: LeaseId) -> Result<Renewed, T::Error> {
        let rows = self.table.held(lease)?;
        let now = self.table.now();
        let Some(ttl) = rows.first().map(|(_, holder)| holder.ttl) else { return Ok(Renewed::Lost { since: None }) };
        if let Some(since) = ended_since(&rows, now) {
            self.give_up(&rows)?;
            return Ok(Renewed::Lost { since: Some(since) });
        }
        for (resource, holder) in rows {
            self.prolong(&resource, holder)?;
        }
        Ok(Renewed::Renewed { ttl })
    }

    fn end(&mut self, lease: LeaseId, bar: bool) -> Result<Ended, T::Error> {
        if bar {
            // Also if the lease is there: the ask that got it may not have been the last of its name.
            self.wrote = true;
            let until = self.table.now() + ENDED_KEPT;
            self.table.put_ended(lease, until)?;
        }
        let rows = self.table.held(lease)?;
        if !rows.is_empty() {
            let since = ended_since(&rows, self.table.now());
            self.give_up(&rows)?;
            return Ok(since.map_or(Ended::Released, |since| Ended::AlreadyLost { since: Some(since) }));
        }
        let waited = self.table.waited(lease)?;
        if waited.is_empty() {
            return Ok(Ended::AlreadyLost { since: None });
        }
        self.leave(&waited)?;
        Ok(Ended::Left)
    }

    fn force(&mut self, resource: &Arc<str>) -> Result<Forced, T::Error> {
        let dropped = self.drop_dead(resource)?;
        let holders = self.table.holders(resource)?;
        let mut rows = Vec::new();
        for holder in &holders {
            rows.extend(self.table.held(holder.lease)?);
        }
        // All of them before anybody is granted what they held.
        self.give_up(&rows)?;
        if dropped {
            self.wake(resource)?;
        }
        Ok(Forced { holders })
    }

    fn break_circle(&mut self, lease: LeaseId, ticket: i64, cycle: &Arc<[String]>) -> Result<bool, T::Error> {
        let mut waited = self.table.waited(lease)?;
        // Asked for anew since, it waits in another circle or in none.
        waited.retain(|(_, waiter)| waiter.ticket == ticket);
        for (resource, waiter) in &waited {
            self.wrote = true;
            self.table.put_waiter(resource, &Waiter { cycle: Some(cycle.clone()), ..waiter.clone() })?;
        }
        if !waited.is_empty() {
            self.wake_one(lease);
        }
        Ok(!waited.is_empty())
    }

    /// A lease's rows if it has not expired; if it has, they are taken away.
    fn live(&mut self, lease: LeaseId) -> Result<Vec<(Arc<str>, Holder)>, T::Error> {
        let rows = self.table.held(lease)?;
        if ended_since(&rows, self.table.now()).is_some() {
            self.give_up(&rows)?;
            return Ok(Vec::new());
        }
        Ok(rows)
    }

    /// Takes away what has expired or lapsed on a name, and wakes who waited for that.
    fn clear(&mut self, resource: &Arc<str>) -> Result<(), T::Error> {
        if self.drop_dead(resource)? { self.wake(resource) } else { Ok(()) }
    }

    /// Takes away what has expired or lapsed on a name; whether there was anything.
    fn drop_dead(&mut self, resource: &Arc<str>) -> Result<bool, T::Error> {
        let now = self.table.now();
        let mut made_room = false;
        for holder in self.table.holders(resource)?.iter().filter(|holder| holder.expires <= now) {
            self.wrote = true;
            made_room = true;
            self.table.remove_holder(resource, holder.lease)?;
        }
        if self.table.remove_lapsed(resource)? {
            self.wrote = true;
            made_room = true;
        }
        Ok(made_room)
    }

    fn prolong(&mut self, resource: &Arc<str>, holder: Holder) -> Result<(), T::Error> {
        self.wrote = true;
        let expires = self.table.now() + holder.ttl + BEGUN;
        self.table.put_holder(resource, &Holder { expires, ..holder })
    }

    fn give_up(&mut self, rows: &[(Arc<str>, Holder)]) -> Result<(), T::Error> {
        for (resource, holder) in rows {
            self.wrote = true;
            self.table.remove_holder(resource, holder.lease)?;
        }
        for (resource, _) in rows {
            self.wake(resource)?;
        }
        Ok(())
    }

    fn leave_quietly(&mut self, waited: &[(Arc<str>, Waiter)]) -> Result<(), T::Error> {
        for (resource, waiter) in waited {
            self.wrote = true;
            self.table.remove_waiter(resource, waiter.lease)?;
        }
        Ok(())
    }

    /// Whoever leaves the queue may have stood before one for whom there is room.
    fn leave(&mut self, waited: &[(Arc<str>, Waiter)]) -> Result<(), T::Error> {
        self.leave_quietly(waited)?;
        for (resource, _) in waited {
            self.wake(resource)?;
        }
        Ok(())
    }

    /// Tells the first waiter of a name if there is room for it.
    fn wake(&mut self, resource: &Arc<str>) -> Result<(), T::Error> {
        if self.table.grants_ahead() {
            self.drop_dead(resource)?;
        }
        let Some(first) = self.table.first_waiter(resource)? else { return Ok(()) };
        if self.is_woken(first.lease) {
            // Once it asks again it will be granted what has become free since.
            return Ok(());
        }
        let now = self.table.now();
        let mut holders = self.table.holders(resource)?;
        holders.retain(|holder| holder.expires > now);
        if !has_room(first.mode, &holders) {
            return Ok(());
        }
        let ahead = self.woken.iter().filter(|woken| woken.granted.is_some()).count() < GRANTS_AHEAD_MAX;
        match first.ttl.filter(|_| ahead && self.table.grants_ahead()) {
            Some(ttl) => self.grant_ahead(resource, &first, ttl),
            None => {
                self.wake_one(first.lease);
                Ok(())
            }
        }
    }

    /// Grants the first waiter of a name what it waits for, if it is to be had; if not, that one asks again, to learn when
    /// the others of its names may be.
    fn grant_ahead(&mut self, resource: &Arc<str>, first: &Waiter, ttl: Duration) -> Result<(), T::Error> {
        let waited = self.table.waited(first.lease)?;
        let mut dropped = Vec::new();
        for (other, _) in waited.iter().filter(|(other, _)| other != resource) {
            if self.drop_dead(other)? {
                dropped.push(other);
            }
        }
        let names = || waited.iter().map(|(name, waiter)| (name, waiter.mode));
        if first.cycle.is_none() && self.obstacle(names(), Some(first.ticket))?.is_none() {
            self.leave_quietly(&waited)?;
            let grantee = Grantee { lease: first.lease, owner: &first.owner, host: &first.host, ttl };
            let fences = self.hold(&grantee, names(), Some(first.lapses))?;
            let granted = Some(GrantedAhead { ticket: first.ticket, fences });
            self.woken.push(Woken { lease: first.lease, granted });
            for (name, _) in &waited {
                self.wake(name)?;
            }
        } else {
            self.wake_one(first.lease);
            for name in dropped {
                self.wake(name)?;
            }
        }
        Ok(())
    }

    fn is_woken(&self, lease: LeaseId) -> bool {
        self.woken.iter().any(|woken| woken.lease == lease)
    }

    fn wake_one(&mut self, lease: LeaseId) {
        if self.asker != Some(lease) && !self.is_woken(lease) {
            self.woken.push(Woken { lease, granted: None });
        }
    }
}

/// Since when a lease with these rows has ended; none: it has not. All its names end at the same time; one of them that
/// is gone was found expired, by a clock that was set back since.
fn ended_since(rows: &[(Arc<str>, Holder)], now: Timestamp) -> Option<Timestamp> {
    let expires = rows.iter().map(|(_, holder)| holder.expires).min()?;
    let whole = rows.iter().all(|(_, holder)| holder.names as usize == rows.len());
    (!whole || expires <= now).then_some(expires.min(now))
}

/// Times are whole milliseconds, and no lease is shorter than asked: this one has begun.
const BEGUN: Duration = Duration::from_millis(1);

fn wanted(claim: &Claim) -> (&Arc<str>, Mode) {
    (&claim.resource, claim.mode)
}

/// Whether one more may hold a name beside its holders.
fn has_room(mode: Mode, holders: &[Holder]) -> bool {
    let strictest = holders.iter().map(|holder| holder.mode.capacity()).fold(mode.capacity(), u32::min);
    holders.len() < strictest as usize
}

fn same_claims<'a>(ask: &Ask, rows: impl ExactSizeIterator<Item = (&'a Arc<str>, super::Mode)>) -> bool {
    rows.len() == ask.claims().len()
        && rows.into_iter().all(|(name, mode)| {
            ask.claims().iter().any(|claim| claim.resource == *name && claim.mode.capacity() == mode.capacity())
        })
}

fn held_by(resource: &Arc<str>, holder: &Holder) -> HeldBy {
    HeldBy {
        resource: resource.clone(),
        owner: holder.owner.clone(),
        host: holder.host.clone(),
        since: holder.since,
        holds: true,
    }
}

fn kept_for(resource: &Arc<str>, waiter: &Waiter) -> HeldBy {
    HeldBy {
        resource: resource.clone(),
        owner: waiter.owner.clone(),
        host: waiter.host.clone(),
        since: waiter.since,
        holds: false,
    }
}
