//! What a start does about the runs that its id has had.

use serde::{Deserialize, Serialize};

/// Whether an id may run again after a run of it has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReusePolicy {
    /// It may.
    #[default]
    AllowDuplicate,
    /// It may unless its last run has completed.
    AllowDuplicateFailedOnly,
    /// It may not.
    RejectDuplicate,
}

/// What happens while a run of the id has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConflictPolicy {
    /// The start is refused, and told which run it is.
    #[default]
    Fail,
    /// Nothing: the answer is that run.
    UseExisting,
    /// That run is terminated and the new one begins, in one commit.
    TerminateExisting,
}

impl ReusePolicy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::AllowDuplicate, Self::AllowDuplicateFailedOnly, Self::RejectDuplicate];

    /// The name used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllowDuplicate => "allow_duplicate",
            Self::AllowDuplicateFailedOnly => "allow_duplicate_failed_only",
            Self::RejectDuplicate => "reject_duplicate",
        }
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl ConflictPolicy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fail, Self::UseExisting, Self::TerminateExisting];

    /// The name used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::UseExisting => "use_existing",
            Self::TerminateExisting => "terminate_existing",
        }
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_api() {
        for policy in ReusePolicy::ALL {
            assert_eq!(serde_json::to_value(policy).unwrap(), policy.as_str());
        }
        for policy in ConflictPolicy::ALL {
            assert_eq!(serde_json::to_value(policy).unwrap(), policy.as_str());
        }
    }
}
