//! Reading a block `concurrency`: the workflow's, or a transition's.

use std::time::Duration;

use super::fields::{Findings, join};
use super::node::{Field, Node, Value};
use super::{Concurrency, LockKey, OnLockLoss, OnLocked, Strategy};
use crate::duration;
use crate::expression::Expression;
use crate::limits::{
    ATTEMPTS_DEFAULT, ATTEMPTS_MAX, BACKOFF_DEFAULT, BACKOFF_MAX, ESCALATE_ABOVE_MAX, LOCK_TIMEOUT_DEFAULT,
    LOCK_TIMEOUT_MAX, LOCK_TIMEOUT_MIN, LOCK_TTL_DEFAULT, LOCK_TTL_MAX, LOCK_TTL_MIN,
};

/// The fields of a transition's block.
const OF_TRANSITION: &[&str] =
    &["preset", "strategy", "attempts", "backoff", "lock_timeout", "on_locked", "lock_key", "lock_ttl", "on_lock_loss"];

/// The fields of the workflow's block: those of a transition's, then those that are one for all of a workflow.
const OF_WORKFLOW: &[&str] = &[
    "preset",
    "strategy",
    "attempts",
    "backoff",
    "lock_timeout",
    "on_locked",
    "lock_key",
    "lock_ttl",
    "on_lock_loss",
    "escalate_above",
    "combine",
];

/// What a block says; none: nothing.
#[derive(Clone, Default)]
struct Said {
    strategy: Option<Strategy>,
    attempts: Option<u32>,
    backoff: Option<Duration>,
    lock_timeout: Option<Duration>,
    on_locked: Option<OnLocked>,
    escalate_above: Option<f64>,
    combine: Option<bool>,
    lock_key: Option<LockKey>,
    lock_ttl: Option<Duration>,
    on_lock_loss: Option<OnLockLoss>,
}

/// A block that says nothing.
const NOTHING: Said = Said {
    strategy: None,
    attempts: None,
    backoff: None,
    lock_timeout: None,
    on_locked: None,
    escalate_above: None,
    combine: None,
    lock_key: None,
    lock_ttl: None,
    on_lock_loss: None,
};

/// `preset: approval`: few who write at once, and a person behind each.
const APPROVAL: Said = Said {
    strategy: Some(Strategy::Optimistic),
    attempts: Some(ATTEMPTS_DEFAULT),
    backoff: Some(BACKOFF_DEFAULT),
    ..NOTHING
};

/// `preset: stock`: many who write at once.
const STOCK: Said = Said {
    strategy: Some(Strategy::Pessimistic),
    lock_timeout: Some(LOCK_TIMEOUT_DEFAULT),
    on_locked: Some(OnLocked::Wait),
    ..NOTHING
};

/// `preset: scheduled`: several nodes that are to do the same thing at the same time, outside of the store too.
const SCHEDULED: Said = Said {
    strategy: Some(Strategy::Distributed),
    lock_timeout: Some(LOCK_TIMEOUT_DEFAULT),
    lock_ttl: Some(LOCK_TTL_DEFAULT),
    on_lock_loss: Some(OnLockLoss::Refuse),
    ..NOTHING
};

impl Said {
    /// What this says, and of the rest what `preset` says.
    fn or(self, preset: Self) -> Self {
        Self {
            strategy: self.strategy.or(preset.strategy),
            attempts: self.attempts.or(preset.attempts),
            backoff: self.backoff.or(preset.backoff),
            lock_timeout: self.lock_timeout.or(preset.lock_timeout),
            on_locked: self.on_locked.or(preset.on_locked),
            escalate_above: self.escalate_above.or(preset.escalate_above),
            combine: self.combine.or(preset.combine),
            lock_key: self.lock_key.or(preset.lock_key),
            lock_ttl: self.lock_ttl.or(preset.lock_ttl),
            on_lock_loss: self.on_lock_loss.or(preset.on_lock_loss),
        }
    }

    /// What this says on top of `base`; what the strategy makes no use of is put to its default.
    fn over(self, base: Concurrency) -> Concurrency {
        let strategy = self.strategy.unwrap_or(base.strategy);
        let on_lock_loss = match strategy == base.strategy {
            true => base.on_lock_loss,
            false => OnLockLoss::default_of(strategy),
        };
        Concurrency {
            strategy,
            attempts: self.attempts.unwrap_or(base.attempts),
            backoff: self.backoff.unwrap_or(base.backoff),
            lock_timeout: self.lock_timeout.unwrap_or(base.lock_timeout),
            on_locked: self.on_locked.unwrap_or(base.on_locked),
            escalate_above: self.escalate_above.unwrap_or(base.escalate_above),
            combine: self.combine.unwrap_or(base.combine),
            lock_key: self.lock_key.or(base.lock_key),
            lock_ttl: self.lock_ttl.unwrap_or(base.lock_ttl),
            on_lock_loss: self.on_lock_loss.unwrap_or(on_lock_loss),
        }
        .fitted()
    }
}

