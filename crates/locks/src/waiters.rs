//! Who waits on this node, and how each is told to ask again, or that it has been granted what it waits for.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lockkeeper_store::lease::{GrantedAhead, LeaseId, Woken};
use tokio::sync::watch;

/// Those who wait on this node.
///
/// Whoever waits enters before it asks, so that news that come in between are not missed. Bounded by the bounds of the
/// queues themselves.
#[derive(Debug, Default)]
pub struct Waiters {
    // A std mutex: held to look something up, never over an await.
    by_lease: Mutex<HashMap<LeaseId, watch::Sender<Option<GrantedAhead>>>>,
}

/// The presence of one who waits; it ends when this is dropped.
#[derive(Debug)]
pub struct Presence<'a> {
    waiters: &'a Waiters,
    lease: LeaseId,
    // None only while it is dropped.
    news: Option<watch::Receiver<Option<GrantedAhead>>>,
}

impl Waiters {
    /// From now on `lease` hears what there is to hear.
    pub fn enter(&self, lease: LeaseId) -> Presence<'_> {
        let news = match self.lock().entry(lease) {
            Entry::Occupied(sender) => sender.get().subscribe(),
            Entry::Vacant(place) => {
                let (sender, news) = watch::channel(None);
                place.insert(sender);
                news
            }
        };
        Presence { waiters: self, lease, news: Some(news) }
    }

    /// Tells one to ask again, if it waits here.
    pub fn wake(&self, lease: LeaseId) {
        self.tell(Woken { lease, granted: None });
    }

    /// Tells one, if it waits here.
    pub fn tell(&self, woken: Woken) {
        if let Some(sender) = self.lock().get(&woken.lease) {
            sender.send_replace(woken.granted);
        }
    }

    /// Tells all to ask again: news were missed.
    pub fn wake_all(&self) {
        self.lock().values().for_each(|sender| drop(sender.send_replace(None)));
    }

    /// How many wait here.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LeaseId, watch::Sender<Option<GrantedAhead>>>> {
        self.by_lease.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Presence<'_> {
    /// Returns when there is something to hear, at once if that was since the last time: a grant ahead, or none: it is to
    /// ask again, and if it has been granted it will hear of that then.
    pub async fn woken(&mut self) -> Option<GrantedAhead> {
        let news = self.news.as_mut()?;
        // The sender stays in the map for as long as somebody is present.
        let _told = news.changed().await;
        news.borrow_and_update().clone()
    }
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        let mut by_lease = self.waiters.lock();
        // The same lease may be asked for twice at once; the last of them takes it out. Counted under the lock.
        drop(self.news.take());
        if by_lease.get(&self.lease).is_some_and(|sender| sender.receiver_count() == 0) {
            by_lease.remove(&self.lease);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn news_before_the_wait_are_not_missed() {
        let waiters = Waiters::default();
        let lease = LeaseId::random();
        let mut presence = waiters.enter(lease);
        waiters.wake(lease);
        assert!(presence.woken().now_or_never().is_some());
        assert!(presence.woken().now_or_never().is_none(), "told once");
        waiters.wake_all();
        assert!(presence.woken().now_or_never().is_some());
    }

    #[test]
    fn a_grant_is_heard_of_once() {
        let waiters = Waiters::default();
        let lease = LeaseId::random();
        let mut presence = waiters.enter(lease);
        let granted = GrantedAhead { ticket: 3, fences: vec![7] };
        waiters.tell(Woken { lease, granted: Some(granted.clone()) });
        assert_eq!(presence.woken().now_or_never(), Some(Some(granted)));
        assert!(presence.woken().now_or_never().is_none(), "told once");
        waiters.wake_all();
        assert_eq!(presence.woken().now_or_never(), Some(None));
    }

    #[test]
    fn two_who_wait_for_one_lease_both_hear_and_the_last_one_leaves_nothing() {
        let waiters = Waiters::default();
        let lease = LeaseId::random();
        let (mut one, mut other) = (waiters.enter(lease), waiters.enter(lease));
        waiters.wake(lease);
        assert!(one.woken().now_or_never().is_some());
        assert!(other.woken().now_or_never().is_some());
        drop(one);
        assert_eq!(waiters.count(), 1);
        waiters.wake(lease);
        assert!(other.woken().now_or_never().is_some());
        drop(other);
        assert_eq!(waiters.count(), 0);
    }
}
