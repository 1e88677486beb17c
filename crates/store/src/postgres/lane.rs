//! Change sets on their way: those of one record always in one lane, in their order.
//!
//! A lane takes what has arrived while its last batch was being committed, and commits it in one transaction. Rows that
//! another session has locked are passed over there, and waited for by a task of their own: they hold up nobody.
//!
//! Invariants:
//! - an answer leaves only once the fate of its transaction is known, or known not to be known;
//! - of a record, one transaction has one set at most: the next is checked against what the one before has left.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::calls::Told;
use super::connection::Connection;
use super::failure::{self, Fate};
use super::single;
use super::store::Shared;
use super::values::Many;
use crate::{ChangeSet, CommitError, RecordKey, Verdict, verify};

/// Change sets of one transaction: past it a transaction no longer gets cheaper by the set.
const SETS_MAX: usize = 256;

/// Bytes of one transaction, so that large sets do not hold up the others for long.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Sets that may wait in one lane; the engine has at most 1,024 keys under way.
const QUEUE: usize = 1_024;

/// How long closing waits for what is under way.
const CLOSE_WAIT: Duration = Duration::from_secs(30);

type Answer = Result<Verdict, CommitError>;

/// A set, and who waits for its verdict.
pub(super) struct Job {
    set: ChangeSet,
    answer: oneshot::Sender<Answer>,
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
    pub(super) fn start(shared: &std::sync::Arc<Shared>) -> Self {
        let (senders, tasks) = (0..shared.options.lanes.max(1))
            .map(|_| {
                let (sender, receiver) = mpsc::channel(QUEUE);
                let lane = Lane { shared: shared.clone(), receiver, waiting: JoinSet::new() };
                (sender, tokio::spawn(lane.run()))
            })
            .unzip();
        Self { senders: Mutex::new(senders), tasks: Mutex::new(tasks), hasher: RandomState::new() }
    }

