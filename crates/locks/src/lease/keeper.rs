//! What is done about a lease, and when: the state machine behind every [`super::Lease`]. No I/O, no clock, no task: it is
//! told what happened and says what to do, so that all that can happen in whatever order can be explored (`explored`).
//!
//! Invariants:
//! - A lease is held from a grant in time until `valid_until`, which counts from before the request that was answered.
//! - Released and lost are terminal: nothing renews after that, and no answer that comes later changes it.
//! - One call is under way at a time. Whoever stops waiting for an ask bars it, so that it gets nothing any more.
//! - Whatever may be held on the server is given back, again and again until that is confirmed or it has expired there.

use std::time::Duration;

use crate::{AcquireError, Grant, Moment, Release, RenewError, Renewal, Unconfirmed, place_kept};

/// A call to the service is under way; its answer is to be told by [`Keeper::answered`], unless it is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    /// Ask, and wait so long for it.
    Ask { wait: Duration },
    /// Renew.
    Renew,
    /// Give back.
    End { bar: bool },
}

/// The answer to a call.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Ask(Result<Grant, AcquireError>),
    Renew(Result<Renewal, RenewError>),
    End(Result<Release, Unconfirmed>),
}

/// What whoever has the lease is to be told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum News {
    /// It is held.
    Granted {
        fences: Vec<Option<i64>>,
        valid_until: Moment,
        /// Renewals do not move its end beyond this.
        hold_until: Option<Moment>,
    },
    /// It is not to be had.
    Refused(AcquireError),
    /// It is held until then.
    Renewed { valid_until: Moment },
    /// It is held no more.
    Lost(LossCause),
    /// What became of a release; none: that is not known.
    Ended(Option<Release>),
}

/// Why a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossCause {
    /// It could not be renewed in time: the service did not answer, or this process stood still.
    Expired,
    /// The service says that it is not held any more: it was released by force, or had expired there.
    Taken,
    /// It was held for as long as it may be.
    MaxHold,
}

/// How an acquisition goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Plan {
    /// How long the lease lives from each grant and renewal.
    pub(crate) ttl: Duration,
    /// How long it is waited for.
    pub(crate) wait: Duration,
    /// How long it may be held at most, renewals and all.
    pub(crate) max_hold: Option<Duration>,
    /// The part of each backoff that is waited, from a half to 1: so that many do not try again at the same moment.
    pub(crate) jitter_percent: u32,
}

/// What is to be done next.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// Whether the call that is under way is to be dropped.
    pub(crate) drop_call: bool,
    /// A call to be made.
    pub(crate) call: Option<Call>,
    /// When to step again at the latest.
    pub(crate) until: Moment,
    /// What is to be told, in order.
    pub(crate) news: Vec<News>,
}

/// The state of one lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Keeper {
    plan: Plan,
    begun: Moment,
    phase: Phase,
    under_way: Option<Call>,
    /// A call was dropped, or its answer was lost, so that it may still take effect.
    unsure: bool,
    failures: u32,
    not_before: Moment,
    /// A renewal that is not answered by then is given up, and another sent.
    renewal_until: Moment,
    drop_call: bool,
    news: Vec<News>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Asking { trouble: Option<AcquireError> },
    Held { valid_until: Moment, renew_at: Moment, hold_until: Option<Moment> },
    Ending { give_up_at: Moment, in_time: bool, told: bool },
    Over,
}

/// An ask that is not answered is given up so long after its wait is over: a slow answer is waited for, a dead server is
/// not.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// The first pause after a failure; doubled with each further one.
const BACKOFF: Duration = Duration::from_millis(50);

/// The longest pause.
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// Polls of leases that live for less than thrice this are this long: shorter ones would only be round trips.
const POLL_MIN: Duration = Duration::from_millis(10);

impl Keeper {
    pub(crate) fn new(plan: Plan, now: Moment) -> Self {
        Self {
            plan,
            begun: now,
            phase: Phase::Asking { trouble: None },
            under_way: None,
            unsure: false,
            failures: 0,
            not_before: now,
            renewal_until: now,
            drop_call: false,
            news: Vec::new(),
        }
    }

