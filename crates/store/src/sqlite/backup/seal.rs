//! What a backup is sealed with: a digest of its content, and one of everything.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};

use super::BackupSummary;

const RECORDS: &str = "SELECT record, version, space, id, primary_facet, secondary_facet, created_ms, updated_ms, body
    FROM records ORDER BY space, id";
const EVENTS: &str = "SELECT version, commit_id, body FROM events WHERE record = ?1 ORDER BY version";
const KEYS: &str =
    "SELECT key, version, expires_ms, fingerprint, outcome FROM idempotency_keys WHERE record = ?1 ORDER BY key";

/// What is sealed besides: the order of the feed, alarms, fences and numbers.
const REST: [&str; 4] = [
    "SELECT e.event, r.space, r.id, e.version FROM events e JOIN records r ON r.record = e.record ORDER BY e.event",
    "SELECT r.space, r.id, a.due_ms FROM alarms a JOIN records r ON r.record = a.record ORDER BY r.space, r.id",
    "SELECT resource, last, touched_ms FROM fences ORDER BY resource",
    "SELECT name, value FROM counters ORDER BY name",
];

/// A table that the file of a running store has not.
pub(super) const TABLE: &str = "CREATE TABLE backup_seal (
    format  INTEGER NOT NULL,
    content TEXT NOT NULL,
    whole   TEXT NOT NULL,
    records INTEGER NOT NULL,
    events  INTEGER NOT NULL,
    keys    INTEGER NOT NULL,
    source  TEXT NOT NULL
) STRICT";

/// The form of backups that is made here, and the newest that is understood.
pub(super) const FORMAT: i64 = 1;

/// The digests of what a file holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Digests {
    pub(super) summary: BackupSummary,
    pub(super) whole: String,
}

/// What stands in the way of a digest.
#[derive(Debug)]
pub(super) enum Unsealed {
    Sqlite(rusqlite::Error),
    /// A record's events are not what its version says.
    Gap(String),
}

impl From<rusqlite::Error> for Unsealed {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl std::fmt::Display for Unsealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(error) => error.fmt(f),
            Self::Gap(detail) => f.write_str(detail),
        }
    }
}

/// Reads everything.
pub(super) fn digests(connection: &Connection) -> Result<Digests, Unsealed> {
    let mut content = Sha256::new();
    let mut summary = BackupSummary { records: 0, events: 0, keys: 0, content: String::new() };
    let mut records = connection.prepare(RECORDS)?;
    let mut events = connection.prepare(EVENTS)?;
    let mut keys = connection.prepare(KEYS)?;
    let mut found = records.query([])?;
    while let Some(row) = found.next()? {
        let (record, version): (i64, i64) = (row.get(0)?, row.get(1)?);
        summary.records += 1;
        add(&mut content, row, 1..9)?;
        let mut last = None;
        let mut rows = events.query(params![record])?;
        while let Some(event) = rows.next()? {
            let this: i64 = event.get(0)?;
            if last.is_some_and(|last: i64| last.checked_add(1) != Some(this)) {
                return Err(Unsealed::Gap(gap(row, last.unwrap_or(0), this)?));
            }
            last = Some(this);
            summary.events += 1;
            add(&mut content, event, 0..3)?;
        }
        // What retention has purged has no events at all.
        if let Some(last) = last.filter(|last| *last != version) {
            return Err(Unsealed::Gap(gap(row, last, version)?));
        }
        let mut rows = keys.query(params![record])?;
        while let Some(key) = rows.next()? {
            summary.keys += 1;
            add(&mut content, key, 0..5)?;
        }
    }
    let content = content.finalize();
    summary.content = hex(&content);
    let mut whole = Sha256::new();
    whole.update(content);
    for sql in REST {
        let mut select = connection.prepare(sql)?;
        let columns = select.column_count();
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            add(&mut whole, row, 0..columns)?;
        }
    }
    Ok(Digests { summary, whole: hex(&whole.finalize()) })
}

fn gap(row: &rusqlite::Row<'_>, last: i64, next: i64) -> rusqlite::Result<String> {
    let (space, id): (String, String) = (row.get(2)?, row.get(3)?);
    Ok(format!("after the event {last} of {space}/{id} comes {next}"))
}

/// Each value with its kind and its length, so that no two rows look alike.
fn add(digest: &mut Sha256, row: &rusqlite::Row<'_>, columns: std::ops::Range<usize>) -> rusqlite::Result<()> {
    for column in columns {
        let (kind, bytes) = match row.get_ref(column)? {
            ValueRef::Null => (0_u8, &[][..]),
            ValueRef::Integer(number) => {
                digest.update([1]);
                digest.update(number.to_be_bytes());
                continue;
            }
            ValueRef::Real(number) => {
                digest.update([2]);
                digest.update(number.to_be_bytes());
                continue;
            }
            ValueRef::Text(text) => (3, text),
            ValueRef::Blob(blob) => (4, blob),
        };
        digest.update([kind]);
        digest.update((bytes.len() as u64).to_be_bytes());
        digest.update(bytes);
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
