//! Making a backup while the store goes on.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rusqlite::{Connection, OpenFlags, params};

use super::seal::{self, FORMAT};
use super::{BackupError, BackupSummary, damaged, unwritable};
use crate::sqlite::schema;

/// Leases are not restored, so they are not backed up.
const WITHOUT_LEASES: &str = "DELETE FROM lease_holders; DELETE FROM lease_waiters; DELETE FROM lease_ended;";

/// Readers that hold on to one state of the store for long: meanwhile the log cannot be begun again.
#[derive(Clone, Debug, Default)]
pub(in crate::sqlite) struct LongReads(Arc<AtomicUsize>);

/// One of them; dropped: it is over.
struct LongRead(LongReads);

impl LongReads {
    /// Whether there are any.
    pub(in crate::sqlite) fn any(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    fn begin(&self) -> LongRead {
        self.0.fetch_add(1, Ordering::SeqCst);
        LongRead(self.clone())
    }
}

impl Drop for LongRead {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How many steps SQLite makes between two looks at whether somebody still waits: about a millisecond's.
const STEPS_PER_LOOK: std::ffi::c_int = 100_000;

/// Whether somebody still waits for a backup. A thread cannot be dropped as a future can: it has to look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Awaited(Arc<AtomicBool>);

/// Somebody who waits; dropped: no longer.
pub(crate) struct Waiter(Awaited);

impl Awaited {
    /// Somebody waits, and what the thread is to look at.
    pub(crate) fn new() -> (Waiter, Self) {
        let awaited = Self::default();
        (Waiter(awaited.clone()), awaited)
    }

    /// Makes a connection give up what it does when nobody waits any more.
    fn watch(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let Self(over) = self.clone();
        connection.progress_handler(STEPS_PER_LOOK, Some(move || over.load(Ordering::Relaxed)))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Copies the store at `path`, as it is at one moment, to `into`, which must not exist or be empty. Moves go on meanwhile;
/// what they write stays in the log until the copy is done. What was deleted is not copied.
pub(in crate::sqlite) fn make(
    path: &Path,
    into: &Path,
    source: &str,
    reads: &LongReads,
    awaited: &Awaited,
) -> Result<BackupSummary, BackupError> {
    let failed = |error: rusqlite::Error| unwritable(into, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let reading = reads.begin();
    let mut store = Connection::open_with_flags(path, flags).map_err(failed)?;
    awaited.watch(&mut store).map_err(failed)?;
    let name = into.to_str().ok_or_else(|| unwritable(into, &"its name is not UTF-8"))?;
    store.execute("VACUUM INTO ?1", params![name]).map_err(failed)?;
    drop(store);
    drop(reading);
    let copy = open(into, awaited).map_err(failed)?;
    finish(copy, into, source)
}

/// An empty file with the tables, to be filled in one transaction and then finished.
pub(crate) fn create(into: &Path, awaited: &Awaited) -> Result<Connection, BackupError> {
    let failed = |error: rusqlite::Error| unwritable(into, &error);
    let mut connection = open(into, awaited).map_err(failed)?;
    connection.pragma_update(None, "application_id", schema::APPLICATION_ID).map_err(failed)?;
    schema::migrate(&mut connection, 0).map_err(failed)?;
    Ok(connection)
}

/// Seals a filled file, and syncs it.
pub(crate) fn finish(connection: Connection, into: &Path, source: &str) -> Result<BackupSummary, BackupError> {
    let failed = |error: rusqlite::Error| unwritable(into, &error);
    connection.execute_batch(WITHOUT_LEASES).map_err(failed)?;
    let found = seal::digests(&connection).map_err(|error| damaged(into, &error))?;
    connection.execute_batch(seal::TABLE).map_err(failed)?;
    let summary = &found.summary;
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let (records, events, keys) = (number(summary.records), number(summary.events), number(summary.keys));
    connection
        .execute(
            "INSERT INTO backup_seal VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![FORMAT, summary.content, found.whole, records, events, keys, source],
        )
        .map_err(failed)?;
    connection.close().map_err(|(_, error)| failed(error))?;
    File::open(into).and_then(|file| file.sync_all()).map_err(|error| unwritable(into, &error))?;
    Ok(found.summary)
}

fn open(path: &Path, awaited: &Awaited) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open(path)?;
    awaited.watch(&mut connection)?;
    // Whatever ends early is thrown away: it is synced once, when it is done.
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.query_row("PRAGMA journal_mode = MEMORY", [], |_| Ok(()))?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows enough for some looks.
    const ROWS: i64 = 200_000;

    fn filled(path: &Path, awaited: &Awaited) -> Connection {
        let connection = create(path, awaited).unwrap();
        let counters = "INSERT INTO counters (name, value)
            WITH RECURSIVE n (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < ?1)
            SELECT 'c' || value, value FROM n";
        connection.execute(counters, params![ROWS]).unwrap();
        connection
    }

    fn is_interrupted(made: &Result<BackupSummary, BackupError>) -> bool {
        made.as_ref().is_err_and(|error| error.to_string().contains("interrupted"))
    }

    #[test]
    fn a_copy_that_nobody_waits_for_ends() {
        let folder = tempfile::tempdir().unwrap();
        let (path, into) = (folder.path().join("store"), folder.path().join("copy"));
        let (waiter, awaited) = Awaited::new();
        filled(&path, &awaited).close().unwrap();
        let reads = LongReads::default();
        drop(waiter);
        let made = make(&path, &into, "here", &reads, &awaited);
        assert!(is_interrupted(&made), "{made:?}");
        assert!(!reads.any());
        // While somebody waits it is made, into an empty file too.
        let (_waiter, awaited) = Awaited::new();
        std::fs::write(&into, "").unwrap();
        assert!(make(&path, &into, "here", &reads, &awaited).is_ok());
    }

    #[test]
    fn a_seal_that_nobody_waits_for_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy");
        let (waiter, awaited) = Awaited::new();
        let copy = filled(&path, &awaited);
        drop(waiter);
        let made = finish(copy, &path, "there");
        assert!(is_interrupted(&made), "{made:?}");
    }
}
