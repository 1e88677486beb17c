//! Commits of several instances whose answer was lost.

use lockkeeper_model::{Refusal, Success};
use lockkeeper_store::{Fence, RecordKey, Requirement};
use uuid::Uuid;

use super::Request;

/// A commit whose fate is not known: told by its first change set, since all of them stand or fall together.
pub(super) struct Open {
    pub(super) record: RecordKey,
    pub(super) expected_version: i64,
    pub(super) commit_id: Uuid,
    pub(super) successes: Vec<Success>,
    pub(super) fences: Vec<Fence>,
    /// It will not take place any more, if it has not: a later fence than one of its own has been seen.
    pub(super) never: bool,
}

impl Open {
    /// Whether the record of this commit has moved on since its fate was asked after.
    pub(super) fn was_passed_by(&self, read: &Requirement) -> bool {
        self.record == read.key && read.version > self.expected_version
    }

    /// A later fence of `resource` has been seen, and stays so.
    pub(super) fn note_late(&mut self, resource: &str, last: i64) {
        self.never |= self.fences.iter().any(|own| *own.resource == *resource && own.fence < last);
    }
}

impl Request {
    /// The outcome of an open commit that took place; those that no longer can are dropped.
    pub(super) async fn settle(&mut self) -> Result<Option<Vec<Success>>, Refusal> {
        let mut still_open = Vec::new();
        for open in std::mem::take(&mut self.open) {
            // The version first: a commit on an older version that is then not found can never be.
            let current = self.inner.store.confirm(&open.record, &[], self.inner.clock.now()).await;
            let found = self.inner.store.committed(&open.record, open.expected_version, open.commit_id).await;
            match (current, found) {
                (_, Ok(true)) => return Ok(Some(open.successes)),
                (Ok(current), Ok(false)) if open.never || current.version > open.expected_version => {}
                _ => still_open.push(open),
            }
        }
        self.open = still_open;
        Ok(None)
    }
}
