//! What is asked without changing anything. Reads go to the primary, unless a stale answer is asked for.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_model::{Definition, Entry, Instance, InstanceKey, Refusal, WorkflowName};
use lockkeeper_store::limits::{EVENT_BYTES_MAX, PAGE_BYTES_MAX, PAGE_MAX};
use lockkeeper_store::{ListOrder, ListQuery, Record};

use crate::codec;
use crate::definitions::{DefinitionText, known_names, unavailable};
use crate::engine::Engine;
use crate::limits::{HISTORY_POLL, HISTORY_WAIT_MAX};
use crate::retention::{PURGED, is_purged};

/// Which instances to list.
#[derive(Clone, Debug, Default)]
pub struct InstanceQuery {
    /// Only those in this state.
    pub state: Option<String>,
    /// Only those of this status.
    pub status: Option<String>,
    /// Only those whose id contains this.
    pub contains: Option<String>,
    /// Go on after an earlier page.
    pub cursor: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// One page of instances, newest first.
#[derive(Clone, Debug)]
pub struct InstancePage {
    /// Ids with their instances.
    pub items: Vec<(String, Instance)>,
    /// Where to go on.
    pub next: Option<String>,
}

/// One page of workflows, by name.
#[derive(Clone, Debug)]
pub struct WorkflowPage {
    /// Names with the newest version and when it was put.
    pub items: Vec<(String, i64, lockkeeper_model::Timestamp)>,
    /// Where to go on.
    pub next: Option<String>,
}

/// A history entry with its version.
#[derive(Clone, Debug)]
pub struct HistoryItem {
    /// The version that the entry made.
    pub version: i64,
    /// What happened.
    pub entry: Entry,
}

/// One page of a history, oldest first.
#[derive(Clone, Debug)]
pub struct HistoryPage {
    /// The entries.
    pub items: Vec<HistoryItem>,
    /// The oldest version that is kept: what is below it was purged. Where all are, the next one.
    pub oldest: i64,
    /// The last version seen: go on after it. A history has no end while its id can run again.
    pub last: i64,
    /// Whether there is more already.
    pub more: bool,
}

impl Engine {
    /// An instance as last committed; with `stale_ok` as this node last saw it, without asking the store. One that is closed is
    /// asked for all the same, as far as the store answers: another node may have purged it.
    ///
    /// # Errors
    /// `unknown_workflow`, `unknown_instance`, `unavailable`.
    pub async fn instance(&self, key: &InstanceKey, stale_ok: bool) -> Result<Arc<Instance>, Refusal> {
        let remembered = if stale_ok { self.inner.remembered(key).map(|found| found.instance) } else { None };
        if let Some(running) = remembered.as_ref().filter(|found| !found.status.is_closed()) {
            return Ok(running.clone());
        }
        match (self.read_instance(key).await, remembered) {
            (Err(Refusal::Unavailable { .. }), Some(closed)) => Ok(closed),
            (found, _) => found.map(|(instance, _)| instance),
        }
    }

    /// An instance as last committed, and the store's life in which it is so.
    pub(crate) async fn read_instance(&self, key: &InstanceKey) -> Result<(Arc<Instance>, i64), Refusal> {
        let record = self.inner.store.read(&codec::instance_record(key)).await.map_err(|e| unavailable(&e))?;
        match record.filter(|record| !is_purged(record)) {
            Some(record) => {
                self.inner.definitions.note_life(record.life);
                Ok((Arc::new(codec::decode_instance(&record)?), record.life))
            }
            None => Err(self.missing(key).await),
        }
    }

    /// The definition that an instance is on.
    ///
    /// # Errors
    /// `unknown_workflow`, `unavailable`.
    pub async fn definition_of(&self, workflow: &WorkflowName, version: i64) -> Result<Arc<Definition>, Refusal> {
        self.inner.definitions.version(workflow, version).await
    }

    /// A definition as it was put, with its version; none: the newest.
    ///
    /// # Errors
    /// `unknown_workflow`, `unavailable`.
    pub async fn definition_text(
        &self,
        workflow: &WorkflowName,
        version: Option<i64>,
    ) -> Result<(i64, DefinitionText), Refusal> {
        self.inner.definitions.text(workflow, version).await
    }

    /// The workflows, by name.
    ///
    /// # Errors
    /// `malformed` for a foreign cursor, `unavailable`.
    pub async fn workflows(&self, cursor: Option<String>, limit: usize) -> Result<WorkflowPage, Refusal> {
        let query = ListQuery { cursor, ..ListQuery::all(codec::DEFINITION_SPACE, ListOrder::Id, limit) };
        let page = self.inner.store.list(&query).await.map_err(|e| unavailable(&e))?;
        let item = |record: Record| (record.key.id.to_string(), record.version, record.updated_at);
        Ok(WorkflowPage { items: page.records.into_iter().map(item).collect(), next: page.next })
    }

