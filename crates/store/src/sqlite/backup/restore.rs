//! Putting a backup in the place of a store's file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};

use super::{BackupError, BackupFile, BackupSummary, unwritable};
use crate::limits::FENCE_MAX;
use crate::sqlite::lock_file::LockFile;
use crate::sqlite::{feed, place, schema};
use crate::{StoreClock, lease};

/// The files beside a store's file that belong to it.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

/// The mode of a new store, as SQLite makes one, before the process's mask.
const NEW_MODE: u32 = 0o644;

/// The mode of a file that is to have that of another one: until then nobody else may read it.
const UNFINISHED_MODE: u32 = 0o600;

/// Restores a backup as the store at `path`, which no process may have open. With `replace` a store that is there is moved
/// aside: its files keep their contents under names that say so. Whatever fails, either the store of before is there or
/// the new one, whole.
///
/// The restored store begins another life: its fences are above all that were given before, leases are gone, and places in
/// its feed are others.
///
/// # Errors
/// [`BackupError`].
pub fn restore_sqlite(
    backup: &BackupFile,
    path: &Path,
    replace: bool,
    clock: &StoreClock,
) -> Result<BackupSummary, BackupError> {
    let target = place::settle(path)?;
    let _lock = LockFile::acquire(&target)?;
    place::mend(&target).map_err(|error| unwritable(&target, &error))?;
    let records = if target.exists() { count(&target)? } else { 0 };
    if records > 0 && !replace {
        return Err(BackupError::NotEmpty { store: path.display().to_string(), records });
    }
    let ready = place::beside(&target, place::RESTORING);
    // What an interrupted restore has left.
    place::clear(&ready).map_err(|error| unwritable(&ready, &error))?;
    let mode = if target.exists() { UNFINISHED_MODE } else { NEW_MODE };
    let prepared = prepare(backup, &ready, mode, clock.now()).and_then(|()| dress(&ready, &target));
    if prepared.is_err() {
        // What is left of it is of no use, and may fill the disk.
        let _gone = place::clear(&ready);
    }
    prepared?;
    if target.exists() {
        move_aside(&target, clock.now().timestamp_millis())?;
    }
    fs::rename(&ready, &target).map_err(|error| unwritable(&target, &error))?;
    sync_folder(&target)?;
    Ok(backup.summary().clone())
}

/// What is there, if it is one of our files.
fn count(target: &Path) -> Result<u64, BackupError> {
    let failed = |error: rusqlite::Error| unwritable(target, &error);
    // With its log, which a killed process may have left: so not read-only.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(target, flags).map_err(failed)?;
    let id: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(failed)?;
    let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).map_err(failed)?;
    if pages > 0 && id != schema::APPLICATION_ID {
        return Err(unwritable(target, &"it is no lockkeeper store: give another path"));
    }
    if pages == 0 {
        return Ok(0);
    }
    // All in one file: it can be moved by one name.
    let busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).map_err(failed)?;
    if busy != 0 {
        return Err(unwritable(target, &"another program has the store open: end it first"));
    }
    let records: i64 = connection.query_row("SELECT count(*) FROM records", [], |row| row.get(0)).map_err(failed)?;
    Ok(records.unsigned_abs())
}

/// Gives the new file the owner and the mode of the one that it replaces; without one, those that a new store has.
fn dress(ready: &Path, target: &Path) -> Result<(), BackupError> {
    let failed = |error: io::Error| unwritable(ready, &error);
    let Ok(old) = fs::metadata(target) else { return Ok(()) };
    let new = fs::metadata(ready).map_err(failed)?;
    if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
        // Only root may; for anybody else it is a file of theirs, as the store that they would have made anew.
        let _given = std::os::unix::fs::chown(ready, Some(old.uid()), Some(old.gid()));
    }
    fs::set_permissions(ready, old.permissions()).map_err(failed)?;
    File::open(ready).and_then(|file| file.sync_all()).map_err(failed)
}

/// Copies the backup and makes a store of it.
fn prepare(backup: &BackupFile, ready: &Path, mode: u32, now: crate::Timestamp) -> Result<(), BackupError> {
    let failed = |error: rusqlite::Error| unwritable(ready, &error);
    // Not its permissions: a backup may well be read-only.
    let create = || OpenOptions::new().write(true).create_new(true).mode(mode).open(ready);
    let copied = File::open(backup.path()).and_then(|mut from| io::copy(&mut from, &mut create()?));
    copied.map_err(|error| unwritable(ready, &error))?;
    let mut connection = Connection::open(ready).map_err(failed)?;
    let found = schema::found(&connection).map_err(failed)?;
    schema::migrate(&mut connection, found).map_err(failed)?;
    let floor = lease::floor(now);
    let transaction = connection.transaction().map_err(failed)?;
    let renew = |sql: &str, values: &[&dyn rusqlite::ToSql]| transaction.execute(sql, values).map_err(failed);
    renew("DROP TABLE backup_seal", &[])?;
    for table in ["lease_holders", "lease_waiters", "lease_ended"] {
        renew(&format!("DELETE FROM {table}"), &[])?;
    }
    // Whoever held a lock before is late now, and so is whoever got it after the backup was made.
    renew("UPDATE fences SET last = min(max(last + 1, ?1), ?2)", params![floor, FENCE_MAX])?;
    let raise = "INSERT INTO counters (name, value) VALUES (?1, ?2)
        ON CONFLICT (name) DO UPDATE SET value = max(value + 1, excluded.value)";
    renew(raise, params!["fence_floor", floor])?;
    renew(raise, params![feed::LIFE, now.timestamp_millis()])?;
    renew("DELETE FROM counters WHERE name IN (?1, ?2)", params![feed::PURGES, feed::PURGED])?;
    transaction.commit().map_err(failed)?;
    connection.close().map_err(|(_, error)| failed(error))?;
    File::open(ready).and_then(|file| file.sync_all()).map_err(|error| unwritable(ready, &error))
}

/// Gives a store's files other names. Its log goes last: as long as the file is there, so is its log.
fn move_aside(target: &Path, now_ms: i64) -> Result<(), BackupError> {
    let aside = place::aside(target, now_ms);
    // First what belongs to the file: a log beside another file would be played into it. If that is all that happens, its
    // name says where it belongs.
    for suffix in BESIDE {
        let from = place::beside(target, suffix);
        if from.exists() {
            fs::rename(&from, place::beside(&aside, suffix)).map_err(|error| unwritable(&from, &error))?;
        }
    }
    // A second name, so that there is a store under the first one at any time (`place::mend` takes it away if that is where
    // this ends). Not every file system has such.
    if fs::hard_link(target, &aside).is_err() {
        fs::rename(target, &aside).map_err(|error| unwritable(target, &error))?;
    }
    tracing::info!(kept = %aside.display(), "the store that was there is kept");
    sync_folder(target)
}

fn sync_folder(path: &Path) -> Result<(), BackupError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| unwritable(folder, &error))
}
