//! The typed answers: what came of a command.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

use crate::definition::Problem;
use crate::instance::Status;

/// How a command succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuccessKind {
    /// A run began.
    Started,
    /// A run had not ended, and the start asked for no other.
    Attached,
    /// The change was committed.
    Applied,
    /// Nothing to do: the same command, or one like it, has already led here.
    AlreadyApplied,
    /// The vote counts, or had been counted, or something else was done about the approval; it is not yet full.
    PendingApproval,
}

/// A command that succeeded, and where the instance stands since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Success {
    /// How.
    pub outcome: SuccessKind,
    /// The instance's id.
    pub id: String,
    /// The run.
    pub run: Uuid,
    /// The version after the command.
    pub version: i64,
    /// The state after the command.
    pub state: String,
    /// The status after the command.
    pub status: Status,
    /// How far the approval is, for `pending_approval`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<Approval>>,
    /// What a migration did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<Box<Migration>>,
}

/// What a migration did to a run, or would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migration {
    /// The definition's version before.
    pub from_version: i64,
    /// The definition's version after.
    pub to_version: i64,
    /// The state before.
    pub from_state: String,
    /// The state after.
    pub to_state: String,
    /// Who had voted in the visit: their votes are void, since what was voted for may be another thing now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes_dropped: Vec<String>,
    /// Votes of the visit that were in other hands: they are their owners' again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegations_dropped: Vec<Handover>,
    /// Who had been added in the visit, and is asked for no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added_dropped: Vec<String>,
    /// States that the map names and neither version has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_states: Vec<String>,
    /// Timers of the visit after the migration.
    pub timers: usize,
}

/// How far an approval is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Votes needed, in all.
    pub quorum: usize,
    /// Who has voted, in order: the hands.
    pub voters: Vec<String>,
    /// Votes that are still needed. 0 without a move: the rule was changed since; the next vote makes it.
    #[serde(default)]
    pub missing: usize,
    /// How many of whom; all of them have to be full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<ApprovalGroup>,
    /// Those who are named and have not voted, where their votes are still needed: the hands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_for: Vec<String>,
    /// Votes that were handed to somebody else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegations: Vec<Handover>,
    /// Approvers who were added; each has to agree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
}

/// So many of these, and how many it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalGroup {
    /// Votes needed.
    pub quorum: usize,
    /// Votes that it has, each vote being counted where it helps most.
    pub votes: usize,
    /// Who is named; empty: nobody, roles aside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of: Vec<String>,
    /// Any of these roles; empty: no role is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
}

/// A vote in the hands of somebody else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// Whose vote it is.
    pub from: String,
    /// Who has it.
    pub to: String,
}