    /// Instances of a workflow, newest first.
    ///
    /// # Errors
    /// `unknown_workflow`, `malformed` for a foreign cursor, `unavailable`.
    pub async fn instances(&self, workflow: &WorkflowName, query: InstanceQuery) -> Result<InstancePage, Refusal> {
        self.inner.definitions.newest(workflow).await?;
        let query = ListQuery {
            primary: query.state,
            secondary: query.status,
            without_secondary: Some(PURGED.to_owned()),
            contains: query.contains,
            cursor: query.cursor,
            ..ListQuery::all(workflow.as_str(), ListOrder::Newest, query.limit)
        };
        let page = self.inner.store.list(&query).await.map_err(|e| unavailable(&e))?;
        let item = |record: Record| Ok((record.key.id.to_string(), codec::decode_instance(&record)?));
        let items = page.records.into_iter().map(item).collect::<Result<_, Refusal>>()?;
        Ok(InstancePage { items, next: page.next })
    }

    /// The history after version `after`. With `wait`, an empty answer is held back until something happens, at most
    /// so long (and at most [`HISTORY_WAIT_MAX`]).
    ///
    /// # Errors
    /// `unknown_workflow`, `unknown_instance`, `unavailable`.
    pub async fn history(
        &self,
        key: &InstanceKey,
        after: i64,
        limit: usize,
        wait: Duration,
    ) -> Result<HistoryPage, Refusal> {
        let deadline = tokio::time::Instant::now() + wait.min(HISTORY_WAIT_MAX);
        let subscription = self.inner.watchers.subscribe(key);
        loop {
            // Listening begins before looking, so that no change falls between the two.
            let changed = subscription.notify.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let page = self.history_now(key, after, limit).await?;
            if !page.items.is_empty() || wait.is_zero() {
                return self.with_oldest(key, after, page).await;
            }
            // Other nodes' changes are heard of by looking.
            let next_look = deadline.min(tokio::time::Instant::now() + HISTORY_POLL);
            if tokio::time::timeout_at(next_look, changed).await.is_err() && next_look == deadline {
                return self.with_oldest(key, after, page).await;
            }
        }
    }

    async fn history_now(&self, key: &InstanceKey, after: i64, limit: usize) -> Result<HistoryPage, Refusal> {
        let record = codec::instance_record(key);
        // One more than asked for tells whether there is more; at the store's own limit a full page has to do.
        let asked = (limit + 1).min(PAGE_MAX);
        let events = self.inner.store.events(&record, after, asked).await.map_err(|e| unavailable(&e))?;
        if events.is_empty() {
            let version = self.inner.store.confirm(&record, &[], self.inner.clock.now()).await;
            if version.map_err(|e| unavailable(&e))?.version == 0 {
                return Err(self.missing(key).await);
            }
        }
        // A page that the store cut by its bytes has more too; one that may have been cut says so.
        let bytes: usize = events.iter().map(|event| event.body.len()).sum();
        let more = events.len() == asked || bytes + EVENT_BYTES_MAX > PAGE_BYTES_MAX;
        let mut items = Vec::with_capacity(events.len());
        for event in events.into_iter().take(limit) {
            items.push(HistoryItem { version: event.version, entry: codec::decode_entry(&event.body)? });
        }
        let last = items.last().map_or(after, |item| item.version);
        Ok(HistoryPage { items, oldest: 1, last, more })
    }

    /// The same page, with the oldest version that is kept.
    async fn with_oldest(&self, key: &InstanceKey, after: i64, page: HistoryPage) -> Result<HistoryPage, Refusal> {
        if let (0, Some(first)) = (after, page.items.first()) {
            return Ok(HistoryPage { oldest: first.version, ..page });
        }
        let record = codec::instance_record(key);
        let store = &self.inner.store;
        // The version first: a change that comes between is one that is kept.
        let current = store.confirm(&record, &[], self.inner.clock.now()).await.map_err(|e| unavailable(&e))?.version;
        let first = store.events(&record, 0, 1).await.map_err(|e| unavailable(&e))?;
        let oldest = first.first().map_or(current + 1, |event| event.version);
        Ok(HistoryPage { oldest, ..page })
    }

    /// The answer to whoever means an instance that is not there.
    pub(crate) async fn missing(&self, key: &InstanceKey) -> Refusal {
        if let Err(refusal) = self.inner.definitions.newest(&key.workflow).await {
            return refusal;
        }
        Refusal::UnknownInstance {
            workflow: key.workflow.to_string(),
            id: key.id.to_string(),
            known: known_names(&*self.inner.store, key.workflow.as_str(), ListOrder::Newest).await,
        }
    }
}
