//! Names of which the API has a closed set, as the OpenAPI document tells them. A test holds those that the model and the
//! engine write against these; the others are written by this room alone.

use utoipa::ToSchema;

/// How a run stands.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(missing_docs, dead_code, reason = "describes names that are written elsewhere, for the OpenAPI document")]
pub(crate) enum StatusName {
    Running,
    Completed,
    Failed,
    Canceled,
    Terminated,
    TimedOut,
}

/// What came of a command that succeeded; `dry_run`: nothing was done.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(missing_docs, dead_code, reason = "describes names that are written elsewhere, for the OpenAPI document")]
pub(crate) enum OutcomeName {
    Started,
    Attached,
    Applied,
    AlreadyApplied,
    PendingApproval,
    DryRun,
}

/// Whether an id may run again.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(missing_docs, dead_code, reason = "describes names that are written elsewhere, for the OpenAPI document")]
pub(crate) enum ReusePolicyName {
    AllowDuplicate,
    AllowDuplicateFailedOnly,
    RejectDuplicate,
}

/// What happens while a run of the id has not ended.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(missing_docs, dead_code, reason = "describes names that are written elsewhere, for the OpenAPI document")]
pub(crate) enum ConflictPolicyName {
    Fail,
    UseExisting,
    TerminateExisting,
}

/// When an event is answered.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(missing_docs, dead_code, reason = "describes names that are written elsewhere, for the OpenAPI document")]
pub(crate) enum SendModeName {
    Sync,
}

/// How old an answer may be.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(missing_docs, dead_code, reason = "describes names that are written elsewhere, for the OpenAPI document")]
pub(crate) enum StaleName {
    Ok,
}

/// How a definition is written.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(missing_docs, dead_code, reason = "describes names that are written elsewhere, for the OpenAPI document")]
pub(crate) enum FormatName {
    Yaml,
    Json,
}

/// Why changes may be missing.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(missing_docs, dead_code, reason = "describes names that are written elsewhere, for the OpenAPI document")]
pub(crate) enum GapReasonName {
    Purged,
    AnotherLife,
}

/// How commands commit.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(missing_docs, dead_code, reason = "describes names that are written elsewhere, for the OpenAPI document")]
pub(crate) enum StrategyName {
    Optimistic,
    Pessimistic,
    Distributed,
    Adaptive,
}

/// What is done about a row that another session has locked.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(missing_docs, dead_code, reason = "describes names that are written elsewhere, for the OpenAPI document")]
pub(crate) enum OnLockedName {
    Wait,
    Nowait,
    SkipLocked,
}

/// What is done while the lock service is gone.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(missing_docs, dead_code, reason = "describes names that are written elsewhere, for the OpenAPI document")]
pub(crate) enum OnLockLossName {
    RowLock,
    Refuse,
}

/// How adaptive commands are tried.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(missing_docs, dead_code, reason = "describes names that are written elsewhere, for the OpenAPI document")]
pub(crate) enum RungName {
    Optimistic,
    RowLock,
    Lease,
}

/// Why they are tried in another way than before.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(missing_docs, dead_code, reason = "describes names that are written elsewhere, for the OpenAPI document")]
pub(crate) enum ReasonName {
    Score,
    Exhausted,
    Quiet,
    LocksGone,
}

/// How a name is held.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(missing_docs, dead_code, reason = "describes names that are written elsewhere, for the OpenAPI document")]
pub(crate) enum HoldModeName {
    Exclusive,
    Shared,
    Permits,
}

/// What became of a release.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(missing_docs, dead_code, reason = "describes names that are written elsewhere, for the OpenAPI document")]
pub(crate) enum ReleaseName {
    Released,
    AlreadyLost,
}
