//! The task of one lock's line: gets the lease for all that wait, again and again until nobody does.

use std::pin::pin;
use std::sync::Arc;

use lockkeeper_locks::{AcquireError, HeldBy, Holder, LeasePage, LeaseQuery, describe};
use lockkeeper_model::Refusal;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::held::{Held, Share};
use super::{Granted, Leases, without_locks};
use crate::engine::Inner;
use crate::limits::{LEASE_LINGER, LEASE_SHARED, LEASE_WAIT_MAX, TIMEOUT_TOLD_WITHIN};
use crate::pending::Pending;
use crate::strategy::waited_ms;

/// Serves a line until nobody waits in it.
pub(super) async fn serve(inner: Arc<Inner>, resource: Arc<str>, came: Arc<Notify>) {
    let Some(leases) = inner.leases.as_ref() else { return };
    let line = LineTask { inner: &inner, leases, resource: &resource, came: &came };
    let _removed = Removed { leases, resource: &resource };
    while let Some(ttl) = line.next_ttl() {
        match line.get(ttl).await {
            Some(Ok(granted)) => line.share(granted).await,
            Some(Err(error)) => line.fail(error),
            None => {}
        }
    }
}

/// Takes the line away if its task dies: those who wait learn it by their dropped channels.
struct Removed<'a> {
    leases: &'a Leases,
    resource: &'a str,
}

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let abandoned = self.leases.lines().remove(self.resource);
            drop(abandoned);
        }
    }
}

struct LineTask<'a> {
    inner: &'a Arc<Inner>,
    leases: &'a Leases,
    resource: &'a Arc<str>,
    came: &'a Notify,
}

impl LineTask<'_> {
    /// The time to live for the next lease: that of whoever waits longest. None: nobody does, and the line is gone.
    fn next_ttl(&self) -> Option<std::time::Duration> {
        let mut lines = self.leases.lines();
        let first = lines.get(self.resource).and_then(|line| line.waiting.front());
        let ttl = first.map(|pending| pending.concurrency.lock_ttl);
        if ttl.is_none() {
            lines.remove(self.resource);
        }
        ttl
    }

    /// Asks for the lease for as long as somebody waits; none: nobody does any more.
    async fn get(&self, ttl: std::time::Duration) -> Option<Result<Granted, AcquireError>> {
        let mut asking = pin!(self.leases.acquire(self.resource, ttl));
        loop {
            let next = self.expire()?;
            tokio::select! {
                biased;
                granted = &mut asking => return Some(granted),
                () = self.came.notified() => {}
                () = sleep_until(next) => {}
            }
        }
    }

    /// Tells those who have waited for long enough, and forgets those who have gone; when the next will have.
    fn expire(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut lines = self.leases.lines();
        let waiting = &mut lines.get_mut(self.resource)?.waiting;
        let mut expired = Vec::new();
        for _ in 0..waiting.len() {
            match waiting.pop_front() {
                Some(pending) if pending.is_abandoned() => {}
                Some(pending) if waits_until(&pending) <= now => expired.push(pending),
                Some(pending) => waiting.push_back(pending),
                None => break,
            }
        }
        let next = waiting.iter().map(waits_until).min();
        drop(lines);
        if !expired.is_empty() {
            self.inner.tasks.spawn(tell_timeout(self.inner.clone(), self.resource.clone(), expired));
        }
        next
    }

    /// Shares the lease with all that wait and come, and gives it back.
    async fn share(&self, granted: Granted) {
        let shared = LEASE_SHARED.min(granted.lease.remaining() / 2);
        let held = Arc::new(Held::new(self.resource, granted, Instant::now() + shared));
        let users = held.users().clone();
        let until = Instant::now() + shared;
        self.open(Some(held.clone()));
        while held.is_open() {
            self.hand_out(&held);
            // Those who share it without waiting are not heard here: they are counted.
            let pause = if users.any() { until } else { until.min(Instant::now() + LEASE_LINGER) };
            tokio::select! {
                biased;
                _ = held.lease.lost() => break,
                () = self.came.notified() => {}
                () = users.told.notified() => {}
                () = sleep_until(pause) => if self.close_if_idle(&held) { break },
            }
        }
        self.open(None);
        // Each has its deadline; and a lost lease is of no use to those who wait for the next.
        while users.any() && held.is_held() {
            let next = self.expire().unwrap_or_else(|| Instant::now() + LEASE_WAIT_MAX);
            tokio::select! {
                () = users.told.notified() => {}
                () = self.came.notified() => {}
                _ = held.lease.lost() => {}
                () = sleep_until(next) => {}
            }
        }
        self.give_back(held);
    }

    /// From here on it is shared (or not) with whoever comes.
    fn open(&self, held: Option<Arc<Held>>) {
        if let Some(line) = self.leases.lines().get_mut(self.resource) {
            line.open = held;
        }
    }

    /// Whether nobody has the lease or waits for it; then nobody gets it any more.
    fn close_if_idle(&self, held: &Held) -> bool {
        let mut lines = self.leases.lines();
        let Some(line) = lines.get_mut(self.resource) else { return true };
        let idle = line.waiting.is_empty() && !held.users().any();
        if idle {
            line.open = None;
        }
        idle
    }

    /// Sends those that wait back to their instances with the lease, before those who come anew.
    fn hand_out(&self, held: &Arc<Held>) {
        let waiting: Vec<Pending> = match self.leases.lines().get_mut(self.resource) {
            Some(line) => {
                let places = held.places().min(line.waiting.len());
                line.waiting.drain(..places).collect()
            }
            None => return,
        };
        for mut pending in waiting.into_iter().rev().filter(|pending| !pending.is_abandoned()) {
            pending.lease = Some(Share::of(held));
            pending.waiting_for_lease = None;
            self.inner.run(self.inner.combiner.push_front(pending));
        }
    }

    /// Gives the lease back without waiting for the lock service.
    fn give_back(&self, held: Arc<Held>) {
        if let Ok(held) = Arc::try_unwrap(held) {
            self.inner.tasks.spawn(async move {
                let released = held.lease.release().await;
                tracing::trace!(?released, "a lease was given back");
            });
        }
    }

    /// Nobody gets the lease now.
    fn fail(&self, error: AcquireError) {
        let why = match error {
            // Their own waits are shorter.
            AcquireError::Held(_) | AcquireError::LockTimeout { .. } | AcquireError::Deadlock { .. } => return,
            AcquireError::Reused { .. } => return,
            AcquireError::Busy { .. } => {
                let detail = format!("{error}; nothing was written, send it again later");
                return self.each(|_| Some(Refusal::Busy { detail: detail.clone() }));
            }
            AcquireError::Unsupported(_) => format!("the lock service cannot serve it: {error}"),
            AcquireError::Unavailable(_) => {
                self.leases.note_gone(&error.to_string());
                error.to_string()
            }
        };
        tracing::warn!(resource = &**self.resource, why, "no lease");
        let (inner, now) = (self.inner, self.inner.moment());
        self.each(|pending| without_locks(pending, &why, &inner.contention, now));
    }

    fn each(&self, refusal: impl Fn(&mut Pending) -> Option<Refusal>) {
        let waiting = match self.leases.lines().get_mut(self.resource) {
            Some(line) => std::mem::take(&mut line.waiting),
            None => return,
        };
        each(self.inner, waiting.into(), refusal);
    }
}

