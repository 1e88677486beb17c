//! Wakes those who wait for an instance's next change.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockkeeper_model::InstanceKey;
use tokio::sync::Notify;

use crate::feed::FeedHub;

/// Who waits for which instance. Bounded by the requests under way: each holds one subscription.
pub(crate) struct Watchers {
    feed: Arc<FeedHub>,
    waiting: AtomicUsize,
    by_key: Mutex<HashMap<InstanceKey, (usize, Arc<Notify>)>>,
}

/// A wish to hear of the next change; given up when dropped.
pub(crate) struct Subscription<'a> {
    watchers: &'a Watchers,
    key: InstanceKey,
    /// Wakes at each change. Create the `notified()` future before looking at the store.
    pub(crate) notify: Arc<Notify>,
}

impl Watchers {
    /// Whoever follows the feed is told, too.
    pub(crate) fn new(feed: Arc<FeedHub>) -> Self {
        Self { feed, waiting: AtomicUsize::new(0), by_key: Mutex::default() }
    }

    fn map(&self) -> MutexGuard<'_, HashMap<InstanceKey, (usize, Arc<Notify>)>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn subscribe(&self, key: &InstanceKey) -> Subscription<'_> {
        let mut map = self.map();
        let (count, notify) = map.entry(key.clone()).or_default();
        *count += 1;
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Subscription { watchers: self, key: key.clone(), notify: notify.clone() }
    }

    /// Tells of a committed change. Nearly free while nobody waits.
    pub(crate) fn changed(&self, key: &InstanceKey) {
        self.feed.committed();
        // SeqCst on both sides: a subscriber that this misses reads the store after the commit that is told of here.
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some((_, notify)) = self.map().get(key) {
            notify.notify_waiters();
        }
    }
}

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        let mut map = self.watchers.map();
        self.watchers.waiting.fetch_sub(1, Ordering::SeqCst);
        if let Some((count, _)) = map.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                map.remove(&self.key);
            }
        }
    }
}
