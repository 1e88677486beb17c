//! Whether a file is a whole backup.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};

use super::seal::{self, FORMAT};
use super::{BackupError, BackupSummary, damaged, open_reader};
use crate::sqlite::{rows, schema};
use crate::{Event, RecordKey};

const SEAL: &str = "SELECT format, content, whole, records, events, keys FROM backup_seal";
const SEALED: &str = "SELECT 1 FROM sqlite_schema WHERE name = 'backup_seal'";
const NAMES: &str = "SELECT record, space, id FROM records ORDER BY space, id";
const EVENTS: &str = "SELECT version, commit_id, body FROM events WHERE record = ?1 ORDER BY version";

/// Looks through it.
pub(super) fn whole(path: &Path) -> Result<BackupSummary, BackupError> {
    let connection = open_reader(path)?;
    let wrong = |error: rusqlite::Error| damaged(path, &error);
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(wrong)?;
    if found > schema::KNOWN {
        let store = path.display().to_string();
        return Err(crate::OpenError::TooNew { store, found, known: schema::KNOWN }.into());
    }
    // SQLite takes what is missing of the last page for zeros.
    let sizes = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
    let told: i64 = connection.query_row(sizes, [], |row| row.get(0)).map_err(wrong)?;
    let actual = std::fs::metadata(path).map_err(|error| damaged(path, &error))?.len();
    if told.unsigned_abs() != actual {
        return Err(damaged(path, &format!("it has {actual} bytes instead of {told}")));
    }
    let problem: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(wrong)?;
    if problem != "ok" {
        return Err(damaged(path, &problem));
    }
    if connection.query_row(SEALED, [], |_| Ok(())).optional().map_err(wrong)?.is_none() {
        return Err(damaged(path, &"it has no seal: it is the file of a store, or its making was interrupted"));
    }
    let (format, sealed) = read_seal(&connection).map_err(wrong)?;
    if format > FORMAT {
        return Err(damaged(path, &format!("its form is {format}, and this lockkeeper knows forms up to {FORMAT}")));
    }
    let found = seal::digests(&connection).map_err(|error| damaged(path, &error))?;
    if found != sealed {
        return Err(damaged(path, &"its content is not what was sealed"));
    }
    Ok(found.summary)
}

fn read_seal(connection: &Connection) -> rusqlite::Result<(i64, seal::Digests)> {
    connection.query_row(SEAL, [], |row| {
        let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
        let summary = BackupSummary { content: row.get(1)?, records: number(3)?, events: number(4)?, keys: number(5)? };
        Ok((row.get(0)?, seal::Digests { summary, whole: row.get(2)? }))
    })
}

/// Hands the events of each record to `look`.
pub(super) fn look_through(
    path: &Path,
    mut look: impl FnMut(&RecordKey, &[Event]) -> Result<(), String>,
) -> Result<(), BackupError> {
    let connection = open_reader(path)?;
    let wrong = |error: rusqlite::Error| damaged(path, &error);
    let mut names = connection.prepare(NAMES).map_err(wrong)?;
    let mut events = connection.prepare(EVENTS).map_err(wrong)?;
    let mut found = names.query([]).map_err(wrong)?;
    while let Some(row) = found.next().map_err(wrong)? {
        let read = || -> rusqlite::Result<_> {
            Ok((row.get::<_, i64>(0)?, RecordKey::new(rows::text(row, 1)?, rows::text(row, 2)?)))
        };
        let (record, key) = read().map_err(wrong)?;
        let history = events.query_map(params![record], rows::event).map_err(wrong)?;
        let history = history.collect::<rusqlite::Result<Vec<Event>>>().map_err(wrong)?;
        look(&key, &history).map_err(|problem| damaged(path, &format!("{key}: {problem}")))?;
    }
    Ok(())
}
