//! Time, injected: what the engine decides by can be moved in a test without waiting.

use std::fmt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use chrono::{SubsecRound, Utc};
use lockkeeper_model::Timestamp;

/// Tells the time, in whole milliseconds.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;

    /// Since some start, on a clock that is never set back: for what lasts, not for what is dated.
    fn elapsed(&self) -> Duration;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Utc::now().trunc_subsecs(3)
    }

    fn elapsed(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock(Mutex<Moment>);

/// What both faces of a clock show.
#[derive(Clone, Copy, Debug)]
struct Moment {
    now: Timestamp,
    elapsed: Duration,
}

impl ManualClock {
    /// A clock that shows `now`.
    pub fn new(now: Timestamp) -> Self {
        Self(Mutex::new(Moment { now: now.trunc_subsecs(3), elapsed: Duration::ZERO }))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let mut moment = self.moment();
        moment.now += by;
        moment.elapsed += by;
    }

    fn moment(&self) -> MutexGuard<'_, Moment> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.moment().now
    }

    fn elapsed(&self) -> Duration {
        self.moment().elapsed
    }
}
