//! What these tests are written with.

use std::path::Path;

use bytes::Bytes;
use lockkeeper_store::{Alarm, ChangeSet, Facets, OpenError, RecordKey, SqliteOptions, SqliteStore};
use uuid::Uuid;

/// Opens a store with the defaults.
pub(crate) fn open(path: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(path, SqliteOptions::default())
}

/// A record.
pub(crate) fn key(id: &str) -> RecordKey {
    RecordKey::new("things", id)
}

/// The next version of a record, with one event that names it.
pub(crate) fn next(key: &RecordKey, expected: i64) -> ChangeSet {
    ChangeSet {
        key: key.clone(),
        commit_id: Uuid::new_v4(),
        expected_version: expected,
        facets: Facets::default(),
        body: Bytes::from(format!("body {}", expected + 1)),
        events: vec![Bytes::from(format!("event {}", expected + 1))],
        keys: Vec::new(),
        requires: Vec::new(),
        fences: Vec::new(),
        alarm: Alarm::Keep,
        at: chrono::Utc::now(),
        life: None,
    }
}
