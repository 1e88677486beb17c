//! Approvals: who has a vote, who has voted, and whether that is enough.
//!
//! One hand is one vote: whoever casts a vote, in their own name or in that of somebody who handed them theirs, is counted
//! once. And one name is one vote: who has handed theirs over has none. All of it is computed anew for each command from
//! what the visit has recorded, so that nothing is kept that could contradict the rule.

mod matching;
mod open;
pub(crate) mod people;
mod standing;

pub use open::OpenApproval;
pub(crate) use people::is_among;
pub(crate) use standing::{Standing, Tally, is_given_back};

use crate::definition::approval::ApprovalRule;
use crate::definition::machine::Transition;
use crate::instance::{Addition, Delegation, Instance, Vote};

/// What is recorded for one of a state's transitions.
pub(crate) trait Recorded {
    /// The event, and which of its transitions.
    fn place(&self) -> (&str, usize);

    /// Whether it was recorded for `transition`.
    fn is_for(&self, transition: &Transition) -> bool {
        self.place() == (transition.event.as_str(), transition.position)
    }
}

impl Recorded for Vote {
    fn place(&self) -> (&str, usize) {
        (&self.event, self.transition)
    }
}

impl Recorded for Delegation {
    fn place(&self) -> (&str, usize) {
        (&self.event, self.transition)
    }
}

impl Recorded for Addition {
    fn place(&self) -> (&str, usize) {
        (&self.event, self.transition)
    }

    /// Whoever was added has to agree to the event, whichever of its transitions new data chooses. Where people choose, by who
    /// they are or by what they send, another transition may be one for which the one added has no vote.
    fn is_for(&self, transition: &Transition) -> bool {
        self.event == transition.event && (self.transition == transition.position || transition.is_chosen_by_data)
    }
}

/// Forgets what was recorded for `transition`: its approval is over.
pub(crate) fn forget(instance: &mut Instance, transition: &Transition) {
    instance.votes.retain(|vote| !vote.is_for(transition));
    instance.delegations.retain(|delegation| !delegation.is_for(transition));
    // Whoever was added has agreed; but not where nobody was asked.
    let place = (transition.event.as_str(), transition.position);
    let is_over = |addition: &Addition| match transition.approval {
        Some(_) => addition.is_for(transition),
        None => addition.place() == place,
    };
    instance.additions.retain(|addition| !is_over(addition));
}

/// Whether the roles in `has` may be those of somebody with a vote: told before anything else is, so it looks at roles
/// alone. Who holds a vote of somebody else, or was added, needs none.
pub(crate) fn may_have_vote(
    instance: &Instance,
    transition: &Transition,
    rule: &ApprovalRule,
    id: &str,
    has: impl Fn(&[String]) -> bool,
) -> bool {
    rule.groups.iter().any(|group| has(&group.who.roles))
        || instance.delegations.iter().any(|delegation| delegation.to == id && delegation.is_for(transition))
        || instance.additions.iter().any(|addition| addition.id == id && addition.is_for(transition))
}
