//! Which share of contended tries is too much: what a workflow calls `escalate_above`.

use super::switch::Rung;

/// Tries count against a key from this share of the threshold on. In the sequential test for "at the threshold or
/// above" against "quiet" the best place is between the two; at 0.8 a key that stays exactly at its threshold is still
/// found, and one at 0.6 of it (3 % of 5 %) is practically never.
const COUNTED_FROM: f32 = 0.8;

/// A key is quiet below this share of the threshold (2 % of 5 %): the gap between this and `COUNTED_FROM` is what keeps
/// a key in between where it is.
const QUIET_BELOW: f32 = 0.4;

/// A lease is worth its calls where a row lock is waited for ten times as often as would lead up to it: at 50 % of 5 %, nodes
/// spend as long waiting for the row as they work on it, each with a connection in its hands.
const LEASE_FACTOR: f32 = 10.0;

/// More than every second try is not asked for, however high the threshold is.
const LEASE_MAX: f32 = 0.5;

/// The threshold of workflows that set none.
const DEFAULT: f32 = 0.05;

/// A share of tries in hundredths of a percent, from 0.01 % to 100 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Threshold(u16);

impl Threshold {
    const WHOLE: u16 = 10_000;

    /// Takes a share from 0 to 1; what is outside (or no number) becomes the nearest that is allowed.
    pub(super) fn new(share: f64) -> Self {
        // A float beyond the type's range (or no number) becomes the range's end (or 0): `as` is defined so.
        Self(((share * f64::from(Self::WHOLE)).round() as u16).clamp(1, Self::WHOLE))
    }

    pub(super) fn share(self) -> f64 {
        f64::from(self.0) / f64::from(Self::WHOLE)
    }

    /// At 100 %, which is never exceeded, only retry exhaustion leads up.
    pub(super) fn is_off(self) -> bool {
        self.0 == Self::WHOLE
    }

    /// The share of contended tries from which on they speak for going up from `rung`.
    pub(super) fn counted_from(self, rung: Rung) -> f32 {
        COUNTED_FROM * self.up_from(rung)
    }

    /// The share of contended tries below which they speak for coming down from `rung`.
    pub(super) fn quiet_below(self, rung: Rung) -> f32 {
        QUIET_BELOW
            * match rung {
                Rung::Optimistic => 0.0,
                Rung::RowLock => self.up_from(Rung::Optimistic),
                Rung::Lease => self.up_from(Rung::RowLock),
            }
    }

    /// The share of contended tries that is too much on `rung`. Without a threshold it is that of the default one beyond
    /// the first: 40 % would be quiet otherwise.
    fn up_from(self, rung: Rung) -> f32 {
        let own = if self.is_off() { DEFAULT } else { self.of_whole() };
        match rung {
            Rung::Optimistic => own,
            Rung::RowLock | Rung::Lease => (LEASE_FACTOR * own).min(LEASE_MAX).max(own),
        }
    }

    fn of_whole(self) -> f32 {
        f32::from(self.0) / f32::from(Self::WHOLE)
    }
}
