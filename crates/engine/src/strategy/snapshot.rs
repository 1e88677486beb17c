//! What a batch is decided on: the instance as this node remembers it or the store has it, and the definitions that judge.

use std::collections::HashMap;
use std::sync::Arc;

use lockkeeper_model::{Action, Refusal};
use lockkeeper_store::{ListOrder, Record, RecordKey};
use tokio::time::Instant;

use super::Attempt;
use crate::batch::{Judges, Snapshot};
use crate::codec;
use crate::definitions::{known_names, unavailable};
use crate::pending::Pending;

impl Attempt<'_> {
    /// What this node remembers, else what the store has.
    pub(super) async fn snapshot(&self) -> Result<Snapshot, Refusal> {
        match self.inner.remembered(self.key) {
            Some(remembered) => Ok(Snapshot {
                version: remembered.instance.version,
                instance: Some(remembered.instance),
                life: Some(remembered.life),
                proven: remembered.proven,
                fresh: false,
            }),
            None => self.read().await,
        }
    }

    pub(super) async fn read(&self) -> Result<Snapshot, Refusal> {
        let key = codec::instance_record(self.key);
        // A record that is not there says nothing of the store's life: then the last known one is the condition.
        let life = match self.inner.definitions.life() {
            Some(life) => life,
            None => self.learn_life(&key).await?,
        };
        let record = self.inner.store.read(&key).await.map_err(|error| unavailable(&error))?;
        self.remember(record, Some(life))
    }

    pub(super) async fn learn_life(&self, key: &RecordKey) -> Result<i64, Refusal> {
        let confirmed = self.inner.store.confirm(key, &[], self.inner.clock.now()).await;
        let life = confirmed.map_err(|error| unavailable(&error))?.life;
        self.inner.definitions.note_life(life);
        Ok(life)
    }

    /// Takes the record as the snapshot, and into the cache.
    pub(super) fn remember(&self, record: Option<Record>, life: Option<i64>) -> Result<Snapshot, Refusal> {
        let proven = Instant::now();
        let Some(record) = record else {
            self.inner.cache.forget(self.key);
            return Ok(Snapshot { version: 0, instance: None, life, proven, fresh: true });
        };
        self.inner.definitions.note_life(record.life);
        let instance = Arc::new(codec::decode_instance(&record)?);
        self.inner.cache.put(self.key, instance.clone(), record.life);
        Ok(Snapshot { version: record.version, instance: Some(instance), life: Some(record.life), proven, fresh: true })
    }

    /// The definitions that the batch needs, and no others.
    pub(super) async fn judges(&self, batch: &[Pending], snapshot: &Snapshot) -> Result<Judges, Refusal> {
        let definitions = &self.inner.definitions;
        let workflow = &self.key.workflow;
        let is_start = |pending: &Pending| matches!(pending.command.action, Action::Start(_));
        let needs_newest = |pending: &Pending| needs_newest(&pending.command.action);
        let current = match &snapshot.instance {
            Some(instance) => Some(definitions.version(workflow, instance.definition_version).await?),
            None => None,
        };
        let newest = if batch.iter().any(reads_newest) {
            Some(definitions.newest_now(workflow, &*self.inner.clock).await)
        } else if batch.iter().any(needs_newest) || current.is_none() {
            Some(definitions.newest(workflow).await)
        } else {
            None
        };
        let missing = match (&current, &newest) {
            (None, Some(Err(refusal))) => Some(refusal.clone()),
            (None, _) if !batch.iter().all(is_start) => Some(Refusal::UnknownInstance {
                workflow: workflow.to_string(),
                id: self.key.id.to_string(),
                known: known_names(&*self.inner.store, workflow.as_str(), ListOrder::Newest).await,
            }),
            _ => None,
        };
        let mut targets = HashMap::new();
        for version in batch.iter().filter_map(|pending| target(&pending.command.action)) {
            targets.insert(version, definitions.version(workflow, version).await);
        }
        Ok(Judges { current, newest, missing, targets, begun_before: HashMap::new() })
    }

    /// The definitions that the batch needs, if all of them are in memory.
    pub(super) fn judges_at_hand(&self, batch: &[Pending], snapshot: &Snapshot) -> Option<Judges> {
        let definitions = &self.inner.definitions;
        let workflow = &self.key.workflow;
        if batch.iter().any(reads_newest) {
            return None;
        }
        let newest_needed = batch.iter().any(|pending| needs_newest(&pending.command.action));
        let current = match &snapshot.instance {
            Some(instance) => Some(definitions.compiled(workflow, instance.definition_version)?),
            None => None,
        };
        let newest = match newest_needed || current.is_none() {
            true => Some(Ok(definitions.newest_compiled(workflow)?)),
            false => None,
        };
        let named = batch.iter().filter_map(|pending| target(&pending.command.action));
        let targets = named.map(|version| Some((version, Ok(definitions.compiled(workflow, version)?))));
        let targets = targets.collect::<Option<HashMap<_, _>>>()?;
        let all_start = batch.iter().all(|pending| matches!(pending.command.action, Action::Start(_)));
        // Whoever means an instance that is not there is told what is: that takes a look into the store.
        (current.is_some() || all_start).then_some(Judges {
            current,
            newest,
            missing: None,
            targets,
            begun_before: HashMap::new(),
        })
    }
}

/// Whether the newest version of the definition is asked for.
fn needs_newest(action: &Action) -> bool {
    matches!(action, Action::Start(_)) || migrates_to_newest(action)
}

/// Whether the newest version is to be read for it. Another node may have put one since. A write would find that out; that
/// there is nothing to do, or that it cannot be done, is answered without one.
fn reads_newest(pending: &Pending) -> bool {
    pending.reads_newest || migrates_to_newest(&pending.command.action)
}

fn migrates_to_newest(action: &Action) -> bool {
    matches!(action, Action::Migrate(migrate) if migrate.to_version.is_none())
}

/// The version of the definition that is asked for by its number.
fn target(action: &Action) -> Option<i64> {
    match action {
        Action::Migrate(migrate) => migrate.to_version,
        _ => None,
    }
}
