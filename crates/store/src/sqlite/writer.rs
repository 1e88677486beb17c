//! The writer: one thread, one connection, one transaction at a time.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::mpsc;

use super::checkpoint::Checkpoints;
use super::lock_file::LockFile;
use super::queue::Job;
use super::transaction;

/// Jobs of one transaction: enough that the sync is a small part of each, few enough that the first of them does not
/// wait long for the last.
const JOBS_MAX: usize = 256;

/// Bytes of one transaction, reached or once exceeded: some ten milliseconds of writing.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// What the thread works on.
pub(super) struct Writer {
    queue: mpsc::Receiver<Box<dyn Job>>,
    connection: Connection,
    checkpoints: Checkpoints,
    lock: LockFile,
}

impl Writer {
    /// Starts the thread. It ends when every sender of `queue` is gone and what they sent is done.
    pub(super) fn start(
        queue: mpsc::Receiver<Box<dyn Job>>,
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
            if transaction::run(&self.connection, jobs) {
                self.checkpoints.after_commit(&self.connection);
            }
        }
        let Self { connection, checkpoints, lock, .. } = self;
        checkpoints.finish(&connection);
        // In this order: whoever takes the lock next finds the file closed.
        drop(connection);
        drop(lock);
    }

    /// Takes what waits, within the bounds of one transaction. Nothing is waited for: while one transaction is synced,
    /// the next one gathers by itself.
    fn gather(&mut self, first: Box<dyn Job>) -> Vec<Box<dyn Job>> {
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
