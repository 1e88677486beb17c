//! Time, injected: what leases are judged by can be moved in a test without waiting.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

/// A point in time on one machine's clock that is never set and runs on while the machine is suspended
/// (`CLOCK_BOOTTIME`, clock_gettime(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(Duration);

impl Moment {
    /// So long after the clock's start.
    pub const fn since_start(since: Duration) -> Self {
        Self(since)
    }

    /// How long after the clock's start.
    pub const fn elapsed(self) -> Duration {
        self.0
    }

    /// How long from `earlier` to this; zero if it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }
}

/// Tells the time, and waits for it.
#[async_trait]
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Moment;

    /// Returns at `until` or soon after: a suspended machine hears of it within a second of waking.
    async fn sleep_until(&self, until: Moment);
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Timers of the runtime stand still while the machine is suspended, so none runs for longer than this before the clock
/// is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment(lockkeeper_store::since_boot())
    }

    async fn sleep_until(&self, until: Moment) {
        loop {
            let left = until.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(LOOK_AGAIN)).await;
        }
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub struct ManualClock(watch::Sender<Moment>);

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.send_modify(|now| *now = *now + by);
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Moment {
        *self.0.borrow()
    }

    async fn sleep_until(&self, until: Moment) {
        let mut moved = self.0.subscribe();
        // The sender lives as long as the clock.
        let _reached = moved.wait_for(|now| *now >= until).await;
    }
}
