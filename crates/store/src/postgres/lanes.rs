//! The queues in front of the lanes: a record's change sets always go the same way, in their order.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::lane::Lane;
use super::store::Shared;
use super::turn::Turn;
use crate::{ChangeSet, CommitError, RecordKey, Verdict};

/// Sets that may wait in one lane; the engine has at most 1,024 keys under way.
const QUEUE: usize = 1_024;

/// How long closing waits for what is under way.
const CLOSE_WAIT: Duration = Duration::from_secs(30);

pub(super) type Answer = Result<Verdict, CommitError>;

/// A set, and who waits for its verdict.
pub(super) struct Job {
    pub(super) set: ChangeSet,
    pub(super) answer: oneshot::Sender<Answer>,
    turn: Arc<Turn>,
}

impl Job {
    /// About to be sent; false: nobody waits for it any more, and nothing was promised.
    pub(super) fn begin(&self) -> bool {
        !self.answer.is_closed() && self.turn.begin()
    }
}

/// All lanes of a store.
#[derive(Debug)]
pub(super) struct Lanes {
    // Std mutexes: held to clone or take, never over an await. Empty: closed.
    senders: Mutex<Vec<mpsc::Sender<Job>>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    hasher: RandomState,
}

impl Lanes {
    pub(super) fn start(shared: &Arc<Shared>) -> Self {
        let (senders, tasks) = (0..shared.options.lanes.max(1))
            .map(|_| {
                let (sender, receiver) = mpsc::channel(QUEUE);
                (sender, tokio::spawn(Lane::new(shared.clone(), receiver).run()))
            })
            .unzip();
        Self { senders: Mutex::new(senders), tasks: Mutex::new(tasks), hasher: RandomState::new() }
    }

    /// Commits a set together with others.
    pub(super) async fn commit(&self, set: ChangeSet, shared: &Shared) -> Answer {
        let closed = || CommitError::Unavailable("the store is closed".to_owned());
        let Some(sender) = self.lane(&set.key) else { return Err(closed()) };
        let until = Instant::now() + shared.options.connection_wait;
        let turn = Arc::new(Turn::default());
        let (answer, mut verdict) = oneshot::channel();
        let job = Job { set, answer, turn: turn.clone() };
        match timeout_at(until, sender.send(job)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(closed()),
            Err(_) => return Err(late(shared)),
        }
        drop(sender);
        let told = match timeout_at(until, &mut verdict).await {
            Ok(told) => told,
            // Nothing of it was sent: the lane is busy with those before it, or has no connection.
            Err(_) if turn.withdraw() => return Err(late(shared)),
            Err(_) => verdict.await,
        };
        told.unwrap_or_else(|_| Err(CommitError::Unknown("the store stopped working on it".to_owned())))
    }

    fn lane(&self, key: &RecordKey) -> Option<mpsc::Sender<Job>> {
        let senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        let count = senders.len().max(1);
        senders.get(self.hasher.hash_one(key) as usize % count).cloned()
    }

    /// Lets what was accepted come to its end.
    pub(super) async fn close(&self) {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        if timeout(CLOSE_WAIT, join_all(tasks)).await.is_err() {
            tracing::error!("commits were still under way {CLOSE_WAIT:?} after the store was closed");
        }
    }
}

fn late(shared: &Shared) -> CommitError {
    CommitError::Unavailable(format!("its turn did not come within {:?}", shared.options.connection_wait))
}
