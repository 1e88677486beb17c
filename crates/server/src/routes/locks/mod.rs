//! Locks: leases on names, with fences.
//!
//! A lease is called by the hash of its principal, owner and attempt, so that whoever asks twice for the same has it once,
//! on whichever node, and nobody else can name it. Only its client renews it.

pub(crate) mod acquire;
pub(crate) mod keep;
pub(crate) mod list;

mod claims;
mod hand_back;

pub(crate) use hand_back::HandBack;

use std::time::Duration;

use lockkeeper_locks::{Clock, Moment, SystemClock};

/// What is left until then, in whole milliseconds: a part of one is not promised.
fn milliseconds_until(moment: Moment) -> u64 {
    milliseconds(moment.since(SystemClock.now()))
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
