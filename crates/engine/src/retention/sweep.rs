//! The sweep: forgets by itself what is older than it is to be kept.
//!
//! Each record has two dates in the store (`lockkeeper_store::DateOf`). The primary one says since when the instance may have
//! been closed, the secondary one how old its history may be; neither is later than what it stands for. Whoever sweeps asks
//! for records whose date is older than it is to be kept, does what is due, and sets the date anew: to the time of what
//! is left, or, where nothing is, to now, since whatever comes will be later. So a sweep costs what is due, and a look at each
//! instance once in the time for which it is kept; settings may change at any time; and no commit has to know of it.
//!
//! Being told of a record claims it for a while, so that nodes share the work. Nothing is held meanwhile.

use std::sync::Weak;
use std::time::Duration;

use chrono::TimeDelta;
use lockkeeper_model::{Refusal, Timestamp, WorkflowName};
use lockkeeper_store::{DateOf, Dated, DatedQuery, Forget, Forgotten};
use tokio_util::sync::CancellationToken;

use super::{CLOSED, PURGED, Retention};
use crate::codec;
use crate::definitions::unavailable;
use crate::engine::{Engine, Inner};
use crate::limits::{FORGET_AGE_MIN, PURGE_EVENTS, PURGE_FIRST, PURGE_PAGE, PURGE_PAUSE, PURGE_SWEEP, PURGE_TURNS};

/// Why a record was not looked at to the end.
enum Missed {
    /// It is damaged; the others are not.
    Unreadable(Refusal),
    /// The store did not answer, and will not for the others.
    Store(Refusal),
}

/// The moments that a look goes by.
#[derive(Clone, Copy)]
struct Look {
    /// When it began.
    now: Timestamp,
    /// What is older is due.
    before: Timestamp,
}

impl Engine {
    /// Forgets what is older than the workflows' definitions, or this node's settings, want kept.
    ///
    /// # Errors
    /// What was not looked at is the next sweep's. `unavailable`: the store did not answer; all others: how long things of
    /// some workflow are kept could not be told, and those of the others were looked at.
    pub async fn sweep(&self) -> Result<(), Refusal> {
        let (mut cursor, mut missed) = (None, None);
        loop {
            let page = self.workflows(cursor, PURGE_PAGE).await?;
            let names = page.items.into_iter().filter_map(|(name, ..)| WorkflowName::new(&name).ok());
            missed = missed.or(self.sweep_by_turns(names.collect()).await?);
            cursor = page.next;
            if cursor.is_none() {
                return missed.map_or(Ok(()), Err);
            }
        }
    }

    /// One page of each, again and again until nothing is due: a workflow with much to forget does not hold up the others,
    /// nor does one of which it cannot be told how long it is kept; why that is, is answered.
    async fn sweep_by_turns(&self, mut left: Vec<WorkflowName>) -> Result<Option<Refusal>, Refusal> {
        let mut missed = None;
        for _ in 0..PURGE_TURNS {
            if left.is_empty() {
                break;
            }
            let mut again = Vec::new();
            for workflow in left {
                // Asked for again each time: whoever has just put `forever` means it.
                let kept = match self.retention_of(&workflow).await {
                    Ok(kept) => kept.times(),
                    Err(refusal) => {
                        tracing::warn!(%workflow, %refusal, "nothing of it is purged: how long it is kept is not known");
                        missed.get_or_insert(refusal);
                        continue;
                    }
                };
                if self.sweep_page(&workflow, kept).await? {
                    tokio::time::sleep(PURGE_PAUSE).await;
                    again.push(workflow);
                }
            }
            left = again;
        }
        Ok(missed)
    }

    /// Does a bounded part of what is due of a workflow; says whether there may be more.
    async fn sweep_page(&self, workflow: &WorkflowName, kept: Retention) -> Result<bool, Refusal> {
        let closed = self.sweep_by(workflow, DateOf::Primary, kept.closed).await?;
        let history = self.sweep_by(workflow, DateOf::Secondary, kept.history).await?;
        Ok(closed || history)
    }