    /// Whether nothing is left to be done.
    pub(crate) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// What is to be done at `now`.
    pub(crate) fn step(&mut self, now: Moment) -> Step {
        self.pass_time(now);
        self.give_up_renewal(now);
        let call = if self.under_way.is_none() && now >= self.not_before { self.next_call(now) } else { None };
        if let (Some(Call::Renew), Phase::Held { valid_until, .. }) = (call, &self.phase) {
            self.renewal_until = now + valid_until.since(now) / 3;
        }
        self.under_way = self.under_way.or(call);
        Step {
            drop_call: std::mem::take(&mut self.drop_call),
            call,
            until: self.wakes_at(),
            news: std::mem::take(&mut self.news),
        }
    }

    /// What came of the call that was under way.
    pub(crate) fn answered(&mut self, answer: Answer, now: Moment) {
        self.under_way = None;
        match answer {
            Answer::Ask(result) => self.asked(result, now),
            Answer::Renew(result) => self.renewed(result, now),
            Answer::End(result) => self.ended(result, now),
        }
    }

    /// Whoever wanted the lease does not any more, or releases it.
    pub(crate) fn give_back(&mut self, now: Moment) {
        self.pass_time(now);
        self.news.retain(|news| !matches!(news, News::Renewed { .. }));
        match self.phase {
            Phase::Asking { .. } => self.end(now, false, true),
            Phase::Held { .. } => self.end(now, true, false),
            Phase::Ending { .. } | Phase::Over => {}
        }
    }

    /// What follows from the time alone.
    fn pass_time(&mut self, now: Moment) {
        match &mut self.phase {
            Phase::Asking { trouble } if now >= self.begun + self.plan.wait + ANSWER_WAIT => {
                let silent = || AcquireError::Unavailable("it gave no answer".to_owned());
                let trouble = trouble.take().unwrap_or_else(silent);
                self.news.push(News::Refused(trouble));
                self.end(now, false, true);
            }
            Phase::Held { valid_until, hold_until, .. } if now >= *valid_until => {
                let cause = if hold_until.is_some_and(|until| until <= *valid_until) {
                    LossCause::MaxHold
                } else {
                    LossCause::Expired
                };
                self.news.push(News::Lost(cause));
                self.end(now, false, true);
            }
            Phase::Ending { give_up_at, told, .. } if now >= *give_up_at => {
                if !*told {
                    self.news.push(News::Ended(None));
                }
                self.over();
            }
            _ => {}
        }
    }

    /// One silent connection does not cost the lease: there is time for others.
    fn give_up_renewal(&mut self, now: Moment) {
        let renewing = self.under_way == Some(Call::Renew) && matches!(self.phase, Phase::Held { .. });
        if renewing && now >= self.renewal_until {
            self.under_way = None;
            self.drop_call = true;
            self.back_off(now);
        }
    }

    fn next_call(&self, now: Moment) -> Option<Call> {
        match &self.phase {
            Phase::Asking { .. } => {
                let left = (self.begun + self.plan.wait).since(now);
                Some(Call::Ask { wait: left.min((self.plan.ttl / 3).max(POLL_MIN)) })
            }
            Phase::Held { renew_at, hold_until, .. } => {
                let may = hold_until.is_none_or(|until| now < until);
                (may && now >= *renew_at).then_some(Call::Renew)
            }
            Phase::Ending { .. } => Some(Call::End { bar: self.unsure }),
            Phase::Over => None,
        }
    }

    fn wakes_at(&self) -> Moment {
        let idle = self.under_way.is_none();
        match self.phase {
            Phase::Asking { .. } if idle => self.not_before,
            Phase::Asking { .. } => self.begun + self.plan.wait + ANSWER_WAIT,
            Phase::Held { valid_until, renew_at, hold_until } if idle => {
                let renews_at = renew_at.max(self.not_before);
                if hold_until.is_none_or(|until| renews_at < until) { valid_until.min(renews_at) } else { valid_until }
            }
            Phase::Held { valid_until, .. } => valid_until.min(self.renewal_until),
            Phase::Ending { give_up_at, .. } if idle => give_up_at.min(self.not_before),
            Phase::Ending { give_up_at, .. } => give_up_at,
            Phase::Over => self.begun,
        }
    }

