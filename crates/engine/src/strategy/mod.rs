//! Serves one batch of one instance: on a snapshot by the conditional write alone, or under the row lock, as the
//! definition says and contention asks; with a lease or without. Whichever it is, the write is on the condition that the version is still the one
//! that was decided on.
//!
//! Invariants:
//! - an answer leaves only after the write (or the read) that proves it;
//! - a batch whose write was lost is decided again from the row that won, first at once, then after a backoff during
//!   which nothing is held;
//! - a commit whose answer was lost is never guessed: it is settled by its commit id, or by a later successful write on
//!   the same expected version.

mod backoff;
mod lease;
mod plan;
mod requests;
mod row_lock;
mod settle;
mod snapshot;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_model::definition::{Concurrency, Strategy};
use lockkeeper_model::{Instance, InstanceKey, Refusal};
use lockkeeper_store::{ChangeSet, CommitError, Fence, Record, StoredKey, Verdict};
use tokio::time::Instant;
use uuid::Uuid;

pub(crate) use self::backoff::{backoff, pause};
use self::plan::Plan;
use self::settle::{Unsettled, finish};
use crate::batch::{self, FoldBy, Folded, Member, Snapshot, stored_answer};
use crate::codec;
use crate::combiner::Driver;
use crate::contention::Try;
use crate::definitions::unavailable;
use crate::engine::{Answer, Inner};
use crate::fences;
use crate::leases::Share;
use crate::limits::ADAPTIVE_LOSSES_MAX;
use crate::pending::Pending;

/// What is remembered of a change set that was sent.
struct Sent {
    commit_id: Uuid,
    expected_version: i64,
    life: Option<i64>,
    fences: Vec<Fence>,
    at: Instant,
}

impl Sent {
    fn of(set: &ChangeSet) -> Self {
        Self {
            commit_id: set.commit_id,
            expected_version: set.expected_version,
            life: set.life,
            fences: set.fences.clone(),
            at: Instant::now(),
        }
    }
}

/// Serves one batch of one instance, from snapshot to answers.
pub(crate) struct Attempt<'a> {
    inner: &'a Arc<Inner>,
    key: &'a InstanceKey,
    /// Serves the key: where those are that have come meanwhile.
    driver: &'a mut Driver,
    /// Commits whose fate is not known; while there are any, the batch's members stay the same.
    unsettled: Vec<Unsettled>,
    /// Commit one at a time: the definition asks for it, or the store could not say which member it rejects.
    singly: bool,
    /// Tries to learn the fate of the open commits.
    tries: u32,
    /// What is told to contention control of the try under way.
    now: Try,
    /// Whether what is decided on was current a moment ago.
    young: bool,
}

/// What to do after a step.
enum Step {
    /// Everybody has an answer, or is queued again.
    Done,
    /// Decide these again.
    Again(Vec<Pending>),
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(inner: &'a Arc<Inner>, key: &'a InstanceKey, driver: &'a mut Driver) -> Self {
        Self { inner, key, driver, unsettled: Vec::new(), singly: false, tries: 0, now: Try::default(), young: true }
    }

    /// Runs the batch to its end: each command is answered, or queued again for after its backoff.
    pub(crate) async fn run(mut self, mut batch: Vec<Pending>) {
        loop {
            if self.unsettled.is_empty() {
                batch = in_time(batch);
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
                let mut alone = Attempt::new(self.inner, self.key, self.driver);
                alone.singly = true;
                Box::pin(alone.run(batch)).await;
                batch = rest;
                continue;
            }
            batch = match self.step(batch).await {
                Step::Done => return,
                Step::Again(batch) => batch,
            };
        }
    }

