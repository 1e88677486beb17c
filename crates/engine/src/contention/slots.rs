//! 64 Ki slots that cost nothing before they are used.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::slot::Slot;

/// Slots of a page, 4 KiB: what the first key of a page costs, and what one lock guards.
const PAGE_SLOTS: usize = 64;

/// 64 Ki slots in all. Of 1,000 busy keys one in 66 then shares its slot with another; full, they take 4 MiB.
const PAGES: usize = 65_536 / PAGE_SLOTS;

type Page = Option<Box<[Slot; PAGE_SLOTS]>>;

/// Where a key is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The slot.
    pub(super) slot: u16,
    /// Tells the keys of a slot apart (but for one pair in 65,536).
    pub(super) owner: u16,
}

impl Place {
    /// By a hash that is the same on each start, so that what was seen once can be repeated. A sender who chooses ids
    /// to collide only makes them share a rung.
    pub(super) fn of(key: &impl Hash) -> Self {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        Self { slot: hash as u16, owner: (hash >> 16) as u16 }
    }

    fn page(self) -> usize {
        usize::from(self.slot) / PAGE_SLOTS
    }

    fn index(self) -> usize {
        usize::from(self.slot) % PAGE_SLOTS
    }
}

/// All slots. A lock is held for some arithmetic, never across a call to others.
pub(super) struct Slots(Box<[Mutex<Page>]>);

impl Slots {
    pub(super) fn new() -> Self {
        Self((0..PAGES).map(|_| Mutex::new(None)).collect())
    }

    /// The slot as it is now; none if no key of its page was ever reported.
    pub(super) fn read(&self, place: Place) -> Option<Slot> {
        self.page(place).as_ref().map(|page| page[place.index()])
    }

    /// Changes a slot.
    pub(super) fn write<T>(&self, place: Place, change: impl FnOnce(&mut Slot) -> T) -> T {
        let mut page = self.page(place);
        let page = page.get_or_insert_with(|| Box::new([Slot::default(); PAGE_SLOTS]));
        change(&mut page[place.index()])
    }

    fn page(&self, place: Place) -> MutexGuard<'_, Page> {
        self.0[place.page()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn pages_used(&self) -> usize {
        self.0.iter().filter(|page| page.lock().is_ok_and(|page| page.is_some())).count()
    }
}
