//! Two dates of each record, by which whoever tidies up looks through the records, oldest first.

use std::sync::Arc;

use crate::Timestamp;
use crate::limits::DATES_CLAIMED;
use crate::record::{Facets, RecordKey};

/// One of the two times by which records are looked through; the store gives them no meaning. Until it is set, each is when
/// the record was created. They are no part of a version, and no commit changes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateOf {
    /// The first.
    Primary,
    /// The second.
    Secondary,
}

/// Which records are to be looked at.
#[derive(Clone, Debug)]
pub struct DatedQuery {
    /// Of this space.
    pub space: Arc<str>,
    /// By this date.
    pub by: DateOf,
    /// Those whose date is earlier.
    pub before: Timestamp,
    /// At most so many; itself at most [`crate::limits::PAGE_MAX`].
    pub limit: usize,
}

/// A record that is to be looked at; without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dated {
    /// Its name.
    pub key: RecordKey,
    /// Its version.
    pub version: i64,
    /// By what it is listed.
    pub facets: Facets,
    /// When its last version was committed.
    pub updated_at: Timestamp,
    /// The date that was asked for, as it was before it was told of.
    pub date: Timestamp,
}

impl DatedQuery {
    /// The date that claims what is told: nobody who asks with the same age finds it for so long.
    pub(crate) fn claim_ms(&self) -> i64 {
        let claimed_ms = i64::try_from(DATES_CLAIMED.as_millis()).unwrap_or(i64::MAX);
        self.before.timestamp_millis().saturating_add(claimed_ms)
    }
}
