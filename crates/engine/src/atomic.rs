//! Moves of several instances that happen together or not at all.
//!
//! The slots of all instances are taken in sorted order, so two requests over the same instances never wait for each
//! other in a circle; then all are decided and committed in one transaction. Slots are given back before a backoff. Leases
//! are waited for before the slots, all of them together ([`leases`]).

mod checks;
mod leases;
mod open;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_model::definition::{Concurrency, Strategy};
use lockkeeper_model::{
    Change, Command, Decision, Fingerprint, Instance, InstanceKey, Refusal, Success, SuccessKind, Timestamp, decide,
};
use lockkeeper_store::{AllVerdict, ChangeSet, CommitError, NewKey, Requirement, Verdict};
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use crate::codec;
use crate::combiner::SlotGuard;
use crate::definitions::unavailable;
use crate::engine::{Engine, Inner, data_bytes, deadline};
use crate::fences;
use crate::leases::Leased;
use crate::limits::ADAPTIVE_LOSSES_MAX;
use crate::pending::{Phase, given_up};
use crate::strategy::{backoff, pause, waited_ms};
use checks::{check, fingerprint};
use open::Open;

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
    /// The store's life in which the instance was read; none: not known.
    life: Option<i64>,
    /// It needs another lease than the one that is held.
    lacks_lease: bool,
}

/// How an attempt ended.
enum Attempt {
    Done(AtomicAnswer),
    /// Another write came first; the move that met it, and the version that it met.
    Lost {
        index: usize,
        current: i64,
    },
    /// Nothing can be said yet: a commit was sent and not answered.
    Unknown,
}

impl Engine {
    /// Sends commands to several instances, all or nothing. A vote short of its quorum counts as not applied.
    ///
    /// An idempotency key on the commands must be the same for all, and stands for the whole request, moves in the same
    /// order. Dropping the future takes the request back, unless its commit is already under way.
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
        let leaving = Leaving(Phase::default());
        let request = Request {
            inner: self.inner.clone(),
            fingerprint: fingerprint(&commands),
            commands,
            deadline,
            phase: leaving.0.clone(),
            concurrency: Concurrency::default(),
            open: Vec::new(),
            tries: 0,
            fresh: false,
            leased: Leased::default(),
            locks_gone: false,
        };
        // A task of its own: a sender that leaves must not cut a commit in two.
        self.inner.tasks.spawn(async move {
            let _sender_gone = sender.send(request.run().await);
            drop(permit);
        });
        match tokio::time::timeout_at(deadline, receiver).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_died)) => Err(given_up(&leaving.0, "the node stopped working on it").into()),
            Err(_elapsed) => Err(given_up(&leaving.0, "its deadline passed").into()),
        }
    }
}

/// The sender's side: gone when it is dropped.
struct Leaving(Phase);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// A request under way.
struct Request {
    inner: Arc<Inner>,
    commands: Vec<Command>,
    fingerprint: Fingerprint,
    deadline: Instant,
    phase: Phase,
    /// Attempts before `conflict`, and the first backoff: as the last definition says that judged.
    concurrency: Concurrency,
    /// Commits that were sent and not answered.
    open: Vec<Open>,
    /// Tries to learn their fate.
    tries: u32,
    /// Decide on what the store has, not on what this node remembers: a refusal needs current data.
    fresh: bool,
    /// The lease of the attempt under way.
    leased: Leased,
    /// The lock service did not answer, and no definition refuses to go on without.
    locks_gone: bool,
}

impl Request {
    async fn run(mut self) -> Result<AtomicAnswer, AtomicFailure> {
        let mut losses = 0;
        loop {
            let attempt = self.with_leases().await;
            match attempt {
                Ok(Attempt::Done(answer)) => return Ok(answer),
                Err(failure) if self.open.is_empty() => return Err(failure),
                // While a commit is open, only its own fate or a later commit of the same moves can be the answer.
                Ok(Attempt::Unknown) | Err(_) => {
                    self.tries += 1;
                    pause(self.tries).await;
                }
                Ok(Attempt::Lost { index, current }) => {
                    losses += 1;
                    if losses >= self.attempts() && self.open.is_empty() {
                        let strategy = self.concurrency.strategy.as_str().to_owned();
                        let refusal = Refusal::Conflict { current, attempts: losses, strategy };
                        return Err(failed(index, refusal));
                    }
                    if losses > 1 {
                        let pause = backoff(self.concurrency.backoff, losses);
                        tokio::time::sleep_until(self.deadline.min(Instant::now() + pause)).await;
                    }
                }
            }
            if Instant::now() >= self.deadline || self.phase.is_abandoned() {
                // The sender knows by the phase what to make of it; nobody hears this.
                return Err(given_up(&self.phase, "its deadline passed").into());
            }
        }
    }

