//! Making a backup while the store goes on.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// Copies the store at `path`, as it is at one moment, to `into`, which must not exist. Moves go on meanwhile; what they
/// write stays in the log until the copy is done. What was deleted is not copied.
pub(in crate::sqlite) fn make(
    path: &Path,
    into: &Path,
    source: &str,
    reads: &LongReads,
) -> Result<BackupSummary, BackupError> {
    let failed = |error: rusqlite::Error| unwritable(into, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let reading = reads.begin();
    let store = Connection::open_with_flags(path, flags).map_err(failed)?;
    let name = into.to_str().ok_or_else(|| unwritable(into, &"its name is not UTF-8"))?;
    store.execute("VACUUM INTO ?1", params![name]).map_err(failed)?;
    drop(store);
    drop(reading);
    let copy = open(into).map_err(failed)?;
    finish(copy, into, source)
}

/// An empty file with the tables, to be filled in one transaction and then finished.
pub(crate) fn create(into: &Path) -> Result<Connection, BackupError> {
    let failed = |error: rusqlite::Error| unwritable(into, &error);
    let mut connection = open(into).map_err(failed)?;
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

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    // Whatever ends early is thrown away: it is synced once, when it is done.
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.query_row("PRAGMA journal_mode = MEMORY", [], |_| Ok(()))?;
    Ok(connection)
}