/// Why a command was refused. A refused command has no effect.
///
/// `code` numbers are never reused; gaps belong to outcomes of parts that are not built yet.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Refusal {
    /// The request cannot be understood, or uses what this version does not have.
    #[error("{detail}")]
    Malformed {
        /// What is wrong, and what to write.
        detail: String,
    },
    /// A token is needed and none that is valid was given.
    #[error("{detail}")]
    Unauthenticated {
        /// What was missing.
        detail: String,
    },
    /// The actor may not do this.
    #[error("{detail}")]
    NotPermitted {
        /// What was missing.
        detail: String,
        /// Any of these roles would do.
        roles: Vec<String>,
    },
    /// No such workflow (or no such version of it).
    #[error("there is no workflow {workflow:?}{}", naming("; known:", known))]
    UnknownWorkflow {
        /// What was asked for.
        workflow: String,
        /// Some of those that exist.
        known: Vec<String>,
    },
    /// No such version of a workflow.
    #[error("workflow {workflow:?} has no version {version}{}", newest.map(|n| format!("; it has versions 1 to {n}")).unwrap_or_default())]
    UnknownVersion {
        /// The workflow.
        workflow: String,
        /// What was asked for.
        version: i64,
        /// The newest that there is; none: there is no such workflow at all, or the store did not say.
        newest: Option<i64>,
    },
    /// No such instance.
    #[error("workflow {workflow:?} has no instance {id:?}{}", naming("; it has, among others,", known))]
    UnknownInstance {
        /// The workflow.
        workflow: String,
        /// What was asked for.
        id: String,
        /// Some of those that exist.
        known: Vec<String>,
    },
    /// Something is larger than its limit.
    #[error("{what} has {actual} bytes; at most {limit} are allowed")]
    TooLarge {
        /// What is too large.
        what: String,
        /// The limit in bytes.
        limit: usize,
        /// The size in bytes, as far as it was read.
        actual: usize,
    },
    /// The command is no move in the state that the instance is in.
    #[error("{}", state_mismatch(expected, actual, *reason, *ended))]
    StateMismatch {
        /// What the command needs: the `from` given, or the states (or the run) in which it would be a move.
        expected: String,
        /// The current state (or run).
        actual: String,
        /// Which condition failed.
        reason: MismatchReason,
        /// How the run has ended, where it has.
        ended: Option<Status>,
    },
    /// The version given is not the current one.
    #[error("expected version {expected}, but the instance is at version {actual}: read it again and decide anew")]
    VersionMismatch {
        /// The version that the sender gave.
        expected: i64,
        /// The current version.
        actual: i64,
    },
    /// Every attempt met a newer version.
    #[error(
        "{attempts} attempts each met a newer version (now {current}) under the strategy {strategy}: send it again"
    )]
    Conflict {
        /// The version at the last attempt.
        current: i64,
        /// How many attempts were made.
        attempts: u32,
        /// The strategy in force.
        strategy: String,
    },
    /// A fence that the command carries is out of date: a later holder's has been seen.
    #[error(
        "the fence {fence} of {resource:?} is out of date, since {last} has been seen: the lock was lost to a later \
         holder, and nothing was written; acquire it again and decide anew"
    )]
    Fenced {
        /// The lock's name.
        resource: String,
        /// The fence that was sent.
        fence: i64,
        /// The newest one that was seen.
        last: i64,
    },
    /// Somebody else holds the lock on the instance's row: another node, or a session that locked it by hand.
    #[error("{}", lock_timeout(*waited_ms))]
    LockTimeout {
        /// How long the command waited, in milliseconds; 0: it did not, as `on_locked: nowait` says.
        waited_ms: u64,
    },
    /// Somebody else holds the lock that the definition's `lock_key` names. Its outcome is `lock_timeout` too.
    #[error("waited {waited_ms} ms for the lock {resource:?}, which is {holder}: send it again")]
    LeaseTimeout {
        /// The lock's name.
        resource: String,
        /// How long the command waited, in milliseconds.
        waited_ms: u64,
        /// Who is in the way: `held by ann on host-1 since ...`.
        holder: String,
    },
    /// A run of this id has not ended.
    #[error("run {run} of this id is still running")]
    AlreadyRunning {
        /// The run.
        run: Uuid,
    },
    /// The run had already ended.
    #[error("run {run} has already ended: {}", status.as_str())]
    AlreadyClosed {
        /// The run.
        run: Uuid,
        /// How it ended.
        status: Status,
    },
    /// The run cannot be on that version of the definition, as it stands or as the states are mapped.
    #[error("{detail}")]
    NotMigratable {
        /// Why, and what to write.
        detail: String,
        /// The state that the run is in.
        state: String,
        /// States of the other version that are not final.
        states: Vec<String>,
    },
    /// The idempotency key belongs to another command.
    #[error("the idempotency key {key:?} was used for another command or by another actor: use a new key")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// The guard said no.
    #[error("the guard does not hold: {guard}")]
    GuardRejected {
        /// The guard's text.
        guard: String,
    },
    /// A guard or an assign could not be evaluated.
    #[error("cannot evaluate {expression:?}: {detail}")]
    GuardError {
        /// The expression's text.
        expression: String,
        /// What went wrong.
        detail: String,
    },
    /// No state of the definition has this event (or there is no such target state).
    #[error("there is no {what} {name:?}{}", naming("; known:", known))]
    UnknownEvent {
        /// `event` or `state`.
        what: &'static str,
        /// What was sent.
        name: String,
        /// Those that exist.
        known: Vec<String>,
    },
    /// More than one move fits, or the same event led here and also leads on.
    #[error("{detail}")]
    AmbiguousTarget {
        /// What is ambiguous, and what to give to make it clear.
        detail: String,
        /// The events that fit.
        events: Vec<String>,
    },
    /// The definition has errors.
    #[error("the definition has {} problem(s){}", problems.len(), first_problem(problems))]
    InvalidDefinition {
        /// What is wrong, where, and what to write instead.
        problems: Vec<Problem>,
    },
    /// What was to be done about an approval, or taken back, is not possible as things stand.
    #[error("{detail}")]
    ActRefused {
        /// Which rule says so.
        reason: ActReason,
        /// The rule, with names.
        detail: String,
    },
    /// A move of an all-or-nothing request would not be a move yet.
    #[error("{detail}")]
    NotApplied {
        /// Why.
        detail: String,
    },
    /// A queue is full, or the instance's row is locked and `on_locked: skip_locked` passes over it.
    #[error("{detail}")]
    Busy {
        /// Which of them.
        detail: String,
    },
    /// The store, or the lock service that the command needs, cannot be used; nothing was written.
    #[error("{detail}")]
    Unavailable {
        /// What happened.
        detail: String,
    },
    /// The commit was sent and its fate is not known.
    #[error("{detail}")]
    Unknown {
        /// What happened, and what to do.
        detail: String,
    },
}

/// Which condition of [`Refusal::StateMismatch`] failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MismatchReason {
    /// `from` is not the current state.
    From,
    /// The event or target is not enabled in the current state.
    NotEnabled,
    /// The run has ended.
    Closed,
    /// `run` is not the current run.
    Run,
}

/// Why an act of an approval was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ActReason {
    /// The definition does not allow it here.
    NotAllowed,
    /// There is nothing of the actor's to take back.
    NothingToRecall,
    /// Something has happened since the move that was to be taken back.
    ActedSince,
    /// The actor has handed the vote to somebody else.
    Delegated,
    /// The actor holds somebody else's vote, which cannot be handed on.
    HoldsVote,
    /// The actor has voted.
    Voted,
    /// The actor named themselves.
    Oneself,
    /// The one named has a vote of their own, or has voted, or holds or has handed on a vote.
    HasVote,
    /// The one named started the run, or the guard refuses them: they have no vote.
    Excluded,
    /// All places that the vote could fill are full.
    Full,
    /// There are as many as there may be.
    TooMany,
}

