//! What the entries of one visit tell of its votes, so that none is counted or taken back that was not cast.

use super::{Entry, Kind};

/// What was recorded in a visit, at most: what ended with an approval of an event that stays, or with new data before that was
/// told, is not told by the entries, nor which of an event's transitions was meant.
#[derive(Default)]
pub(super) struct Visit<'e> {
    /// Whether its beginning is known, and all since: then what is not here never was.
    is_whole: bool,
    votes: Vec<Vote<'e>>,
    /// Event, owner and hand.
    given: Vec<[&'e str; 3]>,
    /// Event, who added, and whom.
    added: Vec<[&'e str; 3]>,
}

#[derive(PartialEq, Eq)]
struct Vote<'e> {
    event: &'e str,
    hand: &'e str,
    owner: Option<&'e str>,
}

impl<'e> Visit<'e> {
    fn begun() -> Self {
        Self { is_whole: true, ..Self::default() }
    }

    /// Takes `entry`, which follows `before`.
    ///
    /// # Errors
    /// It counts a vote, or takes back something, that there was not.
    pub(super) fn follow(&mut self, before: Option<&Entry>, entry: &'e Entry) -> Result<(), String> {
        let (actor, event) = (entry.actor.id.as_str(), entry.event.as_deref().unwrap_or_default());
        let subject = entry.subject.as_deref().unwrap_or_default();
        self.check_dropped(entry)?;
        match &entry.kind {
            // Of the visits of other versions nothing is left, whether or not they go on.
            Kind::Start | Kind::Migrate => *self = Self::begun(),
            Kind::Vote => {
                self.check_owner(entry)?;
                self.votes.push(Vote { event, hand: actor, owner: entry.on_behalf_of.as_deref() });
            }
            Kind::Delegate => self.given.push([event, actor, subject]),
            Kind::AddApprover => self.added.push([event, actor, subject]),
            Kind::Recall => self.recall(before, entry)?,
            Kind::Move => {
                self.check_owner(entry)?;
                self.check_voters(entry)?;
                self.drop_votes(entry);
                self.leave(entry);
            }
            Kind::Timer => {
                self.drop_votes(entry);
                self.leave(entry);
            }
            Kind::Terminate | Kind::Cancel | Kind::TimedOut => {}
            Kind::Other(_) => *self = Self::default(),
        }
        Ok(())
    }

    /// Whoever goes to another state begins another visit; who does not may have.
    fn leave(&mut self, entry: &Entry) {
        if entry.from.as_ref() != Some(&entry.to) {
            *self = Self::begun();
        }
    }

    /// New data ends all votes at once.
    fn drop_votes(&mut self, entry: &Entry) {
        if !entry.votes_dropped.is_empty() {
            self.votes.clear();
        }
    }

    fn check_dropped(&self, entry: &Entry) -> Result<(), String> {
        let has_voted = |hand: &String| self.votes.iter().any(|vote| vote.hand == hand);
        match entry.votes_dropped.iter().find(|hand| self.is_whole && !has_voted(hand)) {
            Some(hand) => Err(format!("a vote of {hand:?} is void, who has not voted")),
            None => Ok(()),
        }
    }

    fn check_owner(&self, entry: &Entry) -> Result<(), String> {
        let Some(owner) = entry.on_behalf_of.as_deref().filter(|_| self.is_whole) else { return Ok(()) };
        let given = [entry.event.as_deref().unwrap_or_default(), owner, entry.actor.id.as_str()];
        if self.given.contains(&given) {
            return Ok(());
        }
        Err(format!("{:?} votes for {owner:?}, who has handed them nothing", entry.actor.id))
    }

    fn check_voters(&self, entry: &Entry) -> Result<(), String> {
        let has_voted = |hand: &String| {
            *hand == entry.actor.id
                || self.votes.iter().any(|vote| vote.hand == hand && Some(vote.event) == entry.event.as_deref())
        };
        match entry.approved_by.iter().find(|hand| self.is_whole && !has_voted(hand)) {
            Some(hand) => Err(format!("{hand:?} is counted and has not voted")),
            None => Ok(()),
        }
    }

    /// Takes back what `entry` says.
    fn recall(&mut self, before: Option<&Entry>, entry: &'e Entry) -> Result<(), String> {
        let (event, actor) = (entry.event.as_deref().unwrap_or_default(), entry.actor.id.as_str());
        let stays = entry.from.as_ref() == Some(&entry.to);
        let found = match entry.subject.as_deref() {
            _ if is_move_back(before, entry) => {
                // The same state again may be a vote that was taken back: then the visit goes on.
                self.leave(entry);
                return Ok(());
            }
            _ if !stays => false,
            Some(subject) => {
                let done = [event, actor, subject];
                remove(&mut self.given, &done) || remove(&mut self.added, &done)
            }
            None => {
                let owner = entry.on_behalf_of.as_deref();
                remove(&mut self.votes, &Vote { event, hand: actor, owner })
            }
        };
        // A move is known from the entry before, whatever else was purged.
        let may_be_purged = if stays { !self.is_whole } else { before.is_none_or(|before| !before.kind.is_known()) };
        if found || may_be_purged {
            if !stays {
                *self = Self::begun();
            }
            return Ok(());
        }
        Err(format!("{actor:?} takes back what they have not done by {event:?}"))
    }
}

/// Whether `entry` takes back the move `before`, and nothing else has happened since.
fn is_move_back(before: Option<&Entry>, entry: &Entry) -> bool {
    entry.subject.is_none()
        && entry.on_behalf_of.is_none()
        && before.is_some_and(|before| {
            before.kind == Kind::Move
                && before.event == entry.event
                && before.actor.id == entry.actor.id
                && before.from.as_ref() == Some(&entry.to)
        })
}

/// Removes the last of `items` that is `item`, if there is one.
fn remove<T: PartialEq>(items: &mut Vec<T>, item: &T) -> bool {
    let found = items.iter().rposition(|other| other == item);
    found.map(|at| items.remove(at)).is_some()
}
