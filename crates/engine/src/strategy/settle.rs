//! Commits whose answer was lost. Their fate is learnt from the store, never guessed; until it is, the batch keeps its
//! members, and no refusal leaves.

use std::sync::Arc;

use lockkeeper_model::{Instance, Refusal};
use lockkeeper_store::Fence;
use uuid::Uuid;

use super::{Attempt, Step, pause, refuse_all};
use crate::batch::Snapshot;
use crate::codec;
use crate::definitions::unavailable;
use crate::engine::Answer;
use crate::pending::Pending;

/// A commit that was sent and not answered, with the answers that it would justify.
pub(super) struct Unsettled {
    pub(super) commit_id: Uuid,
    pub(super) expected_version: i64,
    pub(super) life: Option<i64>,
    pub(super) fences: Vec<Fence>,
    pub(super) instance: Option<Arc<Instance>>,
    pub(super) answers: Vec<Answer>,
}

impl Unsettled {
    /// Whether it carries an earlier fence of `resource` than `last`.
    pub(super) fn is_late(&self, resource: &str, last: i64) -> bool {
        self.fences.iter().any(|own| *own.resource == *resource && own.fence < last)
    }
}

impl Attempt<'_> {
    /// Whether something came between asking after the open commits and reading: it may be one of them.
    pub(super) fn passed_by(&self, snapshot: &Snapshot) -> bool {
        self.unsettled.iter().any(|open| open.expected_version < snapshot.version)
    }

    /// Nothing can be decided or written; but a commit whose fate is open is asked after until the deadline.
    pub(super) async fn no_snapshot(&mut self, batch: Vec<Pending>, refusal: Refusal) -> Step {
        if self.unsettled.is_empty() {
            return refuse_all(batch, &refusal);
        }
        self.ask_again(batch).await
    }

    /// Goes round again after a pause, to ask after the open commits.
    pub(super) async fn ask_again(&mut self, batch: Vec<Pending>) -> Step {
        self.tries += 1;
        pause(self.tries).await;
        Step::Again(batch)
    }

    /// Asks the store which of the open commits took place. `None`: none so far; those that no longer can are dropped.
    pub(super) async fn settle(&mut self) -> Result<Option<Unsettled>, Refusal> {
        let key = codec::instance_record(self.key);
        let current = self.inner.store.confirm(&key, &[], self.inner.clock.now()).await;
        let current = current.map_err(|error| unavailable(&error))?;
        self.inner.definitions.note_life(current.life);
        let current = current.version;
        for place in 0..self.unsettled.len() {
            let open = &self.unsettled[place];
            let found = self.inner.store.committed(&key, open.expected_version, open.commit_id).await;
            if found.map_err(|error| unavailable(&error))? {
                let mut settled = self.unsettled.swap_remove(place);
                self.committed(settled.instance.take(), settled.life);
                return Ok(Some(settled));
            }
        }
        // The version was read before the commit ids: a commit on an older version that is not there can never be.
        self.unsettled.retain(|open| open.expected_version >= current);
        Ok(None)
    }
}

/// Gives the answers of a commit that turned out to have taken place.
pub(super) fn finish(batch: Vec<Pending>, answers: Vec<Answer>) -> Step {
    assert_eq!(batch.len(), answers.len(), "a batch with an open commit keeps its members");
    for (pending, answer) in batch.into_iter().zip(answers) {
        pending.answer(answer);
    }
    Step::Done
}
