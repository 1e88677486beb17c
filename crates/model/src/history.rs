//! What happened to an instance: one entry a version, without a gap.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Actor, Data, Timestamp};

/// What kind of change an entry records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A run began.
    Start,
    /// A transition was taken (the vote that fills a quorum included).
    Move,
    /// A vote short of its quorum.
    Vote,
    /// The run was terminated.
    Terminate,
    /// The run was canceled.
    Cancel,
}

/// One committed change. Its version is kept beside it by the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What kind of change.
    pub kind: Kind,
    /// The event, for moves and votes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The state before; none for a start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The state after (the same for votes, closes and transitions without a target).
    pub to: String,
    /// Who.
    pub actor: Actor,
    /// When it was decided.
    pub at: Timestamp,
    /// The run it belongs to.
    pub run: Uuid,
    /// The definition's version that judged it.
    pub definition_version: i64,
    /// The idempotency key it came with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The data that was sent.
    #[serde(default, skip_serializing_if = "Data::is_empty")]
    pub data: Data,
    /// Why, for terminate and cancel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who had voted, in order, for the move that fills a quorum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved_by: Vec<String>,
}
