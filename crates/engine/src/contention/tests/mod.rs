//! The contention control as the engine uses it.

mod hot_keys;
mod leases;
mod rungs;
mod shared;
mod stories;

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::slots::Place;
use super::{Contention, Now, Rung, Switch, Try};

/// The default threshold.
const THRESHOLD: f64 = 0.05;

pub(super) const QUIET: Try = Try {
    contended: false,
    exhausted: false,
    may_lease: false,
    lock_wait: None,
    queue_wait: Duration::ZERO,
    round_trip: Duration::from_millis(1),
    commands: 1,
};
pub(super) const CONTENDED: Try = Try { contended: true, ..QUIET };
const EXHAUSTED: Try = Try { contended: true, exhausted: true, ..QUIET };

/// A moment, in milliseconds from the start of both clocks.
fn at(millis: u64) -> Now {
    Now { elapsed: Duration::from_millis(millis), wall: wall(millis) }
}

fn wall(millis: u64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::days(20_000) + TimeDelta::milliseconds(i64::try_from(millis).unwrap())
}

fn millis_of(wall_time: DateTime<Utc>) -> u64 {
    u64::try_from((wall_time - wall(0)).num_milliseconds()).unwrap()
}

/// Reports the same try every so many milliseconds, from one moment to before another.
fn repeat(contention: &Contention<u64>, key: u64, attempt: Try, times: (u64, u64, usize)) -> Vec<Switch<u64>> {
    let (from, to, every) = times;
    (from..to).step_by(every).flat_map(|now| contention.report(&key, THRESHOLD, &attempt, at(now))).collect()
}

/// Reasons and times of switches, for comparing.
fn brief(switches: &[Switch<u64>]) -> Vec<(Rung, u64)> {
    switches.iter().map(|switch| (switch.to, millis_of(switch.at))).collect()
}

/// Another key in the slot of `key`.
fn colliding(key: u64) -> u64 {
    let place = Place::of(&key);
    (key + 1..).find(|other| Place::of(other).slot == place.slot).unwrap()
}