    /// Commits a set together with others.
    pub(super) async fn commit(&self, set: ChangeSet, shared: &Shared) -> Answer {
        let Some(sender) = self.lane(&set.key) else {
            return Err(CommitError::Unavailable("the store is closed".to_owned()));
        };
        let (answer, verdict) = oneshot::channel();
        match sender.send_timeout(Job { set, answer }, shared.options.connection_wait).await {
            Ok(()) => {}
            Err(SendTimeoutError::Timeout(_)) => {
                let waited = shared.options.connection_wait;
                return Err(CommitError::Unavailable(format!("its queue was full for {waited:?}")));
            }
            Err(SendTimeoutError::Closed(_)) => {
                return Err(CommitError::Unavailable("the store is closed".to_owned()));
            }
        }
        drop(sender);
        verdict.await.unwrap_or_else(|_| Err(CommitError::Unknown("the store stopped working on it".to_owned())))
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

struct Lane {
    shared: std::sync::Arc<Shared>,
    receiver: mpsc::Receiver<Job>,
    /// Those who wait for a row. As many as callers have commits under way.
    waiting: JoinSet<()>,
}

impl Lane {
    async fn run(mut self) {
        while let Some(first) = self.receiver.recv().await {
            let (mut batch, mut repeats) = self.gather(first);
            // Nobody hears of them, and nothing was promised.
            batch.retain(|job| !job.answer.is_closed());
            repeats.retain(|job| !job.answer.is_closed());
            self.commit(batch, repeats).await;
            while self.waiting.try_join_next().is_some() {}
        }
        while self.waiting.join_next().await.is_some() {}
    }

    /// What has arrived: one set of each record, and those of records that came before.
    fn gather(&mut self, first: Job) -> (Vec<Job>, Vec<Job>) {
        let mut bytes = verify::size(&first.set);
        let mut seen = HashSet::from([first.set.key.clone()]);
        let (mut batch, mut repeats) = (vec![first], Vec::new());
        while batch.len() + repeats.len() < SETS_MAX && bytes < BYTES_MAX {
            let Ok(job) = self.receiver.try_recv() else { break };
            bytes += verify::size(&job.set);
            if seen.insert(job.set.key.clone()) { batch.push(job) } else { repeats.push(job) }
        }
        (batch, repeats)
    }

    async fn commit(&mut self, batch: Vec<Job>, repeats: Vec<Job>) {
        if batch.is_empty() && repeats.is_empty() {
            return;
        }
        let connection = match self.shared.connections.get().await {
            Ok(connection) => connection,
            Err(detail) => {
                let error = CommitError::Unavailable(detail);
                answer_all(batch, &error);
                return answer_all(repeats, &error);
            }
        };
        let mut left = match batch.len() {
            0 | 1 => batch,
            _ => match self.together(&connection, batch).await {
                Ok(left) => left,
                Err(()) => {
                    // The connection is not used again, and nothing of these was sent.
                    let error = CommitError::Unavailable("the connection to the database broke".to_owned());
                    return answer_all(repeats, &error);
                }
            },
        };
        left.extend(repeats);
        if left.is_empty() || self.singly(&connection, left).await.is_ok() {
            connection.done();
        }
    }

    /// Commits all in one transaction; gives back those that it passed over. `Err`: nothing more can be said or done on
    /// this connection, and all have been told so.
    async fn together(&self, connection: &Connection, batch: Vec<Job>) -> Result<Vec<Job>, ()> {
        let calls = &self.shared.calls;
        let many = Many::new(batch.iter().map(|job| &job.set));
        let parameters = many.parameters();
        let call = connection.client().query_typed(&calls.commit_many, &parameters);
        let fate = match timeout(self.shared.options.verdict_wait, call).await {
            Ok(Ok(rows)) => match rows.first().map(|row| row.try_get::<_, Vec<i32>>(0)) {
                Some(Ok(won)) => Ok(won),
                Some(Err(error)) => Err(Fate::Unknown(failure::explain(&error))),
                None => Err(Fate::Unknown("the database gave no answer".to_owned())),
            },
            Ok(Err(error)) => Err(failure::fate(&error)),
            Err(_) => Err(Fate::Unknown(self.shared.no_verdict())),
        };
        match fate {
            Ok(won) => {
                let won: HashSet<usize> = won.into_iter().filter_map(|place| usize::try_from(place - 1).ok()).collect();
                let mut left = Vec::new();
                for (place, job) in batch.into_iter().enumerate() {
                    if won.contains(&place) {
                        let _gone = job.answer.send(Ok(Verdict::Committed));
                    } else {
                        left.push(job);
                    }
                }
                Ok(left)
            }
            Err(Fate::Unknown(detail)) => {
                answer_all(batch, &CommitError::Unknown(detail));
                Err(())
            }
            // Taken back as a whole: each by itself shows whose fault it was.
            Err(Fate::Rejected(_) | Fate::Locked | Fate::TakenBack(_)) => Ok(batch),
        }
    }

    /// Commits each by itself, all sent at once, waiting for no row. `Err`: the connection is not to be used again.
    async fn singly(&mut self, connection: &Connection, batch: Vec<Job>) -> Result<(), ()> {
        let calls = &self.shared.calls;
        let commits = batch.iter().map(|job| single::commit(connection.client(), calls, &job.set, 0));
        let Ok(told) = timeout(self.shared.options.verdict_wait, join_all(commits)).await else {
            answer_all(batch, &CommitError::Unknown(self.shared.no_verdict()));
            return Err(());
        };
        let mut usable = Ok(());
        for (job, told) in batch.into_iter().zip(told) {
            match told {
                Ok(Told::Locked) => {
                    self.waiting.spawn(wait_for_row(self.shared.clone(), job));
                }
                Ok(Told::Passed { .. }) => drop(job.answer.send(Ok(Verdict::Committed))),
                Ok(Told::Verdict(verdict)) => drop(job.answer.send(Ok(verdict))),
                Err(error) => {
                    if matches!(error, CommitError::Unknown(_)) {
                        usable = Err(());
                    }
                    let _gone = job.answer.send(Err(error));
                }
            }
        }
        usable
    }
}

/// Commits a set whose row another session has, when it gives it back.
async fn wait_for_row(shared: std::sync::Arc<Shared>, job: Job) {
    let Job { set, mut answer } = job;
    let begun = Instant::now();
    let outcome = tokio::select! {
        outcome = commit_waiting(&shared, &set, begun) => outcome,
        // Nobody waits any more. A commit that was sent may still take place, as the trait says.
        () = answer.closed() => return,
    };
    let _gone = answer.send(outcome);
}

async fn commit_waiting(shared: &Shared, set: &ChangeSet, begun: Instant) -> Answer {
    let bound = shared.options.lock_wait;
    let timed_out = || Ok(Verdict::LockTimeout { waited: begun.elapsed() });
    // A share of the pool only: those who wait for rows must not keep the others from their connections.
    let Ok(Ok(_permit)) = timeout(bound, shared.row_waits.acquire()).await else { return timed_out() };
    let connection = shared.connections.get().await.map_err(CommitError::Unavailable)?;
    let left = bound.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
    let lock_ms = i32::try_from(left.as_millis()).unwrap_or(i32::MAX);
    let commit = single::commit(connection.client(), &shared.calls, set, lock_ms);
    match timeout(left + shared.options.verdict_wait, commit).await {
        Ok(Ok(told)) => {
            connection.done();
            match told {
                Told::Passed { .. } => Ok(Verdict::Committed),
                Told::Verdict(verdict) => Ok(verdict),
                Told::Locked => timed_out(),
            }
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(CommitError::Unknown(shared.no_verdict())),
    }
}

fn answer_all(batch: Vec<Job>, error: &CommitError) {
    for job in batch {
        let _gone = job.answer.send(Err(error.clone()));
    }
}
