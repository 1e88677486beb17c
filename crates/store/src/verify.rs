//! The rules that a change set must keep by itself, checked before a backend is troubled.
//!
//! Every backend calls this first, so that what is refused, and with which event at fault, is the same on all of them.
//! Their schemas repeat the sizes as constraints: the second line.

use std::collections::{HashMap, HashSet};

use crate::limits::{
    BODY_BYTES_MAX, EVENT_BYTES_MAX, EVENTS_PER_SET_MAX, FENCE_MAX, FENCES_PER_SET_MAX, KEYS_PER_SET_MAX,
    REQUIREMENTS_PER_SET_MAX, SET_BYTES_MAX, SETS_PER_COMMIT_MAX, TEXT_BYTES_MAX,
};
use crate::{ChangeSet, Fence, NewKey, RecordKey, Verdict};

/// A rule that was broken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    /// The event at fault; none: the set as a whole.
    pub(crate) event: Option<usize>,
    /// Which rule.
    pub(crate) reason: String,
}

impl Breach {
    fn of_set(reason: impl Into<String>) -> Self {
        Self { event: None, reason: reason.into() }
    }

    fn of_event(event: usize, reason: impl Into<String>) -> Self {
        Self { event: Some(event), reason: reason.into() }
    }
}

impl From<Breach> for Verdict {
    fn from(breach: Breach) -> Self {
        Self::Rejected { event: breach.event, reason: breach.reason }
    }
}

/// Checks one set.
pub(crate) fn change_set(set: &ChangeSet) -> Result<(), Breach> {
    names(&set.key)?;
    text("the first facet", &set.facets.primary)?;
    text("the second facet", &set.facets.secondary)?;
    if set.body.len() > BODY_BYTES_MAX {
        return Err(Breach::of_set(format!(
            "the body has {} bytes, at most {BODY_BYTES_MAX} are allowed",
            set.body.len()
        )));
    }
    versions(set)?;
    events(set)?;
    keys(set)?;
    requirements(set)?;
    fences(set)
}

/// Checks what is to be committed all or none; says which set is at fault.
pub(crate) fn all(sets: &[ChangeSet]) -> Result<(), (usize, Breach)> {
    if sets.len() > SETS_PER_COMMIT_MAX {
        let reason = format!("{} change sets in one commit, at most {SETS_PER_COMMIT_MAX} are allowed", sets.len());
        return Err((SETS_PER_COMMIT_MAX, Breach::of_set(reason)));
    }
    let mut seen = HashSet::with_capacity(sets.len());
    let mut locks = HashMap::new();
    let mut bytes = 0;
    for (index, set) in sets.iter().enumerate() {
        if let Err(breach) = change_set(set) {
            return Err((index, breach));
        }
        if !seen.insert(&set.key) {
            return Err((index, Breach::of_set(format!("{} appears twice in one commit", set.key))));
        }
        for Fence { resource, fence } in &set.fences {
            if locks.insert(resource, fence).is_some_and(|before| before != fence) {
                return Err((index, Breach::of_set(format!("{resource:?} has two fences in one commit"))));
            }
        }
        bytes += size(set);
        if bytes > SET_BYTES_MAX {
            return Err((index, Breach::of_set(format!("one commit has at most {SET_BYTES_MAX} bytes"))));
        }
    }
    Ok(())
}

/// Bytes that a set brings to the store, near enough to bound a transaction by.
pub(crate) fn size(set: &ChangeSet) -> usize {
    let events: usize = set.events.iter().map(|event| event.len()).sum();
    let keys: usize = set.keys.iter().map(key_size).sum();
    let fences: usize = set.fences.iter().map(|fence| fence.resource.len()).sum();
    set.body.len() + events + keys + fences
}

fn key_size(key: &NewKey) -> usize {
    key.key.len() + key.fingerprint.len() + key.outcome.len()
}

fn names(key: &RecordKey) -> Result<(), Breach> {
    text("the space", &key.space)?;
    text("the id", &key.id)?;
    if key.space.is_empty() || key.id.is_empty() {
        // Lists run from the empty text on, exclusive: nothing may be named so.
        return Err(Breach::of_set("the space and the id must not be empty"));
    }
    Ok(())
}

fn text(what: &str, value: &str) -> Result<(), Breach> {
    if value.len() > TEXT_BYTES_MAX {
        return Err(Breach::of_set(format!("{what} has {} bytes, at most {TEXT_BYTES_MAX} are allowed", value.len())));
    }
    if value.contains('\0') {
        // PostgreSQL's text cannot hold it, and what one backend takes all must take.
        return Err(Breach::of_set(format!("{what} contains a NUL character")));
    }
    Ok(())
}

