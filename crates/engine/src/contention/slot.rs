//! What is kept of the keys of one hash.

use std::time::Duration;

use super::attempt::Try;
use super::evidence::Evidence;
use super::figures::Figures;
use super::now::Tick;
use super::switch::{Reason, Rung};
use super::threshold::Threshold;

/// Counts fade to 37 % in this time: long against a burst, short against a person who looks.
const FADING: Duration = Duration::from_secs(30);

/// Tries (as fading count, so 20 a second) of which each counts as one; of more each counts in proportion. Otherwise
/// some milliseconds of bad luck of a key with thousands of tries a second would be evidence. It also means that a busy
/// key must be quiet for 20 s to come down.
const COUNTED_TRIES_MAX: f32 = 600.0;

/// A key stays on the row lock, and on the lease, for so long at least: two switches a minute are the most that one key can cause.
const DWELL: Duration = Duration::from_secs(30);

/// The dwell is doubled no further than this: ten minutes on the row lock cost little, an hour would look stuck.
const DWELL_MAX: Duration = Duration::from_secs(600);

/// Going up again so soon after coming down doubles the dwell.
const AGAIN: Duration = Duration::from_secs(300);

/// Without a contended try for so long a key comes down however few its tries were, idle keys among them. A key at 5 %
/// with one try a second is so lucky with a probability of 2e-7.
const QUIET: Duration = Duration::from_secs(300);

/// Evidence for going up is dropped when there was no try for so long: it is of another day.
const STALE: Duration = Duration::from_secs(300);

/// Reports that another key needs to take over the figures of a slot.
const CLAIM_MAX: u8 = 8;

/// One cache line, in which the keys of one hash share a rung.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot {
    /// The last report.
    last: Tick,
    /// The last switch.
    since: Tick,
    /// The last contended try, or going up.
    contended_at: Tick,
    /// Fading count of tries at `last`.
    tries: f32,
    /// Fading count of contended tries at `last`.
    contended: f32,
    evidence: Evidence,
    figures: Figures,
    threshold: Threshold,
    /// Whose figures these are: the key with most of the reports, found by a majority vote (Boyer and Moore).
    owner: u16,
    claim: u8,
    rung: Rung,
    /// Of the last switch.
    reason: Option<Reason>,
    /// How often the dwell is doubled.
    doublings: u8,
}

const _: () = assert!(size_of::<Slot>() <= 64, "a slot is one cache line");

/// A switch, before it is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) at: Tick,
    pub(super) from: Rung,
    pub(super) to: Rung,
    pub(super) reason: Reason,
    pub(super) tries: f32,
    pub(super) contended: f32,
    pub(super) threshold: Threshold,
    pub(super) dwell: Duration,
}

/// What a slot shows at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) rung: Rung,
    /// The last switch; none if there was none.
    pub(super) last: Option<(Reason, Tick)>,
    pub(super) tries: f32,
    pub(super) contended: f32,
    pub(super) evidence: f32,
    pub(super) evidence_for: Option<Rung>,
    pub(super) threshold: Threshold,
    pub(super) figures: Figures,
    pub(super) owner: u16,
    /// On the row lock or the lease: the rest of the dwell, and the time until it comes down if nothing more is contended.
    pub(super) stays: Option<(Duration, Duration)>,
}

impl Slot {
    /// Takes note of a try, and switches if that is due. At most three switches: two coming down that were due before, and
    /// one more.
    pub(super) fn report(&mut self, threshold: Threshold, owner: u16, attempt: &Try, now: Tick) -> [Option<Change>; 3] {
        let now = now.max(self.last);
        self.threshold = threshold;
        let [first, second] = self.come_down_to_now(now);
        self.count(owner, attempt, now);
        let up = match self.rung {
            Rung::Optimistic if attempt.exhausted => Some(Reason::Exhausted),
            Rung::Optimistic if self.evidence.leads_up() => Some(Reason::Score),
            Rung::RowLock if self.evidence.leads_up() && self.may_lease(attempt, now) => Some(Reason::Score),
            _ => None,
        };
        let last = match up {
            Some(reason) => Some(self.go_up(reason, now)),
            None => self.come_down(now),
        };
        self.evidence.keep_to_needed();
        [first, second, last]
    }

    /// The lock service is gone: down from the lease.
    pub(super) fn lose_locks(&mut self, now: Tick) -> Option<Change> {
        let now = now.max(self.last);
        (self.rung_at(now) == Rung::Lease).then(|| self.switch(Rung::RowLock, Reason::LocksGone, now))
    }

    /// The rung at `now`, which a key may have come down to since the last report.
    pub(super) fn rung_at(mut self, now: Tick) -> Rung {
        // Mostly nothing is due.
        if self.due(now).is_some() {
            self.come_down_to_now(now);
        }
        self.rung
    }

    /// What is due at `now` and was not yet noticed.
    pub(super) fn unnoticed(mut self, now: Tick) -> [Option<Change>; 2] {
        self.come_down_to_now(now)
    }

