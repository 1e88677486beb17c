//! The room of timers: looks at what is due, and sends [`Fire`] for it through the combiner, like any command. So batches,
//! strategies and leases are the same, and what fires is decided by the conditional write alone.
//!
//! Several nodes look: the store tells each alarm to one of them for a while. Nothing is kept here: a `Fire` that was lost or
//! refused is sent again when its claim has run out, by whoever looks then.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockkeeper_model::{Action, Command, Fire, InstanceKey, Refusal, SuccessKind, Timestamp};
use lockkeeper_store::{Alarm, ReadError, RecordKey};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::codec;
use crate::definitions::unavailable;
use crate::engine::{Engine, Inner};
use crate::limits::{FIRE_AGAIN, FIRE_WAIT, FIRES_MAX, LOOK_BACKOFF_MAX, LOOK_PAUSE_MIN};
use crate::retention::is_purged;

/// What timers have come to on this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerFigures {
    /// Those that have changed an instance.
    pub fired: u64,
    /// Those that are to be tried again, since the store or a lock did not let them.
    pub postponed: u64,
    /// Those that are being fired now.
    pub firing: u64,
}

/// When to look again, and what has come of looking.
#[derive(Debug)]
pub(crate) struct Timers {
    /// The earliest alarm that was set on this node since it last looked, milliseconds since 1970.
    earliest_ms: AtomicI64,
    /// It has become earlier.
    changed: Notify,
    fired: AtomicU64,
    postponed: AtomicU64,
    firing: AtomicU64,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            earliest_ms: AtomicI64::new(i64::MAX),
            changed: Notify::new(),
            fired: AtomicU64::new(0),
            postponed: AtomicU64::new(0),
            firing: AtomicU64::new(0),
        }
    }
}

/// How a look ended.
enum Look {
    /// There may be more that is due.
    Full,
    /// The next is due in so long; none: none is known.
    All(Option<Duration>),
}

impl Timers {
    /// An alarm was committed on this node: it is looked at in time.
    pub(crate) fn set(&self, alarm: Option<Timestamp>) {
        let Some(at) = alarm.map(|at| at.timestamp_millis()) else { return };
        if self.earliest_ms.fetch_min(at, Ordering::AcqRel) > at {
            self.changed.notify_one();
        }
    }

    /// What has come of it so far.
    pub(crate) fn figures(&self) -> TimerFigures {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TimerFigures { fired: count(&self.fired), postponed: count(&self.postponed), firing: count(&self.firing) }
    }
}

/// Looks and fires until it is stopped, or the engine is gone.
pub(crate) async fn run(engine: Weak<Inner>, timers: Arc<Timers>, poll: Duration, stopped: CancellationToken) {
    let mut fires = JoinSet::new();
    let mut failures = 0;
    while let Some(inner) = engine.upgrade() {
        // Before looking: what is set meanwhile is looked at next.
        timers.earliest_ms.store(i64::MAX, Ordering::Release);
        let pause = match look(&inner, &timers, &mut fires).await {
            Ok(look) => {
                failures = 0;
                match look {
                    Look::Full => Duration::ZERO,
                    Look::All(next) => next.unwrap_or(poll).clamp(LOOK_PAUSE_MIN, poll.max(LOOK_PAUSE_MIN)),
                }
            }
            Err(error) => {
                let pause = LOOK_BACKOFF_MAX.min(LOOK_PAUSE_MIN * 2_u32.saturating_pow(failures));
                failures += 1;
                if failures == 1 {
                    tracing::warn!(%error, "cannot look which timers are due; trying again");
                }
                pause
            }
        };
        let clock = inner.clock.clone();
        drop(inner);
        let wait = async {
            while fires.len() > FIRES_MAX / 2 {
                fires.join_next().await;
            }
            let looked = Instant::now();
            let mut until = looked + pause;
            while tokio::time::timeout_at(until, timers.changed.notified()).await.is_ok() {
                let earliest = timers.earliest_ms.load(Ordering::Acquire);
                let in_ms = earliest.saturating_sub(clock.now().timestamp_millis()).max(0).unsigned_abs();
                let pause = Duration::from_millis(in_ms).max(LOOK_PAUSE_MIN);
                until = until.min(looked + pause.min(poll));
            }
        };
        if stopped.run_until_cancelled(wait).await.is_none() {
            break;
        }
    }
    // What was sent is finished within its own deadline.
    while fires.join_next().await.is_some() {}
}

