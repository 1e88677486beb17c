//! A lease in the hands of several commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper_locks::Lease;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::limits::LEASE_COMMANDS_MAX;

/// A lease that this node holds.
pub(super) struct Held {
    pub(super) lease: Lease,
    resource: Arc<str>,
    /// Until then it is shared with whoever comes.
    until: Instant,
    /// Somebody else was in the way when it was asked for.
    contended: bool,
    waited: Duration,
    lost: AtomicBool,
    users: Arc<Users>,
}

/// How many commands have a lease. Apart from it, so that the last one can tell after it has let go of it.
#[derive(Default)]
pub(super) struct Users {
    count: AtomicUsize,
    /// Those that have had it, too.
    ever: AtomicUsize,
    /// Wakes the task when the last has gone, or the lease was found to be lost.
    pub(super) told: Notify,
}

impl Users {
    pub(super) fn any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }
}

impl Held {
    pub(super) fn new(resource: &Arc<str>, granted: super::Granted, until: Instant) -> Self {
        let super::Granted { lease, waited, contended } = granted;
        let (lost, users) = (AtomicBool::new(false), Arc::default());
        Self { lease, resource: resource.clone(), until, contended, waited, lost, users }
    }

    pub(super) fn users(&self) -> &Arc<Users> {
        &self.users
    }

    /// Whether it is held, as far as this node knows.
    pub(super) fn is_held(&self) -> bool {
        !self.lost.load(Ordering::Acquire) && self.lease.is_held()
    }

    /// Whether it may be shared with whoever comes.
    pub(super) fn is_open(&self) -> bool {
        Instant::now() < self.until && self.places() > 0 && self.is_held()
    }

    /// How many more may get it.
    pub(super) fn places(&self) -> usize {
        LEASE_COMMANDS_MAX.saturating_sub(self.users.ever.load(Ordering::SeqCst))
    }
}

/// A command's part in a lease, given back when dropped.
pub(crate) struct Share(Option<Arc<Held>>, Arc<Users>);

impl Share {
    /// To be called while the lease's line is locked, or by its task: nobody else knows whether it is still open.
    pub(super) fn of(held: &Arc<Held>) -> Self {
        held.users.count.fetch_add(1, Ordering::SeqCst);
        held.users.ever.fetch_add(1, Ordering::SeqCst);
        Self(Some(held.clone()), held.users.clone())
    }

    fn held(&self) -> Option<&Held> {
        self.0.as_deref()
    }

    /// The lock's name.
    pub(crate) fn resource(&self) -> &str {
        self.held().map_or("", |held| &held.resource)
    }

    /// The fence that writes under it carry; none: the lock service has none.
    pub(crate) fn fence(&self) -> Option<i64> {
        self.held().and_then(|held| held.lease.fence())
    }

    /// Whether it is held, as far as this node knows.
    pub(crate) fn is_held(&self) -> bool {
        self.held().is_some_and(Held::is_held)
    }

    /// Somebody else was in the way when it was asked for.
    pub(crate) fn contended(&self) -> bool {
        self.held().is_some_and(|held| held.contended)
    }

    /// How long it was waited for.
    pub(crate) fn waited(&self) -> Duration {
        self.held().map_or(Duration::ZERO, |held| held.waited)
    }

    /// The store has seen a later fence: it is lost, whatever this node knows.
    pub(crate) fn mark_lost(&self) {
        if let Some(held) = self.held() {
            held.lost.store(true, Ordering::Release);
            held.users.told.notify_one();
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // First the lease itself: when the count is zero, its task is the only one that has it.
        drop(self.0.take());
        if self.1.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.1.told.notify_one();
        }
    }
}

/// How long it takes to get a lease when nobody is in the way, as measured.
#[derive(Debug)]
pub(super) struct Pace(AtomicU64);

impl Default for Pace {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

/// Beyond twice the measured time, so much more is a wait for somebody: less is what disks and schedulers do.
const SLOW: Duration = Duration::from_millis(10);

impl Pace {
    /// Takes note of a lease that was got after `waited`: whether that was so long that somebody was in the way.
    pub(super) fn is_slow(&self, waited: Duration) -> bool {
        let micros = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        let fastest = self.0.load(Ordering::Relaxed);
        // Forgets slowly, so that a server that has become slower is not taken for a crowd. Two that race lose a note.
        self.0.store(micros.min(fastest.saturating_add(fastest / 50)), Ordering::Relaxed);
        let slow = u64::try_from(SLOW.as_micros()).unwrap_or(u64::MAX);
        micros > micros.min(fastest).saturating_mul(2).saturating_add(slow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told_from_the_usual_pace() {
        let pace = Pace::default();
        let is_slow = |ms| pace.is_slow(Duration::from_millis(ms));
        assert!(!is_slow(40), "the first is all that is known");
        assert!(!is_slow(5) && !is_slow(19));
        assert!(is_slow(21) && is_slow(250));
        // A server that has become slower is known after a while.
        let slow = (0..200).filter(|_| is_slow(30)).count();
        assert!((10..150).contains(&slow), "{slow}");
        assert!(!is_slow(30));
    }
}
