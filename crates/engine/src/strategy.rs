//! The optimistic strategy: decide on a snapshot, commit on the condition that it is still the current version.
//!
//! Invariants:
//! - an answer leaves only after the write (or the read) that proves it;
//! - a batch whose write was lost is decided again from the row that won, first at once, then after a backoff during
//!   which nothing is held;
//! - a commit whose answer was lost is never guessed: it is settled by its commit id, or by a later successful write on
//!   the same expected version.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_model::definition::Concurrency;
use lockkeeper_model::{Action, Instance, InstanceKey, Refusal};
use lockkeeper_store::{CommitError, ListOrder, Record, StoredKey, Verdict};
use rand::RngExt;
use tokio::time::Instant;
use uuid::Uuid;

use crate::batch::{self, Folded, Judges, Member, Snapshot};
use crate::codec;
use crate::definitions::{known_names, unavailable};
use crate::engine::{Answer, Inner};
use crate::limits::{BACKOFF_MAX, SETTLE_PAUSE};
use crate::pending::Pending;

/// The name by which answers call this strategy.
pub(crate) const NAME: &str = "optimistic";

/// A commit that was sent and not answered, with the answers that it would justify.
struct Unsettled {
    commit_id: Uuid,
    expected_version: i64,
    instance: Option<Arc<Instance>>,
    answers: Vec<Answer>,
}

/// Serves one batch of one instance, from snapshot to answers.
pub(crate) struct Attempt<'a> {
    inner: &'a Arc<Inner>,
    key: &'a InstanceKey,
    /// Commits whose fate is not known; while there are any, the batch's members stay the same.
    unsettled: Vec<Unsettled>,
    /// Commit one at a time: the definition asks for it, or the store could not say which member it rejects.
    singly: bool,
    /// As the definition says that judged last.
    concurrency: Concurrency,
    /// Tries to learn the fate of the open commits.
    tries: u32,
}

/// What to do after a step.
enum Step {
    /// Everybody has an answer, or is queued again.
    Done,
    /// Decide these again.
    Again(Vec<Pending>),
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(inner: &'a Arc<Inner>, key: &'a InstanceKey) -> Self {
        Self { inner, key, unsettled: Vec::new(), singly: false, concurrency: Concurrency::default(), tries: 0 }
    }

    /// Runs the batch to its end: each command is answered, or queued again for after its backoff.
    pub(crate) async fn run(mut self, mut batch: Vec<Pending>) {
        loop {
            if self.unsettled.is_empty() {
                batch.retain(|pending| !pending.is_abandoned());
            } else if batch.iter().all(|pending| pending.deadline <= Instant::now()) {
                // Their senders have been told `unknown`. What may still arrive finds the version that it expects, or
                // it does not; whoever decides next reads the record anew.
                let commits: Vec<_> = self.unsettled.iter().map(|open| open.commit_id).collect();
                tracing::warn!(key = %self.key, ?commits, "the fate of these commits was not learnt in time");
                self.inner.cache.forget(self.key);
                self.inner.watchers.changed(self.key);
                return;
            }
            if batch.is_empty() {
                return;
            }
            if self.singly && batch.len() > 1 {
                let rest = batch.split_off(1);
                Box::pin(Attempt::new(self.inner, self.key).run(batch)).await;
                batch = rest;
                continue;
            }
            batch = match self.step(batch).await {
                Step::Done => return,
                Step::Again(batch) => batch,
            };
        }
    }

    async fn step(&mut self, batch: Vec<Pending>) -> Step {
        let snapshot = if self.unsettled.is_empty() {
            self.snapshot().await
        } else {
            match self.settle().await {
                Ok(Some(settled)) => return finish(batch, settled.answers),
                Ok(None) => self.read().await,
                Err(refusal) => Err(refusal),
            }
        };
        let snapshot = match snapshot {
            Ok(snapshot) => snapshot,
            Err(refusal) => return self.no_snapshot(batch, refusal).await,
        };
        if self.unsettled.iter().any(|open| open.expected_version < snapshot.version) {
            // Something came between asking after the open commits and reading: it may be one of them.
            return self.ask_again(batch).await;
        }
        let judges = match self.judges(&batch, &snapshot).await {
            Ok(judges) => judges,
            Err(refusal) => return self.no_snapshot(batch, refusal).await,
        };
        self.concurrency = judges.concurrency();
        if !self.concurrency.combine && batch.len() > 1 && self.unsettled.is_empty() {
            self.singly = true;
            return Step::Again(batch);
        }
        let inner = self.inner;
        match batch::fold(self.key, batch, &snapshot, &judges, &*inner.clock, inner.options.key_life).await {
            Ok(folded) => self.commit(folded, &snapshot).await,
            Err((batch, refusal)) => self.no_snapshot(batch, refusal).await,
        }
    }

