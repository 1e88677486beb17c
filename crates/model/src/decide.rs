//! The one judge.

use crate::{Command, Definition, Entry, Instance, Refusal, Success, Timestamp};

/// What a command comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The record changes by exactly one version.
    Change(Box<Change>),
    /// Success without a change: `already_applied`, or a vote that was counted before.
    Stay(Success),
}

/// One version of an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The instance after the change.
    pub instance: Instance,
    /// What the history says of it.
    pub entry: Entry,
    /// The answer, once it is committed.
    pub success: Success,
}

/// Judges one command on one instance at one instant.
///
/// # Errors
/// A [`Refusal`]; the instance is as it was.
pub fn decide(
    _definition: &Definition,
    _current: Option<&Instance>,
    _command: &Command,
    _now: Timestamp,
) -> Result<Decision, Refusal> {
    Err(Refusal::Malformed { detail: String::new() })
}
