//! Definitions in the store, and the compiled ones in memory.
//!
//! A definition's record has one version for each version of the definition: its events are the texts, so a version
//! that a running instance is on can always be read again.

use std::sync::{Arc, Mutex, PoisonError};

use lockkeeper_model::{Actor, Definition, Format, Problem, Refusal, Timestamp, WorkflowName};
use lockkeeper_store::{Alarm, ChangeSet, CommitError, Facets, ListOrder, ListQuery, Store, Verdict};
use moka::sync::Cache;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::clock::Clock;
use crate::codec;
use crate::limits::{DEFINITIONS_BYTES_MAX, KNOWN_NAMES_MAX, NEWEST_REMEMBERED, PUT_ATTEMPTS_MAX};
use crate::retention::PURGED;
use crate::strategy::waited_ms;

/// A definition as it was put.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DefinitionText {
    /// How it is written.
    pub format: Format,
    /// The text, byte for byte.
    pub text: String,
    /// Who put it.
    pub actor: Actor,
    /// When.
    pub at: Timestamp,
}

impl DefinitionText {
    /// Whether it would be the same version.
    fn is_same_text(&self, other: &Self) -> bool {
        (&self.text, self.format) == (&other.text, other.format)
    }
}

/// What came of putting a definition.
#[derive(Clone, Debug)]
pub struct PutDefinition {
    /// The definition's version.
    pub version: i64,
    /// Whether this version is new; the same text again is not.
    pub created: bool,
    /// What is doubtful in it.
    pub warnings: Vec<Problem>,
}

/// The definitions of a node.
pub(crate) struct Definitions {
    store: Arc<dyn Store>,
    /// With the size of the text, to which the compiled form is proportional.
    compiled: Cache<(WorkflowName, i64), (Arc<Definition>, u32)>,
    newest: Cache<WorkflowName, i64>,
    /// The store's life, as last heard; none: not yet.
    life: Mutex<Option<i64>>,
}

