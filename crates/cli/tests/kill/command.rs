//! What a client sends: every command under a key of its own.

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use crate::support::call::Call;
use crate::world::{COUNTERS, REVIEWS, STOCKS};

/// One command.
pub(crate) struct Command {
    pub(crate) key: String,
    pub(crate) workflow: &'static str,
    /// None: a start whose id the server draws from the key.
    pub(crate) id: Option<String>,
    pub(crate) call: Call,
}

impl Command {
    /// Any command, under `key`.
    pub(crate) fn random(key: String, random: &mut StdRng) -> Self {
        let quantity = json!({ "quantity": random.random_range(1..=3) });
        match random.random_range(0..100) {
            0..35 => Self::event(key, "counter", random.random_range(0..COUNTERS), "count", json!({})),
            35..60 => Self::event(key, "stock", random.random_range(0..STOCKS), "take", quantity),
            60..75 => Self::event(key, "stock", random.random_range(0..STOCKS), "put", quantity),
            75..90 => Self::event(key, "review", random.random_range(0..REVIEWS), "approve", json!({})),
            90..97 => Self::event(key, "review", random.random_range(0..REVIEWS), "reopen", json!({})),
            _ => Self::start(key),
        }
    }

    /// Each command has an actor of its own, so that no vote is one more of the same person.
    fn event(key: String, workflow: &'static str, id: u64, event: &str, data: Value) -> Self {
        let id = id.to_string();
        let body = json!({ "event": event, "actor": key, "data": data });
        let call = Call::send(workflow, &id, &body).key(&key);
        Self { key, workflow, id: Some(id), call }
    }

    fn start(key: String) -> Self {
        let body = json!({ "actor": key, "data": { "n": 0 } });
        Self { call: Call::start("counter", &body).key(&key), key, workflow: "counter", id: None }
    }
}