    /// Attempts before `conflict`. Rows are locked only while they are written, so a request under any strategy can lose;
    /// one that asks for more than the conditional write is tried longer.
    fn attempts(&self) -> u32 {
        match self.concurrency.strategy {
            Strategy::Optimistic => self.concurrency.attempts,
            Strategy::Pessimistic | Strategy::Distributed | Strategy::Adaptive => {
                self.concurrency.attempts.max(ADAPTIVE_LOSSES_MAX)
            }
        }
    }

    /// One attempt, holding all leases that it needs; they are given back before anybody waits.
    async fn with_leases(&mut self) -> Result<Attempt, AtomicFailure> {
        // What an open commit came to needs no lock to be seen.
        if !self.open.is_empty()
            && let Some(successes) = self.settle().await?
        {
            return Ok(Attempt::Done(AtomicAnswer { successes, replayed: false }));
        }
        self.leased = match self.lease().await {
            Ok(leased) => leased,
            // A refusal stands only if the request had not taken effect before.
            Err(failure) if self.open.is_empty() => {
                return self.replayed().await?.map(Attempt::Done).ok_or(failure);
            }
            Err(failure) => return Err(failure),
        };
        let attempt = self.with_slots().await;
        let leased = std::mem::take(&mut self.leased);
        self.inner.tasks.spawn(leased.release());
        attempt
    }

    /// One attempt, holding every slot; they are free again when it returns.
    async fn with_slots(&mut self) -> Result<Attempt, AtomicFailure> {
        let _slots = self.take_slots().await?;
        if let Some(successes) = self.settle().await? {
            return Ok(Attempt::Done(AtomicAnswer { successes, replayed: false }));
        }
        match self.attempt().await {
            // A refusal stands only on current data, and only if the request had not taken effect before.
            Err(_) if !self.fresh => {
                self.fresh = true;
                match self.replayed().await? {
                    Some(answer) => Ok(Attempt::Done(answer)),
                    None => self.attempt().await,
                }
            }
            Err(failure) => match self.replayed().await? {
                Some(answer) => Ok(Attempt::Done(answer)),
                None => Err(failure),
            },
            other => other,
        }
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
        let commit_id = Uuid::new_v4();
        let now = self.inner.clock.now();
        let mut decided = Vec::with_capacity(self.commands.len());
        for index in 0..self.commands.len() {
            decided.push(self.decide(index, commit_id, now).await?);
        }
        if decided.iter().any(|one| self.open.iter().any(|open| open.was_passed_by(&one.requirement))) {
            // Something came between asking after the open commits and reading: it may be one of them.
            return Ok(Attempt::Unknown);
        }
        if decided.windows(2).any(|pair| pair[0].life != pair[1].life) {
            // Of two lives of the store: what is remembered of the earlier one is no longer used on the next attempt.
            self.forget_all();
            return Ok(Attempt::Lost { index: 0, current: decided.first().map_or(0, |one| one.requirement.version) });
        }
        if let Some(index) = decided.iter().position(|one| one.lacks_lease) {
            let current = decided[index].requirement.version;
            return Ok(Attempt::Lost { index, current });
        }
        self.commit(decided, commit_id, now).await
    }

    /// The first outcomes, if the request took effect before: its keys were written together, one of them with the
    /// outcomes of all moves.
    async fn replayed(&self) -> Result<Option<AtomicAnswer>, AtomicFailure> {
        for (index, command) in self.commands.iter().enumerate() {
            let Some(key) = &command.idempotency_key else { return Ok(None) };
            let record = codec::instance_record(&command.instance);
            let found = self.inner.store.confirm(&record, std::slice::from_ref(key), self.inner.clock.now()).await;
            let Some(stored) = found.map_err(|error| unavailable(&error))?.keys.into_iter().next() else { continue };
            if stored.fingerprint != self.fingerprint {
                return Err(failed(index, Refusal::KeyReused { key: key.clone() }));
            }
            let successes: Vec<Success> = codec::decode("kept outcomes", &stored.outcome)?;
            if !successes.is_empty() {
                return Ok(Some(AtomicAnswer { successes, replayed: true }));
            }
        }
        Ok(None)
    }

