//! One case of a workflow, as it stands now.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Data, Timestamp};

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Not ended.
    Running,
    /// Ended in a final state of that status (the default of final states).
    Completed,
    /// Ended in a final state of status `failed`.
    Failed,
    /// Ended by `cancel`.
    Canceled,
    /// Ended by `terminate`, or by a start that replaced it.
    Terminated,
    /// Ended by its execution timeout.
    TimedOut,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Running, Self::Completed, Self::Failed, Self::Canceled, Self::Terminated, Self::TimedOut];

    /// Whether the run has ended; a closed run never moves again.
    pub fn is_closed(self) -> bool {
        self != Self::Running
    }

    /// The name used in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Terminated => "terminated",
            Self::TimedOut => "timed_out",
        }
    }
}

/// One case of a workflow: the current run of an id. Cloning is cheap: the data is shared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    /// Counts every committed change of the id, over all its runs. The store keeps it beside the body.
    #[serde(skip)]
    pub version: i64,
    /// The run: one life of the id.
    pub run: Uuid,
    /// The version of the definition that the run is on.
    pub definition_version: i64,
    /// The current state.
    pub state: String,
    /// Whether and how the run has ended.
    pub status: Status,
    /// The data that guards and assigns see.
    pub data: Arc<Data>,
    /// The id of the actor that started the run.
    pub started_by: String,
    /// When the run began.
    pub started_at: Timestamp,
    /// When the last change was decided.
    pub updated_at: Timestamp,
    /// How the current state was entered.
    pub entered: Entered,
    /// Votes of the current visit that have not yet filled their quorum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Vote>,
    /// Votes of the current visit that their owners have handed to somebody else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegations: Vec<Delegation>,
    /// Approvers who were added in the current visit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additions: Vec<Addition>,
    /// The states that led here, the first one first, loops cut out and the current one left out: those to which a
    /// `return` may lead, if not of this version of the definition, then of one that the run is migrated to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
    /// Whether `path` is known from its beginning: releases before kept it only where the definition has a `return`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub path_known: bool,
    /// What it takes to take the last move back, where its transition allows that and nothing has happened since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Box<Undo>>,
    /// Timers of the current visit that have not fired, in the order in which they are due.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timers: Vec<Timer>,
    /// The times of those timers of the current visit that earlier versions of the definition have used up, in
    /// milliseconds: a later one may have them again. Those of the version that the run is on are its timers that are
    /// not in `timers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "times")]
    pub fired: Vec<Duration>,
    /// When the run is ended, if it has not ended by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The `request_id` of the start that began the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl Instance {
    /// Ends the current visit: whatever belonged to it is gone.
    pub(crate) fn end_visit(&mut self) {
        self.votes.clear();
        self.delegations.clear();
        self.additions.clear();
        self.timers.clear();
        self.fired.clear();
        self.undo = None;
    }

    /// The run as it ended, once it has.
    pub fn ended(&self) -> Option<EndedRun> {
        self.status.is_closed().then_some(EndedRun { run: self.run, status: self.status })
    }

    /// When somebody has to look at it again: the earliest of its timers and its deadline.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.iter().map(|timer| timer.due).chain(self.deadline).min()
    }
}

/// A timer of the current visit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    /// Which `after` of the state, by position in the definition.
    pub after: usize,
    /// When it fires.
    pub due: Timestamp,
    /// How often it was due and its guard or an assign could not be evaluated.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
}

/// Times as milliseconds.
mod times {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(times: &[Duration], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(times.iter().map(Duration::as_millis))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Duration>, D::Error> {
        Ok(Vec::<u64>::deserialize(deserializer)?.into_iter().map(Duration::from_millis).collect())
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedRun {
    /// The run.
    pub run: Uuid,
    /// How it ended.
    pub status: Status,
}

/// How the current visit began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entered {
    /// The event that led here; none: the start of the run.
    pub event: Option<String>,
    /// The state that was left; none: the start of the run.
    pub from: Option<String>,
    /// The version on which the entering move was decided (the visit's first version less one).
    pub decided_on: i64,
    /// When; not known of visits that began before this was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// One principal's vote for one event of the current visit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// The event voted for.
    pub event: String,
    /// Which of the event's transitions, by position in the definition.
    pub transition: usize,
    /// The voter's id: the hand.
    pub actor: String,
    /// Whose vote it is, where its owner has handed it to the voter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<String>,
    /// Those of the owner's roles that the approval asks for, sorted; none: a version voted that did not keep them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<String>>,
    /// When.
    pub at: Timestamp,
}

/// One principal's vote in the hands of another, for one event of the current visit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegation {
    /// The event.
    pub event: String,
    /// Which of the event's transitions, by position in the definition.
    pub transition: usize,
    /// Who handed the vote over.
    pub from: String,
    /// Those of the owner's roles that the approval asks for, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Who has it.
    pub to: String,
    /// When.
    pub at: Timestamp,
}

/// Somebody who must agree, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addition {
    /// The event.
    pub event: String,
    /// Which of the event's transitions, by position in the definition.
    pub transition: usize,
    /// Who was added.
    pub id: String,
    /// Who added them.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// What it takes to take a move back: its state is in [`Entered`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Undo {
    /// Who made the move.
    pub actor: String,
    /// Fields that it assigned, as they were before.
    #[serde(default, skip_serializing_if = "Data::is_empty")]
    pub before: Data,
    /// Fields that it assigned and that were not there before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// The path before, where the move has cut something out of it; none: the move has only added the state before to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<String>>,
}
