//! The writer: one thread, one connection, one transaction at a time.
//!
//! Invariants:
//! - An answer leaves only once the fate of its transaction is known.
//! - A job's writes are either all in the transaction or none: each runs in a savepoint of its own.
//! - While a transaction is open nothing is awaited: its length is bounded by jobs and bytes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, params};
use tokio::sync::mpsc;

use super::change::{self, Checked};
use super::checkpoint::Checkpoints;
use super::failure::{self, Phase};
use super::lock_file::LockFile;
use super::queue::{Held, Job, Outcome};
use crate::limits::PURGE_MAX;
use crate::{AllVerdict, ChangeSet, Timestamp, Verdict};

/// Jobs of one transaction: enough that the sync is a small part of each, few enough that the first of them does not
/// wait long for the last.
const JOBS_MAX: usize = 256;

/// Bytes of one transaction, reached or once exceeded: some ten milliseconds of writing.
const BYTES_MAX: usize = 8 * 1024 * 1024;

const PURGE: &str = "DELETE FROM idempotency_keys WHERE (record, key) IN
    (SELECT record, key FROM idempotency_keys WHERE expires_ms <= ?1 ORDER BY expires_ms LIMIT ?2)";

/// What the thread works on.
#[derive(Debug)]
pub(super) struct Writer {
    queue: mpsc::Receiver<Job>,
    connection: Connection,
    checkpoints: Checkpoints,
    // Held until the connection is closed: fields are dropped in this order.
    lock: LockFile,
}

impl Writer {
    /// Starts the thread. It ends when every sender of `queue` is gone and what they sent is done.
    pub(super) fn start(
        queue: mpsc::Receiver<Job>,
        connection: Connection,
        checkpoints: Checkpoints,
        lock: LockFile,
    ) -> std::io::Result<Arc<Ended>> {
        let ended = Arc::new(Ended::default());
        let notice = Notice(Arc::clone(&ended));
        let writer = Self { queue, connection, checkpoints, lock };
        std::thread::Builder::new().name("store-writer".into()).spawn(move || {
            // Declared first, so dropped last: whoever hears of the end finds the lock free, after a panic too.
            let _notice = notice;
            writer.run();
        })?;
        Ok(ended)
    }

    fn run(mut self) {
        while let Some(first) = self.queue.blocking_recv() {
            let jobs = self.gather(first);
            if commit(&self.connection, jobs) {
                self.checkpoints.after_commit(&self.connection);
            }
        }
        let Self { connection, checkpoints, lock, .. } = self;
        checkpoints.finish(&connection);
        // In this order: whoever takes the lock next finds the file closed.
        drop(connection);
        drop(lock);
    }

    /// Takes what waits, within the bounds of one transaction.
    fn gather(&mut self, first: Job) -> Vec<Job> {
        let mut bytes = first.size();
        let mut jobs = vec![first];
        while jobs.len() < JOBS_MAX && bytes < BYTES_MAX {
            let Ok(job) = self.queue.try_recv() else { break };
            bytes += job.size();
            jobs.push(job);
        }
        jobs
    }
}

/// Runs jobs in one transaction and answers them; says whether anything was written.
fn commit(connection: &Connection, jobs: Vec<Job>) -> bool {
    if let Err(error) = run(connection, "BEGIN IMMEDIATE") {
        failure::end_if_fatal(&error, Phase::Statement);
        let reason = error.to_string();
        jobs.into_iter().for_each(|job| job.refuse(&reason));
        return false;
    }
    let mut batch = Batch::default();
    let mut jobs = jobs.into_iter();
    for job in jobs.by_ref().filter(|job| !job.is_abandoned()) {
        batch.perform(connection, job);
        if connection.is_autocommit() {
            // SQLite has taken the whole transaction back, as it does when the disk is full
            // (https://www.sqlite.org/lang_transaction.html, "response to errors within a transaction").
            break;
        }
    }
    if connection.is_autocommit() {
        let reason = batch.fault.take().unwrap_or_else(|| "the transaction was taken back".to_owned());
        jobs.for_each(|job| job.refuse(&reason));
        batch.refuse(&reason);
        return false;
    }
    if batch.wrote {
        return batch.commit(connection);
    }
    // Nothing to sync: what was read is what is committed.
    roll_back(connection);
    batch.release();
    false
}

/// The jobs of a transaction that have been performed.
#[derive(Default)]
struct Batch {
    held: Vec<Box<dyn Held>>,
    wrote: bool,
    fault: Option<String>,
}

/// What a job came to.
struct Step<T> {
    value: T,
    /// Whether it wrote what is to be kept.
    keep: bool,
}

impl Batch {
    fn perform(&mut self, connection: &Connection, job: Job) {
        match job {
            Job::Set(set, answer) => {
                let step = in_savepoint(connection, || one(connection, &set));
                self.hold(answer, step);
            }
            Job::All(sets, answer) => {
                let step = in_savepoint(connection, || all(connection, &sets));
                self.hold(answer, step);
            }
            Job::Purge { now, limit, answer } => {
                let step = in_savepoint(connection, || purge(connection, now, limit));
                self.hold(answer, step);
            }
            // That the transaction was begun is the answer.
            Job::Ping(answer) => self.hold(answer, Ok(Step { value: (), keep: false })),
        }
    }

