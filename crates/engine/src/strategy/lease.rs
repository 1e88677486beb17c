//! Under a lease: who needs one that it does not have leaves the batch and waits for it, holding nothing.

use lockkeeper_model::Refusal;
use lockkeeper_model::definition::{OnLockLoss, Strategy};

use super::{Attempt, Step, plan};
use crate::batch::{Judges, Member, Snapshot};
use crate::contention::Rung;
use crate::fences;
use crate::leases::{Leases, without_locks};
use crate::limits::{ADAPTIVE_LOSSES_MAX, REROUTES_MAX};
use crate::pending::Pending;

/// What a command has to have before it is decided.
enum Need {
    /// Nothing, or nothing that it has not.
    Met,
    /// A lease on this lock.
    Lease(String),
}

impl Attempt<'_> {
    /// The commands of the batch that can be decided now; the others wait for their leases, or are answered.
    pub(super) fn with_leases(
        &self,
        batch: Vec<Pending>,
        snapshot: &Snapshot,
        judges: &Judges,
        rung: Rung,
    ) -> Vec<Pending> {
        // While a commit is open, the batch's members stay the same.
        if !judges.may_lease() || !self.unsettled.is_empty() {
            return batch;
        }
        batch.into_iter().filter_map(|pending| self.with_lease(pending, snapshot, judges, rung)).collect()
    }

    fn with_lease(&self, mut pending: Pending, snapshot: &Snapshot, judges: &Judges, rung: Rung) -> Option<Pending> {
        let resource = match need(&mut pending, snapshot, judges, rung) {
            Need::Met => return Some(pending),
            Need::Lease(resource) => resource,
        };
        let leases = match self.leases() {
            Ok(leases) => leases,
            Err(why) => {
                let refusal = without_locks(&mut pending, &why, &self.inner.contention, self.inner.moment());
                return match refusal {
                    Some(refusal) => {
                        pending.answer(refusal.into());
                        None
                    }
                    None => Some(pending),
                };
            }
        };
        match leases.share(&resource) {
            Some(share) => {
                pending.lease = Some(share);
                pending.waiting_for_lease = None;
                Some(pending)
            }
            None => {
                leases.wait(self.inner, &resource, pending);
                None
            }
        }
    }

    /// The leases of this node; or why there are none now.
    fn leases(&self) -> Result<&Leases, String> {
        let leases = self.inner.leases.as_ref().ok_or("this node has no lock service")?;
        leases.gone().map_or(Ok(leases), Err)
    }

    /// Commands that turned out to need another lease than they have, once those before them were decided: they go round
    /// again, before those who come anew. Where nobody was decided before them, that is counted.
    pub(super) fn put_back(&self, rest: Vec<Pending>, counted: bool, current: i64) {
        for mut pending in rest.into_iter().rev() {
            pending.reroutes += u32::from(counted);
            if pending.reroutes > REROUTES_MAX {
                let strategy = pending.concurrency.strategy.as_str().to_owned();
                let attempts = pending.reroutes;
                pending.answer(Refusal::Conflict { current, attempts, strategy }.into());
            } else {
                self.inner.run(self.inner.combiner.push_front(pending));
            }
        }
    }

    /// A later fence than this batch carries has been seen. Whoever gave the earlier one is told; a lease of this node that
    /// has it is lost, and who was decided under it is decided again under another.
    pub(super) fn fenced(&self, members: Vec<Member>, resource: &str, last: i64, current: i64) -> Step {
        let mut again = Vec::new();
        for member in members {
            let changes = member.changes();
            let mut pending = member.pending;
            if changes && let Some(refusal) = fences::refusal(&pending.command, resource, last) {
                pending.answer(refusal.into());
                continue;
            }
            let is_late = pending
                .lease
                .as_ref()
                .is_some_and(|lease| lease.resource() == resource && lease.fence().is_some_and(|fence| fence < last));
            if is_late && let Some(lost) = pending.lease.take() {
                lost.mark_lost();
                pending.losses += 1;
            }
            let attempts = ADAPTIVE_LOSSES_MAX.max(pending.concurrency.attempts);
            if is_late && pending.losses >= attempts {
                let strategy = pending.concurrency.strategy.as_str().to_owned();
                pending.answer(Refusal::Conflict { current, attempts, strategy }.into());
            } else {
                again.push(pending);
            }
        }
        Step::Again(again)
    }
}

/// What a command needs, by what is known now. Once it is decided, that is looked at again.
fn need(pending: &mut Pending, snapshot: &Snapshot, judges: &Judges, rung: Rung) -> Need {
    let wanted = match pending.concurrency.strategy {
        Strategy::Distributed => true,
        Strategy::Adaptive => {
            pending.concurrency.lock_key.is_some() && rung == Rung::Lease && !plan::is_last_attempt(pending)
        }
        Strategy::Optimistic | Strategy::Pessimistic => false,
    };
    // Elsewhere the definition may say otherwise about a lock service that is gone.
    let without = pending.locks_gone && pending.concurrency.on_lock_loss == OnLockLoss::RowLock;
    let resource = match judges.lock_key(snapshot.instance.as_deref(), &pending.command) {
        Ok(Some(resource)) if wanted && !without => resource,
        // Where there is no lock to be named, the decision says why.
        _ => {
            pending.lease = None;
            return Need::Met;
        }
    };
    // Its sender holds the lock, and would wait for itself.
    if fences::gives(&pending.command, &resource) {
        pending.lease = None;
        return Need::Met;
    }
    let has =
        |pending: &Pending| pending.lease.as_ref().is_some_and(|lease| lease.resource() == resource && lease.is_held());
    if has(pending) {
        return Need::Met;
    }
    pending.lease = None;
    Need::Lease(resource)
}
