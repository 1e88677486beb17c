//! Moves of several instances that happen together or not at all.
//!
//! The slots of all instances are taken in sorted order, so two requests over the same instances never wait for each
//! other in a circle; then all are decided and committed in one transaction. Slots are given back before a backoff.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_model::definition::Concurrency;
use lockkeeper_model::{
    Change, Command, Decision, Fingerprint, Instance, InstanceKey, Refusal, Success, SuccessKind, decide,
};
use lockkeeper_store::{AllVerdict, ChangeSet, CommitError, NewKey, RecordKey, Requirement, Verdict};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use crate::codec;
use crate::combiner::SlotGuard;
use crate::definitions::unavailable;
use crate::engine::{Engine, Inner, data_bytes, deadline};
use crate::limits::{DEADLINE_GRACE, MOVES_MAX};
use crate::strategy::{NAME, backoff, pause};

/// All moves took effect (or had done so already).
#[derive(Clone, Debug, PartialEq)]
pub struct AtomicAnswer {
    /// The moves' outcomes, in the order of the request.
    pub successes: Vec<Success>,
    /// The request had taken effect earlier, under the same idempotency key.
    pub replayed: bool,
}

/// None of the moves took effect.
#[derive(Clone, Debug, PartialEq)]
pub struct AtomicFailure {
    /// The first move that could not be, by its place in the request; none: the request as a whole.
    pub failed_index: Option<usize>,
    /// Why.
    pub refusal: Refusal,
}

impl From<Refusal> for AtomicFailure {
    fn from(refusal: Refusal) -> Self {
        Self { failed_index: None, refusal }
    }
}

/// One move, decided.
struct Decided {
    success: Success,
    /// None: `already_applied`; then the version must hold when the others commit.
    change: Option<(ChangeSet, Arc<Instance>)>,
    requirement: Requirement,
}

/// How an attempt ended.
enum Attempt {
    Done(AtomicAnswer),
    /// Another write came first; the move that met it, and the version that it met.
    Lost {
        index: usize,
        current: i64,
    },
    /// The commit was sent and not answered.
    Unknown,
}

impl Engine {
    /// Sends commands to several instances, all or nothing. A vote short of its quorum counts as not applied.
    ///
    /// An idempotency key on the commands must be the same for all, and stands for the whole request.
    ///
    /// # Errors
    /// The first move that could not be, and why; nothing was written (unless the refusal is `unknown`).
    pub async fn send_atomic(
        &self,
        commands: Vec<Command>,
        wait: Option<Duration>,
    ) -> Result<AtomicAnswer, AtomicFailure> {
        self.inner.accepts()?;
        check(&commands)?;
        let bytes = commands.iter().map(data_bytes).sum();
        let permit = self.inner.budget.enter(bytes)?;
        let deadline = deadline(wait);
        let (sender, receiver) = oneshot::channel();
        let inner = self.inner.clone();
        // A task of its own: a sender that leaves must not cut a commit in two.
        self.inner.tasks.spawn(async move {
            let fingerprint = fingerprint(&commands);
            let concurrency = Concurrency::default();
            let request = Request { inner, commands, fingerprint, deadline, concurrency, open: Vec::new() };
            let _sender_gone = sender.send(request.run().await);
            drop(permit);
        });
        // The request keeps its own deadline; this one bounds a store that does not return.
        match tokio::time::timeout_at(deadline + DEADLINE_GRACE, receiver).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(Refusal::Unknown {
                detail:
                    "the node stopped working on it: send it again with the same idempotency key, or read the histories"
                        .to_owned(),
            }
            .into()),
        }
    }
}

fn check(commands: &[Command]) -> Result<(), AtomicFailure> {
    if commands.is_empty() || commands.len() > MOVES_MAX {
        let detail = format!("{} moves were given; 1 to {MOVES_MAX} are allowed", commands.len());
        return Err(Refusal::Malformed { detail }.into());
    }
    let mut keys: Vec<_> = commands.iter().map(|command| &command.instance).collect();
    keys.sort_unstable();
    if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Refusal::Malformed { detail: format!("{} is named twice; once is allowed", twice[0]) }.into());
    }
    Ok(())
}

