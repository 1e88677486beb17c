//! The lock service over leases that are changed by requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_store::lease::{
    Ask, Asked, Ended, Forced, GrantedAhead, HeldBy, Holder, LeaseAnswer, LeaseId, LeasePage, LeaseQuery, LeaseRequest,
    Renewed,
};
use tokio_util::sync::CancellationToken;

use crate::deadlocks::{self, DEADLOCK_SCAN_DEFAULT};
use crate::recent::Recent;
use crate::service::PLACE_KEPT_MAX;
use crate::{
    AcquireError, Clock, Grant, Leases, LockService, Moment, Release, RenewError, Renewal, SystemClock, Unavailable,
    Unconfirmed, place_kept, usable,
};

/// Settings of a lock service.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// The clock that callers judge their leases by.
    pub clock: Arc<dyn Clock>,
    /// How often deadlocks are looked for, where they can be.
    pub deadlock_scan: Duration,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), deadlock_scan: DEADLOCK_SCAN_DEFAULT }
    }
}

/// A lock service.
pub struct Served<L> {
    leases: Arc<L>,
    options: ServiceOptions,
    released: Recent,
    stopped: CancellationToken,
}

/// The longest time between two asks of one who waits.
const HEARTBEAT_MAX: Duration = Duration::from_secs(10);

/// The shortest: many who wait for short leases do not ask more often than this.
const HEARTBEAT_MIN: Duration = Duration::from_millis(100);

/// How late the next ask of one who waits may be before it is taken for dead.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// For so long at most a place in a queue is kept after an ask: see `acquire`.
pub(crate) const PLACE_MAX: Duration = HEARTBEAT_MAX.saturating_add(PLACE_KEPT_MAX);

/// Before this nothing is looked at again: the granularity of timers.
const PAUSE_MIN: Duration = Duration::from_millis(1);

impl<L: Leases> Served<L> {
    /// A service over these leases. Must be made within a tokio runtime.
    pub fn new(leases: L, options: ServiceOptions) -> Self {
        let (leases, stopped) = (Arc::new(leases), CancellationToken::new());
        tokio::spawn(deadlocks::watch(leases.clone(), options.clone(), stopped.clone()));
        Self { leases, options, released: Recent::default(), stopped }
    }

    /// What it is built on.
    pub fn leases(&self) -> &L {
        &self.leases
    }

    async fn change(&self, request: LeaseRequest) -> Result<LeaseAnswer, Unavailable> {
        if self.stopped.is_cancelled() {
            return Err(Unavailable("it is shut down".to_owned()));
        }
        self.leases.change(request).await
    }

    /// One ask: a grant, or a place in the queue.
    async fn ask(&self, ask: &Ask, keep: Option<Duration>) -> Result<Step, AcquireError> {
        let asked = self.options.clock.now();
        let request = LeaseRequest::Ask { ask: ask.clone(), keep };
        let answer = self.change(request).await.map_err(|Unavailable(detail)| AcquireError::Unavailable(detail))?;
        let LeaseAnswer::Asked(answer) = answer else { return Err(AcquireError::Unavailable(STRANGE.to_owned())) };
        match answer {
            Asked::Granted { fences } => {
                self.released.forget(ask.lease());
                let fences = fences.into_iter().map(Some).collect();
                Ok(Step::Granted(Grant { asked, fences, usable: usable(ask.ttl()) }))
            }
            Asked::Waiting { held_by, look_again, ticket } => {
                let keep = keep.unwrap_or_default();
                Ok(Step::Waiting(Place { held_by, look_again, ticket, asked, keep }))
            }
            Asked::Held(held_by) => Err(AcquireError::Held(Box::new(held_by))),
            Asked::Full { resource, waiters } => Err(AcquireError::Busy { resource, waiters }),
            Asked::Over => Err(AcquireError::Reused { ended: true }),
            Asked::Mismatch => Err(AcquireError::Reused { ended: false }),
            Asked::Deadlock { cycle } => Err(AcquireError::Deadlock { cycle }),
        }
    }
}

/// How long one who waits, and is next or not, sleeps where nobody tells it that there is room: a round trip is little
/// against a wait of seconds, but a thousand of them are not.
fn deaf_pause(is_next: bool) -> Duration {
    Duration::from_millis(if is_next { 250 } else { 2_000 })
}

/// What came of one ask.
enum Step {
    Granted(Grant),
    Waiting(Place),
}

/// A place in the queue.
struct Place {
    held_by: HeldBy,
    look_again: Option<Duration>,
    ticket: i64,
    /// Before it was asked for, and for how long from then it is kept.
    asked: Moment,
    keep: Duration,
}

impl Place {
    /// The grant to who waited here; none: it is not worth using, or was made to the holder of another place, under the
    /// same name. Asked again it lives for longer.
    fn granted(&self, ask: &Ask, ahead: GrantedAhead, now: Moment) -> Option<Grant> {
        // It ends no earlier on the server: see `GrantedAhead`.
        let usable = usable(ask.ttl().min(self.keep));
        let fences: Vec<_> = ahead.fences.into_iter().map(Some).collect();
        let whole = ahead.ticket == self.ticket && fences.len() == ask.claims().len();
        let grant = Grant { asked: self.asked, fences, usable };
        (whole && grant.valid_until().since(now) >= usable / WORTH_USING).then_some(grant)
    }
}