impl Findings<'_> {
    /// The workflow's block; it is read before any transition's.
    pub(super) fn workflow_concurrency(&mut self, node: &Node) {
        (self.concurrency, self.knows_strategy) = self.concurrency_block(node, "concurrency", OF_WORKFLOW);
    }

    /// A transition's block, on top of the workflow's.
    pub(super) fn transition_concurrency(&mut self, node: &Node, path: &str) -> Concurrency {
        self.concurrency_block(node, path, OF_TRANSITION).0
    }

    /// What the block comes to, and whether its strategy is known: not if anything could not be read that may have named
    /// it.
    fn concurrency_block(&mut self, node: &Node, path: &str, known: &[&str]) -> (Concurrency, bool) {
        let (mut said, mut preset) = (Said::default(), None);
        let fields = self.block(node, path, known);
        for field in &fields {
            let (node, path) = (&field.node, join(path, &field.name));
            match field.name.as_str() {
                "preset" => {
                    let known = [("approval", APPROVAL), ("stock", STOCK), ("scheduled", SCHEDULED)];
                    preset = self.choice(node, &path, "preset", &known);
                }
                "strategy" => {
                    let known = Strategy::ALL.map(|strategy| (strategy.as_str(), strategy));
                    said.strategy = self.choice(node, &path, "strategy", &known);
                }
                "attempts" => {
                    let attempts = self.count(node, &path, ATTEMPTS_MAX as usize);
                    said.attempts = attempts.and_then(|attempts| u32::try_from(attempts).ok());
                }
                "backoff" => said.backoff = self.duration(node, &path, (Duration::ZERO, BACKOFF_MAX), "50ms"),
                "lock_timeout" => {
                    said.lock_timeout = self.duration(node, &path, (LOCK_TIMEOUT_MIN, LOCK_TIMEOUT_MAX), "5s");
                }
                "on_locked" => {
                    let known = OnLocked::ALL.map(|on_locked| (on_locked.as_str(), on_locked));
                    said.on_locked = self.choice(node, &path, "value", &known);
                }
                "lock_key" => {
                    let expression = self.expression_by(node, &path, Expression::compile_lock_key);
                    said.lock_key = expression.map(LockKey::new);
                }
                "lock_ttl" => said.lock_ttl = self.duration(node, &path, (LOCK_TTL_MIN, LOCK_TTL_MAX), "30s"),
                "on_lock_loss" => {
                    let known = OnLockLoss::ALL.map(|on_lock_loss| (on_lock_loss.as_str(), on_lock_loss));
                    said.on_lock_loss = self.choice(node, &path, "value", &known);
                }
                "escalate_above" => said.escalate_above = self.part(node, &path, ESCALATE_ABOVE_MAX),
                _ => said.combine = self.bool(node, &path),
            }
        }
        let asked = said.on_locked.unwrap_or_default();
        let preset_known = preset.is_some();
        let strategy_known = said.strategy.is_some();
        let concurrency = said.or(preset.unwrap_or_default()).over(self.concurrency.clone());
        let is_whole = match &node.value {
            Value::Map(all) => all.len() == fields.len(),
            other => *other == Value::Null,
        };
        let has = |name: &str| fields.iter().any(|field| field.name == name);
        let knows_strategy = is_whole
            && match (has("strategy"), has("preset")) {
                (true, _) => strategy_known,
                (false, true) => preset_known,
                (false, false) => self.knows_strategy,
            };
        if knows_strategy {
            let has_key = concurrency.lock_key.is_some() || has("lock_key");
            if concurrency.strategy == Strategy::Distributed && !has_key {
                self.add(
                    node.place,
                    path,
                    "the strategy `distributed` without a `lock_key`: it does not say which lock is to be held",
                    "name the lock by an expression, for example `lock_key: '\"inventory/\" + data.sku'`",
                );
            }
            for field in fields {
                self.check_use(field, &join(path, &field.name), (asked, has_key), &concurrency);
            }
        }
        (concurrency, knows_strategy)
    }

    /// Whether the strategy makes use of what is written; `asked` is what is written as `on_locked`, and whether a lock
    /// is named.
    fn check_use(&mut self, field: &Field, path: &str, asked: (OnLocked, bool), comes_to: &Concurrency) {
        let ((on_locked, has_key), strategy) = (asked, comes_to.strategy);
        let name = field.name.as_str();
        let of_no_use = |why: &str| format!("`{name}` is of no use: here the strategy is {}, {why}", strategy.as_str());
        let (message, remedy) = match (name, strategy) {
            ("lock_timeout", Strategy::Optimistic) => (
                of_no_use("which waits for no lock"),
                "remove it, or write `strategy: pessimistic` or `strategy: adaptive`",
            ),
            ("lock_timeout", Strategy::Pessimistic) if comes_to.on_locked != OnLocked::Wait => {
                let on_locked = comes_to.on_locked.as_str();
                let message = format!("`lock_timeout` is of no use under `on_locked: {on_locked}`: nobody waits");
                self.doubt(field.place, path, message, "remove it, or write `on_locked: wait`");
                return;
            }
            ("on_locked", Strategy::Optimistic) => {
                (of_no_use("which takes no lock"), "remove it, or write `strategy: pessimistic`")
            }
            // That it waits may be said: both do.
            ("on_locked", Strategy::Adaptive | Strategy::Distributed) if on_locked != OnLocked::Wait => (
                format!(
                    "`on_locked: {}` is of no use: here the strategy is {}, which waits for a lock",
                    on_locked.as_str(),
                    strategy.as_str()
                ),
                "remove it, or write `strategy: pessimistic`",
            ),
            ("escalate_above", Strategy::Optimistic | Strategy::Pessimistic | Strategy::Distributed) => {
                (of_no_use("which stays what it is"), "remove it, or write `strategy: adaptive`")
            }
            ("lock_key" | "lock_ttl" | "on_lock_loss", Strategy::Optimistic | Strategy::Pessimistic) => (
                of_no_use("which takes no lease"),
                "remove it, or write `strategy: distributed` or `strategy: adaptive`",
            ),
            ("lock_ttl" | "on_lock_loss", Strategy::Adaptive) if !has_key => (
                format!("`{name}` is of no use: without a `lock_key`, no lease is taken"),
                "remove it, or name the lock with `lock_key`",
            ),
            _ => return,
        };
        self.add(field.place, path, message, remedy);
    }

    /// One of the names of `known`.
    fn choice<T: Clone>(&mut self, node: &Node, path: &str, what: &str, known: &[(&str, T)]) -> Option<T> {
        let name = self.text(node, path)?;
        if let Some((_, found)) = known.iter().find(|(known, _)| *known == name) {
            return Some(found.clone());
        }
        let names = || known.iter().map(|(name, _)| *name);
        let remedy = format!("write {}, or remove the field", either(names()));
        let message = format!("unknown {what} {name:?}{}", super::suggestion::hint(name, names()));
        self.add(node.place, path, message, remedy);
        None
    }

    /// A duration within bounds, both of them allowed.
    fn duration(
        &mut self,
        node: &Node,
        path: &str,
        (least, most): (Duration, Duration),
        example: &str,
    ) -> Option<Duration> {
        let text = self.text(node, path)?;
        let message = match duration::parse(text) {
            Some(found) if found < least => format!("{text} is too short; at least {least:?} is allowed"),
            Some(found) if found > most => format!("{text} is too long; at most {most:?} is allowed"),
            Some(found) => return Some(found),
            None => format!("{text:?} is not a duration"),
        };
        let remedy = format!("write a number with its unit (ms, s, m, h, d), for example `{example}`");
        self.add(node.place, path, message, remedy);
        None
    }

    /// A percentage above 0 and up to `most` of 1, as that part of 1.
    fn part(&mut self, node: &Node, path: &str, most: f64) -> Option<f64> {
        let most_percent = most * 100.0;
        let message = match &node.value {
            Value::Text(text) => match percentage(text) {
                Some(percent) if percent > most_percent => {
                    format!("{text} is too much; at most {most_percent}% is allowed")
                }
                Some(percent) if percent > 0.0 => return Some(percent / 100.0),
                Some(_) => format!("{text} is too little; it must be above 0%"),
                None => format!("{text:?} is not a percentage"),
            },
            other => format!("expected a percentage, found {}", other.kind()),
        };
        self.add(node.place, path, message, "write a number with its sign, for example `5%` or `0.5%`");
        None
    }
}