/// The fingerprint of the whole request, so that one move of it sent alone is another command.
fn fingerprint(commands: &[Command]) -> Fingerprint {
    let mut whole = Sha256::new();
    for command in commands {
        // Neither a workflow's name nor an id holds a zero byte, and a fingerprint has a fixed length.
        whole.update(command.instance.to_string().as_bytes());
        whole.update([0]);
        whole.update(command.fingerprint());
    }
    whole.finalize().into()
}

/// A request under way.
struct Request {
    inner: Arc<Inner>,
    commands: Vec<Command>,
    fingerprint: Fingerprint,
    deadline: Instant,
    /// Attempts before `conflict`, and the first backoff: as the last definition says that judged.
    concurrency: Concurrency,
    /// Commits that were sent and not answered.
    open: Vec<Open>,
}

/// A commit whose fate is not known: told by its first change set, since all of them stand or fall together.
struct Open {
    record: RecordKey,
    expected_version: i64,
    commit_id: Uuid,
    successes: Vec<Success>,
}

impl Request {
    async fn run(mut self) -> Result<AtomicAnswer, AtomicFailure> {
        let mut losses = 0;
        loop {
            let attempt = match self.take_slots().await {
                Ok(slots) => {
                    let attempt = self.attempt().await;
                    drop(slots);
                    attempt
                }
                Err(refusal) => Err(refusal.into()),
            };
            match attempt {
                Ok(Attempt::Done(answer)) => return Ok(answer),
                Err(failure) if self.open.is_empty() => return Err(failure),
                // While a commit is open, only its own fate or a later commit of the same moves can be the answer.
                Ok(Attempt::Unknown) | Err(_) => {}
                Ok(Attempt::Lost { index, current }) => {
                    losses += 1;
                    if losses >= self.concurrency.attempts && self.open.is_empty() {
                        let refusal = Refusal::Conflict { current, attempts: losses, strategy: NAME.to_owned() };
                        return Err(AtomicFailure { failed_index: Some(index), refusal });
                    }
                    if losses > 1 {
                        tokio::time::sleep(backoff(self.concurrency.backoff, losses)).await;
                    }
                }
            }
            if Instant::now() >= self.deadline {
                return Err(self.out_of_time());
            }
            if !self.open.is_empty() {
                pause(self.open.len()).await;
            }
        }
    }

    fn out_of_time(&self) -> AtomicFailure {
        if self.open.is_empty() {
            let detail = "the deadline passed before the moves were committed; nothing was written".to_owned();
            return Refusal::Unavailable { detail }.into();
        }
        let detail = "the deadline passed while the commit was under way: send the request again with the same \
                      idempotency key, or read the histories";
        Refusal::Unknown { detail: detail.to_owned() }.into()
    }

    /// Exclusive use of every instance, in sorted order.
    async fn take_slots(&self) -> Result<Vec<SlotGuard>, Refusal> {
        let mut keys: Vec<&InstanceKey> = self.commands.iter().map(|command| &command.instance).collect();
        keys.sort_unstable();
        let mut slots = Vec::with_capacity(keys.len());
        for key in keys {
            let (slot, driver) = self.inner.combiner.push_exclusive(key.clone());
            self.inner.run(driver);
            let slot = tokio::time::timeout_at(self.deadline, slot).await.map_err(|_elapsed| Refusal::Unavailable {
                detail: format!("{key} was busy until the deadline; nothing was written"),
            })?;
            slots.push(slot.map_err(|_gone| Refusal::Unavailable {
                detail: format!("the node stopped working on {key}; nothing was written"),
            })?);
        }
        Ok(slots)
    }

    async fn attempt(&mut self) -> Result<Attempt, AtomicFailure> {
        if let Some(successes) = self.settle().await? {
            return Ok(Attempt::Done(AtomicAnswer { successes, replayed: false }));
        }
        if let Some(answer) = self.replayed().await? {
            return Ok(Attempt::Done(answer));
        }
        let commit_id = Uuid::new_v4();
        let mut decided = Vec::with_capacity(self.commands.len());
        for index in 0..self.commands.len() {
            decided.push(self.decide(index, commit_id).await?);
        }
        self.commit(decided, commit_id).await
    }

