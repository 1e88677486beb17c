//! Going from one rung to the other, with the numbers that led to it.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

/// How the commits of a key are ordered against those of other nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// A conditional write alone: cheapest while nobody else writes.
    #[default]
    Optimistic,
    /// The row is locked before it is read: one round trip more, and no lost work.
    RowLock,
    /// A lease is held over many commits: nodes take turns, and nobody waits with a connection in its hands. Only where the
    /// definition names a lock.
    Lease,
}

impl Rung {
    /// The next one up.
    pub(super) fn above(self) -> Self {
        match self {
            Self::Optimistic => Self::RowLock,
            Self::RowLock | Self::Lease => Self::Lease,
        }
    }

    /// The next one down.
    pub(super) fn below(self) -> Self {
        match self {
            Self::Optimistic | Self::RowLock => Self::Optimistic,
            Self::Lease => Self::RowLock,
        }
    }

    /// For people.
    fn words(self) -> &'static str {
        match self {
            Self::Optimistic => "optimistic commits",
            Self::RowLock => "the row lock",
            Self::Lease => "the lease",
        }
    }
}

/// Why a key changed its rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Up: too large a share of its tries was contended.
    Score,
    /// Up: a command had used up its tries.
    Exhausted,
    /// Down: hardly any try was contended any more, or none for five minutes.
    Quiet,
    /// Down from the lease: the lock service did not answer.
    LocksGone,
}

impl Reason {
    /// Whether it leads up.
    pub(super) fn is_up(self) -> bool {
        matches!(self, Self::Score | Self::Exhausted)
    }
}

/// A key went from one rung to the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(bound = "")]
pub struct Switch<K> {
    /// The key. Not part of the JSON, which belongs to one key.
    #[serde(skip)]
    pub key: K,
    /// The rung before.
    pub from: Rung,
    /// The rung since.
    pub to: Rung,
    /// When. A key that nobody asked about came down when its time was over, not when that was noticed.
    pub at: DateTime<Utc>,
    /// Share of `tries` that was contended, 0 to 1.
    pub score: f64,
    /// Tries of the run that decided. Above 20 a second each counts as a part of one.
    pub tries: f64,
    /// Contended ones among them.
    pub contended: f64,
    /// The threshold of the workflow, 0 to 1. Tries count against a key from 0.8 of it on; it is quiet below 0.4.
    pub escalate_above: f64,
    /// Why.
    pub reason: Reason,
    /// How long a key stays on an upper rung at least: from now on when it went up, until now when it came down.
    #[serde(rename = "dwell_ms", serialize_with = "millis")]
    pub dwell: Duration,
}

impl<K> fmt::Display for Switch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { to, score, tries, contended, escalate_above, dwell, .. } = self;
        let numbers = match tries {
            0.0 => String::new(),
            _ => format!(": {contended:.0} of {tries:.0} tries contended ({:.1} %)", score * 100.0),
        };
        let (to, dwell, threshold) = (to.words(), dwell.as_secs(), (escalate_above * 1e4).round() / 1e2);
        match self.reason {
            Reason::Score => {
                write!(f, "up to {to} for at least {dwell} s{numbers}, escalate_above is {threshold} %")
            }
            Reason::Exhausted => {
                write!(f, "up to {to} for at least {dwell} s, as a command had used up its tries{numbers}")
            }
            Reason::Quiet => {
                write!(f, "down to {to} after a dwell of {dwell} s, as it is quiet{numbers}")
            }
            Reason::LocksGone => {
                write!(f, "down to {to} for at least {dwell} s, as the lock service does not answer")
            }
        }
    }
}

fn millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