impl Refusal {
    /// The error's code; docs/errors has a page for each.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Malformed { .. } => "LK0001",
            Self::Unauthenticated { .. } => "LK0002",
            Self::NotPermitted { .. } => "LK0003",
            Self::UnknownWorkflow { .. } | Self::UnknownVersion { .. } => "LK0004",
            Self::UnknownInstance { .. } => "LK0005",
            Self::TooLarge { .. } => "LK0006",
            Self::StateMismatch { .. } => "LK0007",
            Self::VersionMismatch { .. } => "LK0008",
            Self::Conflict { .. } => "LK0009",
            Self::Fenced { .. } => "LK0010",
            Self::LockTimeout { .. } | Self::LeaseTimeout { .. } => "LK0012",
            Self::AlreadyRunning { .. } => "LK0014",
            Self::AlreadyClosed { .. } => "LK0015",
            Self::KeyReused { .. } => "LK0016",
            Self::GuardRejected { .. } => "LK0017",
            Self::GuardError { .. } => "LK0018",
            Self::UnknownEvent { .. } => "LK0019",
            Self::AmbiguousTarget { .. } => "LK0020",
            Self::InvalidDefinition { .. } => "LK0021",
            Self::Busy { .. } => "LK0022",
            Self::Unavailable { .. } => "LK0023",
            Self::Unknown { .. } => "LK0024",
            Self::NotApplied { .. } => "LK0025",
            Self::ActRefused { .. } => "LK0028",
            Self::NotMigratable { .. } => "LK0035",
        }
    }

    /// The outcome's name in the API.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Malformed { .. } => "malformed",
            Self::Unauthenticated { .. } => "unauthenticated",
            Self::NotPermitted { .. } => "not_permitted",
            Self::UnknownWorkflow { .. } | Self::UnknownVersion { .. } => "unknown_workflow",
            Self::UnknownInstance { .. } => "unknown_instance",
            Self::TooLarge { .. } => "too_large",
            Self::StateMismatch { .. } => "state_mismatch",
            Self::VersionMismatch { .. } => "version_mismatch",
            Self::Conflict { .. } => "conflict",
            Self::Fenced { .. } => "fenced",
            Self::LockTimeout { .. } | Self::LeaseTimeout { .. } => "lock_timeout",
            Self::AlreadyRunning { .. } => "already_running",
            Self::AlreadyClosed { .. } => "already_closed",
            Self::KeyReused { .. } => "key_reused",
            Self::GuardRejected { .. } => "guard_rejected",
            Self::GuardError { .. } => "guard_error",
            Self::UnknownEvent { .. } => "unknown_event",
            Self::AmbiguousTarget { .. } => "ambiguous_target",
            Self::InvalidDefinition { .. } => "invalid_definition",
            Self::Busy { .. } => "busy",
            Self::Unavailable { .. } => "unavailable",
            Self::Unknown { .. } => "unknown",
            Self::NotApplied { .. } => "not_applied",
            Self::ActRefused { .. } => "act_refused",
            Self::NotMigratable { .. } => "not_migratable",
        }
    }

    /// Whether the very same request may succeed when sent again, and does no harm. One whose fate is `unknown` is safe
    /// to send again under an idempotency key only, which is not known here.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Conflict { .. }
                | Self::LockTimeout { .. }
                | Self::LeaseTimeout { .. }
                | Self::Busy { .. }
                | Self::Unavailable { .. }
        )
    }
}

/// `"{lead} a, b, c"`, or nothing where there is nothing to name.
fn naming(lead: &str, names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("{lead} {}", names.join(", ")) }
}

fn first_problem(problems: &[Problem]) -> String {
    problems.first().map(|p| format!("; the first: {p}")).unwrap_or_default()
}

fn lock_timeout(waited_ms: u64) -> String {
    let holder = "somebody else (another node, or a session that locked it by hand)";
    match waited_ms {
        0 => format!(
            "the instance's row is locked by {holder}, and `on_locked: nowait` does not wait for it: send it again later"
        ),
        _ => format!(
            "waited {waited_ms} ms for the instance's row, which {holder} keeps locked: send it again, and if this goes \
             on, end the session that holds it"
        ),
    }
}

fn state_mismatch(expected: &str, actual: &str, reason: MismatchReason, ended: Option<Status>) -> String {
    match reason {
        MismatchReason::From => format!("expected state {expected:?}, but the instance is in {actual:?}"),
        MismatchReason::NotEnabled => {
            format!("not possible in state {actual:?}; it is in {expected}")
        }
        MismatchReason::Closed => {
            let how = ended.map_or("it is over", Status::as_str);
            format!("the run has ended ({how}) in state {actual:?}; the command needs {expected}")
        }
        MismatchReason::Run => format!("expected run {expected}, but the current run is {actual}"),
    }
}
