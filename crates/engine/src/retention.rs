//! What is kept for how long: closed instances, and the beginnings of long histories.
//!
//! What is purged of a closed instance is its history and its data. Its record stays, and tells that there was a run, how
//! it ended, and at which version: a later start of the same id goes on above it, under the start's own rules.

mod kept;
mod sweep;

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use lockkeeper_model::{Data, Instance, InstanceKey, Refusal, Timestamp, WorkflowName};
use lockkeeper_store::{Facets, Forget, Forgotten, ListOrder, ListQuery, Record};

use crate::codec;
use crate::definitions::unavailable;
use crate::engine::Engine;
use crate::limits::{FORGET_AGE_MIN, FORGET_TRIES, PURGE_EVENTS, PURGE_PAGE, PURGE_PAUSE};

pub use kept::{KeptFor, WorkflowRetention};
pub(crate) use sweep::run;

/// The second facet of what was purged: no status.
pub(crate) const PURGED: &str = "purged";

/// The statuses of runs that have ended, in the order in which they are looked through.
const CLOSED: [&str; 5] = ["completed", "failed", "canceled", "terminated", "timed_out"];

/// How long things are kept; none: for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Closed instances, after their last change.
    pub closed: Option<Duration>,
    /// Changes in histories; the last one always stays.
    pub history: Option<Duration>,
}

/// Which closed instances are to be purged.
#[derive(Clone, Debug)]
pub struct PurgeQuery {
    /// Of this workflow.
    pub workflow: WorkflowName,
    /// Only the one with this id.
    pub id: Option<String>,
    /// Only those whose last change is older; and older than [`FORGET_AGE_MIN`], whatever this is.
    pub before: Timestamp,
    /// Only count them.
    pub dry_run: bool,
    /// Go on after an earlier step.
    pub cursor: Option<String>,
}

/// What a step of a purge came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgeStep {
    /// Instances that were purged, or would be.
    pub instances: usize,
    /// Events that were forgotten.
    pub events: usize,
    /// Instances that were left, since they have ended less than [`FORGET_AGE_MIN`] ago.
    pub too_young: usize,
    /// Instances that were left, since they are damaged and cannot be read; the log names them.
    pub unreadable: usize,
    /// Where to go on; none: that was all.
    pub next: Option<String>,
}

/// What was looked at and forgotten since this node began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Closed instances.
    pub instances: u64,
    /// Events, those of closed instances included.
    pub events: u64,
    /// Instances that sweeps have looked at, once for their end and once for their history.
    pub looked_at: u64,
    /// Sweeps that have looked at all that was due.
    pub sweeps: u64,
    /// Those that have not: the store did not answer, or a definition cannot be read.
    pub sweeps_failed: u64,
}

/// Whether a record is what is left of a purged instance.
pub(crate) fn is_purged(record: &Record) -> bool {
    record.facets.secondary == PURGED
}

impl Engine {
    /// One step of purging closed instances: at most a page of them is looked at.
    ///
    /// # Errors
    /// `unknown_workflow`, `unknown_instance`, `malformed` for a foreign cursor, `unavailable`.
    pub async fn purge_closed(&self, query: &PurgeQuery) -> Result<PurgeStep, Refusal> {
        self.inner.definitions.newest(&query.workflow).await?;
        if let Some(id) = &query.id {
            let key = InstanceKey::new(query.workflow.as_str(), id)
                .map_err(|error| Refusal::Malformed { detail: error.to_string() })?;
            let record = self.inner.store.read(&codec::instance_record(&key)).await.map_err(|e| unavailable(&e))?;
            let Some(record) = record else { return Err(self.missing(&key).await) };
            return self.purge_records(query, &[record]).await;
        }
        let foreign = || Refusal::Malformed { detail: "the cursor is not one of a purge: begin again".to_owned() };
        let (at, cursor) = match query.cursor.as_deref() {
            None => (0, None),
            Some(cursor) => {
                let (at, rest) = cursor.split_once('-').ok_or_else(foreign)?;
                let at: usize = at.parse().map_err(|_| foreign())?;
                (at, Some(rest.to_owned()).filter(|rest| !rest.is_empty()))
            }
        };
        let status = CLOSED.get(at).ok_or_else(foreign)?;
        let list = self.list_of(&query.workflow, status, cursor);
        let page = self.inner.store.list(&list).await.map_err(|e| unavailable(&e))?;
        let step = self.purge_records(query, &page.records).await?;
        let next = match page.next {
            Some(next) => Some(format!("{at}-{next}")),
            None => (at + 1 < CLOSED.len()).then(|| format!("{}-", at + 1)),
        };
        Ok(PurgeStep { next, ..step })
    }

