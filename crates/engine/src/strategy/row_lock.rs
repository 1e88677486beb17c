//! Under the row lock: lock and read, decide, write, in two round trips; nobody else's write can come between.
//!
//! The lock is held while the batch is decided in memory, and over nothing else.

use lockkeeper_model::Refusal;
use lockkeeper_model::definition::OnLocked as Wish;
use lockkeeper_store::{LockError, Locked, OnLocked, RowLock};
use tokio::time::Instant;

use super::plan::{self, Plan};
use super::{Attempt, Sent, Step, answer_all, waited_ms};
use crate::batch::{self, Snapshot, stored_answer};
use crate::codec;
use crate::definitions::unavailable;
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
        let keys: Vec<String> = batch.iter().filter_map(|pending| pending.command.idempotency_key.clone()).collect();
        let on_locked = match plan {
            Plan::Lock { until } => OnLocked::Wait(until.saturating_duration_since(begun)),
            Plan::LockIfFree | Plan::Snapshot => OnLocked::GiveUp,
        };
        let key = codec::instance_record(self.key);
        let now = self.inner.clock.now();
        match self.inner.store.lock(&key, &keys, now, on_locked).await {
            Ok(locked) => self.locked(batch, locked, remembered, &keys).await,
            Err(LockError::Locked { .. }) => {
                self.now.contended = true;
                self.now.lock_wait = Some(begun.elapsed());
                self.end_try_of(&batch);
                self.not_locked(batch, plan)
            }
            Err(LockError::Unavailable(detail)) => self.no_snapshot(batch, Refusal::Unavailable { detail }).await,
        }
    }

    fn end_try_of(&self, batch: &[Pending]) {
        if let Some(pending) = batch.first() {
            self.end_try(pending.concurrency);
        }
    }

    /// Another session has the row: whoever would not wait, or has waited long enough, is told; the others go on.
    fn not_locked(&mut self, batch: Vec<Pending>, plan: Plan) -> Step {
        if !self.unsettled.is_empty() {
            // A commit that carries these commands may still arrive: no refusal may leave.
            return Step::Again(batch);
        }
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

    /// Serves the batch under the lock that it got, with a look at the keys `seen`.
    async fn locked(&mut self, batch: Vec<Pending>, locked: Locked, remembered: &Snapshot, seen: &[String]) -> Step {
        let Locked { record, keys, contended, waited, life, hold } = locked;
        self.inner.definitions.note_life(life);
        let snapshot = match self.remember(record, Some(life)) {
            Ok(snapshot) => snapshot,
            Err(refusal) => return self.no_snapshot(batch, refusal).await,
        };
        let overtaken = snapshot.version != remembered.version && remembered.is_young();
        self.now.contended = contended || overtaken;
        self.now.lock_wait = Some(waited);
        if self.passed_by(&snapshot) {
            drop(hold);
            return self.ask_again(batch).await;
        }
        // Whoever took effect earlier has an answer already; while a commit is open, the batch's members stay.
        let mut batch = batch;
        if self.unsettled.is_empty() {
            let (told, rest): (Vec<_>, Vec<_>) = batch
                .into_iter()
                .map(|pending| (stored_answer(&pending, &keys), pending))
                .partition(|(answer, _)| answer.is_some());
            for (answer, pending) in told {
                pending.answer(answer.unwrap_or_else(|| unreachable!("partitioned by having one")));
            }
            batch = rest.into_iter().map(|(_, pending)| pending).collect();
            // Whoever has come while the lock was got need not wait for another turn.
            batch.extend(self.newcomers(&batch, &snapshot));
        }
        self.decide_and_write(batch, snapshot, hold, seen).await
    }

    /// Commands that came while the lock was waited for, and that may share it.
    fn newcomers(&mut self, batch: &[Pending], snapshot: &Snapshot) -> Vec<Pending> {
        let combines = batch.first().is_none_or(|pending| pending.concurrency.combine);
        if self.singly || !combines {
            return Vec::new();
        }
        let mut more = self.driver.more(batch);
        if let Some(judges) = self.judges_at_hand(&more, snapshot) {
            for pending in &mut more {
                pending.concurrency = judges.concurrency_of(snapshot, &pending.command.action);
            }
        }
        self.now.commands += u32::try_from(more.len()).unwrap_or(0);
        more
    }

    async fn decide_and_write(
        &mut self,
        batch: Vec<Pending>,
        snapshot: Snapshot,
        mut hold: Box<dyn RowLock>,
        seen: &[String],
    ) -> Step {
        if batch.is_empty() {
            return Step::Done;
        }
        // From memory as a rule: the definition was read before the lock was taken. If it is not, no lock is held while
        // it is read.
        let Some(judges) = self.judges_at_hand(&batch, &snapshot) else {
            drop(hold);
            return match self.judges(&batch, &snapshot).await {
                Ok(_) => Step::Again(batch),
                Err(refusal) => self.no_snapshot(batch, refusal).await,
            };
        };
        let inner = self.inner;
        let folded = batch::fold(self.key, batch, &snapshot, &judges, &*inner.clock, inner.options.key_life).await;
        let mut folded = match folded {
            Ok(folded) => folded,
            Err((batch, refusal)) => {
                drop(hold);
                return self.no_snapshot(batch, refusal).await;
            }
        };
        if self.unsettled.is_empty() {
            // Keys of newcomers that change nothing: the lock was got without a look at them.
            let unseen: Vec<String> = folded.idle_keys().into_iter().filter(|key| !seen.contains(key)).collect();
            if !unseen.is_empty() {
                match hold.taken(&unseen, inner.clock.now()).await {
                    Ok(stored) => folded.replay(&stored),
                    Err(error) => return self.no_snapshot(folded.into_pending(), unavailable(&error)).await,
                }
            }
        }
        let Some(set) = folded.set.take() else {
            drop(hold);
            if let Some(member) = folded.members.first() {
                self.end_try(member.pending.concurrency);
            }
            if self.unsettled.is_empty() {
                return answer_all(folded.members);
            }
            return self.ask_again(folded.into_pending()).await;
        };
        if !self.mark_sent(&folded) {
            return Step::Again(folded.into_pending());
        }
        let sent = Sent::of(&set);
        let verdict = hold.commit(set).await;
        self.after_commit(folded, sent, verdict).await
    }
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