    /// What this node remembers, else what the store has.
    async fn snapshot(&self) -> Result<Snapshot, Refusal> {
        match self.inner.cache.get(self.key) {
            Some(instance) => Ok(Snapshot { version: instance.version, instance: Some(instance), fresh: false }),
            None => self.read().await,
        }
    }

    async fn read(&self) -> Result<Snapshot, Refusal> {
        let record = self.inner.store.read(&codec::instance_record(self.key)).await.map_err(|e| unavailable(&e))?;
        self.remember(record)
    }

    /// Takes the record as the snapshot, and into the cache.
    fn remember(&self, record: Option<Record>) -> Result<Snapshot, Refusal> {
        let Some(record) = record else {
            self.inner.cache.forget(self.key);
            return Ok(Snapshot { version: 0, instance: None, fresh: true });
        };
        let instance = Arc::new(codec::decode_instance(&record)?);
        self.inner.cache.put(self.key, instance.clone());
        Ok(Snapshot { version: record.version, instance: Some(instance), fresh: true })
    }

    /// The definitions that the batch needs, and no others.
    async fn judges(&self, batch: &[Pending], snapshot: &Snapshot) -> Result<Judges, Refusal> {
        let definitions = &self.inner.definitions;
        let workflow = &self.key.workflow;
        let is_start = |pending: &Pending| matches!(pending.command.action, Action::Start(_));
        let current = match &snapshot.instance {
            Some(instance) => Some(definitions.version(workflow, instance.definition_version).await?),
            None => None,
        };
        let newest = match batch.iter().any(is_start) || current.is_none() {
            true => Some(definitions.newest(workflow).await),
            false => None,
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
        Ok(Judges { current, newest, missing })
    }

    /// Nothing can be decided or written; but a commit whose fate is open is asked after until the deadline.
    async fn no_snapshot(&mut self, batch: Vec<Pending>, refusal: Refusal) -> Step {
        if self.unsettled.is_empty() {
            return refuse_all(batch, &refusal);
        }
        self.ask_again(batch).await
    }

    /// Goes round again after a pause, to ask after the open commits.
    async fn ask_again(&mut self, batch: Vec<Pending>) -> Step {
        self.tries += 1;
        pause(self.tries).await;
        Step::Again(batch)
    }

    async fn commit(&mut self, mut folded: Folded, snapshot: &Snapshot) -> Step {
        let idle_keys = folded.idle_keys();
        let Some(set) = folded.set.take() else {
            return self.answer_unchanged(folded, snapshot, idle_keys).await;
        };
        if !idle_keys.is_empty() {
            match self.find_replays(&mut folded, snapshot.version, &idle_keys).await {
                Ok(true) => {}
                Ok(false) => return Step::Again(folded.into_pending()),
                Err(refusal) => return self.no_snapshot(folded.into_pending(), refusal).await,
            }
        }
        if !folded.members.iter().all(|member| member.pending.mark_sent()) {
            // Somebody left between the fold and now; without them the others' answers may differ.
            folded.members.iter().for_each(|member| self.unmark(&member.pending));
            return Step::Again(folded.into_pending());
        }
        let (commit_id, expected_version) = (set.commit_id, set.expected_version);
        match self.inner.store.commit(set).await {
            Ok(verdict) => self.conclude(folded, expected_version, verdict).await,
            Err(CommitError::Unavailable(detail)) => {
                folded.members.iter().for_each(|member| self.unmark(&member.pending));
                self.no_snapshot(folded.into_pending(), Refusal::Unavailable { detail }).await
            }
            Err(CommitError::Unknown(detail)) => {
                tracing::warn!(key = %self.key, %commit_id, detail, "the fate of a commit is not known");
                self.inner.cache.forget(self.key);
                let answers = folded.members.iter().map(|member| member.answer.clone()).collect();
                self.unsettled.push(Unsettled {
                    commit_id,
                    expected_version,
                    instance: folded.instance.take(),
                    answers,
                });
                self.ask_again(folded.into_pending()).await
            }
        }
    }

    /// A member may be taken back only while no commit that carries it is open.
    fn unmark(&self, pending: &Pending) {
        if self.unsettled.is_empty() {
            pending.mark_not_sent();
        }
    }

    async fn conclude(&mut self, folded: Folded, expected_version: i64, verdict: Verdict) -> Step {
        if verdict == Verdict::Committed {
            // Whatever is open expects the same version (`step` sees to it) and can no longer commit: it is taken.
            self.committed(folded.instance);
            return answer_all(folded.members);
        }
        if matches!(verdict, Verdict::Unmet { .. }) {
            self.inner.definitions.forget_newest(&self.key.workflow);
        }
        if !self.unsettled.is_empty() {
            // The open commit may be what came between; settle that first.
            self.inner.cache.forget(self.key);
            return self.ask_again(folded.into_pending()).await;
        }
        folded.members.iter().for_each(|member| member.pending.mark_not_sent());
        match verdict {
            Verdict::Committed => Step::Done,
            Verdict::Lost(record) => self.lost(folded.into_pending(), record),
            Verdict::KeysTaken(stored) => keys_taken(folded, &stored),
            Verdict::Unmet { .. } => self.lost_attempts(folded.into_pending(), expected_version),
            Verdict::Rejected { event, reason } => self.rejected(folded, event, &reason),
        }
    }

    fn committed(&self, instance: Option<Arc<Instance>>) {
        match instance {
            Some(instance) => self.inner.cache.put(self.key, instance),
            None => self.inner.cache.forget(self.key),
        }
        self.inner.watchers.changed(self.key);
    }

    /// Nobody changes anything: one read of the primary proves the snapshot and finds replays.
    async fn answer_unchanged(&mut self, mut folded: Folded, snapshot: &Snapshot, keys: Vec<String>) -> Step {
        if !self.unsettled.is_empty() {
            // A commit that carries these commands may still arrive: a refusal now could become untrue.
            return self.ask_again(folded.into_pending()).await;
        }
        if keys.is_empty() && snapshot.fresh {
            return answer_all(folded.members);
        }
        match self.find_replays(&mut folded, snapshot.version, &keys).await {
            Ok(true) => answer_all(folded.members),
            Ok(false) => Step::Again(folded.into_pending()),
            Err(refusal) => self.no_snapshot(folded.into_pending(), refusal).await,
        }
    }

    /// Replaces the answers of members that took effect earlier. False: the snapshot is not the current version.
    async fn find_replays(&self, folded: &mut Folded, version: i64, keys: &[String]) -> Result<bool, Refusal> {
        let key = codec::instance_record(self.key);
        let confirmed = self.inner.store.confirm(&key, keys, self.inner.clock.now()).await;
        let confirmed = confirmed.map_err(|error| unavailable(&error))?;
        if confirmed.version != version {
            self.inner.cache.forget(self.key);
            return Ok(false);
        }
        for member in folded.members.iter_mut().filter(|member| member.event.is_none()) {
            if let Some(answer) = stored_answer(&member.pending, &confirmed.keys) {
                member.answer = answer;
            }
        }
        Ok(true)
    }

    /// Another write came first: decide again from the row that won.
    fn lost(&self, batch: Vec<Pending>, record: Option<Record>) -> Step {
        let current = record.as_ref().map_or(0, |record| record.version);
        match self.remember(record) {
            Ok(_) => self.lost_attempts(batch, current),
            Err(refusal) => refuse_all(batch, &refusal),
        }
    }

    /// Counts the loss for each command: the first is tried again at once, later ones after a backoff, the last is
    /// answered `conflict`.
    fn lost_attempts(&self, batch: Vec<Pending>, current: i64) -> Step {
        let mut at_once = Vec::new();
        for mut pending in batch {
            pending.losses += 1;
            if pending.losses >= self.concurrency.attempts {
                let refusal = Refusal::Conflict { current, attempts: pending.losses, strategy: NAME.to_owned() };
                pending.answer(Answer { result: Err(refusal), replayed: false });
            } else if pending.losses == 1 {
                at_once.push(pending);
            } else {
                let pause = backoff(self.concurrency.backoff, pending.losses);
                self.inner.retry_later(pending, pause);
            }
        }
        if at_once.is_empty() { Step::Done } else { Step::Again(at_once) }
    }

    /// One member breaks a rule of the store: it alone is refused.
    fn rejected(&mut self, folded: Folded, event: Option<usize>, reason: &str) -> Step {
        let culprit = folded.members.iter().position(|member| event.is_some() && member.event == event);
        let mut batch = folded.into_pending();
        let refusal = Refusal::Malformed { detail: format!("the store refuses this change: {reason}") };
        match culprit {
            Some(place) => {
                batch.remove(place).answer(Answer { result: Err(refusal), replayed: false });
                Step::Again(batch)
            }
            None if batch.len() == 1 => refuse_all(batch, &refusal),
            None => {
                self.singly = true;
                Step::Again(batch)
            }
        }
    }

    /// Asks the store which of the open commits took place. `None`: none so far; those that no longer can are dropped.
    async fn settle(&mut self) -> Result<Option<Unsettled>, Refusal> {
        let key = codec::instance_record(self.key);
        let current = self.inner.store.confirm(&key, &[], self.inner.clock.now()).await;
        let current = current.map_err(|error| unavailable(&error))?.version;
        for place in 0..self.unsettled.len() {
            let open = &self.unsettled[place];
            let found = self.inner.store.committed(&key, open.expected_version, open.commit_id).await;
            if found.map_err(|error| unavailable(&error))? {
                let mut settled = self.unsettled.swap_remove(place);
                self.committed(settled.instance.take());
                return Ok(Some(settled));
            }
        }
        // The version was read before the commit ids: a commit on an older version that is not there can never be.
        self.unsettled.retain(|open| open.expected_version >= current);
        Ok(None)
    }
}

/// The answer that the store has kept for this command's key.
fn stored_answer(pending: &Pending, stored: &[StoredKey]) -> Option<Answer> {
    let key = pending.command.idempotency_key.as_ref()?;
    let stored = stored.iter().find(|stored| stored.key == *key)?;
    if pending.fingerprint != Some(stored.fingerprint) {
        return Some(Refusal::KeyReused { key: key.clone() }.into());
    }
    Some(match codec::decode_success(&stored.outcome) {
        Ok(success) => Answer { result: Ok(success), replayed: true },
        // It took effect, but what was answered cannot be read: the history tells.
        Err(refusal) => Refusal::Unknown { detail: format!("the command took effect, but {refusal}") }.into(),
    })
}

/// Commands that took effect earlier get their first outcome; the others are decided again.
fn keys_taken(folded: Folded, stored: &[StoredKey]) -> Step {
    let mut again = Vec::new();
    for Member { pending, .. } in folded.members {
        match stored_answer(&pending, stored) {
            Some(answer) => pending.answer(answer),
            None => again.push(pending),
        }
    }
    Step::Again(again)
}

fn answer_all(members: Vec<Member>) -> Step {
    for member in members {
        member.pending.answer(member.answer);
    }
    Step::Done
}

fn finish(batch: Vec<Pending>, answers: Vec<Answer>) -> Step {
    assert_eq!(batch.len(), answers.len(), "a batch with an open commit keeps its members");
    for (pending, answer) in batch.into_iter().zip(answers) {
        pending.answer(answer);
    }
    Step::Done
}

fn refuse_all(batch: Vec<Pending>, refusal: &Refusal) -> Step {
    for pending in batch {
        pending.answer(Answer { result: Err(refusal.clone()), replayed: false });
    }
    Step::Done
}

/// Exponential backoff with full jitter before the attempt that follows `losses` lost ones: a random part of
/// `first * 2^(losses - 2)`, since the attempt after the first loss has none.
///
/// Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
pub(crate) fn backoff(first: Duration, losses: u32) -> Duration {
    let ceiling = first.saturating_mul(2u32.saturating_pow(losses.saturating_sub(2))).min(BACKOFF_MAX);
    ceiling.mul_f64(rand::rng().random_range(0.0..=1.0))
}

/// The pause before the fate of open commits is asked after again.
pub(crate) async fn pause(tries: u32) {
    let (first, longest) = SETTLE_PAUSE;
    let pause = first.saturating_mul(2u32.saturating_pow(tries.saturating_sub(1))).min(longest);
    tokio::time::sleep(pause).await;
}
