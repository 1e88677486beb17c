//! The clock by which leases expire in a store that has no server of its own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{SubsecRound, Utc};

use crate::Timestamp;

/// Tells the time, in whole milliseconds; given, so that a test can move it.
#[derive(Clone)]
pub struct StoreClock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl StoreClock {
    /// The time as this function tells it.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The machine's time of day now, and from then on by a clock that nobody can set and that runs on while the machine
    /// is suspended (`CLOCK_BOOTTIME`, clock_gettime(2)): so a lease lasts as long as it should, whatever is done to the
    /// time of day.
    pub fn system() -> Self {
        let (start, booted) = (Utc::now(), since_boot());
        Self::new(move || (start + since_boot().saturating_sub(booted)).trunc_subsecs(3))
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

/// How long the machine runs, suspended or not (`CLOCK_BOOTTIME`, clock_gettime(2)).
pub fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // Neither is negative on this clock.
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

impl fmt::Debug for StoreClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreClock").field(&self.now()).finish()
    }
}

impl PartialEq for StoreClock {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for StoreClock {}