    /// What this node has purged.
    pub fn purged(&self) -> Purged {
        *self.inner.purged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list_of(&self, workflow: &WorkflowName, secondary: &str, cursor: Option<String>) -> ListQuery {
        ListQuery {
            secondary: Some(secondary.to_owned()),
            cursor,
            ..ListQuery::all(workflow.as_str(), ListOrder::Newest, PURGE_PAGE)
        }
    }

    async fn purge_records(&self, query: &PurgeQuery, records: &[Record]) -> Result<PurgeStep, Refusal> {
        let mut step = PurgeStep::default();
        let settled = self.inner.clock.now() - FORGET_AGE_MIN;
        for record in records.iter().filter(|record| record.updated_at < query.before && is_closed(record)) {
            if record.updated_at >= settled {
                step.too_young += 1;
                continue;
            }
            if query.dry_run {
                step.instances += 1;
                continue;
            }
            let instance = match codec::decode_instance(record) {
                Ok(instance) => instance,
                Err(why) => {
                    tracing::error!(record = %record.key, %why, "it is not purged");
                    step.unreadable += 1;
                    continue;
                }
            };
            // What is being changed, or what another node keeps at, is left for the next time.
            while let Forgotten::Events { events, whole } = self.purge_step(record, instance.clone()).await? {
                step.events += events;
                step.instances += usize::from(whole);
                if whole {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        Ok(step)
    }

    /// Forgets a closed instance, or a part of its history if that is long. Its caller has seen to its age.
    async fn purge_step(&self, record: &Record, instance: Instance) -> Result<Forgotten, Refusal> {
        let facets = Facets { primary: String::new(), secondary: PURGED.to_owned() };
        let body = codec::encode(&remains(instance))?;
        let what = Forget {
            key: record.key.clone(),
            version: record.version,
            upto: record.version,
            replace: Some((facets, body)),
        };
        let told = self.forget_step(&what).await?;
        if let Forgotten::Events { events, whole } = told {
            self.note(|purged| {
                purged.instances += u64::from(whole);
                purged.events += events as u64;
            });
        }
        if let Ok(key) = InstanceKey::new(&record.key.space, &record.key.id) {
            self.inner.cache.forget(&key);
        }
        Ok(told)
    }

    /// Forgets in one small transaction; while another node is at it, waits for its turn a little.
    async fn forget_step(&self, what: &Forget) -> Result<Forgotten, Refusal> {
        for _ in 1..FORGET_TRIES {
            match self.forget_now(what).await? {
                Forgotten::Busy => tokio::time::sleep(PURGE_PAUSE).await,
                told => return Ok(told),
            }
        }
        self.forget_now(what).await
    }

    async fn forget_now(&self, what: &Forget) -> Result<Forgotten, Refusal> {
        let told = self.inner.store.forget(what, PURGE_EVENTS).await;
        told.map_err(|error| Refusal::Unavailable { detail: error.to_string() })
    }

    fn note(&self, change: impl FnOnce(&mut Purged)) {
        change(&mut self.inner.purged.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Whether a record is a closed instance that has not been purged.
fn is_closed(record: &Record) -> bool {
    CLOSED.contains(&record.facets.secondary.as_str())
}

/// What is kept of a purged instance: how its run ended.
fn remains(instance: Instance) -> Instance {
    Instance { data: Arc::new(Data::default()), started_by: String::new(), votes: Vec::new(), ..instance }
}
