//! Approvals: who has voted, and whether that is enough. Distinctness is by the actor's effective id.

use crate::definition::machine::Transition;
use crate::instance::{Instance, Vote};
use crate::outcome::Approval;
use crate::{Actor, Timestamp};

/// What a vote comes to.
pub(crate) enum Tally {
    /// The actor had voted before: nothing changes.
    Repeated(Approval),
    /// It counts, and more are needed.
    Short(Approval, Vote),
    /// It fills the quorum; who had voted, in order.
    Full(Vec<String>),
}

/// Counts the vote of `actor` for `transition`, which asks for `quorum` of them.
pub(crate) fn tally(
    instance: &Instance,
    transition: &Transition,
    quorum: usize,
    actor: &Actor,
    now: Timestamp,
) -> Tally {
    let mut voters: Vec<String> =
        instance.votes.iter().filter(|vote| is_for(vote, transition)).map(|vote| vote.actor.clone()).collect();
    if voters.contains(&actor.id) {
        return Tally::Repeated(Approval { quorum, voters });
    }
    voters.push(actor.id.clone());
    if voters.len() >= quorum {
        return Tally::Full(voters);
    }
    let vote =
        Vote { event: transition.event.clone(), transition: transition.position, actor: actor.id.clone(), at: now };
    Tally::Short(Approval { quorum, voters }, vote)
}

/// Whether `vote` was given for `transition`.
pub(crate) fn is_for(vote: &Vote, transition: &Transition) -> bool {
    vote.transition == transition.position && vote.event == transition.event
}
