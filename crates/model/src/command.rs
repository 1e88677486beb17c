//! What is sent to an instance.

use std::collections::BTreeMap;

use serde::Serialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::policy::{ConflictPolicy, ReusePolicy};
use crate::{Actor, Data, Instance, InstanceKey, Status, Timestamp};

/// SHA-256 over a command and its actor: tells a retry from another use of the same idempotency key.
pub type Fingerprint = [u8; 32];

/// One thing that somebody wants done to one instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Which instance it is for.
    pub instance: InstanceKey,
    /// What is to be done.
    pub action: Action,
    /// Who sent it.
    pub actor: Actor,
    /// The idempotency key, if one was given; recorded in the history.
    pub idempotency_key: Option<String>,
}

/// What a command does.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// Begins a run.
    Start(Start),
    /// Sends an event.
    Send(Send),
    /// Ends the run at once: status `terminated`.
    Terminate(Close),
    /// Ends the run on request: status `canceled`.
    Cancel(Close),
    /// Moves the run to another version of its definition.
    Migrate(Migrate),
    /// Does what is due on the instance. No door sends it: the engine does.
    Fire(Fire),
}

/// Begins a run of an id. What is as ever is no part of the fingerprint, so that keys of earlier versions stay good.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Start {
    /// The run to be, chosen at random by the door; no part of the fingerprint, since a retry draws another.
    #[serde(skip)]
    pub run: Uuid,
    /// The first data.
    pub data: Data,
    /// Whether the id may run again after an earlier run.
    #[serde(skip_serializing_if = "ReusePolicy::is_default")]
    pub reuse_policy: ReusePolicy,
    /// What happens while a run has not ended.
    #[serde(skip_serializing_if = "ConflictPolicy::is_default")]
    pub conflict_policy: ConflictPolicy,
    /// Names this start among those of the id: sent again under the same name it begins nothing further, whatever the
    /// policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// How long the run may last, in milliseconds; none: as long as it likes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_timeout_ms: Option<u64>,
}

impl Start {
    /// Whether it would end the run that is going on, to begin another in its place.
    pub fn ends_run(&self, current: Option<&Instance>) -> bool {
        self.conflict_policy == ConflictPolicy::TerminateExisting
            && current.is_some_and(|current| current.status == Status::Running)
    }
}

/// Sends an event, or asks for a target state, under conditions. At least one of `event` and `to` is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Send {
    /// The event's name.
    pub event: Option<String>,
    /// The state to be reached; alone, it must match exactly one transition.
    pub to: Option<String>,
    /// The state that the sender believes the instance to be in.
    pub from: Option<String>,
    /// The version that the sender saw.
    pub expected_version: Option<i64>,
    /// The run that the sender means.
    pub run: Option<Uuid>,
    /// What guards and assigns see as `event`.
    pub data: Data,
    /// Fencing tokens of locks that the sender holds, by the locks' names: the change is written only if none of these
    /// locks has shown a newer one. No part of the fingerprint where there is none, so that keys of earlier versions
    /// stay good.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fences: BTreeMap<String, i64>,
    /// What is done about the event instead of sending it. No part of the fingerprint where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub act: Option<Act>,
}

/// What may be done about an event, short of sending it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Hands the sender's vote to somebody else.
    Delegate {
        /// To whom.
        to: String,
    },
    /// Adds somebody who must agree, too.
    AddApprover {
        /// Whom.
        id: String,
    },
    /// Takes back what the sender did by the event last: the vote, a delegation, an addition, or the move. Without an
    /// event: by whatever event it was, where that is clear.
    Recall,
}

/// Does the first thing that is due on an instance: one timer, or the run's deadline. Nothing is due: nothing is done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fire {
    /// What was due at this time, by the store's clock, is due; whatever the judge's clock says.
    pub until: Timestamp,
}

impl Fire {
    /// Who fires timers, as the history tells it. It has no roles, and no rule asks for its name: whoever else is called
    /// so may do nothing by it, and what they do is no timer's entry.
    pub fn actor() -> Actor {
        Actor { id: "timer".to_owned(), roles: Vec::new(), verified: true, via: None }
    }
}

/// Ends a run from outside the definition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Close {
    /// The run that the sender means; none: the current one.
    pub run: Option<Uuid>,
    /// Why; recorded in the history.
    pub reason: String,
}

/// Moves a run to another version of its definition.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Migrate {
    /// The run that the sender means; none: the current one.
    pub run: Option<Uuid>,
    /// The version to move to; none: the newest.
    pub to_version: Option<i64>,
    /// States of the version that the run is on, and those of the other that take their place. A state that is not named
    /// is the one of its name.
    pub state_map: BTreeMap<String, String>,
    /// Why; recorded in the history.
    pub reason: String,
}

