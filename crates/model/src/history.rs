//! What happened to an instance: one entry a version, without a gap.

mod visit;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Actor, Data, Timestamp};
use visit::Visit;

/// What kind of change an entry records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A run began.
    Start,
    /// A transition was taken (the vote that fills a quorum included).
    Move,
    /// A vote short of its quorum.
    Vote,
    /// A vote was handed to somebody else.
    Delegate,
    /// Somebody was added who must agree, too.
    AddApprover,
    /// Something was taken back: a vote, a delegation, an addition, or the last move.
    Recall,
    /// The run was terminated.
    Terminate,
    /// The run was canceled.
    Cancel,
    /// The run was moved to another version of its definition.
    Migrate,
    /// A timer was due: it moved the instance, or did not, and then the reason says why.
    Timer,
    /// The run was ended by its execution timeout.
    TimedOut,
    /// A kind of a later version, by the name that it has there: shown and kept as it is.
    #[serde(untagged)]
    Other(String),
}

/// One committed change. Its version is kept beside it by the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What kind of change.
    pub kind: Kind,
    /// The event, for moves, votes and what else belongs to an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The state before; none for a start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The state after (the same for votes, closes and transitions without a target).
    pub to: String,
    /// Who.
    pub actor: Actor,
    /// When it was decided.
    pub at: Timestamp,
    /// The run it belongs to.
    pub run: Uuid,
    /// The definition's version that judged it; of a migration, the one that it led to.
    pub definition_version: i64,
    /// The version of the definition before a migration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_definition_version: Option<i64>,
    /// The idempotency key it came with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How long after the visit began the timer was due, as the definition says it: `72h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The data that was sent.
    #[serde(default, skip_serializing_if = "Data::is_empty")]
    pub data: Data,
    /// Why, for terminate and cancel, and for timers that have moved nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who had voted, in order, for the move that fills a quorum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved_by: Vec<String>,
    /// Whose votes this has made void, while the visit that they were cast in went on or became another version's: the hands.
    /// Votes that end with their visit are not named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes_dropped: Vec<String>,
    /// Whose vote was cast, where its owner had handed it over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<String>,
    /// Whom it is about: who got a vote, who was added, and the same where that is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

impl Kind {
    /// Whether the run stands by it where it stood.
    fn stays(&self) -> bool {
        matches!(
            self,
            Self::Vote | Self::Delegate | Self::AddApprover | Self::Terminate | Self::Cancel | Self::TimedOut
        )
    }

    /// Whether it belongs to an event.
    fn has_event(&self) -> bool {
        matches!(self, Self::Move | Self::Vote | Self::Delegate | Self::AddApprover | Self::Recall)
    }

    /// Whether it is about somebody, if it says so.
    fn has_subject(&self) -> bool {
        matches!(self, Self::Delegate | Self::AddApprover | Self::Recall)
    }

    /// Whether a vote may be cast, or taken back, in somebody else's name.
    fn has_owner(&self) -> bool {
        matches!(self, Self::Vote | Self::Move | Self::Recall)
    }

    /// Whether it may lead to a state in which the run ends.
    fn may_end(&self) -> bool {
        matches!(self, Self::Start | Self::Move | Self::Timer)
    }

    /// Whether the run is over after it, whatever its state.
    fn ends(&self) -> bool {
        matches!(self, Self::Terminate | Self::Cancel | Self::TimedOut)
    }

    fn is_known(&self) -> bool {
        !matches!(self, Self::Other(_))
    }
}

/// Checks that entries, oldest first, are one legal history: versions without a gap, each change beginning in the state
/// where the last one ended, nothing after the end of a run but a start, no start while one runs; votes that are cast in
/// somebody's name handed over before, nobody counted who has not voted or counted twice, and nothing taken back but what
/// was done before. The first entry may be any: older ones may have been purged. So may be what a later version has written
/// in a kind of its own, and what it makes of the visit.
///
/// Whether a move ended its run is not in an entry; that is told by what follows, which has to be the same for all moves to
/// that state of a version.
///
/// # Errors
/// The first thing that is wrong.
pub fn check<'e>(entries: impl IntoIterator<Item = (i64, &'e Entry)>) -> Result<(), String> {
    let mut last: Option<(i64, &Entry)> = None;
    let (mut visit, mut states) = (Visit::default(), States::default());
    for (version, entry) in entries {
        let told = |problem| format!("version {version}: {problem}");
        check_entry(entry).map_err(told)?;
        if let Some((before, last)) = last {
            if before.checked_add(1) != Some(version) {
                return Err(format!("version {version} follows version {before}"));
            }
            check_pair(last, entry).map_err(told)?;
        }
        let before = last.map(|(_, entry)| entry);
        states.follow(before, entry).map_err(told)?;
        visit.follow(before, entry).map_err(told)?;
        last = Some((version, entry));
    }
    Ok(())
}

fn check_entry(entry: &Entry) -> Result<(), String> {
    let Entry { kind, event, from, to, reason, after, .. } = entry;
    let stays = from.as_ref() == Some(to);
    match kind {
        Kind::Other(_) => return Ok(()),
        Kind::Start if from.is_some() || event.is_some() => return Err("a start comes from nowhere".to_owned()),
        kind if kind.has_event() && event.is_none() => return Err(format!("a {kind:?} without an event")),
        Kind::Timer | Kind::TimedOut if event.is_some() => return Err(format!("a {kind:?} with an event")),
        Kind::Timer if after.is_none() => return Err("a timer of no time".to_owned()),
        Kind::Timer if reason.is_some() && !stays => return Err("a timer that moves and does not".to_owned()),
        Kind::Start => {}
        Kind::Migrate if event.is_some() || from.is_none() => {
            return Err("a migration sends no event, and comes from a state".to_owned());
        }
        Kind::Migrate if entry.from_definition_version.is_none_or(|before| before == entry.definition_version) => {
            return Err("a migration leads from one version of the definition to another".to_owned());
        }
        kind if from.is_none() => return Err(format!("a {kind:?} without a state that it comes from")),
        kind if kind.stays() && !stays => return Err(format!("a {kind:?} does not move")),
        Kind::Terminate | Kind::Cancel | Kind::Migrate if reason.is_none() => {
            return Err(format!("a {kind:?} without a reason"));
        }
        _ => {}
    }
    check_fields(entry)?;
    check_people(entry)
}

