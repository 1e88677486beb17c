//! How an instance's commands commit on this node, and why.

use lockkeeper_model::definition::ConcurrencyOutline;
use lockkeeper_model::{Action, InstanceKey, Refusal, Send};
use serde::Serialize;

use crate::contention::{Explanation, Warning};
use crate::engine::Engine;

/// What a node knows of how the commands of one instance commit. Other nodes may see it otherwise: each judges by what
/// it meets, and all of them are right, since the write's condition holds whatever the strategy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InstanceExplanation {
    /// The instance's version.
    pub version: i64,
    /// The state that it is in.
    pub state: String,
    /// What its definition says, where no transition says otherwise.
    pub concurrency: ConcurrencyOutline,
    /// Events of its state whose transitions say otherwise.
    pub events: Vec<EventConcurrency>,
    /// Its rung on this node, since when and why, rates and waits.
    #[serde(flatten)]
    pub contention: Explanation<InstanceKey>,
    /// It, or another instance, keeps the whole workflow waiting.
    pub warning: Option<Warning>,
}

/// How an event commits that does not as its workflow does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventConcurrency {
    /// The event.
    pub event: String,
    /// How.
    pub concurrency: ConcurrencyOutline,
}

impl Engine {
    /// Explains how commands to an instance commit on this node.
    ///
    /// # Errors
    /// `unknown_workflow`, `unknown_instance`, `unavailable`.
    pub async fn explain(&self, key: &InstanceKey) -> Result<InstanceExplanation, Refusal> {
        let instance = self.instance(key, false).await?;
        let definition = self.inner.definitions.version(&key.workflow, instance.definition_version).await?;
        let moment = self.inner.moment();
        let whole = definition.concurrency();
        let events = definition.open_events(&instance.state).into_iter().filter_map(|event| {
            let send = Send { event: Some(event.to_owned()), ..Send::default() };
            let own = definition.concurrency_of(Some(&instance.state), &Action::Send(send));
            (own != whole).then(|| EventConcurrency { event: event.to_owned(), concurrency: own.outline() })
        });
        Ok(InstanceExplanation {
            version: instance.version,
            state: instance.state.clone(),
            concurrency: whole.outline(),
            events: events.collect(),
            contention: self.inner.contention.explain(key, moment),
            warning: self.inner.hot_keys.warning(key.workflow.as_str(), moment),
        })
    }
}