impl Command {
    /// Hash of what the command asks and who asks it. Object keys are hashed in sorted order, so two texts of the same
    /// JSON agree; whether the actor was verified makes no difference.
    pub fn fingerprint(&self) -> Fingerprint {
        let value = serde_json::json!({ "action": &self.action, "actor": &self.actor.id, "roles": &self.actor.roles });
        let mut hasher = Sha256::new();
        hash_canonical(&value, &mut hasher);
        hasher.finalize().into()
    }
}

/// Feeds `value` to the hasher, objects in the order of their keys, each part with its kind and length in front so that
/// no two values feed the same bytes.
fn hash_canonical(value: &serde_json::Value, hasher: &mut Sha256) {
    use serde_json::Value;
    match value {
        Value::Null => hasher.update(b"n"),
        Value::Bool(b) => hasher.update([b'b', u8::from(*b)]),
        Value::Number(n) => hash_text(b'd', &n.to_string(), hasher),
        Value::String(s) => hash_text(b's', s, hasher),
        Value::Array(items) => {
            hasher.update(b"a");
            hasher.update((items.len() as u64).to_le_bytes());
            for item in items {
                hash_canonical(item, hasher);
            }
        }
        Value::Object(map) => {
            hasher.update(b"o");
            hasher.update((map.len() as u64).to_le_bytes());
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            for (name, field) in fields {
                hash_text(b'k', name, hasher);
                hash_canonical(field, hasher);
            }
        }
    }
}

fn hash_text(kind: u8, text: &str, hasher: &mut Sha256) {
    hasher.update([kind]);
    hasher.update((text.len() as u64).to_le_bytes());
    hasher.update(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(data: serde_json::Value, actor: &str) -> Command {
        let serde_json::Value::Object(data) = data else { panic!("not an object") };
        Command {
            instance: InstanceKey::new("stock", "sku-1").unwrap(),
            action: Action::Send(Send { event: Some("take".into()), data, ..Send::default() }),
            actor: Actor::new(actor, [], false).unwrap(),
            idempotency_key: Some("k".into()),
        }
    }

    #[test]
    fn fingerprint_tells_commands_and_actors_apart() {
        let one = send(serde_json::json!({"a": 1, "b": "x"}), "ann");
        assert_eq!(one.fingerprint(), send(serde_json::json!({"b": "x", "a": 1}), "ann").fingerprint());
        assert_ne!(one.fingerprint(), send(serde_json::json!({"a": 1, "b": "y"}), "ann").fingerprint());
        assert_ne!(one.fingerprint(), send(serde_json::json!({"a": 1, "b": "x"}), "bob").fingerprint());
        assert_ne!(one.fingerprint(), send(serde_json::json!({"a": 1.0, "b": "x"}), "ann").fingerprint());
    }

    #[test]
    fn fences_tell_commands_apart() {
        let fenced = |fences: &[(&str, i64)]| {
            let mut command = send(serde_json::json!({}), "ann");
            let Action::Send(send) = &mut command.action else { panic!("no event") };
            send.fences = fences.iter().map(|(name, fence)| ((*name).to_owned(), *fence)).collect();
            command.fingerprint()
        };
        assert_eq!(fenced(&[]), send(serde_json::json!({}), "ann").fingerprint());
        assert_eq!(fenced(&[("a", 1), ("b", 2)]), fenced(&[("b", 2), ("a", 1)]));
        for other in [&[][..], &[("a", 2)], &[("b", 1)], &[("a", 1), ("b", 1)]] {
            assert_ne!(fenced(&[("a", 1)]), fenced(other), "{other:?}");
        }
    }

    #[test]
    fn a_retried_start_draws_another_run_and_keeps_its_fingerprint() {
        let start = |run| Command {
            instance: InstanceKey::new("stock", "sku-1").unwrap(),
            action: Action::Start(Start { run, ..Start::default() }),
            actor: Actor::new("ann", [], false).unwrap(),
            idempotency_key: None,
        };
        assert_eq!(start(Uuid::from_u128(1)).fingerprint(), start(Uuid::from_u128(2)).fingerprint());
    }

    #[test]
    fn a_start_as_ever_keeps_the_fingerprint_that_it_had_before_there_were_policies() {
        let text = |start| serde_json::to_string(&Action::Start(start)).unwrap();
        assert_eq!(text(Start::default()), r#"{"action":"start","data":{}}"#);
        for other in [
            Start { reuse_policy: ReusePolicy::RejectDuplicate, ..Start::default() },
            Start { conflict_policy: ConflictPolicy::UseExisting, ..Start::default() },
            Start { request_id: Some("r".to_owned()), ..Start::default() },
        ] {
            assert_ne!(text(other), text(Start::default()));
        }
    }
}
