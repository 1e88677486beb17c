//! A block `retention`: how long the past of a workflow's instances is kept, where its definition says so.

use std::time::Duration;

use serde::Serialize;

use super::fields::{Findings, join};
use super::node::{Node, Value};
use super::suggestion::hint;
use crate::duration;
use crate::limits::{RETENTION_MAX, RETENTION_MIN};

/// The word for what is never purged.
const FOREVER: &str = "forever";

/// Other words for it, and what people write who mean it.
const MEANT_FOREVER: [&str; 6] = ["never", "none", "off", "infinite", "always", "unlimited"];

/// For how long something is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// For so long, in whole milliseconds.
    For(Duration),
    /// For ever, whatever the server's setting is.
    Forever,
}

/// What a definition says about how long things are kept; none: as the server is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Closed instances, after their last change.
    pub closed: Option<Keep>,
    /// Changes in histories.
    pub history: Option<Keep>,
}

/// The same as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RetentionOutline {
    /// Closed instances: `90d`, `forever`; none: as the server is told.
    pub closed: Option<String>,
    /// Changes in histories.
    pub history: Option<String>,
}

impl Keep {
    /// As definitions write it.
    pub fn text(self) -> String {
        match self {
            Self::For(time) => duration::write(time),
            Self::Forever => FOREVER.to_owned(),
        }
    }
}

impl Retention {
    /// As it is written; none: nothing is.
    pub fn outline(&self) -> Option<RetentionOutline> {
        if *self == Self::default() {
            return None;
        }
        Some(RetentionOutline { closed: self.closed.map(Keep::text), history: self.history.map(Keep::text) })
    }
}

impl Findings<'_> {
    /// The block `retention`.
    pub(super) fn retention(&mut self, node: &Node) -> Retention {
        let mut retention = Retention::default();
        for field in self.block(node, "retention", &["closed", "history"]) {
            let path = join("retention", &field.name);
            let keep = self.keep(&field.node, &path);
            match field.name.as_str() {
                "closed" => retention.closed = keep,
                _ => retention.history = keep,
            }
        }
        retention
    }

    fn keep(&mut self, node: &Node, path: &str) -> Option<Keep> {
        let message = match &node.value {
            Value::Text(text) if text == FOREVER => return Some(Keep::Forever),
            Value::Text(text) => match duration::parse(text) {
                Some(time) if time < RETENTION_MIN => {
                    format!("{text} is too short; at least {} is allowed", duration::write(RETENTION_MIN))
                }
                Some(time) if time > RETENTION_MAX => {
                    format!("{text} is too long; at most {} is allowed", duration::write(RETENTION_MAX))
                }
                Some(time) => return Some(Keep::For(time)),
                None if MEANT_FOREVER.contains(&text.as_str()) => {
                    format!("{text:?} is not a duration; did you mean {FOREVER:?}?")
                }
                None => format!("{text:?} is not a duration{}", hint(text, [FOREVER])),
            },
            other => format!("expected a duration or `{FOREVER}`, found {}", other.kind()),
        };
        let remedy = "write a number with its unit (h, d), for example `90d`; or `forever`, to keep it whatever the \
                      server is told";
        self.add(node.place, path, message, remedy);
        None
    }
}