    /// The outcome of an open commit that took place; those that no longer can are dropped.
    async fn settle(&mut self) -> Result<Option<Vec<Success>>, Refusal> {
        let mut still_open = Vec::new();
        for open in std::mem::take(&mut self.open) {
            // The version first: a commit on an older version that is then not found can never be.
            let current = self.inner.store.confirm(&open.record, &[], self.inner.clock.now()).await;
            let found = self.inner.store.committed(&open.record, open.commit_id).await;
            match (current, found) {
                (_, Ok(Some(_))) => return Ok(Some(open.successes)),
                (Ok(current), Ok(None)) if current.version > open.expected_version => {}
                _ => still_open.push(open),
            }
        }
        self.open = still_open;
        Ok(None)
    }

    /// The first outcomes, if the request took effect before. Its keys were written together; a move that changed
    /// nothing kept none.
    async fn replayed(&self) -> Result<Option<AtomicAnswer>, AtomicFailure> {
        let mut kept = Vec::with_capacity(self.commands.len());
        for (index, command) in self.commands.iter().enumerate() {
            let Some(key) = &command.idempotency_key else { return Ok(None) };
            let record = codec::instance_record(&command.instance);
            let found = self.inner.store.confirm(&record, std::slice::from_ref(key), self.inner.clock.now()).await;
            let stored = found.map_err(|error| unavailable(&error))?.keys.into_iter().next();
            kept.push(match stored {
                Some(stored) if stored.fingerprint == self.fingerprint => Some(codec::decode_success(&stored.outcome)?),
                Some(_) => return Err(failed(index, Refusal::KeyReused { key: key.clone() })),
                None => None,
            });
        }
        if kept.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut successes = Vec::with_capacity(kept.len());
        for (kept, command) in kept.into_iter().zip(&self.commands) {
            successes.push(match kept {
                Some(success) => success,
                None => standing(&command.instance, &*self.read(&command.instance).await?),
            });
        }
        Ok(Some(AtomicAnswer { successes, replayed: true }))
    }

    /// Always from the primary: a refusal needs current data, and a stale version would only be lost.
    async fn read(&self, key: &InstanceKey) -> Result<Arc<Instance>, Refusal> {
        Engine { inner: self.inner.clone() }.instance(key, false).await
    }

    async fn decide(&mut self, index: usize, commit_id: Uuid) -> Result<Decided, AtomicFailure> {
        let command = &self.commands[index];
        let key = &command.instance;
        let instance = self.read(key).await.map_err(|refusal| failed(index, refusal))?;
        let definition = self.inner.definitions.version(&key.workflow, instance.definition_version).await;
        let definition = definition.map_err(|refusal| failed(index, refusal))?;
        self.concurrency = definition.concurrency();
        let requirement = Requirement { key: codec::instance_record(key), version: instance.version };
        let decision = decide(&definition, Some(&instance), command, self.inner.clock.now());
        match decision.map_err(|refusal| failed(index, refusal))? {
            Decision::Stay(success) if success.outcome == SuccessKind::AlreadyApplied => {
                Ok(Decided { success, change: None, requirement })
            }
            Decision::Change(change) if change.success.outcome == SuccessKind::Applied => {
                let set = self.change_set(command, &change, &requirement, commit_id)?;
                Ok(Decided { success: change.success, change: Some((set, Arc::new(change.instance))), requirement })
            }
            // A vote short of its quorum, new or repeated.
            Decision::Stay(_) | Decision::Change(_) => Err(failed(index, not_applied())),
        }
    }

    fn change_set(
        &self,
        command: &Command,
        change: &Change,
        requirement: &Requirement,
        commit_id: Uuid,
    ) -> Result<ChangeSet, Refusal> {
        let mut keys = Vec::new();
        if let Some(key) = &command.idempotency_key {
            keys.push(NewKey {
                key: key.clone(),
                fingerprint: self.fingerprint,
                outcome: codec::encode(&change.success)?,
                version: change.instance.version,
                expires_at: change.entry.at + self.inner.options.key_life,
            });
        }
        Ok(ChangeSet {
            key: requirement.key.clone(),
            commit_id,
            expected_version: requirement.version,
            facets: codec::facets(&change.instance),
            body: codec::encode(&change.instance)?,
            events: vec![codec::encode(&change.entry)?],
            keys,
            requires: Vec::new(),
            at: change.entry.at,
        })
    }

