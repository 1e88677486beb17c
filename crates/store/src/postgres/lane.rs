//! A lane takes what has arrived while its last batch was being committed, and commits it in one transaction. Rows that
//! another session has locked are passed over there, and waited for by a task of their own: they hold up nobody.
//!
//! Invariants:
//! - an answer leaves only once the fate of its transaction is known, or known not to be known;
//! - of a record, one transaction has one set at most: the next is checked against what the one before has left;
//! - sets of one record are sent in the order in which they came.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::calls::Told;
use super::failure::{self, Fate};
use super::lanes::Job;
use super::pool::{Connection, Share};
use super::store::Shared;
use super::values::{Many, Waits};
use super::{row_lock, single};
use crate::{CommitError, Verdict, verify};

/// Change sets of one transaction: past it a transaction no longer gets cheaper by the set.
const SETS_MAX: usize = 256;

/// Bytes of one transaction, so that large sets do not hold up the others for long.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Sets that are sent one by one without waiting for the answers between: if the connection breaks, the fate of so many
/// is not known.
const SINGLES: usize = 32;

pub(super) struct Lane {
    shared: Arc<Shared>,
    receiver: mpsc::Receiver<Job>,
    /// Those who wait for a row. As many as callers have commits under way.
    waiting: JoinSet<()>,
}

/// The connection is not to be used again.
struct Broken {
    /// It did not answer in time.
    silent: bool,
}

/// How a transaction of many ended.
enum Together {
    /// These were passed over.
    Left(Vec<Job>),
    /// It was taken back as a whole: a part of it is at fault.
    TakenBack(Vec<Job>),
    /// All have been told.
    Broken(Broken),
}

impl Lane {
    pub(super) fn new(shared: Arc<Shared>, receiver: mpsc::Receiver<Job>) -> Self {
        Self { shared, receiver, waiting: JoinSet::new() }
    }

    pub(super) async fn run(mut self) {
        while let Some(first) = self.receiver.recv().await {
            let (batch, alone) = self.gather(first);
            self.commit(batch, alone).await;
            while self.waiting.try_join_next().is_some() {}
        }
        while self.waiting.join_next().await.is_some() {}
    }

    /// What has arrived: one set of each record, to be committed together; and those that go singly after them, in their
    /// order: of records that came before, and with fences.
    fn gather(&mut self, first: Job) -> (Vec<Job>, Vec<Job>) {
        let (mut bytes, mut seen) = (0, HashSet::new());
        let (mut batch, mut alone) = (Vec::new(), Vec::new());
        let mut next = Some(first);
        while let Some(job) = next {
            bytes += verify::size(&job.set);
            let is_first = seen.insert(job.set.key.clone());
            if is_first && job.set.fences.is_empty() {
                batch.push(job)
            } else {
                alone.push(job)
            }
            let full = batch.len() + alone.len() >= SETS_MAX || bytes >= BYTES_MAX;
            next = if full { None } else { self.receiver.try_recv().ok() };
        }
        (batch, alone)
    }

    async fn commit(&mut self, mut batch: Vec<Job>, mut alone: Vec<Job>) {
        let connection = match self.shared.connections.get(Share::Lane).await {
            Ok(connection) => connection,
            Err(detail) => {
                let error = CommitError::Unavailable(detail);
                answer_all(batch, &error);
                return answer_all(alone, &error);
            }
        };
        batch.retain(Job::begin);
        alone.retain(Job::begin);
        let until = Instant::now() + self.shared.options.verdict_wait;
        match self.commit_on(&connection, batch, alone, until).await {
            Ok(()) => connection.done(),
            Err(Broken { silent: true }) => connection.give_up(),
            // Brought to rest, or closed, when it is dropped.
            Err(Broken { silent: false }) => {}
        }
    }

    async fn commit_on(
        &mut self,
        connection: &Connection,
        batch: Vec<Job>,
        alone: Vec<Job>,
        until: Instant,
    ) -> Result<(), Broken> {
        let mut parts = vec![batch];
        let mut singles = Vec::new();
        while let Some(part) = parts.pop() {
            if part.len() <= 1 {
                singles.extend(part);
                continue;
            }
            match self.together(connection, part, until).await {
                Together::Left(left) => singles.extend(left),
                Together::TakenBack(mut part) => {
                    let half = part.split_off(part.len() / 2);
                    parts.extend([half, part]);
                }
                Together::Broken(broken) => {
                    parts.into_iter().for_each(not_sent);
                    not_sent(singles);
                    not_sent(alone);
                    return Err(broken);
                }
            }
        }
        singles.extend(alone);
        while !singles.is_empty() {
            let rest = singles.split_off(singles.len().min(SINGLES));
            if let Err(broken) = self.singly(connection, singles, until).await {
                not_sent(rest);
                return Err(broken);
            }
            singles = rest;
        }
        Ok(())
    }

