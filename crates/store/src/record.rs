//! What is stored, and what a reader gets of it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use crate::Timestamp;

/// A record's name: an id within a space. Compared byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordKey {
    /// The space; records of different spaces never meet.
    pub space: Arc<str>,
    /// The id.
    pub id: Arc<str>,
}

impl RecordKey {
    /// Names a record.
    pub fn new(space: &str, id: &str) -> Self {
        Self { space: space.into(), id: id.into() }
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.space, self.id)
    }
}

/// Two texts by which lists are filtered; the store gives them no meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facets {
    /// The first.
    pub primary: String,
    /// The second.
    pub secondary: String,
}

/// A record as last committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its name.
    pub key: RecordKey,
    /// Its version: the number of its events. Never falls, never starts again.
    pub version: i64,
    /// By what it is listed.
    pub facets: Facets,
    /// The payload.
    pub body: Bytes,
    /// When its first version was committed.
    pub created_at: Timestamp,
    /// When its last version was committed.
    pub updated_at: Timestamp,
    /// The life of the store that it was read in: see [`crate::ChangeSet::life`].
    pub life: i64,
}

/// One version's event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The version.
    pub version: i64,
    /// The commit that wrote it.
    pub commit_id: Uuid,
    /// The payload.
    pub body: Bytes,
}

/// An idempotency key, and the outcome of the command that it came with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKey {
    /// The key, scoped to its record.
    pub key: String,
    /// Which command it belongs to.
    pub fingerprint: [u8; 32],
    /// What that command was answered.
    pub outcome: Bytes,
    /// The version that the command took effect in.
    pub version: i64,
}

/// What one read of the primary proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// The record's version; 0: there is no record.
    pub version: i64,
    /// Those of the keys asked for that the record has.
    pub keys: Vec<StoredKey>,
    /// The life of the store: see [`crate::ChangeSet::life`].
    pub life: i64,
}

/// In which order a list runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOrder {
    /// By id, byte for byte.
    Id,
    /// Newest record first, by creation.
    Newest,
}

/// Which records to list.
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// The space.
    pub space: Arc<str>,
    /// Only records with this first facet.
    pub primary: Option<String>,
    /// Only records with this second facet.
    pub secondary: Option<String>,
    /// Only records without this second facet.
    pub without_secondary: Option<String>,
    /// Only records whose id contains this text (case-sensitive).
    pub contains: Option<String>,
    /// In which order.
    pub order: ListOrder,
    /// Go on after this cursor of an earlier page.
    pub cursor: Option<String>,
    /// At most so many records; itself at most [`crate::limits::PAGE_MAX`].
    pub limit: usize,
}

impl ListQuery {
    /// All records of a space, from the beginning, at most so many at once.
    pub fn all(space: &str, order: ListOrder, limit: usize) -> Self {
        Self {
            space: space.into(),
            primary: None,
            secondary: None,
            without_secondary: None,
            contains: None,
            order,
            cursor: None,
            limit,
        }
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The records.
    pub records: Vec<Record>,
    /// Where to go on; none: that was all.
    pub next: Option<String>,
}
