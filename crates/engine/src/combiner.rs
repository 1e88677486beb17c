//! One queue for each instance that has commands now, each served by one driver at a time.
//!
//! Invariant: a key has a slot exactly as long as one driver serves it. Whoever finds no slot makes one and starts the
//! driver; the driver removes the slot, under the same lock, when it finds the queue empty. So commands of one
//! instance are never decided side by side, and an idle key costs nothing.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockkeeper_model::InstanceKey;
use tokio::sync::oneshot;

use crate::limits::{BATCH_BYTES_MAX, BATCH_COMMANDS_MAX};
use crate::pending::Pending;

/// Locks that the slots are spread over: enough that two cores' worth of senders rarely meet.
const SHARDS: usize = 64;

type Slots = HashMap<InstanceKey, VecDeque<Turn>>;

/// The queues. A std mutex guards each shard: it is held for a push or a pop, never across an await.
pub(crate) struct Combiner {
    shards: Vec<Mutex<Slots>>,
    hasher: RandomState,
}

/// Somebody's turn at a key.
enum Turn {
    Command(Box<Pending>),
    Exclusive(oneshot::Sender<SlotGuard>),
}

/// What a driver does next.
pub(crate) enum Work {
    /// Decide and commit these.
    Batch(Vec<Pending>),
    /// Stand aside until the guard is dropped.
    Exclusive(oneshot::Receiver<()>),
}

/// Exclusive use of a key's slot, until dropped.
pub(crate) struct SlotGuard {
    _done: oneshot::Sender<()>,
}

/// The right to serve a key; makes sure that a driver that dies does not leave its key locked for ever.
pub(crate) struct Driver {
    combiner: Arc<Combiner>,
    key: InstanceKey,
    finished: bool,
}

impl Combiner {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), hasher: RandomState::new() }
    }

    fn slots(&self, key: &InstanceKey) -> MutexGuard<'_, Slots> {
        let shard = self.hasher.hash_one(key) as usize % SHARDS;
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a command to its key's queue. A driver in return is to be run by the caller.
    pub(crate) fn push(self: &Arc<Self>, pending: Pending) -> Option<Driver> {
        let key = pending.command.instance.clone();
        self.enqueue(key, Turn::Command(Box::new(pending)), VecDeque::push_back)
    }

    /// Puts back a command that has waited before: it goes before new ones.
    pub(crate) fn push_front(self: &Arc<Self>, pending: Pending) -> Option<Driver> {
        let key = pending.command.instance.clone();
        self.enqueue(key, Turn::Command(Box::new(pending)), VecDeque::push_front)
    }

    /// Asks for exclusive use of a key; the guard arrives when it is its turn.
    pub(crate) fn push_exclusive(self: &Arc<Self>, key: InstanceKey) -> (oneshot::Receiver<SlotGuard>, Option<Driver>) {
        let (sender, receiver) = oneshot::channel();
        (receiver, self.enqueue(key, Turn::Exclusive(sender), VecDeque::push_back))
    }

    fn enqueue(self: &Arc<Self>, key: InstanceKey, turn: Turn, push: fn(&mut VecDeque<Turn>, Turn)) -> Option<Driver> {
        let mut slots = self.slots(&key);
        if let Some(queue) = slots.get_mut(&key) {
            push(queue, turn);
            return None;
        }
        slots.insert(key.clone(), VecDeque::from([turn]));
        drop(slots);
        Some(Driver { combiner: self.clone(), key, finished: false })
    }
}

impl Driver {
    /// The key that it serves.
    pub(crate) fn key(&self) -> &InstanceKey {
        &self.key
    }

    /// What has come since the last batch was taken, as far as it fits beside `taken` and nobody's exclusive turn is
    /// before it.
    pub(crate) fn more(&mut self, taken: &[Pending]) -> Vec<Pending> {
        let mut slots = self.combiner.slots(&self.key);
        let Some(queue) = slots.get_mut(&self.key) else { return Vec::new() };
        let mut bytes: usize = taken.iter().map(Pending::bytes).sum();
        let mut more = Vec::new();
        while taken.len() + more.len() < BATCH_COMMANDS_MAX && bytes < BATCH_BYTES_MAX {
            match queue.pop_front() {
                Some(Turn::Command(pending)) => {
                    bytes += pending.bytes();
                    more.push(*pending);
                }
                Some(exclusive @ Turn::Exclusive(_)) => {
                    queue.push_front(exclusive);
                    break;
                }
                None => break,
            }
        }
        more
    }

    /// The next work, oldest first; none: the queue is empty and the key is free again.
    pub(crate) fn next(&mut self) -> Option<Work> {
        let mut slots = self.combiner.slots(&self.key);
        // A missing slot cannot be: only this driver removes it. Ending is right even then.
        let queue = slots.get_mut(&self.key)?;
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(turn) = queue.pop_front() {
            match turn {
                Turn::Command(pending) => {
                    bytes += pending.bytes();
                    batch.push(*pending);
                    if batch.len() >= BATCH_COMMANDS_MAX || bytes >= BATCH_BYTES_MAX {
                        break;
                    }
                }
                Turn::Exclusive(sender) if batch.is_empty() => {
                    let (done, until_done) = oneshot::channel();
                    // Whoever asked may have gone; then the guard comes back and is dropped here, and it is the next's turn.
                    if sender.send(SlotGuard { _done: done }).is_ok() {
                        return Some(Work::Exclusive(until_done));
                    }
                }
                exclusive @ Turn::Exclusive(_) => {
                    queue.push_front(exclusive);
                    break;
                }
            }
        }
        if !batch.is_empty() {
            return Some(Work::Batch(batch));
        }
        slots.remove(&self.key);
        self.finished = true;
        None
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.finished {
            // The driver panicked or was cancelled: those who wait learn it by their dropped channels.
            let abandoned = self.combiner.slots(&self.key).remove(&self.key);
            drop(abandoned);
        }
    }
}