    async fn step(&mut self, mut batch: Vec<Pending>) -> Step {
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
        if self.passed_by(&snapshot) {
            return self.ask_again(batch).await;
        }
        let mut judges = match self.judges(&batch, &snapshot).await {
            Ok(judges) => judges,
            Err(refusal) => return self.no_snapshot(batch, refusal).await,
        };
        if !judges.concurrency().combine && batch.len() > 1 && self.unsettled.is_empty() {
            self.singly = true;
            return Step::Again(batch);
        }
        for pending in &mut batch {
            pending.concurrency = judges.concurrency_of(&snapshot, &pending.command.action);
        }
        let rung = self.inner.contention.rung(self.key, self.inner.moment());
        batch = self.with_leases(batch, &snapshot, &judges, rung);
        if batch.is_empty() {
            return Step::Done;
        }
        let older = if self.unsettled.is_empty() { fences::take_older(&mut batch) } else { Vec::new() };
        if !older.is_empty() {
            Box::pin(Attempt::new(self.inner, self.key, self.driver).run(batch)).await;
            return Step::Again(older);
        }
        self.begin_try(&batch);
        match plan::of(&batch, rung, Instant::now()) {
            Plan::Snapshot => {}
            plan => return self.under_lock(batch, plan, &snapshot).await,
        }
        judges.begun_before = match self.begun_before(&batch, &snapshot).await {
            Ok(Some(begun_before)) => begun_before,
            Ok(None) if self.unsettled.is_empty() => return self.overtaken(batch, &snapshot),
            Ok(None) => return self.ask_again(batch).await,
            Err(refusal) => return self.no_snapshot(batch, refusal).await,
        };
        match batch::fold(self.key, batch, &snapshot, &judges, self.fold_by()).await {
            Ok(folded) => self.commit(folded, &snapshot).await,
            Err((batch, refusal)) => self.no_snapshot(batch, refusal).await,
        }
    }

