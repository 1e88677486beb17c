//! The last switches of the keys that switched last.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::now::Now;
use super::slot::Change;
use super::slots::Place;
use super::switch::{Rung, Switch};

/// Switches of a slot that are remembered: both ways of eight times, which show a rhythm if there is one.
pub(super) const SWITCHES_MAX: usize = 16;

/// Slots whose switches are remembered; 6 MiB if all of them are full. More contended keys than this are no story of
/// single keys any more, and the metrics tell it.
pub(super) const STORIES_MAX: usize = 4_096;

/// Kept by slot, because a slot has one rung; each switch names the key that caused it.
pub(super) struct Stories<K>(Mutex<Inner<K>>);

struct Inner<K> {
    by_slot: HashMap<u16, Story<K>>,
    /// Slots by the number of their last switch.
    by_age: BTreeMap<u64, u16>,
    next: u64,
}

struct Story<K> {
    number: u64,
    switches: VecDeque<Switch<K>>,
}

impl<K: Clone + Eq> Stories<K> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Inner { by_slot: HashMap::new(), by_age: BTreeMap::new(), next: 0 }))
    }

    /// Tells and remembers a change that `key` reported.
    pub(super) fn record(&self, place: Place, key: &K, change: Change, now: Now) -> Switch<K> {
        let mut inner = self.inner();
        let switch = tell(inner.by_slot.get(&place.slot), key, change, now);
        inner.remember(place.slot, switch.clone());
        switch
    }

    /// The switches that `key` caused, with those that are due and not yet noticed; and whether the slot's last one was
    /// another key's.
    pub(super) fn of(&self, place: Place, key: &K, unnoticed: [Option<Change>; 2], now: Now) -> (Vec<Switch<K>>, bool) {
        let inner = self.inner();
        let story = inner.by_slot.get(&place.slot);
        let unnoticed: Vec<_> = unnoticed.into_iter().flatten().map(|change| tell(story, key, change, now)).collect();
        let all = story.into_iter().flat_map(|story| &story.switches).chain(&unnoticed);
        let others = all.clone().last().is_some_and(|switch| switch.key != *key);
        (all.filter(|switch| switch.key == *key).cloned().collect(), others)
    }

    fn inner(&self) -> MutexGuard<'_, Inner<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Inner<K> {
    fn remember(&mut self, slot: u16, switch: Switch<K>) {
        let number = self.next;
        self.next += 1;
        let story = self.by_slot.entry(slot).or_insert_with(|| Story { number, switches: VecDeque::new() });
        self.by_age.remove(&story.number);
        self.by_age.insert(number, slot);
        story.number = number;
        if story.switches.len() == SWITCHES_MAX {
            story.switches.pop_front();
        }
        story.switches.push_back(switch);
        if self.by_slot.len() > STORIES_MAX
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.by_slot.remove(&oldest);
        }
    }
}

/// A change in words. Who comes down is who went up, whichever key of the slot was reported since.
fn tell<K: Clone>(story: Option<&Story<K>>, key: &K, change: Change, now: Now) -> Switch<K> {
    let Change { from, to, .. } = change;
    let last = story.and_then(|story| story.switches.back()).filter(|last| last.to != Rung::Optimistic);
    let key = if to < from { last.map_or(key, |up| &up.key) } else { key };
    let score = if change.tries > 0.0 { f64::from(change.contended / change.tries) } else { 0.0 };
    Switch {
        key: key.clone(),
        from,
        to,
        at: now.wall_at(change.at),
        score: (score * 1e4).round() / 1e4,
        tries: (f64::from(change.tries) * 10.0).round() / 10.0,
        contended: (f64::from(change.contended) * 10.0).round() / 10.0,
        escalate_above: change.threshold.share(),
        reason: change.reason,
        dwell: change.dwell,
    }
}
