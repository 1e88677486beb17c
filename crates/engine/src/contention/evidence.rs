//! What has been gathered for leaving the present rung: a cumulative sum that never falls below zero (Page's CUSUM).

use super::switch::Rung;
use super::threshold::Threshold;

/// Contended tries, beyond what the threshold allows, that bring a key up. By Wald's inequality a key at 2 % (of 5 %)
/// collects so many by chance with a probability of e^(-1.26 x 16) = 2e-9 per run: once in decades. The margin is for
/// contended tries that come in clumps, as a lost one is often lost again: in pairs they are half as many proofs.
const EXCESS_UP: f32 = 16.0;

/// Contended tries that must be missing from what the threshold calls quiet before a key comes down: 400 tries without
/// any at 2 %. A key at 3 % lacks so many once in 125,000 tries, one at 5 % practically never.
const LACK_DOWN: f32 = 8.0;

/// A run of tries that speaks for leaving the rung. It starts anew whenever its sum falls to zero, so what was long ago
/// neither delays nor hastens anything.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence {
    sum: f32,
    tries: f32,
}

impl Evidence {
    /// Adds a try that counts as `weight` tries. Without a threshold it says nothing about going up, not even that it
    /// need not be: the tries of one key may be of commands with different strategies.
    pub(super) fn add(&mut self, rung: Rung, threshold: Threshold, contended: bool, weight: f32) {
        if rung == Rung::Optimistic && threshold.is_off() {
            return;
        }
        let contended = if contended { 1.0 } else { 0.0 };
        self.sum += weight
            * match rung {
                Rung::Optimistic => contended - threshold.counted_from(),
                Rung::RowLock => threshold.quiet_below() - contended,
            };
        if self.sum > 0.0 {
            self.tries += weight;
        } else {
            *self = Self::default();
        }
    }

    pub(super) fn suffices(&self, rung: Rung) -> bool {
        self.sum >= Self::needed(rung)
    }

    /// Forgets what is more than needed, so that a long quiet time under a long dwell does not outweigh what comes after
    /// it. The share of contended tries stays the same.
    pub(super) fn keep_to_needed(&mut self, rung: Rung) {
        let needed = Self::needed(rung);
        if self.sum > needed {
            self.tries *= needed / self.sum;
            self.sum = needed;
        }
    }

    /// Tries of the run.
    pub(super) fn tries(&self) -> f32 {
        self.tries
    }

    /// Contended tries of the run.
    pub(super) fn contended(&self, rung: Rung, threshold: Threshold) -> f32 {
        let contended = match rung {
            Rung::Optimistic => threshold.counted_from() * self.tries + self.sum,
            Rung::RowLock => threshold.quiet_below() * self.tries - self.sum,
        };
        contended.clamp(0.0, self.tries)
    }

    /// How much of what is needed is there, 0 to 1.
    pub(super) fn share(&self, rung: Rung) -> f32 {
        (self.sum / Self::needed(rung)).min(1.0)
    }

    /// Quiet tries that are still missing until a key comes down, if none is contended.
    pub(super) fn tries_missing(&self, threshold: Threshold) -> f32 {
        (LACK_DOWN - self.sum).max(0.0) / threshold.quiet_below()
    }

    fn needed(rung: Rung) -> f32 {
        match rung {
            Rung::Optimistic => EXCESS_UP,
            Rung::RowLock => LACK_DOWN,
        }
    }
}
