//! What a node tells of an instance's commits, in sentences.

use std::time::Duration;

use lockkeeper_model::Timestamp;
use serde::Deserialize;

use crate::commands::commits::Commits;

/// The name of the strategy that goes from rung to rung.
const ADAPTIVE: &str = "adaptive";

/// The answer of `explain`. A newer server may say more.
#[derive(Debug, Deserialize)]
pub(crate) struct Explanation {
    node: String,
    at: Timestamp,
    concurrency: Commits,
    #[serde(default)]
    events: Vec<Event>,
    rung: Rung,
    since: Option<Timestamp>,
    score: f64,
    tries: f64,
    contended: f64,
    evidence: f64,
    evidence_for: Option<Rung>,
    waits: Option<Waits>,
    dwell_left_ms: Option<u64>,
    may_come_down_in_ms: Option<u64>,
    #[serde(default)]
    shared_slot: bool,
    #[serde(default)]
    switches: Vec<Switch>,
    warning: Option<Warning>,
}

#[derive(Debug, Deserialize)]
struct Event {
    event: String,
    concurrency: Commits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rung {
    Optimistic,
    RowLock,
    Lease,
}

impl Rung {
    fn words(self) -> &'static str {
        match self {
            Self::Optimistic => "optimistic",
            Self::RowLock => "row lock",
            Self::Lease => "lease",
        }
    }
}

#[derive(Debug, Deserialize)]
struct Waits {
    lock_wait: Wait,
    queue_wait: Wait,
    round_trip: Wait,
    commands_per_try: f64,
}

#[derive(Debug, Deserialize)]
struct Wait {
    mean_ms: f64,
    max_ms: f64,
}

#[derive(Debug, Deserialize)]
struct Switch {
    from: Rung,
    to: Rung,
    at: Timestamp,
    score: f64,
    tries: f64,
    contended: f64,
    escalate_above: f64,
    reason: String,
    dwell_ms: u64,
}

#[derive(Debug, Deserialize)]
struct Warning {
    text: String,
}

impl Explanation {
    /// Names and what is told of each.
    pub(crate) fn lines(&self) -> Vec<(String, String)> {
        let mut lines = vec![
            ("node".to_owned(), self.node.clone()),
            ("rung".to_owned(), self.rung()),
            ("strategy".to_owned(), self.concurrency.text()),
        ];
        lines.extend(self.events.iter().map(|own| (format!("on {}", own.event), own.concurrency.text())));
        lines.push(("lately".to_owned(), self.lately()));
        if self.rung != Rung::Optimistic {
            lines.push(("comes down".to_owned(), self.comes_down()));
        }
        if self.leads_up() {
            lines.push(("goes up".to_owned(), self.goes_up()));
        }
        lines.extend(self.waits.as_ref().map(|waits| ("waits".to_owned(), waits.text(self.rung))));
        if self.shared_slot {
            let text =
                "another instance shares its rung and these counts: a collision of hashes, which costs speed only";
            lines.push(("shared".to_owned(), text.to_owned()));
        }
        lines
    }

    /// Its last changes, oldest first.
    pub(crate) fn switches(&self) -> Vec<String> {
        self.switches.iter().map(Switch::line).collect()
    }

    /// What is said of it if it keeps its workflow waiting.
    pub(crate) fn warning(&self) -> Option<&str> {
        self.warning.as_ref().map(|warning| warning.text.as_str())
    }

    /// The rung, since when, and why.
    fn rung(&self) -> String {
        let own = |own: &Event| own.concurrency.strategy == ADAPTIVE;
        if self.concurrency.strategy != ADAPTIVE && !self.events.iter().any(own) {
            let how = match self.concurrency.strategy.as_str() {
                "pessimistic" => "row lock",
                "distributed" => "lease",
                _ => "optimistic",
            };
            return format!("{how} always, as its definition says");
        }
        let how = self.rung.words();
        let Some(since) = self.since else { return format!("{how} since the node began") };
        let passed = (self.at - since).to_std().unwrap_or_default();
        let text = format!("{how} since {} ({})", time(since), span(passed));
        match self.switches.last().filter(|last| last.to == self.rung) {
            Some(last) => format!("{text}: {}", last.why()),
            None => text,
        }
    }

