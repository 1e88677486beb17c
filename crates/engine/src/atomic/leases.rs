//! The leases of moves that happen together: those that their definitions ask for by `strategy: distributed`. To the others a
//! lease is a matter of speed, and one for many instances has none.

use std::time::Duration;

use lockkeeper_model::definition::{OnLockLoss, Strategy};
use lockkeeper_model::{Command, Definition, Instance, Refusal};
use lockkeeper_store::Fence;
use tokio::time::Instant;

use super::{AtomicFailure, Request, failed};
use crate::fences;
use crate::leases::{Leased, NotLeased};

/// What the moves need together.
struct Needed {
    resources: Vec<String>,
    ttl: Duration,
    wait: Duration,
    /// The first move that is refused where the lock service is gone.
    refuses: Option<usize>,
}

impl Request {
    /// The lease on all locks that the moves need, as far as is known before anything is decided.
    pub(super) async fn lease(&mut self) -> Result<Leased, AtomicFailure> {
        let needed = self.needed_locks().await;
        if needed.resources.is_empty() {
            return Ok(Leased::default());
        }
        let gone = match &self.inner.leases {
            Some(leases) => {
                let until = self.deadline.min(Instant::now() + needed.wait);
                match leases.lease_all(&needed.resources, needed.ttl, until).await {
                    Ok(leased) => return Ok(leased),
                    Err(NotLeased::Refused(refusal)) => return Err(refusal.into()),
                    Err(NotLeased::Gone(why)) => why,
                }
            }
            None => "this node has no lock service".to_owned(),
        };
        match needed.refuses {
            Some(index) => Err(failed(
                index,
                Refusal::Unavailable {
                    detail: format!(
                        "{gone}, and a definition asks for a lease (`on_lock_loss: refuse`); nothing was written"
                    ),
                },
            )),
            None => {
                self.locks_gone = true;
                Ok(Leased::default())
            }
        }
    }

    async fn needed_locks(&self) -> Needed {
        let mut needed = Needed { resources: Vec::new(), ttl: Duration::ZERO, wait: Duration::MAX, refuses: None };
        for (index, command) in self.commands.iter().enumerate() {
            let key = &command.instance;
            // What cannot be read now is told when it is decided.
            let Ok((instance, _)) = self.snapshot(key).await else { continue };
            let definition = self.inner.definitions.version(&key.workflow, instance.definition_version).await;
            let Ok(definition) = definition else { continue };
            let Ok(Some(resource)) = self.needed_lock(&definition, &instance, command) else { continue };
            let own = definition.concurrency_of(Some(&instance.state), &command.action);
            needed.resources.push(resource);
            needed.ttl = needed.ttl.max(own.lock_ttl);
            needed.wait = needed.wait.min(own.lock_timeout);
            if own.on_lock_loss == OnLockLoss::Refuse {
                needed.refuses.get_or_insert(index);
            }
        }
        needed
    }

    /// The lock that a move needs, if its sender does not hold it.
    pub(super) fn needed_lock(
        &self,
        definition: &Definition,
        instance: &Instance,
        command: &Command,
    ) -> Result<Option<String>, Refusal> {
        if !definition.may_lease() {
            return Ok(None);
        }
        let own = definition.concurrency_of(Some(&instance.state), &command.action);
        let without = self.locks_gone && own.on_lock_loss == OnLockLoss::RowLock;
        if own.strategy != Strategy::Distributed || without {
            return Ok(None);
        }
        let resource = definition.lock_key(Some(instance), command)?;
        Ok(resource.filter(|resource| !fences::gives(command, resource)))
    }

    /// The fences of a move: its sender's, and that of the lock that it needs.
    pub(super) fn fences(&self, command: &Command, needed: Option<&str>) -> Vec<Fence> {
        let leased = needed.and_then(|resource| self.leased.fence(resource).map(|fence| (resource, fence)));
        fences::given(command).chain(leased).map(|(resource, fence)| Fence::new(resource, fence)).collect()
    }
}
