//! Starts that may have begun an earlier run of their id. The instance tells of its current run only; of those before, the
//! store remembers which request began them, under keys of its own.
//!
//! Such a key is written with the start that follows the run. So whoever reads the keys at a version, and writes on the
//! condition of that version, knows them all.

use std::collections::HashMap;

use lockkeeper_model::{Action, EndedRun, Refusal};
use lockkeeper_store::StoredKey;

use super::Attempt;
use crate::batch::Snapshot;
use crate::codec;
use crate::definitions::unavailable;
use crate::pending::Pending;

impl Attempt<'_> {
    /// The runs before the snapshot's that starts of the batch have begun. None: the snapshot is not the current version.
    pub(super) async fn begun_before(
        &self,
        batch: &[Pending],
        snapshot: &Snapshot,
    ) -> Result<Option<HashMap<String, EndedRun>>, Refusal> {
        let Some(instance) = &snapshot.instance else { return Ok(Some(HashMap::new())) };
        let own = instance.request_id.as_deref().map(codec::request_key);
        let keys: Vec<String> = request_keys(batch).filter(|key| Some(key) != own.as_ref()).collect();
        if keys.is_empty() {
            return Ok(Some(HashMap::new()));
        }
        let key = codec::instance_record(self.key);
        let confirmed = self.inner.store.confirm(&key, &keys, self.inner.clock.now()).await;
        let confirmed = confirmed.map_err(|error| unavailable(&error))?;
        self.inner.definitions.note_life(confirmed.life);
        if confirmed.version != snapshot.version || snapshot.life.is_some_and(|life| life != confirmed.life) {
            self.inner.cache.forget(self.key);
            return Ok(None);
        }
        ended_runs(&confirmed.keys).map(Some)
    }
}

/// The keys of the requests that starts of the batch name.
pub(super) fn request_keys(batch: &[Pending]) -> impl Iterator<Item = String> {
    batch.iter().filter_map(|pending| match &pending.command.action {
        Action::Start(start) => start.request_id.as_deref().map(codec::request_key),
        _ => None,
    })
}

/// The runs that stored keys remember, by the request that began them.
pub(super) fn ended_runs(stored: &[StoredKey]) -> Result<HashMap<String, EndedRun>, Refusal> {
    let run = |stored: &StoredKey| {
        let request = codec::request_of(&stored.key)?;
        Some(codec::decode_ended(&stored.outcome).map(|run| (request.to_owned(), run)))
    };
    stored.iter().filter_map(run).collect()
}
