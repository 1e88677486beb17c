//! Moving what is in the log into the file.
//!
//! SQLite's own automatic checkpoints are switched off: they run inside a commit, and they keep their errors to
//! themselves, a failed sync of the file included (<https://www.sqlite.org/wal.html#automatic_checkpoint>).
//!
//! A thread with a connection of its own copies and syncs while the writer goes on (a passive checkpoint disturbs
//! nobody). The log starts again from its beginning only when a write finds all of it copied, which under load never
//! happens by chance; so where the log has become long, the writer copies the rest itself, between two commits. That is
//! little, because the thread has copied nearly everything. If that does not help either, because the thread is at work
//! or readers hold on to older states, the writer waits for them, once: the log has a bound.
//!
//! Measured with `benches/group_commit.rs` on a disk that syncs in 4 ms, one record, 256 events a set: this way p99
//! 17 ms and p99.9 73 ms; all of it in the writer, every 1,000 pages: 68 and 101 ms; every 8,192 pages: 14 and 410 ms.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::backup::LongReads;
use super::connection;
use super::failure::{self, Phase};

/// Pages (4 KiB) that wait to be copied when the thread is woken: enough that pages which change often are copied once
/// for many commits.
const COPY_PAGES: i64 = 1_000;

/// Pages of the log at which the writer tries to end it: its ordinary length, which is what a start after a crash has
/// to read and what is kept on the disk.
pub(super) const END_PAGES: i64 = 8_192;

/// Pages of the log at which the writer waits until it can be ended.
const WAIT_PAGES: i64 = 2 * END_PAGES;

/// Wakes the thread; without it, the thread ends.
#[derive(Debug)]
pub(super) struct Checkpoints {
    // One place: a wake-up that finds another waiting adds nothing.
    wake: SyncSender<()>,
    thread: JoinHandle<()>,
    // Held by whoever copies: SQLite allows one at a time, and would turn the other away instead of letting it wait.
    copying: Arc<Mutex<()>>,
    long_reads: LongReads,
}

impl Checkpoints {
    /// Starts the thread on a settled path.
    pub(super) fn start(path: &Path, long_reads: LongReads) -> Result<Self, crate::OpenError> {
        let connection = connection::open_checkpointer(path)?;
        let (wake, woken) = sync_channel(1);
        let copying = Arc::new(Mutex::new(()));
        let copies = Arc::clone(&copying);
        let thread = std::thread::Builder::new()
            .name("store-copy".into())
            .spawn(move || copy_when_woken(&connection, &woken, &copies))
            .map_err(|error| connection::no_thread(path, &error))?;
        Ok(Self { wake, thread, copying, long_reads })
    }

    /// Looks at the log after a commit, on the writer's connection and thread.
    pub(super) fn after_commit(&self, writer: &Connection) {
        let Some(log) = Log::look(writer, "PRAGMA wal_checkpoint(NOOP)") else { return };
        // A backup holds on to one state: waiting for it would hold up every commit, so the log grows until it is done.
        if log.pages >= WAIT_PAGES && !self.long_reads.any() {
            // For one round of the thread, and for reads under way: those that begin now do not need the log.
            let _turn = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
            Log::look(writer, "PRAGMA wal_checkpoint(RESTART)");
        } else if log.pages >= END_PAGES {
            if let Ok(_turn) = self.copying.try_lock() {
                Log::look(writer, "PRAGMA wal_checkpoint(PASSIVE)");
            }
        } else if log.pages - log.copied >= COPY_PAGES {
            // Full: it is awake, or about to be.
            let _ = self.wake.try_send(());
        }
    }

    /// Ends the thread and empties the log, so that the file can be copied and opened without it.
    pub(super) fn finish(self, writer: &Connection) {
        drop(self.wake);
        if self.thread.join().is_err() {
            tracing::error!("the thread that copies the store's log had failed");
        }
        Log::look(writer, "PRAGMA wal_checkpoint(TRUNCATE)");
    }
}

fn copy_when_woken(connection: &Connection, woken: &Receiver<()>, copying: &Mutex<()>) {
    while woken.recv().is_ok() {
        let _turn = copying.lock().unwrap_or_else(PoisonError::into_inner);
        Log::look(connection, "PRAGMA wal_checkpoint(PASSIVE)");
    }
}

/// The state of the log.
#[derive(Clone, Copy, Debug)]
struct Log {
    pages: i64,
    copied: i64,
}

impl Log {
    /// Runs a checkpoint statement (<https://www.sqlite.org/pragma.html#pragma_wal_checkpoint>). A full disk is
    /// survived: the log keeps what is in it.
    fn look(connection: &Connection, pragma: &str) -> Option<Self> {
        let result = connection.prepare_cached(pragma).and_then(|mut statement| {
            statement.query_row([], |row| Ok(Self { pages: row.get(1)?, copied: row.get(2)? }))
        });
        match result {
            Ok(log) => Some(log),
            Err(error) => {
                failure::end_if_fatal(&error, Phase::Sync);
                tracing::warn!(%error, "the store's log could not be copied into its file: it is kept and tried again");
                None
            }
        }
    }
}