    fn hold<T: 'static>(&mut self, answer: super::queue::Answer<T>, step: Result<Step<T>, String>) {
        match step {
            Ok(Step { value, keep }) => {
                self.wrote |= keep;
                self.held.push(Box::new(Outcome { answer, value }));
            }
            Err(reason) => {
                answer.refuse(&reason);
                self.fault = Some(reason);
            }
        }
    }

    fn commit(mut self, connection: &Connection) -> bool {
        self.held.iter_mut().for_each(|held| held.mark_sent());
        match run(connection, "COMMIT") {
            Ok(()) => {
                self.release();
                true
            }
            Err(error) => {
                failure::end_if_fatal(&error, Phase::Sync);
                roll_back(connection);
                self.refuse(&error.to_string());
                false
            }
        }
    }

    fn release(self) {
        self.held.into_iter().for_each(Held::release);
    }

    fn refuse(self, reason: &str) {
        self.held.into_iter().for_each(|held| held.refuse(reason));
    }
}

/// Runs `job`, and takes back what it wrote unless it says to keep it. A panic is a fault of ours; it costs its own job
/// only.
fn in_savepoint<T>(
    connection: &Connection,
    job: impl FnOnce() -> rusqlite::Result<Step<T>>,
) -> Result<Step<T>, String> {
    run(connection, "SAVEPOINT job").map_err(|error| explain(&error))?;
    let result = match catch_unwind(AssertUnwindSafe(job)) {
        Ok(result) => result.map_err(|error| explain(&error)),
        Err(_) => Err("the store failed internally; its log has the message".to_owned()),
    };
    let keep = matches!(&result, Ok(step) if step.keep);
    if connection.is_autocommit() {
        return result.and(Err("the transaction was taken back".to_owned()));
    }
    let ended = if keep { Ok(()) } else { run(connection, "ROLLBACK TO job") };
    if let Err(error) = ended.and_then(|()| run(connection, "RELEASE job")) {
        let reason = explain(&error);
        roll_back(connection);
        return Err(reason);
    }
    result
}

fn explain(error: &rusqlite::Error) -> String {
    failure::end_if_fatal(error, Phase::Statement);
    error.to_string()
}

/// Ends the open transaction, if there still is one, without a trace.
fn roll_back(connection: &Connection) {
    if connection.is_autocommit() {
        return;
    }
    let result = run(connection, "ROLLBACK");
    if !connection.is_autocommit() {
        // What is in it might be committed with the next transaction: better none.
        tracing::error!(?result, "a transaction could not be taken back: ending the process");
        std::process::abort();
    }
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}

fn one(connection: &Connection, set: &ChangeSet) -> rusqlite::Result<Step<Verdict>> {
    let found = match change::check(connection, set)? {
        Checked::Passed(found) => found,
        Checked::Failed(verdict) => return Ok(Step { value: verdict, keep: false }),
    };
    let fault = change::write(connection, set, found)?;
    Ok(Step { keep: fault.is_none(), value: fault.unwrap_or(Verdict::Committed) })
}

/// All are checked before any is written, so that a requirement on a record of the same commit means its state before.
fn all(connection: &Connection, sets: &[ChangeSet]) -> rusqlite::Result<Step<AllVerdict>> {
    let failed = |index, verdict| Ok(Step { value: AllVerdict::Failed { index, verdict }, keep: false });
    let mut found = Vec::with_capacity(sets.len());
    for (index, set) in sets.iter().enumerate() {
        match change::check(connection, set)? {
            Checked::Passed(record) => found.push(record),
            Checked::Failed(verdict) => return failed(index, verdict),
        }
    }
    for (index, (set, found)) in sets.iter().zip(found).enumerate() {
        if let Some(verdict) = change::write(connection, set, found)? {
            return failed(index, verdict);
        }
    }
    Ok(Step { value: AllVerdict::Committed, keep: true })
}

fn purge(connection: &Connection, now: Timestamp, limit: usize) -> rusqlite::Result<Step<usize>> {
    let limit = limit.min(PURGE_MAX) as i64;
    let purged = connection.prepare_cached(PURGE)?.execute(params![now.timestamp_millis(), limit])?;
    Ok(Step { value: purged, keep: purged > 0 })
}

/// Whether the thread has ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    ended: Mutex<bool>,
    change: Condvar,
}

impl Ended {
    /// Waits for it, at most `bound`; says whether it has.
    pub(super) fn wait(&self, bound: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let result = self.change.wait_timeout_while(ended, bound, |ended| !*ended);
        *result.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Tells of the thread's end, however it comes.
struct Notice(Arc<Ended>);

impl Drop for Notice {
    fn drop(&mut self) {
        *self.0.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.change.notify_all();
    }
}
