//! What has been gathered for leaving the present rung: a cumulative sum that never falls below zero (Page's CUSUM).

use super::switch::Rung;
use super::threshold::Threshold;

/// Contended tries, beyond what the threshold allows, that bring a key up. By Wald's inequality a key at 2 % (of 5 %)
/// collects so many by chance with a probability of e^(-1.26 x 16) = 2e-9 per run: once in decades. (On the row lock, at 20 %
/// of 50 %: e^(-1.9 x 16) = 6e-14.) The margin is for
/// contended tries that come in clumps, as a lost one is often lost again: in pairs they are half as many proofs.
const EXCESS_UP: f32 = 16.0;

/// Contended tries that must be missing from what the threshold calls quiet before a key comes down: 400 tries without
/// any at 2 %. A key at 3 % lacks so many once in 125,000 tries, one at 5 % practically never.
const LACK_DOWN: f32 = 8.0;

/// A run of tries that speaks for leaving the rung. It starts anew whenever its sum falls to zero, so what was long ago
/// neither delays nor hastens anything.
///
/// On the row lock there are two ways to leave by, and one sum for both: a run for the one begins when the one for the
/// other has come to its end. That can only delay a switch, by 8 contended tries or 40 quiet ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence {
    /// Above zero it speaks for going up, below for coming down.
    sum: f32,
    tries: f32,
}

impl Evidence {
    /// Adds a try that counts as `weight` tries. Without a threshold it says nothing about going up from the first rung,
    /// not even that it need not be: the tries of one key may be of commands with different strategies. `attempt`: whether
    /// it was contended, and whether it could be done under a lease.
    pub(super) fn add(&mut self, rung: Rung, threshold: Threshold, attempt: (bool, bool), weight: f32) {
        let (contended, may_lease) = attempt;
        if rung == Rung::Optimistic && threshold.is_off() {
            return;
        }
        let contended = if contended { 1.0 } else { 0.0 };
        let up = weight * (contended - threshold.counted_from(rung));
        let down = weight * (contended - threshold.quiet_below(rung));
        let sum = match rung {
            Rung::Optimistic => (self.sum + up).max(0.0),
            Rung::RowLock if self.sum > 0.0 => (self.sum + up).max(0.0),
            // What ends the run for coming down begins one for going up, if there is anything above.
            Rung::RowLock if self.sum + down > 0.0 => {
                if may_lease {
                    up.max(0.0)
                } else {
                    0.0
                }
            }
            Rung::RowLock => self.sum + down,
            Rung::Lease => (self.sum + down).min(0.0),
        };
        let goes_on = self.sum == 0.0 || (sum > 0.0) == (self.sum > 0.0);
        let tries = if goes_on { self.tries + weight } else { weight };
        *self = if sum == 0.0 { Self::default() } else { Self { sum, tries } };
    }

    /// Whether it is enough for going up.
    pub(super) fn leads_up(&self) -> bool {
        self.sum >= EXCESS_UP
    }

    /// Whether it is enough for coming down.
    pub(super) fn leads_down(&self) -> bool {
        -self.sum >= LACK_DOWN
    }

    /// Forgets what is more than needed, so that a long quiet time under a long dwell does not outweigh what comes after
    /// it. The share of contended tries stays the same.
    pub(super) fn keep_to_needed(&mut self) {
        let kept = self.sum.clamp(-LACK_DOWN, EXCESS_UP);
        if kept != self.sum {
            self.tries *= kept / self.sum;
            self.sum = kept;
        }
    }

    /// Tries of the run.
    pub(super) fn tries(&self) -> f32 {
        self.tries
    }

    /// Contended tries of the run.
    pub(super) fn contended(&self, rung: Rung, threshold: Threshold) -> f32 {
        let measure = if self.sum > 0.0 { threshold.counted_from(rung) } else { threshold.quiet_below(rung) };
        (measure * self.tries + self.sum).clamp(0.0, self.tries)
    }

    /// How much of what is needed is there, 0 to 1.
    pub(super) fn share(&self) -> f32 {
        (self.sum / EXCESS_UP).max(-self.sum / LACK_DOWN).min(1.0)
    }

    /// The rung that it leads to; none: there is none.
    pub(super) fn leads_to(&self, rung: Rung) -> Option<Rung> {
        match self.sum {
            sum if sum > 0.0 => Some(rung.above()),
            sum if sum < 0.0 => Some(rung.below()),
            _ => None,
        }
    }

    /// Quiet tries that are still missing until a key comes down, if none is contended.
    pub(super) fn tries_missing(&self, rung: Rung, threshold: Threshold) -> f32 {
        let ending = if self.sum > 0.0 { self.sum / threshold.counted_from(rung) } else { 0.0 };
        ending + (LACK_DOWN + self.sum.min(0.0)).max(0.0) / threshold.quiet_below(rung)
    }
}