    fn lately(&self) -> String {
        if self.tries < 0.5 {
            return "no tries".to_owned();
        }
        let text = format!("{}, in about half a minute", shares(self.contended, self.tries, self.score));
        match &self.waits {
            Some(waits) => {
                let commands = short(waits.commands_per_try);
                let noun = if commands == "1" { "command" } else { "commands" };
                format!("{text}; {commands} {noun} a try")
            }
            None => text,
        }
    }

    fn comes_down(&self) -> String {
        let millis = self.may_come_down_in_ms.or(self.dwell_left_ms).unwrap_or(0);
        let mut text = format!("in {}, if nothing more is contended", span(Duration::from_millis(millis)));
        match self.dwell_left_ms {
            Some(dwell @ 1..) => text += &format!("; not before {}", span(Duration::from_millis(dwell))),
            _ if self.evidence > 0.0 && !self.leads_up() => {
                text += &format!("; {} of what that takes is there", percent(self.evidence))
            }
            _ => {}
        }
        text
    }

    /// Whether what has been gathered leads up. A server of an earlier version does not say, and knows two rungs.
    fn leads_up(&self) -> bool {
        match self.evidence_for {
            Some(to) => to > self.rung,
            None => self.rung == Rung::Optimistic && self.evidence > 0.0,
        }
    }

    fn goes_up(&self) -> String {
        format!("when more is contended; {} of what that takes is there", percent(self.evidence))
    }
}

impl Switch {
    fn line(&self) -> String {
        let why = self.why();
        let to = match self.to {
            Rung::Optimistic => "optimistic",
            Rung::RowLock => "the row lock",
            Rung::Lease => "the lease",
        };
        if self.to > self.from {
            let dwell = span(Duration::from_millis(self.dwell_ms));
            format!("{}  up to {to}: {why}; for at least {dwell}", time(self.at))
        } else {
            format!("{}  down to {to}: {why}", time(self.at))
        }
    }

    fn why(&self) -> String {
        let shares = shares(self.contended, self.tries, self.score);
        let counted = self.tries >= 0.5;
        match self.reason.as_str() {
            "score" => format!("{shares}, above {}", percent(self.escalate_above)),
            "exhausted" => "a command had used up its attempts".to_owned(),
            "quiet" if counted => format!("quiet again, {shares}"),
            "quiet" => "quiet again".to_owned(),
            "locks_gone" => "the lock service did not answer".to_owned(),
            other => other.to_owned(),
        }
    }
}

impl Waits {
    fn text(&self, rung: Rung) -> String {
        let wait =
            |name: &str, wait: &Wait| format!("{name} {} ms (at most {} ms)", short(wait.mean_ms), short(wait.max_ms));
        // Nothing at all: no lock was taken.
        let locked = (self.lock_wait.max_ms > 0.0)
            .then(|| wait(if rung == Rung::Lease { "lease" } else { "row lock" }, &self.lock_wait));
        let others = [wait("on this node", &self.queue_wait), wait("commit", &self.round_trip)];
        locked.into_iter().chain(others).collect::<Vec<_>>().join(", ")
    }
}

/// `17 of 20 tries contended (85 %)`.
fn shares(contended: f64, tries: f64, score: f64) -> String {
    format!("{contended:.0} of {tries:.0} tries contended ({})", percent(score))
}

/// `5 %`, `0.5 %`.
fn percent(share: f64) -> String {
    format!("{} %", short(share * 100.0))
}

