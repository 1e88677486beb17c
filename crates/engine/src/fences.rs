//! The fences of a batch: of one resource there is one, the newest that any of its commands carries.
//!
//! Whoever carries an older one waits for the next turn. Then the store tells, on what it has seen: that the newer one
//! was only claimed, or that it has been written and the older one is late.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use lockkeeper_model::{Action, Command, Refusal};
use lockkeeper_store::Fence;

use crate::pending::Pending;

/// The fences that the sender of a command gave.
pub(crate) fn given(command: &Command) -> impl Iterator<Item = (&str, i64)> {
    let fences = match &command.action {
        Action::Send(send) => Some(&send.fences),
        Action::Start(_) | Action::Terminate(_) | Action::Cancel(_) | Action::Migrate(_) | Action::Fire(_) => None,
    };
    fences.into_iter().flatten().map(|(resource, fence)| (resource.as_str(), *fence))
}

/// Whether the sender of a command holds the lock itself.
pub(crate) fn gives(command: &Command, resource: &str) -> bool {
    matches!(&command.action, Action::Send(send) if send.fences.contains_key(resource))
}

/// The fences that a command's change is written under: its sender's, and its lease's.
fn carried(pending: &Pending) -> impl Iterator<Item = (&str, i64)> {
    let leased = pending.lease.as_ref().and_then(|lease| lease.fence().map(|fence| (lease.resource(), fence)));
    given(&pending.command).chain(leased)
}

/// The fences of a change set: the newest of each resource.
#[derive(Debug, Default)]
pub(crate) struct Newest(BTreeMap<Arc<str>, i64>);

impl Newest {
    /// Adds those of a command that changes something.
    pub(crate) fn add(&mut self, pending: &Pending) {
        carried(pending).for_each(|(resource, fence)| self.raise(resource, fence));
    }

    fn raise(&mut self, resource: &str, fence: i64) {
        match self.0.get_mut(resource) {
            Some(newest) => *newest = fence.max(*newest),
            None => drop(self.0.insert(resource.into(), fence)),
        }
    }

    pub(crate) fn into_fences(self) -> Vec<Fence> {
        self.0.into_iter().map(|(resource, fence)| Fence { resource, fence }).collect()
    }
}

/// Takes out of a batch those with an older fence of a resource than another carries, in order.
pub(crate) fn take_older(batch: &mut Vec<Pending>) -> Vec<Pending> {
    // As a rule nobody carries any, or all carry that of their lease.
    if batch.len() < 2 || batch.iter().all(|pending| carried(pending).next().is_none()) {
        return Vec::new();
    }
    let mut newest: HashMap<String, i64> = HashMap::new();
    for (resource, fence) in batch.iter().flat_map(carried) {
        match newest.get_mut(resource) {
            Some(newest) => *newest = fence.max(*newest),
            None => drop(newest.insert(resource.to_owned(), fence)),
        }
    }
    let is_older = |(resource, fence): (&str, i64)| newest.get(resource).is_some_and(|newest| fence < *newest);
    batch.extract_if(.., |pending| carried(pending).any(is_older)).collect()
}

/// The refusal of a command whose sender gave the fence of `resource` that was found to be late; none: it gave none, or
/// a newer one.
pub(crate) fn refusal(command: &Command, resource: &str, last: i64) -> Option<Refusal> {
    let late = given(command).find(|(name, fence)| *name == resource && *fence < last)?;
    Some(Refusal::Fenced { resource: resource.to_owned(), fence: late.1, last })
}
