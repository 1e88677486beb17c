//! A definition as it is judged, laid out for people and programs to look at.

use std::time::Duration;

use serde::Serialize;

use super::approval::{ApprovalOutline, ApprovalRule};
use super::machine::{Return, State, Transition};
use super::{Concurrency, Definition, OnLocked, Strategy};

/// One state, with the ways on from it in the order in which they are tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StateOutline {
    /// Its name.
    pub name: String,
    /// Whether a run ends here.
    #[serde(rename = "final")]
    pub is_final: bool,
    /// The status of a run that ends here.
    pub status: Option<&'static str>,
    /// The ways on.
    pub transitions: Vec<TransitionOutline>,
    /// What happens by itself when a visit has lasted for so long, in the order of the text: `event` is the time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<TransitionOutline>,
}

/// One way on from a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TransitionOutline {
    /// The event; of what happens by itself, the time: `72h`.
    pub event: String,
    /// The state it leads to; none: it stays, and the visit goes on, unless it returns.
    pub target: Option<String>,
    /// The earlier states to which it leads back: `previous`, `any`, or their names; none: it does not.
    #[serde(rename = "return", skip_serializing_if = "Option::is_none")]
    pub back: Option<String>,
    /// Whether its sender may take it back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recall: bool,
    /// The guard's text.
    pub guard: Option<String>,
    /// Fields with the texts of their expressions.
    pub assign: Vec<AssignOutline>,
    /// How many must agree, and who may.
    pub approval: Option<ApprovalOutline>,
    /// Who may send the event at all; empty: anybody.
    pub roles: Vec<String>,
    /// How it commits; none: as the workflow says.
    pub concurrency: Option<ConcurrencyOutline>,
}

/// How commands commit, as far as the strategy makes use of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConcurrencyOutline {
    /// The strategy's name.
    pub strategy: &'static str,
    /// Attempts of one command.
    pub attempts: u32,
    /// The first backoff in milliseconds.
    pub backoff_ms: u64,
    /// What is done about a row that is locked by somebody else; none: no row is locked.
    pub on_locked: Option<&'static str>,
    /// The longest wait for such a row, or for a lease, in milliseconds; none: nobody waits.
    pub lock_timeout_ms: Option<u64>,
    /// The part of contended commands above which the row is locked, as it is written: `5%`; none: it plays no part.
    pub escalate_above: Option<String>,
    /// Whether commands that wait for the same instance commit together.
    pub combine: bool,
    /// The text of the expression that names the lock; none: no leases are taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock_key: Option<String>,
    /// How long a lease lives without being renewed, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock_ttl_ms: Option<u64>,
    /// What is done while the lock service is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_lock_loss: Option<&'static str>,
}

/// One field that a transition assigns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AssignOutline {
    /// The field of the data.
    pub field: String,
    /// The expression's text.
    pub expression: String,
}

impl Definition {
    /// Its states, in the order of the text.
    pub fn outline(&self) -> Vec<StateOutline> {
        self.machine.states.iter().map(|state| self.outline_of_state(state)).collect()
    }

    fn outline_of_state(&self, state: &State) -> StateOutline {
        StateOutline {
            name: state.name.clone(),
            is_final: state.ends_as.is_some(),
            status: state.ends_as.map(|status| status.as_str()),
            transitions: state.transitions.iter().map(|transition| self.outline_of_transition(transition)).collect(),
            after: state
                .after
                .iter()
                .flat_map(|after| &after.ways)
                .map(|way| self.outline_of_transition(way))
                .collect(),
        }
    }