    /// What this node remembers, unless a refusal is in question; and the store's life that it is of.
    async fn snapshot(&self, key: &InstanceKey) -> Result<(Arc<Instance>, Option<i64>), Refusal> {
        match self.inner.remembered(key).filter(|_| !self.fresh) {
            Some(remembered) => Ok((remembered.instance, Some(remembered.life))),
            None => {
                let (instance, life) = Engine { inner: self.inner.clone() }.read_instance(key).await?;
                Ok((instance, Some(life)))
            }
        }
    }

    async fn decide(&mut self, index: usize, commit_id: Uuid, now: Timestamp) -> Result<Decided, AtomicFailure> {
        let command = &self.commands[index];
        let key = &command.instance;
        let (instance, life) = self.snapshot(key).await.map_err(|refusal| failed(index, refusal))?;
        let definition = self.inner.definitions.version(&key.workflow, instance.definition_version).await;
        let definition = definition.map_err(|refusal| failed(index, refusal))?;
        self.concurrency = definition.concurrency_of(Some(&instance.state), &command.action).clone();
        let requirement = Requirement { key: codec::instance_record(key), version: instance.version };
        let decision = decide(&*definition, Some(&instance), command, now);
        match decision.map_err(|refusal| failed(index, refusal))? {
            Decision::Stay(success) if success.outcome == SuccessKind::AlreadyApplied => {
                Ok(Decided { success, change: None, requirement, life, lacks_lease: false })
            }
            Decision::Change(change) if change.success.outcome == SuccessKind::Applied => {
                let needed = self.needed_lock(&definition, &instance, command);
                let needed = needed.map_err(|refusal| failed(index, refusal))?;
                let mut set = change_set(&instance, &change, &requirement, commit_id, life)?;
                set.fences = self.fences(command, needed.as_deref());
                let lacks_lease = needed.is_some_and(|resource| !self.leased.covers(&resource));
                let change_of = Some((set, Arc::new(change.instance)));
                Ok(Decided { success: change.success, change: change_of, requirement, life, lacks_lease })
            }
            // A vote short of its quorum, new or repeated. (A start does not come here.)
            Decision::Stay(_) | Decision::Change(_) | Decision::Replace { .. } => Err(failed(index, not_applied())),
        }
    }

    async fn commit(
        &mut self,
        decided: Vec<Decided>,
        commit_id: Uuid,
        now: Timestamp,
    ) -> Result<Attempt, AtomicFailure> {
        let successes: Vec<Success> = decided.iter().map(|one| one.success.clone()).collect();
        // Which move each change set belongs to.
        let places: Vec<usize> = (0..decided.len()).filter(|place| decided[*place].change.is_some()).collect();
        let unchanged = decided.iter().filter(|one| one.change.is_none()).map(|one| one.requirement.clone());
        let unchanged: Vec<_> = unchanged.collect();
        let life = decided.first().and_then(|one| one.life);
        let changes = decided.into_iter().filter_map(|one| one.change);
        let (mut sets, instances): (Vec<ChangeSet>, Vec<Arc<Instance>>) = changes.unzip();
        if sets.is_empty() && !self.open.is_empty() {
            return Ok(Attempt::Unknown);
        }
        if sets.is_empty() && !self.fresh {
            // Nobody changes anything, and no write proves it: decide once more on what the store has.
            return Err(failed(0, not_applied()));
        }
        self.keep_outcomes(&mut sets, &places, &successes, now)?;
        let Some(first) = sets.first_mut() else {
            return Ok(Attempt::Done(AtomicAnswer { successes, replayed: false }));
        };
        first.requires = unchanged;
        let (record, expected_version) = (first.key.clone(), first.expected_version);
        let fences = sets.iter().flat_map(|set| set.fences.clone()).collect();
        let open = Open { record, expected_version, commit_id, successes, fences, never: false };
        if !self.phase.mark_sent() {
            return Err(given_up(&self.phase, "its sender left").into());
        }
        match self.inner.store.commit_all(sets).await {
            Ok(AllVerdict::Committed) => {
                for (place, instance) in places.into_iter().zip(instances) {
                    let key = &self.commands[place].instance;
                    self.inner.timers.set(instance.next_due());
                    match life {
                        Some(life) => self.inner.cache.put(key, instance, life),
                        None => self.inner.cache.forget(key),
                    }
                    self.inner.watchers.changed(key);
                }
                Ok(Attempt::Done(AtomicAnswer { successes: open.successes, replayed: false }))
            }
            Ok(AllVerdict::Failed { index, verdict }) => {
                self.unmark();
                self.failed(places.get(index).copied().unwrap_or(0), verdict).await
            }
            Err(CommitError::Unavailable(detail)) => {
                self.unmark();
                Err(Refusal::Unavailable { detail }.into())
            }
            Err(CommitError::Unknown(detail)) => {
                tracing::warn!(%commit_id, detail, "the fate of a commit of several instances is not known");
                self.forget_all();
                self.open.push(open);
                Ok(Attempt::Unknown)
            }
        }
    }