    fn asked(&mut self, result: Result<Grant, AcquireError>, now: Moment) {
        if !matches!(self.phase, Phase::Asking { .. }) {
            return;
        }
        let patient = now < self.begun + self.plan.wait;
        match result {
            Ok(grant) if now < grant.valid_until() => self.granted(grant, now),
            // The answer took longer than the lease lives. Asked again, it is granted again.
            Ok(_) => {
                let late = "its grant took longer to arrive than the lease lives: use a longer time to live";
                self.failed_to_ask(AcquireError::Unavailable(late.to_owned()), patient, now);
            }
            Err(AcquireError::LockTimeout { .. }) if patient => self.failures = 0,
            // At its end a wait is one last look.
            Err(AcquireError::LockTimeout { held_by, .. } | AcquireError::Held(held_by))
                if !self.plan.wait.is_zero() =>
            {
                let waited = now.since(self.begun);
                self.news.push(News::Refused(AcquireError::LockTimeout { waited, held_by }));
                // The place in the queue is of no more use.
                self.end(now, false, true);
            }
            Err(error @ AcquireError::Unavailable(_)) => self.failed_to_ask(error, patient, now),
            Err(error) => {
                self.news.push(News::Refused(error));
                if self.unsure { self.end(now, false, true) } else { self.over() }
            }
        }
    }

    fn granted(&mut self, grant: Grant, now: Moment) {
        // Not from when it was asked for: that may have been a wait ago.
        let hold_until = self.plan.max_hold.map(|most| now + most);
        let valid_until = capped(grant.valid_until(), hold_until);
        // One that had waited may have been granted less than its time to live.
        let renew_at = grant.asked + self.plan.ttl.min(grant.usable) / 3;
        self.failures = 0;
        self.not_before = grant.asked;
        self.phase = Phase::Held { valid_until, renew_at, hold_until };
        self.news.push(News::Granted { fences: grant.fences, valid_until, hold_until });
    }

    fn failed_to_ask(&mut self, error: AcquireError, patient: bool, now: Moment) {
        self.unsure = true;
        if patient {
            self.phase = Phase::Asking { trouble: Some(error) };
            self.back_off(now);
        } else {
            self.news.push(News::Refused(error));
            self.end(now, false, true);
        }
    }

    fn renewed(&mut self, result: Result<Renewal, RenewError>, now: Moment) {
        let Phase::Held { valid_until, renew_at, hold_until } = &mut self.phase else { return };
        match result {
            Ok(renewal) => {
                *valid_until = capped((*valid_until).max(renewal.valid_until()), *hold_until);
                *renew_at = renewal.asked + self.plan.ttl / 3;
                self.failures = 0;
                self.news.push(News::Renewed { valid_until: *valid_until });
            }
            Err(RenewError::Lost { .. }) => {
                self.news.push(News::Lost(LossCause::Taken));
                // Nothing is held any more; but of an ask that was given up nobody knows.
                if self.unsure { self.end(now, false, true) } else { self.over() }
            }
            Err(RenewError::Unavailable(_)) => self.back_off(now),
        }
    }

    fn ended(&mut self, result: Result<Release, Unconfirmed>, now: Moment) {
        let Phase::Ending { in_time, told, .. } = self.phase else { return };
        match result {
            Ok(release) => {
                // Sent again because the first answer was lost, and it was held when that was sent: so either the first
                // gave it back, or it has expired since, when nobody relied on it any more.
                let ours = self.failures > 0 && in_time;
                let release = match release {
                    Release::AlreadyLost { since: None } if ours => Release::Released,
                    other => other,
                };
                if !told {
                    self.news.push(News::Ended(Some(release)));
                }
                self.over();
            }
            Err(Unconfirmed(_)) => self.back_off(now),
        }
    }

    /// Gives back what may be held. `in_time`: it is held until now. `silently`: nobody waits for what comes of it.
    fn end(&mut self, now: Moment, in_time: bool, silently: bool) {
        if let Some(call) = self.under_way.take() {
            self.drop_call = true;
            self.unsure |= matches!(call, Call::Ask { .. });
        }
        self.failures = 0;
        self.not_before = now;
        // By then it has expired, and the place in the queue has lapsed.
        let give_up_at = now + self.plan.ttl.max(place_kept(self.plan.ttl));
        self.phase = Phase::Ending { give_up_at, in_time, told: silently };
    }

    fn over(&mut self) {
        self.under_way = None;
        self.phase = Phase::Over;
    }

    fn back_off(&mut self, now: Moment) {
        let doubled = BACKOFF.saturating_mul(1 << self.failures.min(16)).min(BACKOFF_MAX);
        self.failures = self.failures.saturating_add(1);
        // A short lease has no time for long pauses.
        let pause = doubled.min(self.plan.ttl / 10).max(Duration::from_millis(1));
        self.not_before = now + pause * self.plan.jitter_percent.clamp(50, 100) / 100;
    }
}

fn capped(moment: Moment, most: Option<Moment>) -> Moment {
    most.map_or(moment, |most| moment.min(most))
}
