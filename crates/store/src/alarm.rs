//! When whoever decides about a record wants to look at it again.
//!
//! A record has one alarm at most, written with the change that sets it. Ringing it changes nothing: what is to be done
//! is decided then, and committed by a conditional write as ever.

use crate::{RecordKey, Timestamp};

/// What a change set makes of its record's alarm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alarm {
    /// It stays as it is.
    #[default]
    Keep,
    /// The record is to be looked at from then on, by the store's own clock. Replaces an earlier alarm, and whatever
    /// claim there is on it.
    At(Timestamp),
    /// There is none any more.
    Never,
}

/// What the backends keep for [`Alarm::Never`] in the place of milliseconds.
const NEVER_MS: i64 = -1;

impl Alarm {
    /// What is written: milliseconds since 1970, or [`NEVER_MS`]; none: nothing is. What lies before 1970 is long due
    /// in 1970, too.
    pub(crate) fn column(self) -> Option<i64> {
        match self {
            Self::Keep => None,
            Self::At(at) => Some(at.timestamp_millis().max(0)),
            Self::Never => Some(NEVER_MS),
        }
    }
}

/// Alarms that are due, claimed by whoever asked: nobody else is told of them for [`crate::limits::ALARM_CLAIMED`].
///
/// A claim is advice. It runs out when nothing comes of it; and two who look at one record at the same time meet in the
/// conditional write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The time by the store's clock.
    pub now: Timestamp,
    /// The records with what their alarms are set to, oldest first.
    pub records: Vec<(RecordKey, Timestamp)>,
    /// The next alarm that is not due yet.
    pub next: Option<Timestamp>,
}
