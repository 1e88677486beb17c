//! Who sent a command.

use serde::{Deserialize, Serialize};

use crate::limits::ROLES_MAX;
use crate::names::{NameError, check_name};

/// Who acts: a principal with roles, as the door established it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The effective id: the token's principal, or the one it may act as. Votes are counted by it.
    pub id: String,
    /// The roles, sorted and without repetition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Whether a token proved it. Without tokens the claim is believed, and the history says so.
    #[serde(default)]
    pub verified: bool,
    /// The token's principal that acted as this one, where it is another. No part of a command's fingerprint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
}

impl Actor {
    /// The actor of a command that names none, on a server without tokens.
    pub const ANONYMOUS: &'static str = "anonymous";

    /// Checks the id and the roles; sorts the roles and drops repetitions.
    pub fn new(id: &str, roles: impl IntoIterator<Item = String>, verified: bool) -> Result<Self, NameError> {
        check_name("actor id", id)?;
        let mut roles: Vec<String> = roles.into_iter().collect();
        roles.sort_unstable();
        roles.dedup();
        if roles.len() > ROLES_MAX {
            return Err(NameError {
                what: "roles",
                problem: format!("are {} in number; at most {ROLES_MAX} are allowed", roles.len()),
            });
        }
        for role in &roles {
            check_name("role", role)?;
        }
        Ok(Self { id: id.to_owned(), roles, verified, via: None })
    }

    /// Whether the actor has at least one of `roles`; an empty list asks for none.
    pub fn has_any(&self, roles: &[String]) -> bool {
        roles.is_empty() || roles.iter().any(|r| self.roles.binary_search(r).is_ok())
    }
}
