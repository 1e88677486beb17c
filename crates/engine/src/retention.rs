//! What is kept for how long: closed instances, and the beginnings of long histories.
//!
//! What is purged of a closed instance is its history and its data. Its record stays, and tells that there was a run, how
//! it ended, and at which version: a later start of the same id goes on above it, under the start's own rules.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_model::{Data, Instance, InstanceKey, Refusal, Status, Timestamp, WorkflowName};
use lockkeeper_store::{Facets, Forget, Forgotten, ListOrder, ListQuery, Record};
use tokio_util::sync::CancellationToken;

use crate::codec;
use crate::definitions::unavailable;
use crate::engine::Engine;
use crate::limits::{PURGE_EVENTS, PURGE_FIRST, PURGE_PAGE, PURGE_PAUSE, PURGE_SWEEP};

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
    /// Only those whose last change is older.
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
    /// Where to go on; none: that was all.
    pub next: Option<String>,
}

/// What was forgotten since this node began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Closed instances.
    pub instances: u64,
    /// Events, those of closed instances included.
    pub events: u64,
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
        *self.inner.purged.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn list_of(&self, workflow: &WorkflowName, secondary: &str, cursor: Option<String>) -> ListQuery {
        ListQuery {
            space: workflow.as_str().into(),
            primary: None,
            secondary: Some(secondary.to_owned()),
            contains: None,
            order: ListOrder::Newest,
            cursor,
            limit: PURGE_PAGE,
        }
    }

    async fn purge_records(&self, query: &PurgeQuery, records: &[Record]) -> Result<PurgeStep, Refusal> {
        let mut step = PurgeStep::default();
        for record in records.iter().filter(|record| record.updated_at < query.before && !is_purged(record)) {
            let instance = codec::decode_instance(record)?;
            if !instance.status.is_closed() {
                continue;
            }
            if query.dry_run {
                step.instances += 1;
                continue;
            }
            let facets = Facets { primary: String::new(), secondary: PURGED.to_owned() };
            let body = codec::encode(&remains(instance))?;
            let what = Forget {
                key: record.key.clone(),
                version: record.version,
                upto: record.version,
                replace: Some((facets, body)),
            };
            let (events, whole) = self.forget(&what).await?;
            step.events += events;
            step.instances += usize::from(whole);
            self.note(u64::from(whole), events);
            if let Ok(key) = InstanceKey::new(&record.key.space, &record.key.id) {
                self.inner.cache.forget(&key);
            }
        }
        Ok(step)
    }

    /// Forgets all of it, in small transactions; says how many events, and whether nothing is left to do.
    async fn forget(&self, what: &Forget) -> Result<(usize, bool), Refusal> {
        let mut all = 0;
        loop {
            let told = self.inner.store.forget(what, PURGE_EVENTS).await;
            match told.map_err(|error| Refusal::Unavailable { detail: error.to_string() })? {
                Forgotten::Events { events, whole } => {
                    all += events;
                    if whole {
                        return Ok((all, true));
                    }
                    tokio::task::yield_now().await;
                }
                // It is being changed, or another node is at it: the next time.
                Forgotten::Changed | Forgotten::Busy => return Ok((all, false)),
            }
        }
    }

    fn note(&self, instances: u64, events: usize) {
        let mut purged = self.inner.purged.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        purged.instances += instances;
        purged.events += events as u64;
    }

    /// Forgets what is older than the workflows' definitions, or this node's settings, want kept.
    ///
    /// # Errors
    /// `unavailable`: what was not looked at is the next sweep's.
    pub async fn sweep(&self) -> Result<(), Refusal> {
        let mut cursor = None;
        loop {
            let page = self.workflows(cursor, PURGE_PAGE).await?;
            for (name, ..) in page.items {
                let Ok(workflow) = WorkflowName::new(&name) else { continue };
                self.sweep_workflow(&workflow, self.inner.options.retention).await?;
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    async fn sweep_workflow(&self, workflow: &WorkflowName, kept: Retention) -> Result<(), Refusal> {
        let before = |kept: Duration| self.inner.clock.now() - kept;
        if let Some(closed) = kept.closed {
            let mut query = PurgeQuery {
                workflow: workflow.clone(),
                id: None,
                before: before(closed),
                dry_run: false,
                cursor: None,
            };
            loop {
                query.cursor = self.purge_closed(&query).await?.next;
                if query.cursor.is_none() {
                    break;
                }
                tokio::time::sleep(PURGE_PAUSE).await;
            }
        }
        if let Some(history) = kept.history {
            for status in std::iter::once(Status::Running.as_str()).chain(CLOSED) {
                self.trim(workflow, status, before(history)).await?;
            }
        }
        Ok(())
    }

    /// Forgets the beginnings of histories, up to the first change that is not older.
    async fn trim(&self, workflow: &WorkflowName, status: &str, before: Timestamp) -> Result<(), Refusal> {
        let mut cursor = None;
        loop {
            let list = self.list_of(workflow, status, cursor);
            let page = self.inner.store.list(&list).await.map_err(|e| unavailable(&e))?;
            for record in page.records.iter().filter(|record| record.created_at < before) {
                // The last change always stays: it says where the instance is, and since when.
                let upto = self.older(record, before).await?.min(record.version - 1);
                if upto > 0 {
                    let what = Forget { key: record.key.clone(), version: record.version, upto, replace: None };
                    let (events, _) = self.forget(&what).await?;
                    self.note(0, events);
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(());
            }
            tokio::time::sleep(PURGE_PAUSE).await;
        }
    }

    /// The last version of those at the beginning that are older; 0: none is.
    async fn older(&self, record: &Record, before: Timestamp) -> Result<i64, Refusal> {
        let mut last = 0;
        loop {
            let events = self.inner.store.events(&record.key, last, PURGE_EVENTS).await.map_err(|e| unavailable(&e))?;
            if events.is_empty() {
                return Ok(last);
            }
            for event in events {
                if codec::decode_entry(&event.body)?.at >= before {
                    return Ok(last);
                }
                last = event.version;
            }
        }
    }
}

/// What is kept of a purged instance: how its run ended.
fn remains(instance: Instance) -> Instance {
    Instance { data: Arc::new(Data::default()), started_by: String::new(), votes: Vec::new(), ..instance }
}

/// Sweeps from time to time.
pub(crate) async fn run(engine: Engine, stopped: CancellationToken) {
    let mut pause = PURGE_FIRST;
    while stopped.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        // Nodes that were started together do not sweep together.
        pause = PURGE_SWEEP.mul_f64(0.5 + rand::random::<f64>());
        let before = engine.purged();
        match stopped.run_until_cancelled(engine.sweep()).await {
            None => return,
            Some(Err(refusal)) => tracing::warn!(%refusal, "not all that is old could be purged; trying again later"),
            Some(Ok(())) => {
                let now = engine.purged();
                let (instances, events) = (now.instances - before.instances, now.events - before.events);
                if events > 0 {
                    tracing::info!(instances, events, "purged what was older than it is to be kept");
                }
            }
        }
    }
}
