//! Orders the commands that reach an instance, has each judged by [`lockkeeper_model::decide`], and commits them.
//!
//! A command's way: [`Engine::send`] puts it in the queue of its instance ([`combiner`]); whatever waits there is
//! folded in memory ([`batch`]) and committed by one conditional write ([`strategy`]); answers leave after the commit.
//!
//! What follows from that: an answer `applied` is on stable storage; a refusal was decided on current data; a batch is
//! not decided before the outcome of the previous one is known (or its senders' deadlines have passed; then on what the
//! store has).

mod atomic;
mod batch;
mod cache;
mod codec;
mod combiner;
mod contention;
mod definitions;
mod engine;
mod explain;
mod feed;
mod fences;
mod leases;
mod memory;
mod migrations;
mod pending;
mod reads;
mod retention;
mod strategy;
mod timers;
mod watchers;

pub mod clock;
pub mod limits;

pub use atomic::{AtomicAnswer, AtomicFailure};
pub use clock::{Clock, ManualClock, SystemClock};
pub use contention::{Explanation, Reason, Rung, Switch, Wait, Waits, Warning};
pub use definitions::{DefinitionText, PutDefinition};
pub use engine::{Answer, Engine, Options};
pub use explain::{EventConcurrency, InstanceExplanation};
pub use feed::{FeedEvent, FeedListener, FeedNews, parse_cursor};
pub use reads::{HistoryItem, HistoryPage, InstancePage, InstanceQuery, WorkflowPage};
pub use retention::{KeptFor, PurgeQuery, PurgeStep, Purged, Retention, WorkflowRetention};
pub use timers::TimerFigures;
