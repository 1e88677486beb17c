//! Forgetting a record's past. Its version stays, and goes on from where it was.

use bytes::Bytes;

use crate::record::{Facets, RecordKey};

/// What is to be forgotten of a record.
#[derive(Clone, Debug)]
pub struct Forget {
    /// Which record.
    pub key: RecordKey,
    /// The version that it must be at: whatever came since would have to be looked at. Where nothing is replaced, it may be
    /// at a later one.
    pub version: i64,
    /// Events up to this version go, oldest first.
    pub upto: i64,
    /// What takes the place of its facets and its body, once all these events are gone. That is no new version, and has no
    /// event.
    pub replace: Option<(Facets, Bytes)>,
}

/// What was forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// So many events; `whole`: there are no more, and the body was replaced.
    Events {
        /// How many.
        events: usize,
        /// Whether nothing is left to do.
        whole: bool,
    },
    /// Nothing: the record is at another version; or it was to be replaced, and has been already, or somebody is changing it.
    Changed,
    /// Nothing: another node is forgetting at the moment.
    Busy,
}