    async fn sweep_by(&self, workflow: &WorkflowName, by: DateOf, kept: Option<Duration>) -> Result<bool, Refusal> {
        let Some(kept) = kept else { return Ok(false) };
        let now = self.inner.clock.now();
        let age = TimeDelta::from_std(kept.max(FORGET_AGE_MIN)).ok();
        // Longer ago than any time: nothing is.
        let Some(before) = age.and_then(|age| now.checked_sub_signed(age)) else { return Ok(false) };
        let query = DatedQuery { space: workflow.as_str().into(), by, before, limit: PURGE_PAGE };
        let found = self.inner.store.dated(&query).await.map_err(|error| unavailable(&error))?;
        self.note(|purged| purged.looked_at += found.len() as u64);
        // A page need not be full where somebody is at work on some; and what was told is claimed, so this comes to an end.
        let more = !found.is_empty();
        let mut dates = Vec::with_capacity(found.len());
        let mut gone = None;
        for record in found {
            let look = Look { now, before };
            let swept = match by {
                DateOf::Primary => self.sweep_closed(&record, look).await,
                DateOf::Secondary => self.trim(&record, look).await,
            };
            match swept {
                Ok(Some(date)) => dates.push((record.key, date)),
                // What could not be done is another sweep's, when the claim has run out.
                Ok(None) => {}
                Err(Missed::Unreadable(why)) => {
                    tracing::error!(record = %record.key, %why, "it is not purged");
                    // Once in the time for which it is kept is enough to say so.
                    dates.push((record.key, now));
                }
                Err(Missed::Store(refusal)) => {
                    gone = Some(refusal);
                    break;
                }
            }
        }
        if !dates.is_empty() {
            let set = self.inner.store.set_dates(by, dates).await;
            set.map_err(|error| Refusal::Unavailable { detail: error.to_string() })?;
        }
        gone.map_or(Ok(more), Err)
    }

    /// Purges an instance that has been closed for long enough. Answers its date from now on; none: it could not be done.
    async fn sweep_closed(&self, record: &Dated, look: Look) -> Result<Option<Timestamp>, Missed> {
        let status = record.facets.secondary.as_str();
        if status == PURGED || !CLOSED.contains(&status) {
            // If it is closed from here on, that is later than now.
            return Ok(Some(look.now));
        }
        if record.updated_at >= look.before {
            return Ok(Some(record.updated_at));
        }
        let found = self.inner.store.read(&record.key).await.map_err(|error| Missed::Store(unavailable(&error)))?;
        let Some(found) = found.filter(|found| found.version == record.version) else { return Ok(None) };
        let instance = codec::decode_instance(&found).map_err(Missed::Unreadable)?;
        Ok(match self.purge_step(&found, instance).await.map_err(Missed::Store)? {
            Forgotten::Events { whole: true, .. } => Some(look.now),
            Forgotten::Events { whole: false, .. } => Some(record.date),
            Forgotten::Changed | Forgotten::Busy => None,
        })
    }

    /// Forgets the beginning of a history, up to the first change that is not older; a bounded part of it. The last
    /// change always stays: it says where the instance is, and since when. Answers as [`Self::sweep_closed`].
    async fn trim(&self, record: &Dated, look: Look) -> Result<Option<Timestamp>, Missed> {
        if record.facets.secondary == PURGED {
            return Ok(Some(look.now));
        }
        let events = self.inner.store.events(&record.key, 0, PURGE_EVENTS).await;
        let (mut upto, mut date) = (0, look.now);
        for event in events.map_err(|error| Missed::Store(unavailable(&error)))? {
            let at = codec::decode_entry(&event.body).map_err(Missed::Unreadable)?.at;
            if at >= look.before || event.version >= record.version {
                // Where the last change has come of age, and stays, what follows will be later than now.
                date = if at >= look.before { at } else { look.now };
                break;
            }
            // If the page ends here, what is next is no earlier, and due.
            (upto, date) = (event.version, at);
        }
        if upto > 0 {
            let what = Forget { key: record.key.clone(), version: record.version, upto, replace: None };
            match self.forget_step(&what).await.map_err(Missed::Store)? {
                Forgotten::Events { events, .. } => self.note(|purged| purged.events += events as u64),
                Forgotten::Changed | Forgotten::Busy => return Ok(None),
            }
        }
        Ok(Some(date))
    }
}

/// Sweeps from time to time.
pub(crate) async fn run(engine: Weak<Inner>, stopped: CancellationToken) {
    let mut pause = PURGE_FIRST;
    while stopped.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        let Some(inner) = engine.upgrade() else { return };
        let engine = Engine { inner };
        // Nodes that were started together do not sweep together.
        pause = PURGE_SWEEP.mul_f64(0.5 + rand::random::<f64>());
        let before = engine.purged();
        match stopped.run_until_cancelled(engine.sweep()).await {
            None => return,
            Some(Err(refusal)) => {
                engine.note(|purged| purged.sweeps_failed += 1);
                tracing::warn!(%refusal, "not all that is old could be purged; trying again later");
            }
            Some(Ok(())) => {
                engine.note(|purged| purged.sweeps += 1);
                let now = engine.purged();
                let (instances, events) = (now.instances - before.instances, now.events - before.events);
                if instances + events > 0 {
                    tracing::info!(instances, events, "purged what was older than it is to be kept");
                }
            }
        }
    }
}