/// Reads `^\d+(\.\d+)?%$`.
fn percentage(text: &str) -> Option<f64> {
    let number = text.strip_suffix('%')?;
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = match number.split_once('.') {
        Some((whole, rest)) => is_digits(whole) && is_digits(rest),
        None => is_digits(number),
    };
    if is_number { number.parse().ok() } else { None }
}

/// `` `a`, `b` or `c` ``.
fn either<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    let last = names.pop().unwrap_or_default();
    if names.is_empty() { last } else { format!("{} or {last}", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_percentages_and_nothing_else() {
        for (text, expected) in [("5%", 5.0), ("0.5%", 0.5), ("0%", 0.0), ("07.250%", 7.25), ("100%", 100.0)] {
            assert_eq!(percentage(text), Some(expected), "{text}");
        }
        for text in ["", "%", "5", "5 %", ".5%", "5.%", "-5%", "+5%", "5,5%", "5e1%", "1.2.3%", "inf%", "nan%", "٥%"] {
            assert_eq!(percentage(text), None, "{text:?}");
        }
    }

    #[test]
    fn names_are_listed_as_people_do() {
        assert_eq!(either(["a", "b", "c"].into_iter()), "`a`, `b` or `c`");
        assert_eq!(either(["a"].into_iter()), "`a`");
    }
}