/// When a command stops waiting for its lease: `lock_timeout` after it began, and no later than its deadline.
fn waits_until(pending: &Pending) -> Instant {
    let begun = pending.waiting_for_lease.unwrap_or(pending.arrived);
    (begun + pending.concurrency.lock_timeout).min(pending.deadline)
}

/// Tells who is in the way, if that can be found out at once.
async fn tell_timeout(inner: Arc<Inner>, resource: Arc<str>, expired: Vec<Pending>) {
    let Some(leases) = inner.leases.as_ref() else { return };
    let query = LeaseQuery { after: Some(just_before(&resource)), limit: LISTED };
    let holder = match timeout(TIMEOUT_TOLD_WITHIN, leases.locks.service().list(&query)).await {
        Ok(Ok(page)) => holder_of(page, &resource).map_or_else(|| "free again by now".to_owned(), |by| describe(&by)),
        Ok(Err(error)) => {
            let (why, now) = (error.to_string(), inner.moment());
            leases.note_gone(&why);
            return each(&inner, expired, |pending| without_locks(pending, &why, &inner.contention, now));
        }
        Err(_elapsed) => "held by somebody else".to_owned(),
    };
    for pending in expired {
        let waited = pending.waiting_for_lease.map_or_else(Default::default, |begun| begun.elapsed());
        let (resource, holder) = (resource.to_string(), holder.clone());
        pending.answer(Refusal::LeaseTimeout { resource, waited_ms: waited_ms(waited), holder }.into());
    }
}

/// Names that are listed to find one: hardly any lies between it and the cursor.
const LISTED: usize = 10;

/// A cursor before `name` and after nearly all that sort before it.
fn just_before(name: &str) -> String {
    let mut chars = name.chars();
    let Some(last) = chars.next_back() else { return String::new() };
    // Before U+E000 comes U+D7FF: what lies between are no characters.
    let before = char::from_u32(u32::from(last).saturating_sub(1)).unwrap_or('\u{D7FF}');
    format!("{}{before}{}", chars.as_str(), char::MAX)
}

/// Who holds a lock that was listed.
fn holder_of(page: LeasePage, name: &str) -> Option<HeldBy> {
    let view = page.resources.into_iter().find(|view| *view.resource == *name)?;
    let Holder { owner, host, since, .. } = view.holders.into_iter().next()?;
    Some(HeldBy { resource: view.resource, owner, host, since, holds: true })
}

/// Answers each, or sends it back to its instance, before those who come anew.
fn each(inner: &Arc<Inner>, waiting: Vec<Pending>, refusal: impl Fn(&mut Pending) -> Option<Refusal>) {
    for mut pending in waiting.into_iter().rev() {
        match refusal(&mut pending) {
            Some(refusal) => pending.answer(refusal.into()),
            None => inner.run(inner.combiner.push_front(pending)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_lies_before_its_name_and_after_its_neighbours() {
        for name in ["lock/x", "a", " ", "é", "\u{E000}", "\u{10FFFF}", "lock/x!"] {
            let cursor = just_before(name);
            assert!(cursor.as_str() < name, "{name:?}: {cursor:?}");
        }
        assert!(just_before("lock/x").as_str() > "lock/w" && just_before("lock/x").as_str() > "lock/w/1");
    }
}
