//! The name of the lock under which a command commits, computed from the instance.

use std::sync::{Arc, LazyLock};

use uuid::Uuid;

use super::{Definition, machine::Machine};
use crate::expression::{Expression, Scope, cost};
use crate::instance::{Entered, Status};
use crate::names::check_resource;
use crate::{Action, Command, Data, Instance, Refusal, Timestamp};

/// The expression of a `lock_key`. Two of them are equal if their texts are.
///
/// It sees the `data`, and of the `instance` what does not change with every move: `id`, `state` and `started_by`. It does
/// not see the command (`event`, `actor`): commands on one instance that are decided together then have one lock, and a
/// lock that each sender may choose would keep nobody apart. A start is judged on its own data.
#[derive(Clone, Debug)]
pub struct LockKey(Arc<Expression>);

impl PartialEq for LockKey {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl LockKey {
    pub(super) fn new(expression: Expression) -> Self {
        Self(Arc::new(expression))
    }

    /// The expression as it was written.
    pub fn text(&self) -> &str {
        self.0.text()
    }

    /// The name that it yields, checked.
    fn name(&self, scope: &Scope<'_>) -> Result<String, Refusal> {
        cost::begin();
        let name = match self.0.evaluate(scope) {
            Ok(serde_json::Value::String(name)) => match check_resource(&name) {
                Ok(()) => return Ok(name),
                Err(error) => error.to_string(),
            },
            Ok(_) => "a lock key yields a text".to_owned(),
            Err(detail) => detail,
        };
        Err(Refusal::GuardError { expression: self.text().to_owned(), detail: name })
    }
}

impl Definition {
    /// The name of the lock that `command` is to hold a lease on, if it commits under one: by the instance as it is now,
    /// and for a start by the run as it would begin, unless it [ends a run](crate::Start::ends_run): then by that one, whose lock
    /// may guard work that is under way; so `self` is the definition which that run is on. None: its way to commit has no
    /// `lock_key`, or there is no such instance, so that nothing can be locked. The same arguments always give the same
    /// name.
    ///
    /// # Errors
    /// `guard_error`: the expression has no value, or one that is no lock's name.
    pub fn lock_key(&self, current: Option<&Instance>, command: &Command) -> Result<Option<String>, Refusal> {
        let concurrency = self.concurrency_of(current.map(|instance| instance.state.as_str()), &command.action);
        let Some(key) = &concurrency.lock_key else { return Ok(None) };
        let begun;
        let (instance, data) = match (&command.action, current) {
            (Action::Start(start), current) if !start.ends_run(current) => {
                begun = beginning(&self.machine, command);
                (&begun, &start.data)
            }
            (_, Some(current)) => (current, &*current.data),
            (_, None) => return Ok(None),
        };
        static NO_DATA: LazyLock<Data> = LazyLock::new(Data::new);
        let id = command.instance.id.as_str();
        let scope = Scope { data, event: &NO_DATA, actor: &command.actor, id, instance, now: instance.updated_at };
        key.name(&scope).map(Some)
    }

    /// Whether there are starts that it refuses: by the schema of its data, or where they have no lock.
    pub fn judges_starts(&self) -> bool {
        self.machine.schema().is_some() || self.may_lease()
    }

    /// Whether any of its commands may commit under a lease.
    pub fn may_lease(&self) -> bool {
        self.concurrency.lock_key.is_some() || self.machine.has_lock_keys()
    }
}

/// As much of a run that is to begin as a lock key sees.
fn beginning(machine: &Machine, command: &Command) -> Instance {
    let at = Timestamp::UNIX_EPOCH;
    Instance {
        version: 0,
        run: Uuid::nil(),
        definition_version: 0,
        state: machine.states[machine.initial].name.clone(),
        status: Status::Running,
        data: Arc::default(),
        started_by: command.actor.id.clone(),
        started_at: at,
        updated_at: at,
        entered: Entered { event: None, from: None, decided_on: 0, at: None },
        votes: Vec::new(),
        delegations: Vec::new(),
        additions: Vec::new(),
        path: Vec::new(),
        path_known: true,
        undo: None,
        timers: Vec::new(),
        fired: Vec::new(),
        deadline: None,
        request_id: None,
    }
}
