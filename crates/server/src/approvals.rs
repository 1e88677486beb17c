//! What answers tell of approvals.

use lockkeeper_model::OpenApproval;
use lockkeeper_model::outcome::{Approval, ApprovalGroup, Handover};
use serde::Serialize;
use utoipa::ToSchema;

/// How far an approval is.
#[derive(Default, Serialize, ToSchema)]
pub(crate) struct ApprovalView {
    /// Votes needed, in all.
    quorum: usize,
    /// Who has voted, in order.
    voters: Vec<String>,
    /// Votes that are still needed.
    missing: usize,
    /// How many of whom; all of them have to be full.
    groups: Vec<ApprovalGroupView>,
    /// Those who are named, or were added, and have not voted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waiting_for: Vec<String>,
    /// Votes that were handed to somebody else.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    delegations: Vec<HandoverView>,
    /// Approvers who were added; each has to agree.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    added: Vec<String>,
}

/// So many of these, and how many it has.
#[derive(Serialize, ToSchema)]
pub(crate) struct ApprovalGroupView {
    /// Votes needed.
    quorum: usize,
    /// Votes that it has; each vote is counted where it helps most.
    votes: usize,
    /// Who is named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    of: Vec<String>,
    /// Any of these roles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    roles: Vec<String>,
}

/// A vote in the hands of somebody else.
#[derive(Serialize, ToSchema)]
pub(crate) struct HandoverView {
    /// Whose vote it is.
    from: String,
    /// Who has it.
    to: String,
}

/// An approval of the state that an instance is in.
#[derive(Serialize, ToSchema)]
pub(crate) struct OpenApprovalView {
    /// The event.
    event: String,
    /// The state that it leads to, if it is always the same other one.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// The event by which one of those who have a vote ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    veto: Option<String>,
    /// Votes needed, in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    quorum: Option<usize>,
    /// Who has voted, in order.
    voters: Vec<String>,
    /// Votes that are still needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<usize>,
    /// How many of whom; all of them have to be full.
    groups: Vec<ApprovalGroupView>,
    /// Those who are named, or were added, and have not voted.
    waiting_for: Vec<String>,
    /// Votes that were handed to somebody else.
    delegations: Vec<HandoverView>,
    /// Approvers who were added; each has to agree.
    added: Vec<String>,
    /// Why that cannot be told, or could never be: the people that its `of` names are not known, or too few.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl From<Handover> for HandoverView {
    fn from(Handover { from, to }: Handover) -> Self {
        Self { from, to }
    }
}

impl From<Approval> for ApprovalView {
    fn from(approval: Approval) -> Self {
        let Approval { quorum, voters, missing, groups, waiting_for, delegations, added } = approval;
        let group = |ApprovalGroup { quorum, votes, of, roles }| ApprovalGroupView { quorum, votes, of, roles };
        Self {
            quorum,
            voters,
            missing,
            groups: groups.into_iter().map(group).collect(),
            waiting_for,
            delegations: delegations.into_iter().map(HandoverView::from).collect(),
            added,
        }
    }
}

impl From<OpenApproval> for OpenApprovalView {
    fn from(open: OpenApproval) -> Self {
        let OpenApproval { event, target, veto, approval } = open;
        let (approval, problem) = match approval {
            Ok(approval) => (Some(ApprovalView::from(approval)), None),
            Err(problem) => (None, Some(problem)),
        };
        let (quorum, missing) =
            (approval.as_ref().map(|known| known.quorum), approval.as_ref().map(|known| known.missing));
        let known = approval.unwrap_or_default();
        let ApprovalView { voters, groups, waiting_for, delegations, added, .. } = known;
        Self { event, target, veto, quorum, voters, missing, groups, waiting_for, delegations, added, problem }
    }
}