/// Sends a `Fire` for what is due, as far as there is room.
async fn look(inner: &Arc<Inner>, timers: &Arc<Timers>, fires: &mut JoinSet<()>) -> Result<Look, ReadError> {
    while fires.try_join_next().is_some() {}
    let room = FIRES_MAX.saturating_sub(fires.len());
    let due = inner.store.due(room).await?;
    let is_full = due.records.len() >= room;
    for (record, _) in due.records {
        let firing = fire(inner.clone(), timers.clone(), record, due.now);
        let counted = Firing::count(timers);
        fires.spawn(async move {
            firing.await;
            drop(counted);
        });
    }
    let next = due.next.map(|next| (next - due.now).to_std().unwrap_or_default());
    Ok(if is_full { Look::Full } else { Look::All(next) })
}

/// Counts one that is being fired, as long as this lives.
struct Firing(Arc<Timers>);

impl Firing {
    fn count(timers: &Arc<Timers>) -> Self {
        timers.firing.fetch_add(1, Ordering::Relaxed);
        Self(timers.clone())
    }
}

impl Drop for Firing {
    fn drop(&mut self) {
        self.0.firing.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn fire(inner: Arc<Inner>, timers: Arc<Timers>, record: RecordKey, until: Timestamp) {
    // What is no instance's name has no timers.
    let Ok(instance) = InstanceKey::new(&record.space, &record.id) else { return };
    let engine = Engine { inner };
    let command = Command {
        instance: instance.clone(),
        action: Action::Fire(Fire { until }),
        actor: Fire::actor(),
        idempotency_key: None,
    };
    match engine.send(command, Some(FIRE_WAIT)).await.result {
        Ok(success) if success.outcome == SuccessKind::Applied => {
            timers.fired.fetch_add(1, Ordering::Relaxed);
        }
        // Another node was faster; or the alarm is none of the instance's, since a node of an earlier release has moved it.
        Ok(_) => {
            if let Err(refusal) = set_right(&engine, &record, None).await {
                tracing::warn!(%instance, %refusal, "an alarm without a timer could not be taken away");
            }
        }
        Err(refusal) => {
            let before = timers.postponed.fetch_add(1, Ordering::Relaxed);
            // The first, and then ever rarer ones: an outage concerns all that is due.
            if (before + 1).is_power_of_two() {
                tracing::warn!(%instance, %refusal, postponed = before + 1, "a timer could not fire; it is tried again");
            }
            // One whose row or lock somebody keeps goes behind those that fall due meanwhile, or many of them would take
            // all places again and again. If this fails, its claim runs out.
            if matches!(refusal, Refusal::LockTimeout { .. } | Refusal::LeaseTimeout { .. } | Refusal::Conflict { .. })
            {
                let _tried_after_its_claim = set_right(&engine, &record, Some(until + FIRE_AGAIN)).await;
            }
        }
    }
}

/// Sets the alarm to what the instance says, but not before `earliest`. What is no instance any more has none.
async fn set_right(engine: &Engine, record: &RecordKey, earliest: Option<Timestamp>) -> Result<(), Refusal> {
    let store = &engine.inner.store;
    let Some(found) = store.read(record).await.map_err(|error| unavailable(&error))? else { return Ok(()) };
    let due = if is_purged(&found) { None } else { codec::decode_instance(&found)?.next_due() };
    let alarm = due.map_or(Alarm::Never, |due| Alarm::At(earliest.map_or(due, |earliest| due.max(earliest))));
    let set = store.set_alarm(record, found.version, alarm).await;
    set.map(drop).map_err(|error| Refusal::Unavailable { detail: error.to_string() })
}