/// The part of its time that a grant ahead has left to be used as it is; it is renewed soon.
const WORTH_USING: u32 = 3;

/// How often one who waits for a lease with this time to live asks again.
fn heartbeat(ttl: Duration) -> Duration {
    (ttl / 3).clamp(HEARTBEAT_MIN, HEARTBEAT_MAX)
}

/// What is told of an answer that makes no sense.
pub(crate) const STRANGE: &str = "the answer was not to what was asked";

#[async_trait]
impl<L: Leases> LockService for Served<L> {
    async fn acquire(&self, ask: &Ask, wait: Duration) -> Result<Grant, AcquireError> {
        if let Some(detail) = self.leases.unsupported(ask) {
            return Err(AcquireError::Unsupported(detail));
        }
        let clock = &*self.options.clock;
        let begun = clock.now();
        let until = begun + wait;
        // Present before the first ask: room that is made in between is heard of.
        let mut presence = self.leases.waiters().enter(ask.lease());
        loop {
            let now: Moment = clock.now();
            let left = until.since(now);
            let pause = left.min(heartbeat(ask.ttl()));
            // Only after the end of the wait is the place kept for long: before, whoever is silent has died.
            let silence = place_kept(ask.ttl());
            let silence = if pause < left { silence.min(SILENCE_MAX) } else { silence };
            let keep = (!wait.is_zero()).then(|| pause + silence);
            let place = match self.ask(ask, keep).await? {
                Step::Granted(grant) => return Ok(grant),
                Step::Waiting(place) => place,
            };
            if left.is_zero() {
                let waited = clock.now().since(begun);
                return Err(AcquireError::LockTimeout { waited, held_by: Box::new(place.held_by) });
            }
            let is_next = place.look_again.is_some();
            let pause = if self.leases.hears_others() { pause } else { pause.min(deaf_pause(is_next)) };
            let pause = place.look_again.map_or(pause, |look_again| pause.min(look_again + PAUSE_MIN)).max(PAUSE_MIN);
            let ahead = tokio::select! {
                ahead = presence.woken() => ahead,
                () = clock.sleep_until(now + pause) => None,
            };
            if let Some(grant) = ahead.and_then(|ahead| place.granted(ask, ahead, clock.now())) {
                self.released.forget(ask.lease());
                return Ok(grant);
            }
        }
    }

    async fn renew(&self, lease: LeaseId) -> Result<Renewal, RenewError> {
        let asked = self.options.clock.now();
        match self.change(LeaseRequest::Renew { lease }).await {
            Ok(LeaseAnswer::Renewed(Renewed::Renewed { ttl })) => Ok(Renewal { asked, usable: usable(ttl) }),
            Ok(LeaseAnswer::Renewed(Renewed::Lost { since })) => Err(RenewError::Lost { since }),
            Ok(_) => Err(RenewError::Unavailable(STRANGE.to_owned())),
            Err(Unavailable(detail)) => Err(RenewError::Unavailable(detail)),
        }
    }

    async fn release(&self, lease: LeaseId, bar: bool) -> Result<Release, Unconfirmed> {
        match self.change(LeaseRequest::End { lease, bar }).await {
            Ok(LeaseAnswer::Ended(Ended::Released)) => {
                self.released.remember(lease);
                Ok(Release::Released)
            }
            // Asked again because the first answer was lost.
            Ok(LeaseAnswer::Ended(Ended::AlreadyLost { since: None })) if self.released.knows(lease) => {
                Ok(Release::Released)
            }
            Ok(LeaseAnswer::Ended(Ended::AlreadyLost { since })) => Ok(Release::AlreadyLost { since }),
            Ok(LeaseAnswer::Ended(Ended::Left)) => Ok(Release::AlreadyLost { since: None }),
            Ok(_) => Err(Unconfirmed(STRANGE.to_owned())),
            Err(Unavailable(detail)) => Err(Unconfirmed(detail)),
        }
    }

    async fn force_release(&self, resource: &str) -> Result<Vec<Holder>, Unconfirmed> {
        match self.change(LeaseRequest::Force { resource: resource.into() }).await {
            Ok(LeaseAnswer::Forced(Forced { holders })) => Ok(holders),
            Ok(_) => Err(Unconfirmed(STRANGE.to_owned())),
            Err(Unavailable(detail)) => Err(Unconfirmed(detail)),
        }
    }

    async fn list(&self, query: &LeaseQuery) -> Result<LeasePage, Unavailable> {
        self.leases.page(query).await
    }

    async fn ping(&self) -> Result<(), Unavailable> {
        self.leases.ping().await
    }

    async fn close(&self) {
        self.stopped.cancel();
        // They ask once more, and hear that it is shut down.
        self.leases.waiters().wake_all();
        self.leases.close().await;
    }

    fn describe(&self) -> String {
        self.leases.describe()
    }
}

impl<L> Drop for Served<L> {
    fn drop(&mut self) {
        self.stopped.cancel();
    }
}

impl<L: Leases> fmt::Debug for Served<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("leases", &self.leases.describe()).finish_non_exhaustive()
    }
}