    fn fold_by(&self) -> FoldBy<'_> {
        let inner = self.inner;
        FoldBy { clock: &*inner.clock, key_life: inner.options.key_life, whole: !self.unsettled.is_empty() }
    }

    fn begin_try(&mut self, batch: &[Pending]) {
        let oldest = batch.iter().map(|pending| pending.arrived).min();
        // A lease that others held before is waited for by all that share it.
        let lease = batch.iter().find_map(|pending| pending.lease.as_ref());
        self.now = Try {
            contended: lease.is_some_and(Share::contended),
            lock_wait: lease.map(Share::waited),
            may_lease: self.inner.leases.is_some() && batch.iter().any(|p| p.concurrency.lock_key.is_some()),
            queue_wait: oldest.map_or(Duration::ZERO, |arrived| arrived.elapsed()),
            commands: u32::try_from(batch.len()).unwrap_or(u32::MAX),
            ..Try::default()
        };
    }

    /// Tells contention control of the try that ends here. Only adaptive commands move their key to another rung, so
    /// theirs is the threshold.
    fn end_try<'p>(&self, batch: impl Iterator<Item = &'p Pending>) {
        let adaptive = |pending: &&Pending| pending.concurrency.strategy == Strategy::Adaptive;
        let threshold = batch.into_iter().find(adaptive).map_or(1.0, |pending| pending.concurrency.escalate_above);
        let switches = self.inner.contention.report(self.key, threshold, &self.now, self.inner.moment());
        for switch in switches {
            tracing::info!(key = %switch.key, "{switch}");
        }
    }

    async fn commit(&mut self, mut folded: Folded, snapshot: &Snapshot) -> Step {
        self.put_back(std::mem::take(&mut folded.rest), folded.members.is_empty(), snapshot.version);
        let idle_keys = folded.idle_keys();
        let Some(set) = folded.set.take() else {
            return self.answer_unchanged(folded, snapshot, idle_keys).await;
        };
        if !idle_keys.is_empty() {
            match self.find_replays(&mut folded, snapshot, &idle_keys).await {
                Ok(true) => {}
                Ok(false) => return self.overtaken(folded.into_pending(), snapshot),
                Err(refusal) => return self.no_snapshot(folded.into_pending(), refusal).await,
            }
        }
        if !self.mark_sent(&folded) {
            return Step::Again(folded.into_pending());
        }
        let sent = Sent::of(&set);
        // Judged before the wait for the verdict: that the row was waited for is contention, however long.
        self.young = snapshot.is_young();
        let verdict = self.inner.store.commit(set).await;
        self.now.contended |= match verdict {
            Ok(Verdict::Lost(_)) => self.young,
            Ok(Verdict::LockTimeout { .. }) => true,
            _ => false,
        };
        self.after_commit(folded, sent, verdict).await
    }

    /// From here on only the store knows the fate of the batch. False: somebody left between the fold and now; without
    /// them the others' answers may differ.
    fn mark_sent(&self, folded: &Folded) -> bool {
        if folded.members.iter().all(|member| member.pending.mark_sent()) {
            return true;
        }
        folded.members.iter().for_each(|member| self.unmark(&member.pending));
        false
    }

    async fn after_commit(&mut self, mut folded: Folded, sent: Sent, verdict: Result<Verdict, CommitError>) -> Step {
        self.now.round_trip = sent.at.elapsed();
        if verdict.is_ok() {
            self.end_try(folded.members.iter().map(|member| &member.pending));
        }
        match verdict {
            Ok(verdict) => self.conclude(folded, &sent, verdict).await,
            Err(CommitError::Unavailable(detail)) => {
                folded.members.iter().for_each(|member| self.unmark(&member.pending));
                self.no_snapshot(folded.into_pending(), Refusal::Unavailable { detail }).await
            }
            Err(CommitError::Unknown(detail)) => {
                let commit_id = sent.commit_id;
                tracing::warn!(key = %self.key, %commit_id, detail, "the fate of a commit is not known");
                self.inner.cache.forget(self.key);
                let answers = folded.members.iter().map(|member| member.answer.clone()).collect();
                self.unsettled.push(Unsettled {
                    commit_id,
                    expected_version: sent.expected_version,
                    life: sent.life,
                    fences: sent.fences,
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

    async fn conclude(&mut self, folded: Folded, sent: &Sent, verdict: Verdict) -> Step {
        if verdict == Verdict::Committed {
            // Whatever is open expects the same version (`step` sees to it) and can no longer commit: it is taken.
            self.committed(folded.instance, sent.life);
            return answer_all(folded.members);
        }
        if matches!(verdict, Verdict::Unmet { .. }) {
            self.inner.definitions.forget_newest(&self.key.workflow);
        }
        if let Verdict::Fenced { resource, last, .. } = &verdict {
            // The version is still the one that was decided on, and a later fence stays seen: open commits that carry an
            // earlier one have not taken place and never will.
            self.unsettled.retain(|open| !open.is_late(resource, *last));
        }
        if !self.unsettled.is_empty() {
            // The open commit may be what came between; settle that first.
            self.inner.cache.forget(self.key);
            return self.ask_again(folded.into_pending()).await;
        }
        folded.members.iter().for_each(|member| member.pending.mark_not_sent());
        match verdict {
            Verdict::Committed => Step::Done,
            Verdict::Lost(record) => self.lost(folded.into_pending(), record).await,
            Verdict::KeysTaken(stored) => self.keys_taken(folded, &stored, sent.expected_version),
            Verdict::Fenced { resource, last, .. } => {
                self.fenced(folded.members, &resource, last, sent.expected_version)
            }
            Verdict::Unmet { .. } => {
                // Nobody has written the instance: only the definition was another.
                self.young = false;
                self.lost_attempts(folded.into_pending(), sent.expected_version)
            }
            Verdict::LockTimeout { waited } => row_not_given(folded.into_pending(), sent, waited),
            Verdict::Rejected { event, reason } => self.rejected(folded, event, &reason),
        }
    }

    fn committed(&self, instance: Option<Arc<Instance>>, life: Option<i64>) {
        self.inner.timers.set(instance.as_ref().and_then(|instance| instance.next_due()));
        match instance.zip(life) {
            Some((instance, life)) => self.inner.cache.put(self.key, instance, life),
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
        match self.find_replays(&mut folded, snapshot, &keys).await {
            Ok(true) => answer_all(folded.members),
            Ok(false) => self.overtaken(folded.into_pending(), snapshot),
            Err(refusal) => self.no_snapshot(folded.into_pending(), refusal).await,
        }
    }

    /// Replaces the answers of members that took effect earlier. False: the snapshot is not the current version.
    async fn find_replays(&self, folded: &mut Folded, snapshot: &Snapshot, keys: &[String]) -> Result<bool, Refusal> {
        let key = codec::instance_record(self.key);
        let confirmed = self.inner.store.confirm(&key, keys, self.inner.clock.now()).await;
        let confirmed = confirmed.map_err(|error| unavailable(&error))?;
        self.inner.definitions.note_life(confirmed.life);
        if confirmed.version != snapshot.version || snapshot.life.is_some_and(|life| life != confirmed.life) {
            self.inner.cache.forget(self.key);
            return Ok(false);
        }
        folded.replay(&confirmed.keys);
        Ok(true)
    }

    /// Another write came first: decide again from the row that won.
    async fn lost(&self, batch: Vec<Pending>, record: Option<Record>) -> Step {
        let current = record.as_ref().map_or(0, |record| record.version);
        if record.is_none() {
            // The store may have begun another life, of which no record tells here.
            if let Err(refusal) = self.learn_life(&codec::instance_record(self.key)).await {
                return refuse_all(batch, &refusal);
            }
        }
        match self.remember(record, self.inner.definitions.life()) {
            Ok(_) => self.lost_attempts(batch, current),
            Err(refusal) => refuse_all(batch, &refusal),
        }
    }

    /// The record has moved on before anything could be said or written.
    fn overtaken(&mut self, batch: Vec<Pending>, snapshot: &Snapshot) -> Step {
        self.young = snapshot.is_young();
        self.now.contended = self.young;
        self.end_try(batch.iter());
        self.lost_attempts(batch, snapshot.version)
    }

    /// Counts the loss for each command: the first is tried again at once, later ones after a backoff, the last is
    /// answered `conflict`. Where the row is locked for the next attempt there is nothing to back off from.
    fn lost_attempts(&self, batch: Vec<Pending>, current: i64) -> Step {
        let mut at_once = Vec::new();
        for mut pending in batch {
            if !self.young && !pending.excused {
                // Lost to nobody who is at work now: what was decided on was stale. Once that costs no attempt.
                pending.excused = true;
                at_once.push(pending);
                continue;
            }
            pending.losses += 1;
            let Concurrency { strategy, attempts, backoff: first, .. } = pending.concurrency;
            let attempts = if strategy == Strategy::Optimistic { attempts } else { ADAPTIVE_LOSSES_MAX.max(attempts) };
            if pending.losses >= attempts {
                let strategy = strategy.as_str().to_owned();
                pending.answer(Refusal::Conflict { current, attempts, strategy }.into());
            } else if pending.losses == 1 || strategy == Strategy::Pessimistic || plan::is_last_attempt(&pending) {
                at_once.push(pending);
            } else {
                let pause = backoff(first, pending.losses);
                // Nothing is held over a backoff.
                pending.lease = None;
                self.inner.retry_later(pending, pause);
            }
        }
        if at_once.is_empty() { Step::Done } else { Step::Again(at_once) }
    }

    /// Commands that took effect earlier get their first outcome; the others are decided again.
    fn keys_taken(&self, folded: Folded, stored: &[StoredKey], current: i64) -> Step {
        let mut again = Vec::new();
        for Member { pending, .. } in folded.members {
            match stored_answer(&pending, stored) {
                Some(answer) => pending.answer(answer),
                None => again.push(pending),
            }
        }
        if stored.iter().any(|stored| codec::request_of(&stored.key).is_some()) {
            // Somebody else has begun the next run: keys are looked at before the version is.
            self.inner.cache.forget(self.key);
            return self.lost_attempts(again, current);
        }
        Step::Again(again)
    }

    /// One member breaks a rule of the store: it alone is refused.
    fn rejected(&mut self, folded: Folded, event: Option<usize>, reason: &str) -> Step {
        let culprit = folded.members.iter().position(|m| event.is_some_and(|event| m.events.contains(&event)));
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
}

/// Another session has had the row for as long as the store waits. Adaptive commands go on to wait for the lock, for what
/// is left of their `lock_timeout`.
fn row_not_given(batch: Vec<Pending>, sent: &Sent, waited: Duration) -> Step {
    let now = Instant::now();
    let mut again = Vec::new();
    for mut pending in batch {
        pending.waiting_for_row = Some(sent.at);
        if pending.concurrency.strategy == Strategy::Adaptive && plan::waits_until(&pending, now) > now {
            pending.losses = pending.losses.max(pending.concurrency.attempts.saturating_sub(1));
            again.push(pending);
        } else {
            pending.answer(Refusal::LockTimeout { waited_ms: waited_ms(waited) }.into());
        }
    }
    Step::Again(again)
}

/// A wait in whole milliseconds, at least one: none at all means that it was not waited.
pub(crate) fn waited_ms(waited: Duration) -> u64 {
    u64::try_from(waited.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// The commands whose senders are still there and have time left; the others hear that nothing was written.
fn in_time(batch: Vec<Pending>) -> Vec<Pending> {
    let now = Instant::now();
    let mut left = Vec::with_capacity(batch.len());
    for pending in batch {
        if pending.is_abandoned() {
            continue;
        }
        if pending.deadline > now {
            left.push(pending);
        } else {
            let detail = "its deadline passed before it was committed; nothing was written".to_owned();
            pending.answer(Refusal::Unavailable { detail }.into());
        }
    }
    left
}

fn answer_all(members: Vec<Member>) -> Step {
    for member in members {
        member.pending.answer(member.answer);
    }
    Step::Done
}

fn refuse_all(batch: Vec<Pending>, refusal: &Refusal) -> Step {
    for pending in batch {
        pending.answer(Answer { result: Err(refusal.clone()), replayed: false });
    }
    Step::Done
}