    async fn commit(&mut self, decided: Vec<Decided>, commit_id: Uuid) -> Result<Attempt, AtomicFailure> {
        let successes: Vec<Success> = decided.iter().map(|one| one.success.clone()).collect();
        // Which move each change set belongs to.
        let places: Vec<usize> = (0..decided.len()).filter(|place| decided[*place].change.is_some()).collect();
        let unchanged = decided.iter().filter(|one| one.change.is_none()).map(|one| one.requirement.clone());
        let unchanged: Vec<_> = unchanged.collect();
        let mut sets = Vec::with_capacity(places.len());
        let mut instances = Vec::with_capacity(places.len());
        for (set, instance) in decided.into_iter().filter_map(|one| one.change) {
            instances.push((instance, set.body.len()));
            sets.push(set);
        }
        let Some(first) = sets.first_mut() else {
            return Ok(Attempt::Done(AtomicAnswer { successes, replayed: false }));
        };
        first.requires = unchanged;
        let open = Open { record: first.key.clone(), expected_version: first.expected_version, commit_id, successes };
        match self.inner.store.commit_all(sets).await {
            Ok(AllVerdict::Committed) => {
                for (place, (instance, bytes)) in places.into_iter().zip(instances) {
                    let key = &self.commands[place].instance;
                    self.inner.cache.put(key, instance, bytes);
                    self.inner.watchers.changed(key);
                }
                Ok(Attempt::Done(AtomicAnswer { successes: open.successes, replayed: false }))
            }
            Ok(AllVerdict::Failed { index, verdict }) => self.failed(places[index], verdict),
            Err(CommitError::Unavailable(detail)) => Err(Refusal::Unavailable { detail }.into()),
            Err(CommitError::Unknown(detail)) => {
                tracing::warn!(%commit_id, detail, "the fate of a commit of several instances is not known");
                self.forget_all();
                self.open.push(open);
                Ok(Attempt::Unknown)
            }
        }
    }

    fn failed(&self, index: usize, verdict: Verdict) -> Result<Attempt, AtomicFailure> {
        self.forget_all();
        match verdict {
            Verdict::Lost(record) => Ok(Attempt::Lost { index, current: record.map_or(0, |record| record.version) }),
            Verdict::Unmet { actual, .. } => Ok(Attempt::Lost { index, current: actual }),
            // The keys were looked up a moment ago: another request with the same key came between, and the next
            // attempt finds it.
            Verdict::KeysTaken(stored) => {
                Ok(Attempt::Lost { index, current: stored.first().map_or(0, |stored| stored.version) })
            }
            Verdict::Rejected { reason, .. } => {
                Err(failed(index, Refusal::Malformed { detail: format!("the store refuses this change: {reason}") }))
            }
            Verdict::Committed => {
                Err(Refusal::Unavailable { detail: "the store contradicts itself; please report this".into() }.into())
            }
        }
    }

    fn forget_all(&self) {
        self.commands.iter().for_each(|command| self.inner.cache.forget(&command.instance));
    }
}

fn failed(index: usize, refusal: Refusal) -> AtomicFailure {
    AtomicFailure { failed_index: Some(index), refusal }
}

fn not_applied() -> Refusal {
    let detail = "a vote short of its quorum cannot be part of a request that is all or nothing; nothing was recorded";
    Refusal::NotApplied { detail: detail.to_owned() }
}

/// `already_applied`, where an instance stands now.
fn standing(key: &InstanceKey, instance: &Instance) -> Success {
    Success {
        outcome: SuccessKind::AlreadyApplied,
        id: key.id.to_string(),
        run: instance.run,
        version: instance.version,
        state: instance.state.clone(),
        status: instance.status,
        approval: None,
    }
}