/// To one decimal, which is left out where it is zero.
fn short(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// To the second, as other tables have it.
fn time(at: Timestamp) -> String {
    at.format("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// About how long: `45 s`, `2 min`, `3 h 5 min`, `2 d 4 h`.
fn span(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn explanation(more: Value) -> Explanation {
        let mut told = json!({
            "node": "alpha:77", "at": "2026-11-29T12:00:00Z", "rung": "optimistic", "score": 0.0, "tries": 0.0,
            "contended": 0.0, "evidence": 0.0,
            "concurrency": {"strategy": "adaptive", "attempts": 3, "backoff_ms": 50, "combine": true},
        });
        told.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(told).unwrap()
    }

    #[test]
    fn nothing_happened_yet() {
        let explanation = explanation(json!({}));
        assert_eq!(explanation.rung(), "optimistic since the node began");
        assert_eq!(explanation.lately(), "no tries");
        assert_eq!(explanation.warning(), None);
    }

    #[test]
    fn a_definition_without_rungs_is_told_so() {
        for (strategy, told) in [("pessimistic", "row lock always"), ("optimistic", "optimistic always")] {
            let commits = json!({"strategy": strategy, "attempts": 1, "backoff_ms": 0, "combine": true});
            let rung = explanation(json!({ "concurrency": commits })).rung();
            assert_eq!(rung, format!("{told}, as its definition says"));
        }
    }

    #[test]
    fn each_reason_is_a_sentence() {
        let switch = |to: &str, reason: &str, tries: f64| {
            let from = if to == "optimistic" { "row_lock" } else { "optimistic" };
            json!({"from": from, "to": to, "at": "2026-11-29T11:59:15.7Z", "score": 0.012, "tries": tries, "contended": 5.0,
                "escalate_above": 0.005, "reason": reason, "dwell_ms": 60_000})
        };
        let of = |to: &str, reason: &str, tries: f64| {
            let switches = [switch(to, reason, tries)];
            explanation(json!({ "rung": to, "since": "2026-11-29T11:59:15.7Z", "switches": switches }))
        };
        for (to, reason, tries, told) in [
            (
                "row_lock",
                "score",
                400.0,
                "row lock since 2026-11-29 11:59:15Z (44 s): 5 of 400 tries contended (1.2 %), above 0.5 %",
            ),
            (
                "row_lock",
                "exhausted",
                3.0,
                "row lock since 2026-11-29 11:59:15Z (44 s): a command had used up its attempts",
            ),
            (
                "optimistic",
                "quiet",
                400.0,
                "optimistic since 2026-11-29 11:59:15Z (44 s): quiet again, 5 of 400 tries contended (1.2 %)",
            ),
            ("optimistic", "quiet", 0.0, "optimistic since 2026-11-29 11:59:15Z (44 s): quiet again"),
        ] {
            assert_eq!(of(to, reason, tries).rung(), told);
        }
        let line = of("row_lock", "exhausted", 3.0).switches().remove(0);
        assert_eq!(
            line,
            "2026-11-29 11:59:15Z  up to the row lock: a command had used up its attempts; for at least 1 min"
        );
    }

    #[test]
    fn coming_down_takes_its_dwell() {
        let told =
            json!({ "rung": "row_lock", "dwell_left_ms": 12_000, "may_come_down_in_ms": 20_000, "evidence": 1.0 });
        assert_eq!(explanation(told).comes_down(), "in 20 s, if nothing more is contended; not before 12 s");
        let told = json!({ "rung": "row_lock", "dwell_left_ms": 0, "may_come_down_in_ms": 0 });
        assert_eq!(explanation(told).comes_down(), "in 0 s, if nothing more is contended");
    }

    #[test]
    fn spans_are_told_in_two_units_at_most() {
        for (seconds, told) in [(0, "0 s"), (59, "59 s"), (125, "2 min"), (3_900, "1 h 5 min"), (187_000, "2 d 3 h")] {
            assert_eq!(span(Duration::from_secs(seconds)), told);
        }
    }
}
