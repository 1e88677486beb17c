//! A definition as it is judged, laid out for people and programs to look at.

use serde::Serialize;

use super::Definition;
use super::machine::{Machine, State, Transition};

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
}

/// One way on from a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TransitionOutline {
    /// The event.
    pub event: String,
    /// The state it leads to; none: it stays, and the visit goes on.
    pub target: Option<String>,
    /// The guard's text.
    pub guard: Option<String>,
    /// Fields with the texts of their expressions.
    pub assign: Vec<AssignOutline>,
    /// How many must agree, and who may.
    pub approval: Option<ApprovalOutline>,
    /// Who may send the event at all; empty: anybody.
    pub roles: Vec<String>,
}

/// One field that a transition assigns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AssignOutline {
    /// The field of the data.
    pub field: String,
    /// The expression's text.
    pub expression: String,
}

/// How many must agree, and who may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApprovalOutline {
    /// Votes needed.
    pub quorum: usize,
    /// Any of these roles; empty: anybody.
    pub roles: Vec<String>,
}

impl Definition {
    /// Its states, in the order of the text.
    pub fn outline(&self) -> Vec<StateOutline> {
        self.machine.states.iter().map(|state| of_state(&self.machine, state)).collect()
    }
}

fn of_state(machine: &Machine, state: &State) -> StateOutline {
    StateOutline {
        name: state.name.clone(),
        is_final: state.ends_as.is_some(),
        status: state.ends_as.map(|status| status.as_str()),
        transitions: state.transitions.iter().map(|transition| of_transition(machine, transition)).collect(),
    }
}

fn of_transition(machine: &Machine, transition: &Transition) -> TransitionOutline {
    let assign = transition
        .assigns
        .iter()
        .map(|(field, expression)| AssignOutline { field: field.clone(), expression: expression.text().to_owned() });
    let approval = transition.approval.as_ref();
    TransitionOutline {
        event: transition.event.clone(),
        target: transition.target.map(|target| machine.states[target].name.clone()),
        guard: transition.guard.as_ref().map(|guard| guard.text().to_owned()),
        assign: assign.collect(),
        approval: approval.map(|rule| ApprovalOutline { quorum: rule.quorum, roles: rule.roles.clone() }),
        roles: transition.roles.clone(),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Definition, Format};

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
        assert_eq!(ways[3].approval.as_ref().map(|approval| approval.quorum), Some(2));
        assert_eq!((outline[1].is_final, outline[1].status), (true, Some("completed")));
    }
}
