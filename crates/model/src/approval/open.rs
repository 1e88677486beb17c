//! The approvals of an instance, for people and programs to look at.

use std::sync::LazyLock;

use super::Standing;
use crate::expression::{Scope, cost};
use crate::outcome::Approval;
use crate::{Actor, Data, Definition, Instance, InstanceId};

/// An approval of the state that an instance is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenApproval {
    /// The event.
    pub event: String,
    /// The state that it leads to; none: it stays, or leads back.
    pub target: Option<String>,
    /// The event by which one of those who have a vote ends it.
    pub veto: Option<String>,
    /// How far it is; else why that cannot be told.
    pub approval: Result<Approval, String>,
}

impl Definition {
    /// The approvals of the state in which `instance` is, in the order of the definition; none for a run that has ended.
    pub fn approvals(&self, id: &InstanceId, instance: &Instance) -> Vec<OpenApproval> {
        // What lists of people see holds nobody who sends, and nothing that is sent.
        static NOBODY: LazyLock<Actor> =
            LazyLock::new(|| Actor { id: String::new(), roles: Vec::new(), verified: false, via: None });
        static NO_DATA: LazyLock<Data> = LazyLock::new(Data::new);
        let machine = self.machine();
        let Some(at) = machine.find(&instance.state).filter(|_| !instance.status.is_closed()) else {
            return Vec::new();
        };
        let (data, event, actor) = (&*instance.data, &*NO_DATA, &*NOBODY);
        let scope = Scope { data, event, actor, id: id.as_str(), instance, now: instance.updated_at };
        let approvals = machine.states[at].transitions.iter().filter_map(|transition| {
            let rule = transition.approval.as_ref()?;
            if transition.back.is_some() && machine.ways_back(transition, &instance.path).is_empty() {
                return None;
            }
            cost::begin();
            let standing = Standing::new(transition, rule, instance, &scope);
            Some(OpenApproval {
                event: transition.event.clone(),
                target: transition.target.map(|target| machine.states[target].name.clone()),
                veto: rule.veto.as_ref().map(|veto| veto.event.clone()),
                approval: standing.map(|standing| standing.report(None)).map_err(|refusal| refusal.to_string()),
            })
        });
        approvals.collect()
    }
}
