//! How commands commit, in words.

use std::time::Duration;

use lockkeeper_model::definition::ConcurrencyOutline;
use serde::Deserialize;

/// How commands commit: of a definition that is here, or as a server tells it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Commits {
    /// The strategy's name.
    pub strategy: String,
    attempts: u32,
    backoff_ms: u64,
    on_locked: Option<String>,
    lock_timeout_ms: Option<u64>,
    escalate_above: Option<String>,
    combine: bool,
    // A server of an earlier version does not tell these.
    #[serde(default)]
    lock_key: Option<String>,
    #[serde(default)]
    on_lock_loss: Option<String>,
}

impl From<ConcurrencyOutline> for Commits {
    fn from(outline: ConcurrencyOutline) -> Self {
        Self {
            strategy: outline.strategy.to_owned(),
            attempts: outline.attempts,
            backoff_ms: outline.backoff_ms,
            on_locked: outline.on_locked.map(str::to_owned),
            lock_timeout_ms: outline.lock_timeout_ms,
            escalate_above: outline.escalate_above,
            combine: outline.combine,
            lock_key: outline.lock_key,
            on_lock_loss: outline.on_lock_loss.map(str::to_owned),
        }
    }
}

impl Commits {
    /// For people.
    pub(crate) fn text(&self) -> String {
        let backoff = Duration::from_millis(self.backoff_ms);
        let mut text = format!("{}, up to {} attempts, backoff from {backoff:?}", self.strategy, self.attempts);
        if let Some(part) = &self.escalate_above {
            text += &format!(", row lock above {part} contended");
        }
        if let Some(lock_key) = &self.lock_key {
            text += &format!(", lease on {lock_key}");
        }
        match (self.lock_timeout_ms, &self.on_locked) {
            (Some(ms), on_locked) => {
                let what = if on_locked.is_some() { "a locked row" } else { "the lease" };
                text += &format!(", waits up to {:?} for {what}", Duration::from_millis(ms));
            }
            (None, Some(on_locked)) => text += &format!(", {on_locked} on a locked row"),
            (None, None) => {}
        }
        match self.on_lock_loss.as_deref() {
            Some("row_lock") => text += ", row lock without the lock service",
            Some(_) => text += ", refused without the lock service",
            None => {}
        }
        if !self.combine {
            text += ", each command by itself";
        }
        text
    }
}
