//! What can only be judged on the whole machine: names that resolve, states that are reached and left again.

use std::collections::HashMap;

use super::fields::Findings;
use super::machine::{Machine, Return, State, Transition};
use super::reader::{Draft, DraftReturn, DraftState, DraftTransition, Target};
use super::suggestion::hint;
use super::{Definition, Problem, approval_checks as approvals};
use crate::limits::{STATES_MAX, TRANSITIONS_MAX};

/// Checks the draft as a whole; `problems` are those of its parts.
pub(super) fn check(draft: Draft, problems: Vec<Problem>) -> Result<Definition, Vec<Problem>> {
    let mut findings = Findings::new("", problems);
    check_sizes(&draft, &mut findings);
    let names: Vec<&str> = draft.states.iter().map(|s| s.name.as_str()).collect();
    let initial = draft.initial.as_ref().and_then(|target| resolve(target, &names, &mut findings));
    let targets = resolve_targets(&draft.states, &names, &mut findings);
    for state in &draft.states {
        check_lists(state, &mut findings);
    }
    let passed_by = approvals::check(&draft.states, &targets, &names, &mut findings);
    if draft.is_whole {
        check_dead_ends(&draft.states, &mut findings);
    }
    // Reachability is only told where every name is known: one typing error would else be reported twice.
    let resolved = draft.states.iter().zip(&targets).all(|(state, targets)| {
        state
            .transitions
            .iter()
            .zip(targets)
            .all(|(transition, target)| transition.target.is_some() == target.is_some())
    });
    if let (Some(initial), true) = (initial, resolved && draft.is_whole) {
        check_reachable(&draft.states, &targets, initial, &mut findings);
    }
    let mut problems = findings.problems;
    problems.sort_by_key(|p| (p.line, p.column));
    let (Some(initial), Some(workflow), true) = (initial, draft.workflow, problems.is_empty()) else {
        return Err(problems);
    };
    let doubts = draft.doubts.into_iter().chain(passed_by).collect();
    let warnings = warnings(doubts, &draft.states, &targets);
    let by_name: HashMap<String, usize> = names.iter().enumerate().map(|(at, name)| ((*name).to_owned(), at)).collect();
    let find = |name: &str| by_name.get(name).copied();
    let states = draft.states.into_iter().zip(targets).map(|(state, targets)| compile(state, targets, &find)).collect();
    Ok(Definition {
        workflow,
        version: 0,
        concurrency: draft.concurrency,
        retention: draft.retention,
        warnings,
        machine: Machine::new(initial, states).with_schema(draft.schema),
    })
}

/// The targets of each state's transitions, by position; none where there is none, or it is not known.
pub(super) type Targets = Vec<Vec<Option<usize>>>;

fn check_sizes(draft: &Draft, findings: &mut Findings<'_>) {
    let states = draft.states.len();
    let transitions = draft.transitions;
    if states > STATES_MAX {
        let message = format!("there are {states} states; at most {STATES_MAX} are allowed");
        findings.add(draft.states_place, "states", message, "split the workflow into several");
    }
    if transitions > TRANSITIONS_MAX {
        let message = format!("there are {transitions} transitions; at most {TRANSITIONS_MAX} are allowed");
        findings.add(draft.states_place, "states", message, "split the workflow into several");
    }
    if states == 0 && findings.problems.is_empty() {
        findings.add(draft.states_place, "states", "there are no states", "write at least one");
    }
}

pub(super) fn resolve(target: &Target, names: &[&str], findings: &mut Findings<'_>) -> Option<usize> {
    let found = names.iter().position(|name| *name == target.name);
    if found.is_none() {
        const SHOWN: usize = 10;
        let message = format!("there is no state {:?}{}", target.name, hint(&target.name, names.iter().copied()));
        let more = if names.len() > SHOWN { " …" } else { "" };
        let known = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
        findings.add(target.place, &target.path, message, format!("write one of the states: {known}{more}"));
    }
    found
}

fn resolve_targets(states: &[DraftState], names: &[&str], findings: &mut Findings<'_>) -> Targets {
    let by_name: HashMap<&str, usize> = names.iter().enumerate().map(|(at, n)| (*n, at)).collect();
    let mut find = |target: &Target| match by_name.get(target.name.as_str()) {
        Some(at) => Some(*at),
        None => resolve(target, names, findings),
    };
    states.iter().map(|s| s.transitions.iter().map(|t| t.target.as_ref().and_then(&mut find)).collect()).collect()
}

