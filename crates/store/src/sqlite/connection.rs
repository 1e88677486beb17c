//! Opening SQLite, and every setting of it with its reason.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags};

use super::{checkpoint, place, schema};
use crate::OpenError;

/// How long a statement waits for a lock of another program on the same file. No other lockkeeper can have it; a
/// person with a database tool can.
const BUSY_WAIT: Duration = Duration::from_secs(2);

/// Page cache of the writer, KiB: the inner pages of every index stay in memory. Filled by use only.
const WRITER_CACHE_KIB: i64 = 8 * 1024;

/// Page cache of one reader, KiB. A commit by the writer empties it, so more would not be kept anyway.
const READER_CACHE_KIB: i64 = 1024;

/// To what the log is cut when it starts again, bytes: its ordinary length, because writing over an existing file is
/// cheaper to sync than growing one.
const LOG_KEPT_BYTES: i64 = checkpoint::END_PAGES * 4096;

/// Statements kept prepared: more than there are.
const STATEMENTS_KEPT: usize = 96;

/// The first bytes of every SQLite file (<https://www.sqlite.org/fileformat2.html#magic_header_string>).
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Where the application id stands in the header.
const APPLICATION_ID_AT: usize = 68;

/// Bytes of the header.
const HEADER_BYTES: usize = 100;

/// Opens the writer's connection on a settled path whose lock is held, and brings the tables up to date.
pub(super) fn open_writer(path: &Path) -> Result<Connection, OpenError> {
    refuse_strangers(path)?;
    let failed = |error: Error| open_error(path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY_WAIT).map_err(failed)?;
    if connection.is_readonly("main").map_err(failed)? {
        let detail = "the file cannot be written to: change its permissions, or give another path".into();
        return Err(OpenError::Unusable { path: path.to_owned(), detail });
    }
    mark_or_check(path, &connection)?;
    let found = schema::found(&connection).map_err(failed)?;
    if found > schema::KNOWN {
        return Err(OpenError::TooNew { store: path.display().to_string(), found, known: schema::KNOWN });
    }
    set_up_writer(&connection).map_err(failed)?;
    settle_log(&connection).map_err(failed)?;
    schema::migrate(&mut connection, found).map_err(failed)?;
    sync_folder(path);
    Ok(connection)
}

/// Opens a connection that can only read.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_WAIT)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
    keep_statements(&connection)?;
    Ok(connection)
}

/// Opens the connection that copies the log into the file.
pub(super) fn open_checkpointer(path: &Path) -> Result<Connection, OpenError> {
    let failed = |error: Error| open_error(path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY_WAIT).map_err(failed)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
    Ok(connection)
}

/// No thread could be started for the store at `path`.
pub(super) fn no_thread(path: &Path, error: &std::io::Error) -> OpenError {
    OpenError::Unusable { path: path.to_owned(), detail: format!("no thread could be started for it: {error}") }
}

fn set_up_writer(connection: &Connection) -> rusqlite::Result<()> {
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        // A file system without shared memory, such as a network share.
        let reason = format!("this file system cannot hold a write-ahead log (journal mode {mode})");
        return Err(Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN), Some(reason)));
    }
    // FULL: the log is synced in each commit, not only at checkpoints (https://www.sqlite.org/pragma.html#pragma_synchronous).
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.query_row("PRAGMA wal_autocheckpoint = 0", [], |_| Ok(()))?;
    connection.query_row(&format!("PRAGMA journal_size_limit = {LOG_KEPT_BYTES}"), [], |_| Ok(()))?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    // What a savepoint may have to take back is kept in memory instead of in a file that is never read again.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "foreign_keys", false)?;
    keep_statements(connection)
}

/// Statements are prepared once. Without the query planner's stability guarantee SQLite may prepare them anew for each value
/// that is bound (<https://www.sqlite.org/queryplanner-ng.html#qpstab>): measured, two thirds of the writer's time.
fn keep_statements(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Moves what an earlier process left in the log into the file and syncs it, before anything is added.
///
/// After a failed sync the kernel may count pages as clean that never reached the disk. Such a log reads well until the
/// power goes, and then everything behind the bad page is lost with it. Writing its content out again makes new dirty
/// pages, so this sync is an honest one.
fn settle_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// Looks at the first bytes before SQLite does: opening a stranger's database could already change it (recovery).
fn refuse_strangers(path: &Path) -> Result<(), OpenError> {
    let stranger = |detail: &str| OpenError::NotAStore { path: path.to_owned(), detail: detail.to_owned() };
    if place::beside(path, "-journal").exists() {
        // Creating the file was interrupted: only SQLite can tell what its first page is to be.
        return Ok(());
    }
    let mut header = Vec::with_capacity(HEADER_BYTES);
    match File::open(path) {
        Ok(file) => {
            file.take(HEADER_BYTES as u64).read_to_end(&mut header).map_err(|error| unreadable(path, &error))?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unreadable(path, &error)),
    }
    if header.is_empty() {
        return Ok(());
    }
    if header.len() < HEADER_BYTES || !header.starts_with(MAGIC) {
        return Err(stranger("it is not a SQLite database"));
    }
    if header[APPLICATION_ID_AT..APPLICATION_ID_AT + 4] != schema::APPLICATION_ID.to_be_bytes() {
        return Err(stranger("it is a SQLite database of another application"));
    }
    Ok(())
}

fn unreadable(path: &Path, error: &std::io::Error) -> OpenError {
    OpenError::Unusable { path: path.to_owned(), detail: format!("{error}: check its permissions") }
}

/// Marks a new file as ours before the log exists, so that the mark is always in the file itself.
fn mark_or_check(path: &Path, connection: &Connection) -> Result<(), OpenError> {
    let failed = |error: Error| open_error(path, &error);
    let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).map_err(failed)?;
    if pages == 0 {
        return connection.pragma_update(None, "application_id", schema::APPLICATION_ID).map_err(failed);
    }
    let id: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(failed)?;
    if id == schema::APPLICATION_ID {
        return Ok(());
    }
    let detail = "it is a SQLite database of another application".to_owned();
    Err(OpenError::NotAStore { path: path.to_owned(), detail })
}

/// Syncs the folder, so that a new file's name outlives a power cut. SQLite does it for its own journals; a file system
/// that refuses to sync a folder keeps names in its own way.
fn sync_folder(path: &Path) {
    let synced = path.parent().map(|folder| File::open(folder).and_then(|folder| folder.sync_all()));
    if let Some(Err(error)) = synced {
        tracing::warn!(%error, path = %path.display(), "the store's folder could not be synced");
    }
}

fn open_error(path: &Path, error: &Error) -> OpenError {
    let path = path.to_owned();
    let detail = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => return OpenError::NotAStore { path, detail: error.to_string() },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            format!("{error}: another program, such as a database tool, is writing to it; close that one")
        }
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            format!("{error}: the file and its folder must be writable for this user, on a local file system")
        }
        Some(ErrorCode::DiskFull) => format!("{error}: make room on that disk"),
        Some(ErrorCode::DatabaseCorrupt) => format!("{error}: restore a backup"),
        _ => error.to_string(),
    };
    OpenError::Unusable { path, detail }
}
