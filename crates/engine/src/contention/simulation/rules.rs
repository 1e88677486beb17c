//! The rule, and two that were not taken.

use std::collections::VecDeque;

use crate::contention::now::Tick;
use crate::contention::slot::Slot;
use crate::contention::tests::{CONTENDED, QUIET};
use crate::contention::threshold::Threshold;

/// Decides on the rung, try by try; goes up above 5 %.
pub(super) trait Rule {
    /// Takes note of a try, and adds the times of the switches that it makes known.
    fn report(&mut self, contended: bool, seconds: f64, switches: &mut Vec<f64>);
}

/// What the engine uses.
pub(super) struct Ours {
    slot: Slot,
    threshold: Threshold,
}

impl Ours {
    pub(super) fn new(escalate_above: f64) -> Self {
        Self { slot: Slot::default(), threshold: Threshold::new(escalate_above) }
    }
}

impl Rule for Ours {
    fn report(&mut self, contended: bool, seconds: f64, switches: &mut Vec<f64>) {
        // Plain, because a debug build is slow at iterators and this is called ten million times.
        let [earlier, _, later] =
            self.slot.report(self.threshold, 0, if contended { &CONTENDED } else { &QUIET }, Tick::at_seconds(seconds));
        if let Some(change) = earlier {
            switches.push(change.at.seconds());
        }
        if let Some(change) = later {
            switches.push(change.at.seconds());
        }
    }
}

/// More than 5 % of the last 20 tries: up; less than 2 %: down.
#[derive(Default)]
pub(super) struct LastTwenty {
    tries: VecDeque<bool>,
    up: bool,
}

impl Rule for LastTwenty {
    fn report(&mut self, contended: bool, seconds: f64, switches: &mut Vec<f64>) {
        self.tries.push_back(contended);
        if self.tries.len() > 20 {
            self.tries.pop_front();
        }
        let share = self.tries.iter().filter(|contended| **contended).count() as f64 / 20.0;
        let up = if self.up { share >= 0.02 } else { share > 0.05 };
        if up != self.up {
            switches.push(seconds);
        }
        self.up = up;
    }
}

/// First proposed: decayed counts of 30 s, c / (a + weight) above 5 %: up; below 2 % for 15 s, after a dwell: down.
pub(super) struct DecayedShare {
    weight: f64,
    tries: f64,
    contended: f64,
    last: f64,
    up: bool,
    since: f64,
    quiet_since: Option<f64>,
    dwell: f64,
}

impl DecayedShare {
    pub(super) fn new(weight: f64) -> Self {
        let (tries, contended, last, since) = (0.0, 0.0, 0.0, f64::NEG_INFINITY);
        Self { weight, tries, contended, last, up: false, since, quiet_since: None, dwell: 30.0 }
    }
}

impl Rule for DecayedShare {
    fn report(&mut self, contended: bool, seconds: f64, switches: &mut Vec<f64>) {
        let left = (-(seconds - self.last) / 30.0).exp();
        self.last = seconds;
        self.tries = self.tries * left + 1.0;
        self.contended = self.contended * left + f64::from(u8::from(contended));
        let score = self.contended / (self.tries + self.weight);
        let quiet_since = (score < 0.02).then(|| self.quiet_since.unwrap_or(seconds));
        self.quiet_since = quiet_since;
        let up = match quiet_since {
            _ if !self.up => score > 0.05,
            Some(quiet) => seconds - quiet < 15.0 || seconds - self.since < self.dwell,
            None => true,
        };
        if up == self.up {
            return;
        }
        if up {
            self.dwell = if seconds - self.since < 300.0 { (self.dwell * 2.0).min(600.0) } else { 30.0 };
        }
        (self.up, self.since) = (up, seconds);
        switches.push(seconds);
    }
}
