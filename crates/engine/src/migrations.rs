//! What a migration would do, without doing it.

use lockkeeper_model::{Action, Command, Decision, Known, Refusal, Success, decide};

use crate::engine::Engine;

impl Engine {
    /// What a migration would be answered now. Nothing is written, and nothing is promised: the instance may move on.
    ///
    /// # Errors
    /// The refusal that it would meet; `malformed`: the command is no migration.
    pub async fn rehearse(&self, command: &Command) -> Result<Success, Refusal> {
        let Action::Migrate(migrate) = &command.action else {
            return Err(Refusal::Malformed { detail: "only a migration can be rehearsed".to_owned() });
        };
        self.inner.accepts()?;
        let workflow = &command.instance.workflow;
        let (instance, _) = self.read_instance(&command.instance).await?;
        let definitions = &self.inner.definitions;
        let definition = definitions.version(workflow, instance.definition_version).await?;
        if migrate.to_version.is_none() {
            // What this node takes for the newest, nothing is written to prove.
            definitions.forget_newest(workflow);
        }
        let target = match migrate.to_version {
            Some(version) => definitions.version(workflow, version).await?,
            None => definitions.newest(workflow).await?,
        };
        let known = Known { target: Some(&target), ..Known::from(&*definition) };
        match decide(known, Some(&instance), command, self.inner.clock.now())? {
            Decision::Stay(success) => Ok(success),
            Decision::Change(change) => Ok(change.success),
            Decision::Replace { started, .. } => Ok(started.success),
        }
    }
}
