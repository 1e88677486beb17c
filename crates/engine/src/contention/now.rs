//! Moments: both clocks as the caller reads them, and the small form of them that slots keep.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

/// One moment on both clocks. All that is decided here is decided by `elapsed`; `wall` only dates what people read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Since any start that stays the same, on a clock that is never set back.
    pub(crate) elapsed: Duration,
    /// What the calendar says.
    pub(crate) wall: DateTime<Utc>,
}

impl Now {
    pub(super) fn tick(self) -> Tick {
        Tick::START.after(self.elapsed)
    }

    /// What the calendar said at `tick`; exactly `wall`, if that is now.
    pub(super) fn wall_at(self, tick: Tick) -> DateTime<Utc> {
        if tick >= self.tick() {
            return self.wall;
        }
        let ago = self.elapsed.saturating_sub(tick.since(Tick::START));
        TimeDelta::from_std(ago).ok().and_then(|ago| self.wall.checked_sub_signed(ago)).unwrap_or(self.wall)
    }
}

/// A moment in tenths of a second since the start: four bytes that last for 13 years of running, and fine enough for
/// rules whose shortest time is 30 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tick(u32);

impl Tick {
    const START: Self = Self(0);
    const PER_SECOND: u32 = 10;
    const MILLIS: u32 = 1_000 / Self::PER_SECOND;

    /// From `earlier` to here; nothing, if that is later. Reports of several threads may arrive out of order.
    pub(super) fn since(self, earlier: Self) -> Duration {
        let ticks = self.0.saturating_sub(earlier.0);
        Duration::new(u64::from(ticks / Self::PER_SECOND), ticks % Self::PER_SECOND * Self::MILLIS * 1_000_000)
    }

    /// `by` after here.
    pub(super) fn after(self, by: Duration) -> Self {
        let seconds = u32::try_from(by.as_secs()).unwrap_or(u32::MAX);
        let ticks = seconds.saturating_mul(Self::PER_SECOND).saturating_add(by.subsec_millis() / Self::MILLIS);
        Self(self.0.saturating_add(ticks))
    }

    /// For simulations, which count in seconds.
    #[cfg(test)]
    pub(super) fn at_seconds(seconds: f64) -> Self {
        Self((seconds * f64::from(Self::PER_SECOND)) as u32)
    }

    #[cfg(test)]
    pub(super) fn seconds(self) -> f64 {
        f64::from(self.0) / f64::from(Self::PER_SECOND)
    }
}