/// What an entry says has to be what its kind can say.
fn check_fields(entry: &Entry) -> Result<(), String> {
    let Entry { kind, after, from_definition_version, approved_by, votes_dropped, on_behalf_of, subject, .. } = entry;
    let may_drop = matches!(kind, Kind::Move | Kind::Timer | Kind::Migrate);
    for (field, is_given, may_be) in [
        ("a time", after.is_some(), *kind == Kind::Timer),
        ("a version before", from_definition_version.is_some(), *kind == Kind::Migrate),
        ("voters", !approved_by.is_empty(), *kind == Kind::Move),
        ("votes that it has dropped", !votes_dropped.is_empty(), may_drop),
        ("a vote's owner", on_behalf_of.is_some(), kind.has_owner()),
        ("somebody it is about", subject.is_some(), kind.has_subject()),
    ] {
        if is_given && !may_be {
            return Err(format!("a {kind:?} with {field}"));
        }
    }
    Ok(())
}

fn check_people(entry: &Entry) -> Result<(), String> {
    let Entry { kind, actor, approved_by, on_behalf_of, subject, .. } = entry;
    match kind {
        Kind::Delegate | Kind::AddApprover if subject.is_none() => return Err(format!("a {kind:?} of nobody")),
        Kind::Delegate if subject.as_ref() == Some(&actor.id) => {
            return Err("a vote is handed to whom it was of".to_owned());
        }
        Kind::Recall if subject.is_some() && on_behalf_of.is_some() => {
            return Err("a recall of two things".to_owned());
        }
        Kind::Move if on_behalf_of.is_some() && approved_by.is_empty() => {
            return Err("a vote for somebody where none is asked for".to_owned());
        }
        Kind::Move if !approved_by.is_empty() && !approved_by.contains(&actor.id) => {
            return Err("an approval whose last vote is nobody's".to_owned());
        }
        _ if on_behalf_of.as_ref() == Some(&actor.id) => return Err("a vote for oneself is one's own".to_owned()),
        _ => {}
    }
    let mut voters: Vec<&String> = approved_by.iter().collect();
    voters.sort_unstable();
    voters.dedup();
    if voters.len() != approved_by.len() {
        return Err("a voter is counted twice".to_owned());
    }
    Ok(())
}

fn check_pair(before: &Entry, entry: &Entry) -> Result<(), String> {
    let is_new_run = entry.run != before.run;
    // In a state that a run has left for itself it has not ended.
    let goes_on = before.kind.is_known() && (!before.kind.may_end() || before.from.as_ref() == Some(&before.to));
    match (&entry.kind, &before.kind) {
        // What a later version does is for it to know; but it begins where the last one ended.
        (Kind::Other(_), _) if is_new_run || entry.from.is_none() => Ok(()),
        (Kind::Start, _) if !is_new_run => Err(format!("run {} starts twice", entry.run)),
        (Kind::Start, before_kind) if goes_on && !before_kind.ends() => {
            Err(format!("a run starts while run {} goes on", before.run))
        }
        (Kind::Start, _) => Ok(()),
        (_, before_kind) if before_kind.ends() => Err(format!("run {} goes on after its end", before.run)),
        _ if is_new_run => Err(format!("run {} follows run {} without a start", entry.run, before.run)),
        _ if entry.from.as_ref() != Some(&before.to) => {
            Err(format!("it comes from {:?}, but the instance was in {:?}", entry.from, before.to))
        }
        (Kind::Other(_), _) | (_, Kind::Other(_)) => Ok(()),
        (Kind::Migrate, _) if entry.from_definition_version != Some(before.definition_version) => Err(format!(
            "it leads on from version {:?} of the definition, but the run was on {}",
            entry.from_definition_version, before.definition_version
        )),
        (kind, _) if *kind != Kind::Migrate && entry.definition_version != before.definition_version => Err(format!(
            "version {} of the definition judged it, but the run is on {}",
            entry.definition_version, before.definition_version
        )),
        _ => Ok(()),
    }
}

/// What the history tells of the definitions' states: where runs ended, and where they went on.
#[derive(Default)]
struct States<'e> {
    last: HashSet<(i64, &'e str)>,
    others: HashSet<(i64, &'e str)>,
}

impl<'e> States<'e> {
    /// Refuses an end in a state in which another run of that version went on, and the other way round.
    fn follow(&mut self, before: Option<&'e Entry>, entry: &'e Entry) -> Result<(), String> {
        if let (Kind::Start, Some(before)) = (&entry.kind, before.filter(|before| before.kind.may_end())) {
            self.last.insert((before.definition_version, &before.to));
        }
        let left = entry.from.as_deref().filter(|_| entry.kind.is_known());
        let version = entry.from_definition_version.unwrap_or(entry.definition_version);
        self.others.extend(left.map(|state| (version, state)));
        match self.last.intersection(&self.others).next() {
            Some((version, state)) => {
                Err(format!("version {version} of the definition ends runs in {state:?}, and one went on from there"))
            }
            None => Ok(()),
        }
    }
}