    /// All that can be told at `now`.
    pub(super) fn view(mut self, now: Tick) -> View {
        self.come_down_to_now(now);
        let left = fading(now.since(self.last));
        self.figures.fade(left);
        View {
            rung: self.rung,
            last: self.reason.map(|reason| (reason, self.since)),
            tries: self.tries * left,
            contended: self.contended * left,
            evidence: self.evidence.share(),
            evidence_for: self.evidence.leads_to(self.rung),
            threshold: self.threshold,
            figures: self.figures,
            owner: self.owner,
            stays: (self.rung != Rung::Optimistic).then(|| self.stays(left, now)),
        }
    }

    /// Whether a key was ever reported here.
    pub(super) fn is_used(&self) -> bool {
        self.tries > 0.0
    }

    /// Whether a try may lead up to the lease; after the lock service was gone, not before the dwell is over.
    fn may_lease(&self, attempt: &Try, now: Tick) -> bool {
        attempt.may_lease && (self.reason != Some(Reason::LocksGone) || now >= self.dwell_over())
    }

    fn dwell(&self) -> Duration {
        (DWELL * 2_u32.saturating_pow(u32::from(self.doublings))).min(DWELL_MAX)
    }

    fn dwell_over(&self) -> Tick {
        self.since.after(self.dwell())
    }

    /// When the key comes down, or came down, if it has by `now`. It follows from the last report and the time alone,
    /// so it does not matter how often anybody asks.
    fn due(&self, now: Tick) -> Option<Tick> {
        if self.rung == Rung::Optimistic {
            return None;
        }
        let quiet = if self.evidence.leads_down() { self.last } else { self.contended_at.after(QUIET) };
        let at = quiet.max(self.dwell_over());
        (at <= now).then_some(at)
    }

    fn come_down(&mut self, now: Tick) -> Option<Change> {
        let at = self.due(now)?;
        Some(self.switch(self.rung.below(), Reason::Quiet, at))
    }

    /// There are two rungs to come down from.
    fn come_down_to_now(&mut self, now: Tick) -> [Option<Change>; 2] {
        let first = self.come_down(now);
        let second = if first.is_some() { self.come_down(now) } else { None };
        [first, second]
    }

    fn go_up(&mut self, reason: Reason, now: Tick) -> Change {
        let came_down = self.reason.is_some_and(|last| !last.is_up());
        let again = came_down && now.since(self.since) <= AGAIN;
        self.doublings = match (again, self.rung) {
            (true, _) if self.dwell() < DWELL_MAX => self.doublings + 1,
            // Two steps up are one climb.
            (true, _) | (false, Rung::RowLock) => self.doublings,
            (false, _) => 0,
        };
        self.contended_at = now;
        self.switch(self.rung.above(), reason, now)
    }

    fn switch(&mut self, to: Rung, reason: Reason, at: Tick) -> Change {
        let (from, threshold) = (self.rung, self.threshold);
        let (tries, contended) = (self.evidence.tries(), self.evidence.contended(from, threshold));
        self.evidence = Evidence::default();
        (self.rung, self.reason, self.since) = (to, Some(reason), at);
        Change { at, from, to, reason, tries, contended, threshold, dwell: self.dwell() }
    }

    fn count(&mut self, owner: u16, attempt: &Try, now: Tick) {
        let contended = attempt.contended || attempt.exhausted;
        let silence = now.since(self.last);
        let left = fading(silence);
        self.tries = self.tries * left + 1.0;
        self.contended = self.contended * left + if contended { 1.0 } else { 0.0 };
        self.figures.fade(left);
        if self.claims(owner) {
            self.figures.add(attempt, self.tries);
        }
        if contended {
            self.contended_at = now;
        }
        if silence >= STALE {
            self.evidence = Evidence::default();
        }
        let weight = (COUNTED_TRIES_MAX / self.tries).min(1.0);
        self.evidence.add(self.rung, self.threshold, (contended, attempt.may_lease), weight);
        self.last = now;
    }

    /// Whether the figures are those of `owner`.
    fn claims(&mut self, owner: u16) -> bool {
        if self.claim == 0 {
            (self.owner, self.figures) = (owner, Figures::default());
        }
        let mine = self.owner == owner;
        self.claim = if mine { (self.claim + 1).min(CLAIM_MAX) } else { self.claim - 1 };
        mine
    }

    fn stays(&self, left: f32, now: Tick) -> (Duration, Duration) {
        let dwell = self.dwell_over().since(now);
        let quiet = self.contended_at.after(QUIET).since(now);
        // Tries a second that count, as they are now.
        let rate = (self.tries * left).min(COUNTED_TRIES_MAX) / FADING.as_secs_f32();
        let proven = self.evidence.tries_missing(self.rung, self.threshold) / rate;
        let proven = Duration::try_from_secs_f32(proven).unwrap_or(Duration::MAX);
        (dwell, dwell.max(quiet.min(proven)))
    }
}

/// What is left of a fading count after `time`.
fn fading(time: Duration) -> f32 {
    if time.is_zero() { 1.0 } else { (-time.as_secs_f32() / FADING.as_secs_f32()).exp() }
}
