//! The feed: all events of all records, in an order in which nothing ever appears before a place that was passed.
//!
//! Of one record the order is that of its versions. Between records it is that of the commits, as far as the backend can
//! tell it; what one transaction wrote stays together.

use std::fmt;
use std::str::FromStr;

use crate::{Event, ReadError, RecordKey};

/// A place in the feed, behind one of its events. Written it has digits and `-` only, so that it passes through any
/// address, header or shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedCursor {
    /// The life of the store in which it was given: places of another mean something else.
    pub(crate) life: i64,
    /// How often the store had forgotten events by then.
    pub(crate) purges: i64,
    /// The place by the backend's own order: the commit, the record, its version.
    pub(crate) place: (i64, i64, i64),
}

/// Where to begin to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedFrom {
    /// With the oldest event that is kept.
    Oldest,
    /// With the next event that is committed: the answer has no items, but the place to go on from.
    Now,
    /// Behind a place of an earlier page.
    After(FeedCursor),
}

/// Why events may be missing behind a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedGap {
    /// The store has forgotten events since the cursor was given, and some may have been behind it. The page goes on with
    /// what is kept.
    Purged,
    /// The store lives another life (it was restored, or a standby was promoted): the cursor means nothing in it, and the
    /// page is empty.
    AnotherLife,
}

/// One event of the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedItem {
    /// Where to go on behind it.
    pub cursor: FeedCursor,
    /// Its record.
    pub key: RecordKey,
    /// The event.
    pub event: Event,
}

/// One page of the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedPage {
    /// Where it begins: behind the given place. Of the same place as that, or of the last event before it if that place is
    /// none of an event; and what the store had forgotten by now is known to it.
    pub from: FeedCursor,
    /// The events; large ones end a page early.
    pub items: Vec<FeedItem>,
    /// Where to go on: behind the last of them, or behind all that was looked at.
    pub next: FeedCursor,
    /// Set if events may be missing between the given cursor and this page.
    pub gap: Option<FeedGap>,
    /// Whether there is more already.
    pub more: bool,
    /// Whether later events are committed that may not be told yet, since a transaction that began earlier is still open
    /// and may come before them.
    pub held_back: bool,
}

impl FeedCursor {
    /// Whether everything up to `other` is behind this one. Places of different lives cannot be compared.
    pub fn has_passed(&self, other: &Self) -> bool {
        self.life == other.life && self.place >= other.place
    }
}

/// What a backend knows when it reads a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FeedState {
    /// The life of the store.
    pub(crate) life: i64,
    /// How often it has forgotten events.
    pub(crate) purges: i64,
    /// Nothing behind this place was forgotten.
    pub(crate) purged: (i64, i64, i64),
    /// Behind the last event that can be told and the last that was forgotten: what is committed later is behind it, even
    /// after a crash. A place further on may be given out again after a crash, since nothing of it is on disk.
    pub(crate) end: (i64, i64, i64),
    /// No reader can have come further than this.
    pub(crate) bound: (i64, i64, i64),
}

impl FeedState {
    /// Where a reader goes on, and whether something may be missing there.
    pub(crate) fn begin(&self, from: FeedFrom) -> (FeedCursor, Option<FeedGap>) {
        let at = |place| FeedCursor { life: self.life, purges: self.purges, place };
        match from {
            FeedFrom::Oldest => (at((0, 0, 0)), None),
            FeedFrom::Now => (at(self.end), None),
            FeedFrom::After(after) if after.life != self.life || !self.has_given(after.place) => {
                (after, Some(FeedGap::AnotherLife))
            }
            FeedFrom::After(after) => {
                let gap = after.purges != self.purges && after.place < self.purged;
                (at(after.place.min(self.end)), gap.then_some(FeedGap::Purged))
            }
        }
    }

    /// Places of events behind the end were given by a store that went on elsewhere. Those of no event (no record has the
    /// number 0) may have been given by a node of an earlier release, up to the bound.
    fn has_given(&self, place: (i64, i64, i64)) -> bool {
        place <= self.end || (place.1 == 0 && place <= self.bound)
    }
}

impl FeedFrom {
    /// The place to read from before anything is known of the store.
    pub(crate) fn place(&self) -> (i64, i64, i64) {
        match self {
            Self::Oldest => (0, 0, 0),
            Self::Now => (i64::MAX, i64::MAX, i64::MAX),
            Self::After(after) => after.place,
        }
    }
}

impl fmt::Display for FeedCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { life, purges, place: (commit, record, version) } = self;
        write!(f, "{life}-{purges}-{commit}-{record}-{version}")
    }
}

impl FromStr for FeedCursor {
    type Err = ReadError;

    fn from_str(text: &str) -> Result<Self, ReadError> {
        let bad = || ReadError::BadCursor(text.to_owned());
        let mut numbers = text.split('-').map(|part| {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<i64>().ok().filter(|_| digits).ok_or_else(bad)
        });
        let mut next = || numbers.next().unwrap_or_else(|| Err(bad()));
        let cursor = Self { life: next()?, purges: next()?, place: (next()?, next()?, next()?) };
        if numbers.next().is_some() { Err(bad()) } else { Ok(cursor) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: FeedState =
        FeedState { life: 3, purges: 2, purged: (50, i64::MAX, i64::MAX), end: (90, 7, 9), bound: (100, 0, 0) };

    fn cursor(text: &str) -> FeedCursor {
        text.parse().unwrap()
    }

    #[test]
    fn a_cursor_leads_back_to_its_place() {
        for text in ["0-0-0-0-0", "1790000000000-3-17-2-9223372036854775807"] {
            assert_eq!(cursor(text).to_string(), text);
        }
        for bad in
            ["", "1", "1-2-3-4", "1-2-3-4-5-6", "1-2-3-4-x", "1-2--3-4-5", "+1-2-3-4-5", "1-2-3-4-9223372036854775808"]
        {
            assert_eq!(bad.parse::<FeedCursor>(), Err(ReadError::BadCursor(bad.to_owned())));
        }
    }

    #[test]
    fn what_may_be_missing_is_told() {
        let gap = |text: &str| STATE.begin(FeedFrom::After(cursor(text))).1;
        assert_eq!(gap("3-2-10-0-0"), None, "nothing was forgotten since");
        assert_eq!(gap("3-1-50-7-1"), Some(FeedGap::Purged));
        assert_eq!(gap("3-1-51-0-0"), None, "it had passed all that was forgotten");
        assert_eq!(gap("2-2-99-0-0"), Some(FeedGap::AnotherLife));
        assert_eq!(gap("3-2-90-8-1"), Some(FeedGap::AnotherLife), "an event behind the end");
        assert_eq!(gap("3-2-101-0-0"), Some(FeedGap::AnotherLife), "behind the bound");
        assert_eq!(STATE.begin(FeedFrom::Oldest), (cursor("3-2-0-0-0"), None));
        assert_eq!(STATE.begin(FeedFrom::Now), (cursor("3-2-90-7-9"), None));
    }

    #[test]
    fn a_place_of_no_event_is_taken_back_to_the_last_event() {
        for text in ["3-2-90-7-9", "3-2-91-0-0", "3-2-100-0-0"] {
            assert_eq!(STATE.begin(FeedFrom::After(cursor(text))), (cursor("3-2-90-7-9"), None), "{text}");
        }
    }
}
