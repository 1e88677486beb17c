//! How long a workflow's instances are kept: as its newest definition says, else as this node is told.

use std::time::Duration;

use lockkeeper_model::definition::Keep;
use lockkeeper_model::{Refusal, WorkflowName};

use super::Retention;
use crate::engine::Engine;

/// How long one kind of thing is kept, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptFor {
    /// For so long; none: for ever.
    pub time: Option<Duration>,
    /// The workflow's definition says it, and not this node's settings.
    pub by_definition: bool,
}

/// How long a workflow's instances are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkflowRetention {
    /// Closed instances, after their last change.
    pub closed: KeptFor,
    /// Changes in histories.
    pub history: KeptFor,
}

impl WorkflowRetention {
    /// The times alone.
    pub(super) fn times(self) -> Retention {
        Retention { closed: self.closed.time, history: self.history.time }
    }
}

/// What a definition says goes before what the node is told.
fn kept(said: Option<Keep>, told: Option<Duration>) -> KeptFor {
    match said {
        Some(Keep::For(time)) => KeptFor { time: Some(time), by_definition: true },
        Some(Keep::Forever) => KeptFor { time: None, by_definition: true },
        None => KeptFor { time: told, by_definition: false },
    }
}

impl Engine {
    /// How long the instances of a workflow are kept. The newest version of its definition counts, as the store has it now,
    /// for instances that are on earlier ones too.
    ///
    /// # Errors
    /// `unknown_workflow`, `unavailable`; `invalid_definition` if this node cannot read the newest version.
    pub async fn retention_of(&self, workflow: &WorkflowName) -> Result<WorkflowRetention, Refusal> {
        let definition = self.inner.definitions.newest_now(workflow, &*self.inner.clock).await?;
        let (said, told) = (definition.retention(), self.inner.options.retention);
        Ok(WorkflowRetention { closed: kept(said.closed, told.closed), history: kept(said.history, told.history) })
    }
}
