//! Row locks within the one process that has the file.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::queries;
use super::readers::Readers;
use super::requests::CommitOne;
use super::writer_queue::WriterQueue;
use crate::{
    ChangeSet, CommitError, LockError, OnLocked, ReadError, RecordKey, RowLock, StoredKey, Timestamp, Verdict, verify,
};

/// The names that are locked or waited for. An entry goes with the last who has an interest in it.
#[derive(Debug, Default)]
pub(super) struct Rows(Mutex<HashMap<RecordKey, Row>>);

/// One name: first come, first served.
#[derive(Debug)]
struct Row {
    free: Arc<Semaphore>,
    interested: usize,
}

/// An interest in a name, from asking for it until giving it back.
struct Interest {
    rows: Arc<Rows>,
    key: RecordKey,
}

/// A name that is locked.
pub(super) struct RowGuard {
    // Dropped in this order: the name is free before the interest in it ends.
    _permit: OwnedSemaphorePermit,
    interest: Interest,
}

/// A lock, as the trait tells it.
pub(super) struct Held {
    pub(super) writer: Arc<WriterQueue>,
    pub(super) readers: Arc<Readers>,
    pub(super) guard: RowGuard,
}

impl Rows {
    fn map(&self) -> MutexGuard<'_, HashMap<RecordKey, Row>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks a name; says whether another had it first.
    pub(super) async fn lock(
        self: &Arc<Self>,
        key: &RecordKey,
        on_locked: OnLocked,
    ) -> Result<(RowGuard, bool), LockError> {
        let begun = Instant::now();
        let (free, interest) = self.enter(key);
        let (permit, contended) = match free.clone().try_acquire_owned() {
            Ok(permit) => (permit, false),
            Err(_) => {
                let locked = || LockError::Locked { waited: begun.elapsed() };
                let OnLocked::Wait(bound) = on_locked else {
                    return Err(LockError::Locked { waited: std::time::Duration::ZERO });
                };
                let permit = timeout(bound, free.acquire_owned()).await.map_err(|_elapsed| locked())?;
                // Never closed: a permit always comes.
                (permit.map_err(|_closed| locked())?, true)
            }
        };
        Ok((RowGuard { _permit: permit, interest }, contended))
    }

    fn enter(self: &Arc<Self>, key: &RecordKey) -> (Arc<Semaphore>, Interest) {
        let mut map = self.map();
        let row = map.entry(key.clone()).or_insert_with(|| Row { free: Arc::new(Semaphore::new(1)), interested: 0 });
        row.interested += 1;
        (row.free.clone(), Interest { rows: self.clone(), key: key.clone() })
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut map = self.rows.map();
        if let Some(row) = map.get_mut(&self.key) {
            row.interested -= 1;
            if row.interested == 0 {
                map.remove(&self.key);
            }
        }
    }
}

#[async_trait]
impl RowLock for Held {
    async fn taken(&mut self, keys: &[String], now: Timestamp) -> Result<Vec<StoredKey>, ReadError> {
        let (key, keys) = (self.guard.interest.key.clone(), keys.to_vec());
        Ok(self.readers.run(move |connection| queries::confirm(connection, &key, &keys, now)).await?.keys)
    }

    async fn release(self: Box<Self>, _told: bool) -> Result<(), ReadError> {
        drop(self);
        Ok(())
    }

    async fn commit(self: Box<Self>, set: ChangeSet) -> Result<Verdict, CommitError> {
        if let Err(breach) = verify::change_set(&set) {
            return Ok(breach.into());
        }
        let Self { writer, guard, readers: _ } = *self;
        let verdict = writer.submit(CommitOne(set)).await;
        drop(guard);
        verdict
    }
}