    fn outline_of_transition(&self, transition: &Transition) -> TransitionOutline {
        let assign = transition.assigns.iter().map(|(field, expression)| AssignOutline {
            field: field.clone(),
            expression: expression.text().to_owned(),
        });
        let names = |places: &[usize]| {
            places.iter().map(|at| self.machine.states[*at].name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let back = transition.back.as_ref().map(|back| match back {
            Return::Previous => "previous".to_owned(),
            Return::Any => "any".to_owned(),
            Return::To(places) => names(places),
        });
        let concurrency = Some(&transition.concurrency).filter(|own| **own != self.concurrency);
        TransitionOutline {
            event: transition.event.clone(),
            target: transition.target.map(|target| self.machine.states[target].name.clone()),
            guard: transition.guard.as_ref().map(|guard| guard.text().to_owned()),
            assign: assign.collect(),
            back,
            recall: transition.recall,
            approval: transition.approval.as_ref().map(ApprovalRule::outline),
            roles: transition.roles.clone(),
            concurrency: concurrency.map(|own| own.outline()),
        }
    }
}

impl Concurrency {
    /// The same for people and programs to look at.
    pub fn outline(&self) -> ConcurrencyOutline {
        let locks = matches!(self.strategy, Strategy::Pessimistic | Strategy::Adaptive);
        let waits = self.strategy != Strategy::Optimistic && self.on_locked == OnLocked::Wait;
        let escalates = self.strategy == Strategy::Adaptive;
        ConcurrencyOutline {
            strategy: self.strategy.as_str(),
            attempts: self.attempts,
            backoff_ms: in_ms(self.backoff),
            on_locked: locks.then(|| self.on_locked.as_str()),
            lock_timeout_ms: waits.then(|| in_ms(self.lock_timeout)),
            escalate_above: escalates.then(|| percent(self.escalate_above)),
            combine: self.combine,
            lock_key: self.lock_key.as_ref().map(|key| key.text().to_owned()),
            lock_ttl_ms: self.lock_key.as_ref().map(|_| in_ms(self.lock_ttl)),
            on_lock_loss: self.lock_key.as_ref().map(|_| self.on_lock_loss.as_str()),
        }
    }
}

fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A part of 1 as a percentage; to a millionth of a percent, which hides what binary fractions add.
fn percent(part: f64) -> String {
    format!("{}%", (part * 1e8).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    #[test]
    fn states_and_ways_stay_in_the_order_of_the_text() {
        let text = "workflow: w\ninitial: z\nstates:\n  z: {on: {go: a, b: [{guard: 'true', target: a}, {}], \
                    c: {assign: {y: 1}, approval: {quorum: 2, roles: [x]}}}}\n  a: {type: final}\n";
        let outline = Definition::read(text, Format::Yaml).expect("a definition").outline();
        assert_eq!(outline.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), ["z", "a"]);
        let ways = &outline[0].transitions;
        assert_eq!(ways.iter().map(|way| way.event.as_str()).collect::<Vec<_>>(), ["go", "b", "b", "c"]);
        assert_eq!((ways[0].target.as_deref(), ways[2].target.as_deref()), (Some("a"), None));
        assert_eq!((ways[1].guard.as_deref(), ways[3].assign[0].expression.as_str()), (Some("true"), "1"));
        assert_eq!(ways[3].approval.as_ref().and_then(|approval| approval.quorum), Some(2));
        assert!(ways.iter().all(|way| way.concurrency.is_none()));
        assert_eq!((outline[1].is_final, outline[1].status), (true, Some("completed")));
    }

    #[test]
    fn what_the_strategy_makes_no_use_of_is_left_out() {
        let text = "{workflow: w, initial: a, concurrency: {escalate_above: 0.7%}, states: {a: {on: {
            same: {target: z, concurrency: {attempts: 3}}, bare: {target: z, concurrency: {strategy: optimistic}},
            now: {target: z, concurrency: {strategy: pessimistic, on_locked: nowait}},
            wait: {target: z, concurrency: {preset: stock, lock_timeout: 2s}}}}, z: {type: final}}}";
        let definition = Definition::read(text, Format::Yaml).expect("a definition");
        let of = |outline: ConcurrencyOutline| {
            (outline.strategy, outline.on_locked, outline.lock_timeout_ms, outline.escalate_above)
        };
        let expected = ("adaptive", Some("wait"), Some(5_000), Some("0.7%".to_owned()));
        assert_eq!(of(definition.concurrency().outline()), expected);
        let ways = definition.outline().swap_remove(0).transitions;
        let own: Vec<_> = ways.into_iter().map(|way| way.concurrency.map(of)).collect();
        assert_eq!(
            own,
            [
                None,
                Some(("optimistic", None, None, None)),
                Some(("pessimistic", Some("nowait"), None, None)),
                Some(("pessimistic", Some("wait"), Some(2_000), None)),
            ]
        );
        let percents = [0.05, 0.07, 0.005, 0.29, 0.5, 0.000_1].map(percent);
        assert_eq!(percents, ["5%", "7%", "0.5%", "29%", "50%", "0.01%"]);
    }
}