/// In a list, the first whose guard holds is taken: one without a guard hides all that follow.
fn check_lists(state: &DraftState, findings: &mut Findings<'_>) {
    for pair in state.transitions.windows(2) {
        if pair[0].event == pair[1].event && pair[0].after == pair[1].after && !pair[0].is_guarded {
            findings.add(
                pair[0].place,
                &pair[0].path,
                "without a guard it is always taken, and hides those after it",
                "give it a guard, or move it to the end of the list",
            );
        }
    }
}

fn check_dead_ends(states: &[DraftState], findings: &mut Findings<'_>) {
    for state in states {
        if state.ends_as.is_none() && state.transitions.is_empty() {
            findings.add(
                state.place,
                &state.path,
                format!("nothing leads on from state {:?}, and it is not final", state.name),
                "add `on` with an event, `after` with a time, or `type: final`",
            );
        }
    }
}

fn check_reachable(states: &[DraftState], targets: &Targets, initial: usize, findings: &mut Findings<'_>) {
    let mut reached = vec![false; states.len()];
    let mut open = vec![initial];
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut reached[at], true) {
            open.extend(targets[at].iter().flatten());
        }
    }
    for (state, _) in states.iter().zip(reached).filter(|(_, reached)| !reached) {
        let message =
            format!("state {:?} cannot be reached from the initial state {:?}", state.name, states[initial].name);
        findings.add(state.place, &state.path, message, "let an event lead to it, or remove it");
    }
}

/// What is allowed, but likely to surprise: the doubts of the parts, and those of the whole.
fn warnings(doubts: Vec<Problem>, states: &[DraftState], targets: &Targets) -> Vec<Problem> {
    let mut entering: Vec<Vec<&str>> = vec![Vec::new(); states.len()];
    for (from, (state, targets)) in states.iter().zip(targets).enumerate() {
        for (transition, target) in state.transitions.iter().zip(targets).filter(|(way, _)| way.after.is_none()) {
            if let Some(target) = target.filter(|target| *target != from) {
                entering[target].push(&transition.event);
            }
        }
    }
    let mut warnings = doubts;
    for (at, (state, targets)) in states.iter().zip(targets).enumerate() {
        let leads_on = |target: &Option<usize>| target.is_some_and(|target| target != at);
        for (transition, _) in state.transitions.iter().zip(targets).filter(|(_, target)| leads_on(target)) {
            if transition.after.is_none() && entering[at].contains(&transition.event.as_str()) {
                warnings.push(two_stages(state, transition));
            }
        }
        warnings.extend(super::lists::doubts(&state.transitions));
        let leads_back = || state.transitions.iter().any(|transition| transition.back.is_some());
        if state.ends_as.is_none() && !targets.iter().any(leads_on) && !leads_back() {
            warnings.push(Problem::at(
                state.place,
                &state.path,
                format!("no event leads from state {:?} to another state", state.name),
                "runs that reach it end only by `terminate` or `cancel`; let an event lead to a final state if they should end",
            ));
        }
    }
    warnings.sort_by_key(|p| (p.line, p.column));
    warnings.dedup();
    warnings
}

fn two_stages(state: &DraftState, transition: &DraftTransition) -> Problem {
    let (event, state) = (&transition.event, &state.name);
    Problem::at(
        transition.place,
        &transition.path,
        format!(
            "the event {event:?} leads to state {state:?} and on from it: two people sending it at once would advance two stages"
        ),
        "commands with this event need `from` or `expected_version`, else they are refused as ambiguous; or name the second event differently",
    )
}

fn compile(state: DraftState, targets: Vec<Option<usize>>, find: &impl Fn(&str) -> Option<usize>) -> State {
    let mut compiled = State { name: state.name, ends_as: state.ends_as, transitions: Vec::new(), after: Vec::new() };
    for (draft, target) in state.transitions.into_iter().zip(targets) {
        let delay = draft.after;
        let transition = Transition {
            event: draft.event,
            position: draft.position,
            target,
            back: draft.back.map(|back| match back {
                DraftReturn::Previous => Return::Previous,
                DraftReturn::Any => Return::Any,
                DraftReturn::To(targets) => {
                    Return::To(targets.iter().filter_map(|target| find(&target.name)).collect())
                }
            }),
            recall: draft.recall,
            guard: draft.guard,
            assigns: draft.assigns,
            approval: draft.approval,
            roles: draft.roles,
            concurrency: draft.concurrency,
            // Told once all transitions of the state are known.
            is_chosen_by_data: false,
        };
        match delay {
            None => compiled.transitions.push(transition),
            Some(delay) => compiled.add_way(delay, transition),
        }
    }
    compiled
}
