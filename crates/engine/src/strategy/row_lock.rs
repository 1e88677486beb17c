//! Under the row lock: lock and read, decide, write, in two round trips; nobody else's write can come between.
//!
//! The lock is held while the batch is decided in memory, and over nothing else.

use lockkeeper_model::Refusal;
use lockkeeper_model::definition::{OnLocked as Wish, Strategy};
use lockkeeper_store::{LockError, Locked, OnLocked, RowLock, StoredKey};
use tokio::time::Instant;

use super::plan::{self, Plan};
use super::requests::{ended_runs, request_keys};
use super::{Attempt, Sent, Step, answer_all, in_time, waited_ms};
use crate::batch::{self, Folded, Judges, Snapshot};
use crate::codec;
use crate::definitions::unavailable;
use crate::fences;
use crate::pending::Pending;

/// Moments that are this near count as the same: timers fire by the millisecond.
const TIMER_SLACK: std::time::Duration = std::time::Duration::from_millis(2);

impl Attempt<'_> {
    /// Locks the row and serves the batch under it.
    pub(super) async fn under_lock(&mut self, mut batch: Vec<Pending>, plan: Plan, remembered: &Snapshot) -> Step {
        let begun = Instant::now();
        for pending in &mut batch {
            pending.waiting_for_row.get_or_insert(begun);
        }
        let own = batch.iter().filter_map(|pending| pending.command.idempotency_key.clone());
        let keys: Vec<String> = own.chain(request_keys(&batch)).collect();
        let on_locked = match plan {
            Plan::Lock { until } => OnLocked::Wait(until.saturating_duration_since(begun)),
            Plan::LockIfFree | Plan::Snapshot => OnLocked::GiveUp,
        };
        // Somebody else's write since a moment ago is contention; one since this node's memory went stale is not.
        let young_version = remembered.is_young().then_some(remembered.version);
        let key = codec::instance_record(self.key);
        let now = self.inner.clock.now();
        match self.inner.store.lock(&key, &keys, now, on_locked).await {
            Ok(locked) => self.locked(batch, locked, young_version, &keys).await,
            Err(LockError::Locked { .. }) if !self.unsettled.is_empty() => {
                // It may be the open commit itself that has the row, and it may carry these commands: no refusal leaves.
                self.ask_again(batch).await
            }
            Err(LockError::Locked { .. }) => {
                self.now.contended = true;
                self.now.lock_wait = Some(begun.elapsed());
                self.end_try(batch.iter());
                not_locked(batch, plan)
            }
            Err(LockError::Unavailable(detail)) => self.no_snapshot(batch, Refusal::Unavailable { detail }).await,
        }
    }

    /// Serves the batch under the lock that it got, with a look at the keys `seen`.
    async fn locked(
        &mut self,
        mut batch: Vec<Pending>,
        locked: Locked,
        young_version: Option<i64>,
        seen: &[String],
    ) -> Step {
        let Locked { record, keys, contended, waited, life, hold } = locked;
        self.inner.definitions.note_life(life);
        let snapshot = match self.remember(record, Some(life)) {
            Ok(snapshot) => snapshot,
            Err(refusal) => {
                drop(hold);
                return self.no_snapshot(batch, refusal).await;
            }
        };
        self.now.contended = contended || young_version.is_some_and(|version| version != snapshot.version);
        self.now.lock_wait = Some(waited);
        for pending in &mut batch {
            pending.waiting_for_row = None;
        }
        if self.passed_by(&snapshot) {
            drop(hold);
            return self.ask_again(batch).await;
        }
        // While a commit is open, the batch's members stay the same.
        if self.unsettled.is_empty() {
            // Whoever has come while the lock was got need not wait for another turn; whoever has left would take it
            // from the others.
            batch.extend(self.newcomers(&batch, &snapshot));
            batch = in_time(batch);
            let older = fences::take_older(&mut batch);
            self.put_back(older, false, snapshot.version);
        }
        if batch.is_empty() {
            return Step::Done;
        }
        self.decide_and_write(batch, snapshot, hold, seen, &keys).await
    }

    /// Commands that came while the lock was waited for, and that may share it.
    fn newcomers(&mut self, batch: &[Pending], snapshot: &Snapshot) -> Vec<Pending> {
        let combines = batch.first().is_none_or(|pending| pending.concurrency.combine);
        if self.singly || !combines {
            return Vec::new();
        }
        let mut more = self.driver.more(batch);
        // Whether an earlier run was theirs was not asked when the lock was got.
        let named = |p: &mut Pending| request_keys(std::slice::from_ref(p)).next().is_some();
        self.put_back(more.extract_if(.., named).collect(), false, snapshot.version);
        if let Some(judges) = self.judges_at_hand(&more, snapshot) {
            for pending in &mut more {
                pending.concurrency = judges.concurrency_of(snapshot, &pending.command.action);
            }
            if judges.may_lease() {
                // Who needs a lease comes in only by its own turn.
                let bare = |p: &mut Pending| p.concurrency.strategy == Strategy::Distributed && p.lease.is_none();
                self.put_back(more.extract_if(.., bare).collect(), false, snapshot.version);
            }
        }
        self.now.commands += u32::try_from(more.len()).unwrap_or(0);
        self.inner.observe(self.key, more.len(), more.len());
        more
    }

    async fn decide_and_write(
        &mut self,
        batch: Vec<Pending>,
        snapshot: Snapshot,
        mut hold: Box<dyn RowLock>,
        seen: &[String],
        keys: &[StoredKey],
    ) -> Step {
        // From memory as a rule: the definition was read before the lock was taken. If it is not, or if there is nothing
        // to lock and the answer has to be looked for, no lock is held meanwhile.
        let Some(mut judges) = self.judges_at_hand(&batch, &snapshot) else {
            drop(hold);
            return self.without_lock(batch, &snapshot, keys).await;
        };
        judges.begun_before = match ended_runs(keys) {
            Ok(runs) => runs,
            Err(refusal) => {
                drop(hold);
                return self.no_snapshot(batch, refusal).await;
            }
        };
        let inner = self.inner;
        let folded = batch::fold(self.key, batch, &snapshot, &judges, self.fold_by()).await;
        let mut folded = match folded {
            Ok(folded) => folded,
            Err((batch, refusal)) => {
                drop(hold);
                return self.no_snapshot(batch, refusal).await;
            }
        };
        self.put_back(std::mem::take(&mut folded.rest), folded.members.is_empty(), snapshot.version);
        folded.replay(keys);
        // Keys of newcomers that change nothing: the lock was got without a look at them.
        let unseen: Vec<String> = folded.idle_keys().into_iter().filter(|key| !seen.contains(key)).collect();
        if !unseen.is_empty() {
            match hold.taken(&unseen, inner.clock.now()).await {
                Ok(stored) => folded.replay(&stored),
                Err(error) => {
                    drop(hold);
                    return self.no_snapshot(folded.into_pending(), unavailable(&error)).await;
                }
            }
        }
        let Some(set) = folded.set.take() else {
            return self.give_back(folded, hold).await;
        };
        if !self.mark_sent(&folded) {
            drop(hold);
            return Step::Again(folded.into_pending());
        }
        let sent = Sent::of(&set);
        let verdict = hold.commit(set).await;
        self.after_commit(folded, sent, verdict).await
    }

    /// Decides on the snapshot that was just read with `keys`, and writes on the condition that it still holds.
    async fn without_lock(&mut self, batch: Vec<Pending>, snapshot: &Snapshot, keys: &[StoredKey]) -> Step {
        let judges = match self.judges(&batch, snapshot).await {
            Ok(judges) => ended_runs(keys).map(|begun_before| Judges { begun_before, ..judges }),
            Err(refusal) => Err(refusal),
        };
        let judges = match judges {
            Ok(judges) => judges,
            Err(refusal) => return self.no_snapshot(batch, refusal).await,
        };
        match batch::fold(self.key, batch, snapshot, &judges, self.fold_by()).await {
            Ok(folded) => self.commit(folded, snapshot).await,
            Err((batch, refusal)) => self.no_snapshot(batch, refusal).await,
        }
    }

    /// Nobody changes anything. The answers leave once the lock is given back: that it could be proves that it was held
    /// while they were decided.
    async fn give_back(&mut self, folded: Folded, hold: Box<dyn RowLock>) -> Step {
        let replays = folded.members.iter().any(|member| member.answer.replayed);
        let released = hold.release(replays).await;
        if !self.unsettled.is_empty() {
            return self.ask_again(folded.into_pending()).await;
        }
        match released {
            Ok(()) => answer_all(folded.members),
            Err(error) => self.no_snapshot(folded.into_pending(), unavailable(&error)).await,
        }
    }
}

/// Another session has the row: whoever would not wait, or has waited long enough, is told; the others go on.
fn not_locked(batch: Vec<Pending>, plan: Plan) -> Step {
    let now = Instant::now();
    let mut again = Vec::new();
    for pending in batch {
        let leaves = match plan {
            Plan::LockIfFree => plan::gives_up(&pending),
            _ => plan::waits_until(&pending, now) <= now + TIMER_SLACK,
        };
        if leaves {
            let refusal = lock_refusal(&pending, now);
            pending.answer(refusal.into());
        } else {
            again.push(pending);
        }
    }
    Step::Again(again)
}

/// What a command is told that did not get the row.
fn lock_refusal(pending: &Pending, now: Instant) -> Refusal {
    let waited = plan::waited(pending, now);
    match (plan::gives_up(pending), pending.concurrency.on_locked) {
        (true, Wish::SkipLocked) => Refusal::Busy {
            detail: format!(
                "{} is locked by another session and was passed over, as `on_locked: skip_locked` asks; nothing was \
                 written",
                pending.command.instance
            ),
        },
        (true, _) => Refusal::LockTimeout { waited_ms: 0 },
        (false, _) => Refusal::LockTimeout { waited_ms: waited_ms(waited) },
    }
}
