//! What a workflow is, and the one judge of its moves.
//!
//! This crate is pure: no I/O, no clock, no async runtime. Everything that a decision depends on is an argument of
//! [`decide()`], so HTTP, CLI, batches and every later door obey the same rules.

pub mod actor;
pub mod command;
pub mod definition;
pub mod duration;
pub mod history;
pub mod import;
pub mod instance;
pub mod limits;
pub mod names;
pub mod outcome;
pub mod policy;

mod approval;
mod decide;
mod expression;
mod pattern;

pub use actor::Actor;
pub use approval::OpenApproval;
pub use command::{Act, Action, Close, Command, Fingerprint, Fire, Migrate, Send, Start};
pub use decide::{Change, Decision, Known, decide};
pub use definition::{Definition, Format, Problem};
pub use history::{Entry, Kind};
pub use instance::{EndedRun, Instance, Status, Timer};
pub use names::{InstanceId, InstanceKey, NameError, WorkflowName};
pub use outcome::{Refusal, Success, SuccessKind};
pub use policy::{ConflictPolicy, ReusePolicy};

/// A point in time, UTC, cut to whole milliseconds wherever it is stored.
pub type Timestamp = chrono::DateTime<chrono::Utc>;

/// A JSON object: the data of an instance, or the data sent with an event.
pub type Data = serde_json::Map<String, serde_json::Value>;