impl Definitions {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let weigh = |_: &(WorkflowName, i64), (_, bytes): &(Arc<Definition>, u32)| *bytes;
        let compiled = Cache::builder().max_capacity(DEFINITIONS_BYTES_MAX).weigher(weigh).build();
        Self { store, compiled, newest: Cache::new(NEWEST_REMEMBERED), life: Mutex::new(None) }
    }

    /// The store's life, as last heard: see [`lockkeeper_store::ChangeSet::life`].
    pub(crate) fn life(&self) -> Option<i64> {
        *self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store has told its life. In a new one a version may mean another text: what was in memory is dropped. (What is
    /// remembered of instances carries its life with it.)
    pub(crate) fn note_life(&self, life: i64) {
        let mut known = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        // A late answer of an earlier life changes nothing: lives only grow.
        if known.is_some_and(|known| known >= life) {
            return;
        }
        let Some(before) = known.replace(life) else { return };
        self.compiled.invalidate_all();
        self.newest.invalidate_all();
        drop(known);
        tracing::warn!(
            before,
            now = life,
            "the store has begun another life (a standby was promoted, or a backup restored): what this node remembered \
             is dropped; acknowledged changes may be missing unless the standby was synchronous"
        );
    }

    /// Checks and keeps a definition; the same text as the newest version's is that version, whatever the checker says of it
    /// by now.
    pub(crate) async fn put(
        &self,
        workflow: &WorkflowName,
        put: DefinitionText,
        clock: &dyn Clock,
    ) -> Result<PutDefinition, Refusal> {
        let definition = match compile(put.text.clone(), put.format, Definition::read).await {
            Ok(definition) => definition,
            Err(refusal) => return self.as_accepted(workflow, &put).await?.ok_or(refusal),
        };
        check_name(workflow, &definition)?;
        let warnings = definition.warnings().to_vec();
        let life = self.life();
        let (version, created) = self.keep(workflow, &put, clock).await?;
        self.remember(definition.with_version(version), put.text.len(), life);
        self.remember_newest(workflow, version, life);
        Ok(PutDefinition { version, created, warnings })
    }

    /// The newest version, if `put` is its text; what is found in it now are warnings.
    async fn as_accepted(
        &self,
        workflow: &WorkflowName,
        put: &DefinitionText,
    ) -> Result<Option<PutDefinition>, Refusal> {
        let record = self.store.read(&codec::definition_record(workflow)).await.map_err(|e| unavailable(&e))?;
        let Some(record) = record else { return Ok(None) };
        let newest: DefinitionText = codec::decode("a definition", &record.body)?;
        if !newest.is_same_text(put) {
            return Ok(None);
        }
        let accepted = compile(newest.text, newest.format, Definition::read_accepted).await?;
        let warnings = accepted.warnings().to_vec();
        Ok(Some(PutDefinition { version: record.version, created: false, warnings }))
    }

    async fn keep(
        &self,
        workflow: &WorkflowName,
        put: &DefinitionText,
        clock: &dyn Clock,
    ) -> Result<(i64, bool), Refusal> {
        let key = codec::definition_record(workflow);
        let body = codec::encode(put)?;
        for _ in 0..PUT_ATTEMPTS_MAX {
            let record = self.store.read(&key).await.map_err(|e| unavailable(&e))?;
            let version = record.as_ref().map_or(0, |record| record.version);
            let life = record.as_ref().map(|record| record.life);
            if let Some(record) = record {
                let newest: DefinitionText = codec::decode("a definition", &record.body)?;
                if newest.is_same_text(put) {
                    return Ok((version, false));
                }
            }
            let set = ChangeSet {
                key: key.clone(),
                commit_id: Uuid::new_v4(),
                expected_version: version,
                facets: Facets::default(),
                body: body.clone(),
                events: vec![body.clone()],
                keys: Vec::new(),
                requires: Vec::new(),
                fences: Vec::new(),
                alarm: Alarm::Keep,
                at: clock.now(),
                life,
            };
            match self.store.commit(set).await {
                Ok(Verdict::Committed) => return Ok((version + 1, true)),
                Ok(Verdict::Rejected { reason, .. }) => return Err(Refusal::Malformed { detail: reason }),
                // Somebody else's came between.
                Ok(Verdict::Lost(_) | Verdict::KeysTaken(_) | Verdict::Unmet { .. } | Verdict::Fenced { .. }) => {}
                Ok(Verdict::LockTimeout { waited }) => {
                    return Err(Refusal::LockTimeout { waited_ms: waited_ms(waited) });
                }
                Err(CommitError::Unavailable(detail)) => return Err(Refusal::Unavailable { detail }),
                Err(CommitError::Unknown(detail)) => {
                    return Err(Refusal::Unknown { detail: format!("{detail}; putting the same text again is safe") });
                }
            }
        }
        Err(Refusal::Busy { detail: format!("others keep putting definitions of {workflow}; try again") })
    }

    /// The text of a version (none: the newest), with its version.
    pub(crate) async fn text(
        &self,
        workflow: &WorkflowName,
        version: Option<i64>,
    ) -> Result<(i64, DefinitionText), Refusal> {
        let key = codec::definition_record(workflow);
        let (version, body) = match version {
            None => {
                let record = self.store.read(&key).await.map_err(|e| unavailable(&e))?;
                let Some(record) = record else { return Err(self.unknown(workflow, None).await) };
                self.note_life(record.life);
                (record.version, record.body)
            }
            Some(version) => {
                let before = version.checked_sub(1).filter(|before| *before >= 0);
                let events = match before {
                    Some(before) => self.store.events(&key, before, 1).await.map_err(|e| unavailable(&e))?,
                    None => Vec::new(),
                };
                let event = events.into_iter().find(|event| event.version == version);
                let Some(event) = event else { return Err(self.unknown(workflow, Some(version)).await) };
                (version, event.body)
            }
        };
        Ok((version, codec::decode("a definition", &body)?))
    }

    /// A version that is in memory already.
    pub(crate) fn compiled(&self, workflow: &WorkflowName, version: i64) -> Option<Arc<Definition>> {
        self.compiled.get(&(workflow.clone(), version)).map(|(definition, _)| definition)
    }

    /// The newest version as far as this node knows, if it is in memory.
    pub(crate) fn newest_compiled(&self, workflow: &WorkflowName) -> Option<Arc<Definition>> {
        self.compiled(workflow, self.newest.get(workflow)?)
    }

    /// A compiled version.
    pub(crate) async fn version(&self, workflow: &WorkflowName, version: i64) -> Result<Arc<Definition>, Refusal> {
        if let Some(definition) = self.compiled(workflow, version) {
            return Ok(definition);
        }
        let life = self.life();
        let (_, put) = self.text(workflow, Some(version)).await?;
        let bytes = put.text.len();
        // It was accepted once, and runs are on it: what an earlier version obeyed is obeyed still.
        let definition = compile(put.text, put.format, Definition::read_accepted).await?.with_version(version);
        Ok(self.remember(definition, bytes, life))
    }

    /// As [`Self::remember`].
    fn remember_newest(&self, workflow: &WorkflowName, version: i64, life: Option<i64>) {
        let known = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        if *known == life {
            self.newest.insert(workflow.clone(), version);
        }
    }

    /// Keeps what was read, unless the store has begun another life since `life`.
    fn remember(&self, definition: Definition, bytes: usize, life: Option<i64>) -> Arc<Definition> {
        let definition = Arc::new(definition);
        // Held while it is put in, so that it is not put in after everything was dropped.
        let known = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != life {
            return definition;
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let id = (definition.workflow().clone(), definition.version());
        self.compiled.insert(id, (definition.clone(), bytes));
        definition
    }

    /// The newest version as far as this node knows. Whoever commits by it has the store check that it still is.
    pub(crate) async fn newest(&self, workflow: &WorkflowName) -> Result<Arc<Definition>, Refusal> {
        let version = match self.newest.get(workflow) {
            Some(version) => version,
            None => {
                let life = self.life();
                let (version, _) = self.text(workflow, None).await?;
                self.remember_newest(workflow, version, life);
                version
            }
        };
        let found = self.version(workflow, version).await;
        if matches!(found, Err(Refusal::UnknownWorkflow { .. } | Refusal::UnknownVersion { .. })) {
            // Of an earlier life, in which there was such a version.
            self.forget_newest(workflow);
        }
        found
    }

    /// The newest version as the store has it at this moment, whatever this node remembers: for what writes nothing that would
    /// find out.
    pub(crate) async fn newest_now(
        &self,
        workflow: &WorkflowName,
        clock: &dyn Clock,
    ) -> Result<Arc<Definition>, Refusal> {
        let key = codec::definition_record(workflow);
        let found = self.store.confirm(&key, &[], clock.now()).await.map_err(|e| unavailable(&e))?;
        self.note_life(found.life);
        if found.version == 0 {
            return Err(self.unknown(workflow, None).await);
        }
        self.remember_newest(workflow, found.version, Some(found.life));
        self.version(workflow, found.version).await
    }

    /// The store has said that another version is the newest.
    pub(crate) fn forget_newest(&self, workflow: &WorkflowName) {
        self.newest.invalidate(workflow);
    }

    async fn unknown(&self, workflow: &WorkflowName, version: Option<i64>) -> Refusal {
        let workflow_name = workflow.to_string();
        let Some(version) = version else {
            let known = known_names(&*self.store, codec::DEFINITION_SPACE, ListOrder::Id).await;
            return Refusal::UnknownWorkflow { workflow: workflow_name, known };
        };
        let record = self.store.read(&codec::definition_record(workflow)).await;
        let newest = record.ok().flatten().map(|record| record.version);
        Refusal::UnknownVersion { workflow: workflow_name, version, newest }
    }
}

/// Reads and checks a text. One of a megabyte takes long enough to be kept off the threads that answer everybody else.
async fn compile(
    text: String,
    format: Format,
    read: fn(&str, Format) -> Result<Definition, Vec<Problem>>,
) -> Result<Definition, Refusal> {
    tokio::task::spawn_blocking(move || read(&text, format))
        .await
        .map_err(|error| Refusal::Unavailable { detail: format!("checking the definition failed: {error}") })?
        .map_err(|problems| Refusal::InvalidDefinition { problems })
}

/// Some ids of a space, for an answer that names what is there: nothing that was purged. A store that does not answer names
/// nothing.
pub(crate) async fn known_names(store: &dyn Store, space: &str, order: ListOrder) -> Vec<String> {
    let query =
        ListQuery { without_secondary: Some(PURGED.to_owned()), ..ListQuery::all(space, order, KNOWN_NAMES_MAX) };
    let page = store.list(&query).await;
    page.map(|page| page.records.into_iter().map(|r| r.key.id.to_string()).collect()).unwrap_or_default()
}

/// A read that failed had no effect.
pub(crate) fn unavailable(error: &lockkeeper_store::ReadError) -> Refusal {
    match error {
        lockkeeper_store::ReadError::Unavailable(detail) => Refusal::Unavailable { detail: detail.clone() },
        lockkeeper_store::ReadError::BadCursor(_) => Refusal::Malformed { detail: error.to_string() },
    }
}

fn check_name(workflow: &WorkflowName, definition: &Definition) -> Result<(), Refusal> {
    if definition.workflow() == workflow {
        return Ok(());
    }
    let problem = Problem {
        line: 0,
        column: 0,
        path: "workflow".to_owned(),
        message: format!("the text defines {:?}, but it was put as {workflow:?}", definition.workflow()),
        remedy: format!("write `workflow: {workflow}`, or put it to /v1/workflows/{}", definition.workflow()),
    };
    Err(Refusal::InvalidDefinition { problems: vec![problem] })
}
