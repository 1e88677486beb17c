//! Names and ids: what is allowed, checked once at the door and carried as types from there on.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::limits::{ID_BYTES_MAX, NAME_BYTES_MAX};

/// Longest workflow name, in bytes (pinned by the API).
const WORKFLOW_NAME_BYTES_MAX: usize = 64;

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what} {problem}")]
pub struct NameError {
    /// What was being named, for example `instance id`.
    pub what: &'static str,
    /// What is wrong with it, and what is allowed.
    pub problem: String,
}

impl NameError {
    fn new(what: &'static str, problem: impl Into<String>) -> Self {
        Self { what, problem: problem.into() }
    }
}

/// The name of a workflow: `[a-z][a-z0-9_-]{0,63}`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkflowName(Arc<str>);

/// The id of an instance: any UTF-8 of 1 to 512 bytes without control characters, kept byte for byte; not `.` or `..`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct InstanceId(Arc<str>);

/// One instance: `workflow/id`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceKey {
    /// The workflow.
    pub workflow: WorkflowName,
    /// The id within the workflow.
    pub id: InstanceId,
}

impl WorkflowName {
    /// Checks and takes a workflow's name.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
        let ok = name.len() <= WORKFLOW_NAME_BYTES_MAX
            && name.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
            && name.bytes().all(allowed);
        if ok {
            Ok(Self(name.into()))
        } else {
            Err(NameError::new(
                "workflow name",
                format!(
                    "{:?} is not allowed: write a lower-case letter, then up to 63 of a-z, 0-9, `_` and `-`",
                    shorten(name)
                ),
            ))
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl InstanceId {
    /// Checks and takes an instance's id.
    pub fn new(id: &str) -> Result<Self, NameError> {
        check_in_url("instance id", id)?;
        Ok(Self(id.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl InstanceKey {
    /// Checks and takes `workflow` and `id`.
    pub fn new(workflow: &str, id: &str) -> Result<Self, NameError> {
        Ok(Self { workflow: WorkflowName::new(workflow)?, id: InstanceId::new(id)? })
    }
}

/// Checks a state's, event's, role's or actor's name: 1 to 128 bytes without control characters.
pub fn check_name(what: &'static str, name: &str) -> Result<(), NameError> {
    check_text(what, name, NAME_BYTES_MAX)
}

/// Checks the name of a lock: like an instance's id, 1 to 512 bytes without control characters, not `.` or `..`.
///
/// # Errors
/// What is wrong with it.
pub fn check_resource(name: &str) -> Result<(), NameError> {
    check_in_url("lock name", name)
}

/// Checks what may be one part of a URL's path.
fn check_in_url(what: &'static str, text: &str) -> Result<(), NameError> {
    check_text(what, text, ID_BYTES_MAX)?;
    if text == "." || text == ".." {
        return Err(NameError::new(what, "`.` and `..` are not allowed: they vanish from URLs"));
    }
    Ok(())
}

/// Checks that `text` is 1 to `bytes_max` bytes and has no control character.
pub fn check_text(what: &'static str, text: &str, bytes_max: usize) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::new(what, "is empty"));
    }
    if text.len() > bytes_max {
        return Err(NameError::new(what, format!("has {} bytes; at most {bytes_max} are allowed", text.len())));
    }
    if let Some(c) = text.chars().find(|c| c.is_control()) {
        return Err(NameError::new(what, format!("contains the control character U+{:04X}", u32::from(c))));
    }
    Ok(())
}

/// The first characters of a text that is only quoted, so that an error never carries a whole body.
fn shorten(text: &str) -> String {
    const SHOWN_CHARS: usize = 80;
    let mut shown: String = text.chars().take(SHOWN_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

macro_rules! text_name {
    ($type:ident) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
        impl TryFrom<String> for $type {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(&text)
            }
        }
        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0.as_ref().to_owned()
            }
        }
    };
}
text_name!(WorkflowName);
text_name!(InstanceId);

impl fmt::Display for InstanceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.workflow, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workflow_names_follow_the_pinned_pattern() {
        for good in ["a", "purchase", "po-2_x", &"a".repeat(64)] {
            assert!(WorkflowName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "A", "1a", "_a", "ä", "a b", "a/b", "$workflow", &"a".repeat(65)] {
            assert!(WorkflowName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ids_are_kept_byte_for_byte_or_refused() {
        for good in ["a/b", "a::b", "%2F", "🦀", "e\u{301}", "é", "a ", " a", "A", "...", &"x".repeat(512)] {
            assert_eq!(InstanceId::new(good).unwrap().as_str().as_bytes(), good.as_bytes());
        }
        for bad in ["", ".", "..", "a\0", "a\nb", "\u{7f}", "\u{85}", &"x".repeat(513)] {
            assert!(InstanceId::new(bad).is_err(), "{bad:?}");
        }
    }
}