    /// Commits all in one transaction.
    async fn together(&self, connection: &Connection, part: Vec<Job>, until: Instant) -> Together {
        let Some(left) = time_left(until) else {
            not_sent(part);
            return Together::Left(Vec::new());
        };
        let many = Many::new(part.iter().map(|job| &job.set));
        let waits = self.waits();
        let parameters = many.parameters(&waits);
        let calls = &self.shared.calls;
        let sql = if many.is_alarmed() { &calls.commit_many_alarmed } else { &calls.commit_many };
        let call = connection.change(sql, &parameters);
        let fate = match timeout(left, call).await {
            Ok(Ok(rows)) => match rows.first().map(|row| row.try_get::<_, Vec<i32>>(0)) {
                Some(Ok(won)) => Ok(won),
                Some(Err(error)) => Err(Fate::Unknown(failure::explain(&error))),
                None => Err(Fate::Unknown("the database gave no answer".to_owned())),
            },
            Ok(Err(fate)) => Err(fate),
            Err(_) => {
                answer_all(part, &CommitError::Unknown(self.shared.no_verdict()));
                return Together::Broken(Broken { silent: true });
            }
        };
        match fate {
            Ok(won) => {
                let won: HashSet<usize> = won.into_iter().filter_map(|place| usize::try_from(place - 1).ok()).collect();
                let mut left = Vec::new();
                for (place, job) in part.into_iter().enumerate() {
                    if won.contains(&place) {
                        let _gone = job.answer.send(Ok(Verdict::Committed));
                    } else {
                        left.push(job);
                    }
                }
                Together::Left(left)
            }
            Err(Fate::Unknown(detail)) => {
                answer_all(part, &CommitError::Unknown(detail));
                Together::Broken(Broken { silent: false })
            }
            Err(_) => Together::TakenBack(part),
        }
    }

    /// Commits each by itself, all sent at once, waiting for no row.
    async fn singly(&mut self, connection: &Connection, jobs: Vec<Job>, until: Instant) -> Result<(), Broken> {
        let Some(left) = time_left(until) else {
            not_sent(jobs);
            return Ok(());
        };
        let (calls, waits) = (&self.shared.calls, self.waits());
        let commits = jobs.iter().map(|job| single::commit(connection, calls, &job.set, waits));
        let Ok(told) = timeout(left, join_all(commits)).await else {
            answer_all(jobs, &CommitError::Unknown(self.shared.no_verdict()));
            return Err(Broken { silent: true });
        };
        let mut usable = Ok(());
        for (job, told) in jobs.into_iter().zip(told) {
            match told {
                Ok(Told::Locked) => {
                    self.waiting.spawn(wait_for_row(self.shared.clone(), job));
                }
                Ok(Told::Passed { .. }) => drop(job.answer.send(Ok(Verdict::Committed))),
                Ok(Told::Verdict(verdict)) => drop(job.answer.send(Ok(verdict))),
                Err(error) => {
                    if matches!(error, CommitError::Unknown(_)) {
                        usable = Err(Broken { silent: false });
                    }
                    let _gone = job.answer.send(Err(error));
                }
            }
        }
        usable
    }

    /// No row is waited for here, and nothing else for long.
    fn waits(&self) -> Waits {
        Waits::skipping(self.shared.options.lock_wait)
    }
}

/// None: there is none.
fn time_left(until: Instant) -> Option<Duration> {
    Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
}

/// Commits a set whose row another session has, when it gives it back.
async fn wait_for_row(shared: Arc<Shared>, job: Job) {
    let Job { set, mut answer, .. } = job;
    let outcome = tokio::select! {
        outcome = row_lock::commit_waiting(&shared, &set, Instant::now()) => outcome,
        // Nobody waits any more. A commit that was sent may still take place, as the trait says.
        () = answer.closed() => return,
    };
    let _gone = answer.send(outcome);
}

fn not_sent(jobs: Vec<Job>) {
    answer_all(jobs, &CommitError::Unavailable("its turn did not come while the database answered".to_owned()));
}

fn answer_all(jobs: Vec<Job>, error: &CommitError) {
    for job in jobs {
        let _gone = job.answer.send(Err(error.clone()));
    }
}
