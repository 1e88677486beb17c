//! Contention control: which keys commit under a row lock or a lease because other nodes write them too. Pure: no I/O, no clock, no
//! task; the engine reports each try and asks for the rung.
//!
//! # The rule
//!
//! Each key is on one of three rungs, and gathers evidence for leaving it ([`evidence`]), one try at a time:
//!
//! - on [`Rung::Optimistic`] the sum grows by what a try is contended (0 or 1) beyond 0.8 x `escalate_above`. At
//!   16 it goes up; on retry exhaustion it goes up at once;
//! - on [`Rung::RowLock`] the sum grows by what a try is less contended than 0.4 x `escalate_above`. At 8 it comes
//!   down, but not before its dwell of 30 s; and it comes down when no try was contended for five minutes, which covers
//!   idle and slow keys. Going up again within five minutes doubles the dwell, to ten minutes at most;
//! - from the row lock it goes up to [`Rung::Lease`], where the definition names a lock, by the same rule against ten times
//!   the threshold (50 % at most): contended are now waits for the row. From there it comes down to the row lock by the
//!   same rule against 0.4 x that, after the same dwell: contended are waits for the lease. It comes down at once when the
//!   lock service is gone, and then stays on the row lock for the dwell;
//! - a sum never falls below zero, and tries beyond 20 a second count in proportion.
//!
//! So for the default threshold: at 5 % and more a key goes up and stays, at 2 % and less it never does, and in between
//! it mostly stays where it is. On average it takes 100 tries to go up at 20 %, 270 at 10 % and 1,600 at 5 %. Contention
//! shows on both rungs (a lost write, a wait for the row lock), so there is no probing. All that is due by time follows
//! from the last report ([`slot`]), so nothing has to run in between.
//!
//! # Why not a decayed share
//!
//! First proposed was `c / (a + 40) > 5 %` with decayed counts of 30 s. Simulated (`simulation` repeats it), it takes a
//! key at 2 % up in 1 to 6 of 100 runs of ten minutes at 1 to 10 tries a second, and one at 4 % up and down again up to
//! seven times in ten minutes, for thirty tries cannot tell these apart; a weight that silences this (240 in place of
//! 40) does not find 20 % at one try a second. Evidence has to be counted in tries, not in seconds. This is what Page's
//! cumulative sum does, a sequence of Wald's sequential tests: its false alarms have a bound, and of all rules with that
//! bound it needs the fewest tries in the worst case (Lorden). It is no more work: an addition beside the decayed count.
//!
//! Sources: A. Wald, Sequential Tests of Statistical Hypotheses, Ann. Math. Statist. 16 (1945); E. S. Page, Continuous
//! Inspection Schemes, Biometrika 41 (1954); G. Lorden, Procedures for Reacting to a Change in Distribution, Ann. Math.
//! Statist. 42 (1971); for shares of single tries: M. R. Reynolds and Z. G. Stoumbos, A CUSUM Chart for Monitoring a
//! Proportion When Inspecting Continuously, J. Quality Technology 31 (1999).

use std::hash::Hash;
use std::time::Duration;

mod attempt;
mod evidence;
mod explanation;
mod figures;
pub(crate) mod hot_key;
mod now;
mod slot;
mod slots;
mod stories;
mod switch;
mod threshold;
mod warning;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub(crate) use attempt::Try;
pub use explanation::{Explanation, Wait, Waits};
pub(crate) use now::Now;
pub use switch::{Reason, Rung, Switch};
pub use warning::Warning;

use explanation::rounded;
use slots::{Place, Slots};
use stories::Stories;
use threshold::Threshold;

/// The rungs of all keys of a node. Keys whose hashes collide share a rung, which costs speed and nothing else.
pub(crate) struct Contention<K> {
    slots: Slots,
    stories: Stories<K>,
}

impl<K: Hash + Eq + Clone> Contention<K> {
    /// All keys optimistic.
    pub(crate) fn new() -> Self {
        Self { slots: Slots::new(), stories: Stories::new() }
    }

    /// The rung for the next try of `key`. To be asked anew for each try; it changes nothing.
    pub(crate) fn rung(&self, key: &K, now: Now) -> Rung {
        self.slots.read(Place::of(key)).map_or(Rung::Optimistic, |slot| slot.rung_at(now.tick()))
    }

    /// Takes note of a try of `key`, and tells the switches that became known by it, in order: mostly none, at most three (a
    /// key that came down unnoticed, twice, and now goes up again). With a collision they may be another key's.
    /// `escalate_above` is the workflow's threshold, from 0 to 1; 1 means that only retry exhaustion leads up.
    pub(crate) fn report(&self, key: &K, escalate_above: f64, attempt: &Try, now: Now) -> Vec<Switch<K>> {
        let place = Place::of(key);
        let (threshold, tick) = (Threshold::new(escalate_above), now.tick());
        let changes = self.slots.write(place, |slot| slot.report(threshold, place.owner, attempt, tick));
        changes.into_iter().flatten().map(|change| self.stories.record(place, key, change, now)).collect()
    }

    /// The lock service is gone: `key` comes down from the lease, if it is there.
    pub(crate) fn lose_locks(&self, key: &K, now: Now) -> Option<Switch<K>> {
        let place = Place::of(key);
        // Mostly it is not there, and then no page is to be made for it.
        self.slots.read(place).filter(|slot| slot.rung_at(now.tick()) == Rung::Lease)?;
        let change = self.slots.write(place, |slot| slot.lose_locks(now.tick()))?;
        Some(self.stories.record(place, key, change, now))
    }

    /// All that is known of `key`.
    pub(crate) fn explain(&self, key: &K, now: Now) -> Explanation<K> {
        let place = Place::of(key);
        let slot = self.slots.read(place);
        let unnoticed = slot.map_or([None, None], |slot| slot.unnoticed(now.tick()));
        let (switches, others_switched) = self.stories.of(place, key, unnoticed, now);
        let reported = slot.is_some_and(|slot| slot.is_used());
        let view = slot.unwrap_or_default().view(now.tick());
        let (reason, at) = view.last.unzip();
        let dated = switches.last().filter(|last| last.to == view.rung).map(|last| last.at);
        let score = if view.tries > 0.0 { view.contended / view.tries } else { 0.0 };
        let others_reported = reported && view.owner != place.owner;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Explanation {
            rung: view.rung,
            since: dated.or(at.map(|at| now.wall_at(at))),
            reason,
            score: rounded(score),
            tries: rounded(view.tries),
            contended: rounded(view.contended),
            escalate_above: reported.then(|| view.threshold.share()),
            evidence: rounded(view.evidence),
            evidence_for: view.evidence_for,
            waits: if others_reported { None } else { view.figures.waits() },
            dwell_left_ms: view.stays.map(|(dwell, _)| millis(dwell)),
            may_come_down_in_ms: view.stays.map(|(_, down)| millis(down)),
            shared_slot: others_switched || others_reported,
            switches,
        }
    }
}
