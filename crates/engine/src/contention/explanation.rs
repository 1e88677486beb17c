//! What is told of one key.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::switch::{Reason, Rung, Switch};

/// How a key commits on this node, since when and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(bound = "")]
pub struct Explanation<K> {
    /// Its rung now.
    pub rung: Rung,
    /// Since when; none if it never changed.
    pub since: Option<DateTime<Utc>>,
    /// What brought it there; none if it never changed.
    pub reason: Option<Reason>,
    /// Share of `tries` that was contended, 0 to 1.
    pub score: f64,
    /// Tries of about the last half-minute: each counts for less as it ages (to 37 % after 30 s).
    pub tries: f64,
    /// Contended ones among them.
    pub contended: f64,
    /// The threshold of its workflow, 0 to 1, as last reported; none before the first try.
    pub escalate_above: Option<f64>,
    /// How much has been gathered of what leads to another rung, 0 to 1.
    pub evidence: f64,
    /// The rung that it leads to; none while there is none.
    pub evidence_for: Option<Rung>,
    /// How its tries went; none if there was none, or if another key has most of the slot.
    pub waits: Option<Waits>,
    /// On the row lock or the lease: how long it stays there whatever happens.
    pub dwell_left_ms: Option<u64>,
    /// On the row lock or the lease: when it comes down if tries go on as now, and none of them is contended.
    pub may_come_down_in_ms: Option<u64>,
    /// Another key shares this key's slot (by a collision of hashes), and with it the rung, and `since` to `evidence`.
    pub shared_slot: bool,
    /// Its own last changes, oldest first.
    pub switches: Vec<Switch<K>>,
}

/// How the tries of a key went lately: means and maxima that fade (to 37 % after 30 s).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Waits {
    /// Waiting for the row lock, or for the lease. A try that takes none counts as no wait.
    pub lock_wait: Wait,
    /// Waiting on this node before the try.
    pub queue_wait: Wait,
    /// The commit itself.
    pub round_trip: Wait,
    /// Commands that are committed together, on average.
    pub commands_per_try: f64,
}

/// One kind of wait.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Wait {
    /// Mean, in milliseconds.
    pub mean_ms: f64,
    /// Maximum, in milliseconds.
    pub max_ms: f64,
}

/// To three decimals: what a small float has beyond them is noise.
pub(super) fn rounded(value: f32) -> f64 {
    (f64::from(value) * 1e3).round() / 1e3
}