fn versions(set: &ChangeSet) -> Result<(), Breach> {
    if set.expected_version < 0 {
        return Err(Breach::of_set(format!("the expected version {} is below 0", set.expected_version)));
    }
    if set.events.is_empty() {
        return Err(Breach::of_set("a change set without events changes nothing"));
    }
    if set.events.len() > EVENTS_PER_SET_MAX {
        let reason = format!("{} events in one change set, at most {EVENTS_PER_SET_MAX} are allowed", set.events.len());
        return Err(Breach::of_event(EVENTS_PER_SET_MAX, reason));
    }
    if new_version(set).is_none() {
        return Err(Breach::of_set("the version would pass the largest 64-bit integer"));
    }
    Ok(())
}

/// The version that the record has after the set; none: there is no such number.
pub(crate) fn new_version(set: &ChangeSet) -> Option<i64> {
    set.expected_version.checked_add(i64::try_from(set.events.len()).ok()?)
}

/// The place of the event with `version` in the set, if it is one of its own.
pub(crate) fn event_index(set: &ChangeSet, version: i64) -> Option<usize> {
    let offset = version.checked_sub(set.expected_version)?.checked_sub(1)?;
    usize::try_from(offset).ok().filter(|&index| index < set.events.len())
}

fn events(set: &ChangeSet) -> Result<(), Breach> {
    let mut bytes = set.body.len();
    for (index, event) in set.events.iter().enumerate() {
        if event.len() > EVENT_BYTES_MAX {
            let reason = format!("the event has {} bytes, at most {EVENT_BYTES_MAX} are allowed", event.len());
            return Err(Breach::of_event(index, reason));
        }
        bytes += event.len();
        if bytes > SET_BYTES_MAX {
            return Err(Breach::of_event(index, format!("one change set has at most {SET_BYTES_MAX} bytes")));
        }
    }
    Ok(())
}

fn keys(set: &ChangeSet) -> Result<(), Breach> {
    if set.keys.len() > KEYS_PER_SET_MAX {
        let reason = format!("{} idempotency keys in one change set, at most {KEYS_PER_SET_MAX}", set.keys.len());
        return Err(Breach::of_set(reason));
    }
    let mut bytes = set.body.len() + set.events.iter().map(|event| event.len()).sum::<usize>();
    let mut seen = HashSet::with_capacity(set.keys.len());
    for key in &set.keys {
        let event = event_index(set, key.version);
        let breach = |reason: String| Err(Breach { event, reason });
        if event.is_none() {
            return breach(format!("an idempotency key has version {}, which is not one of the set", key.version));
        }
        if let Err(error) = text("the idempotency key", &key.key) {
            return breach(error.reason);
        }
        if key.outcome.len() > EVENT_BYTES_MAX {
            return breach(format!("a kept outcome has {} bytes, at most {EVENT_BYTES_MAX}", key.outcome.len()));
        }
        if !seen.insert(key.key.as_str()) {
            return breach(format!("the idempotency key {:?} appears twice in one change set", key.key));
        }
        bytes += key_size(key);
        if bytes > SET_BYTES_MAX {
            return breach(format!("one change set has at most {SET_BYTES_MAX} bytes"));
        }
    }
    Ok(())
}

fn requirements(set: &ChangeSet) -> Result<(), Breach> {
    if set.requires.len() > REQUIREMENTS_PER_SET_MAX {
        let reason =
            format!("{} requirements in one change set, at most {REQUIREMENTS_PER_SET_MAX}", set.requires.len());
        return Err(Breach::of_set(reason));
    }
    Ok(())
}

fn fences(set: &ChangeSet) -> Result<(), Breach> {
    if set.fences.len() > FENCES_PER_SET_MAX {
        let reason = format!("{} fences in one change set, at most {FENCES_PER_SET_MAX}", set.fences.len());
        return Err(Breach::of_set(reason));
    }
    let mut seen = HashSet::with_capacity(set.fences.len());
    for Fence { resource, fence } in &set.fences {
        text("the name of a lock", resource)?;
        if resource.is_empty() {
            return Err(Breach::of_set("the name of a lock must not be empty"));
        }
        if !(1..=FENCE_MAX).contains(fence) {
            return Err(Breach::of_set(format!("the fence {fence} of {resource:?} is not between 1 and {FENCE_MAX}")));
        }
        if !seen.insert(resource) {
            return Err(Breach::of_set(format!("{resource:?} appears twice among the fences of one change set")));
        }
    }
    Ok(())
}