    /// The key of each changed instance is taken; the first carries the outcomes of all moves, the others none.
    fn keep_outcomes(
        &self,
        sets: &mut [ChangeSet],
        places: &[usize],
        successes: &[Success],
        now: Timestamp,
    ) -> Result<(), Refusal> {
        for (nth, (set, place)) in sets.iter_mut().zip(places).enumerate() {
            let Some(key) = &self.commands[*place].idempotency_key else { continue };
            set.keys.push(NewKey {
                key: key.clone(),
                fingerprint: self.fingerprint,
                outcome: codec::encode(&if nth == 0 { successes } else { &[] })?,
                version: set.expected_version + 1,
                expires_at: now + self.inner.options.key_life,
            });
        }
        Ok(())
    }

    async fn failed(&mut self, index: usize, verdict: Verdict) -> Result<Attempt, AtomicFailure> {
        self.forget_all();
        match verdict {
            Verdict::Lost(record) => Ok(Attempt::Lost { index, current: record.map_or(0, |record| record.version) }),
            Verdict::Unmet { requirement, actual } => {
                let of = |command: &Command| codec::instance_record(&command.instance) == requirement.key;
                let index = self.commands.iter().position(of).unwrap_or(index);
                Ok(Attempt::Lost { index, current: actual })
            }
            Verdict::Fenced { resource, last, .. } => {
                self.open.iter_mut().for_each(|open| open.note_late(&resource, last));
                let late = |(index, command)| Some((index, fences::refusal(command, &resource, last)?));
                match self.commands.iter().enumerate().find_map(late) {
                    Some((index, refusal)) => Err(failed(index, refusal)),
                    // The lease was lost.
                    None => Ok(Attempt::Lost { index, current: 0 }),
                }
            }
            Verdict::KeysTaken(_) => match self.replayed().await? {
                Some(answer) => Ok(Attempt::Done(answer)),
                // Expired between the two.
                None => Ok(Attempt::Lost { index, current: 0 }),
            },
            Verdict::LockTimeout { waited } => {
                Err(failed(index, Refusal::LockTimeout { waited_ms: waited_ms(waited) }))
            }
            Verdict::Rejected { reason, .. } => {
                Err(failed(index, Refusal::Malformed { detail: format!("the store refuses this change: {reason}") }))
            }
            Verdict::Committed => {
                Err(Refusal::Unavailable { detail: "the store contradicts itself; please report this".into() }.into())
            }
        }
    }

    /// The request may be taken back only while no commit of it is open.
    fn unmark(&self) {
        if self.open.is_empty() {
            self.phase.mark_not_sent();
        }
    }

    fn forget_all(&self) {
        self.commands.iter().for_each(|command| self.inner.cache.forget(&command.instance));
    }
}

fn change_set(
    before: &Instance,
    change: &Change,
    requirement: &Requirement,
    commit_id: Uuid,
    life: Option<i64>,
) -> Result<ChangeSet, Refusal> {
    Ok(ChangeSet {
        key: requirement.key.clone(),
        commit_id,
        expected_version: requirement.version,
        facets: codec::facets(&change.instance),
        body: codec::encode(&change.instance)?,
        events: vec![codec::encode(&change.entry)?],
        keys: Vec::new(),
        requires: Vec::new(),
        fences: Vec::new(),
        alarm: codec::alarm(Some(before), &change.instance),
        at: change.entry.at,
        life,
    })
}

fn failed(index: usize, refusal: Refusal) -> AtomicFailure {
    AtomicFailure { failed_index: Some(index), refusal }
}

fn not_applied() -> Refusal {
    let detail = "a vote short of its quorum cannot be part of a request that is all or nothing; nothing was recorded";
    Refusal::NotApplied { detail: detail.to_owned() }
}
