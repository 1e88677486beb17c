//! What approvals, ways back and recalls ask of the machine around them.

use super::Problem;
use super::approval::{Group, Veto};
use super::checker::{Targets, resolve};
use super::fields::{Findings, join};
use super::reader::{DraftReturn, DraftState, DraftTransition};
use super::suggestion::hint;
use crate::expression::Expression;

/// Checks them; gives what is allowed, but doubtful.
pub(super) fn check(
    states: &[DraftState],
    targets: &Targets,
    names: &[&str],
    findings: &mut Findings<'_>,
) -> Vec<Problem> {
    let mut doubts = Vec::new();
    for (state, targets) in states.iter().zip(targets) {
        for (transition, target) in state.transitions.iter().zip(targets) {
            check_return(transition, names, findings);
            check_recall(transition, target.map(|target| &states[target]), findings);
            if let Some(veto) = transition.approval.as_ref().and_then(|rule| rule.veto.as_ref()) {
                check_veto(state, transition, veto, findings);
            }
            doubts.extend(whose_event(transition));
            if let (Some(_), Some(target)) = (&transition.approval, target) {
                doubts.extend(ways_around(state, targets, transition, *target));
            }
        }
    }
    doubts
}

fn check_return(transition: &DraftTransition, names: &[&str], findings: &mut Findings<'_>) {
    let Some(back) = &transition.back else { return };
    let path = join(&transition.path, "return");
    if transition.target.is_some() {
        findings.add(transition.place, &path, "both `target` and `return`", "keep one of them: it leads to one place");
    }
    if let DraftReturn::To(targets) = back {
        for target in targets {
            resolve(target, names, findings);
        }
    }
    // Votes do not say where to: those for one state would count for another.
    if transition.approval.is_some() && !matches!(back, DraftReturn::Previous) {
        let message = "an approval of a return to one of several states";
        findings.add(transition.place, &path, message, "write `return: previous`, or a `target`");
    }
}

fn check_recall(transition: &DraftTransition, target: Option<&DraftState>, findings: &mut Findings<'_>) {
    if !transition.recall {
        return;
    }
    let path = join(&transition.path, "recall");
    if transition.target.is_none() && transition.back.is_none() {
        let remedy = "remove `recall`, or write an event that undoes it";
        findings.add(transition.place, &path, "only a move to a state can be taken back, and this one stays", remedy);
    }
    if target.is_some_and(|target| target.ends_as.is_some()) {
        let remedy = "remove `recall`, or let the event lead to a state in which the run waits for a last event";
        findings.add(transition.place, &path, "a run that has ended does not go back", remedy);
    }
}

fn check_veto(state: &DraftState, transition: &DraftTransition, veto: &Veto, findings: &mut Findings<'_>) {
    let path = join(&join(&transition.path, "approval"), "veto");
    let ways: Vec<_> = state.transitions.iter().filter(|way| way.event == veto.event).collect();
    if veto.event == transition.event {
        let remedy = "name another event of the state, for example `veto: reject`";
        findings.add(transition.place, &path, "the veto is the event itself", remedy);
    } else if ways.is_empty() {
        let known = state.transitions.iter().map(|way| way.event.as_str());
        let message =
            format!("state {:?} has no event {:?}{}", state.name, veto.event, hint(&veto.event, known.clone()));
        let known = known.collect::<Vec<_>>().join(", ");
        findings.add(transition.place, &path, message, format!("write one of the state's events: {known}"));
    } else if ways.iter().any(|way| way.approval.is_some()) {
        let message = format!("the event {:?} needs an approval itself, so one no does not end it", veto.event);
        findings.add(transition.place, &path, message, "remove one of the two");
    }
}

/// Ways from the same state to the same target that ask nobody: whoever takes one has passed the approval by.
fn ways_around(
    state: &DraftState,
    targets: &[Option<usize>],
    approved: &DraftTransition,
    target: usize,
) -> Vec<Problem> {
    let asks_nobody = |way: &DraftTransition| {
        way.after.is_none() && way.approval.is_none() && !way.is_guarded && way.roles.is_empty()
    };
    let ways = state.transitions.iter().zip(targets);
    ways.filter(|(way, to)| **to == Some(target) && asks_nobody(way))
        .map(|(way, _)| {
            let name = &approved.target.as_ref().map(|target| target.name.clone()).unwrap_or_default();
            let message = format!(
                "the event {:?} leads to {name:?} too, for everybody: it passes by the approval of {:?}",
                way.event, approved.event
            );
            let remedy = "give it an approval, `roles` or a guard of its own, or lead it elsewhere";
            Problem::at(way.place, &way.path, message, remedy)
        })
        .collect()
}

/// Where several people send an event, `event` is what one of them has sent: not what a reader thinks of first.
fn whose_event(transition: &DraftTransition) -> Vec<Problem> {
    let Some(rule) = &transition.approval else { return Vec::new() };
    let needed: Option<usize> = rule.groups.iter().map(Group::known_quorum).sum();
    // Where one vote is the move, there is but one sender.
    if needed == Some(1) && rule.adding.is_none() {
        return Vec::new();
    }
    let doubt = |field: &str, message: &str, remedy: &str| {
        Problem::at(transition.place, &join(&transition.path, field), message, remedy)
    };
    let mut doubts = Vec::new();
    if transition.guard.as_ref().is_some_and(Expression::sees_event) {
        doubts.push(doubt(
            "guard",
            "it is asked for each vote, on the `event` of who casts it: one may agree to what another has not seen",
            "keep in the data what is voted on, and let the guard look at `data`",
        ));
    }
    if let Some((field, _)) = transition.assigns.iter().find(|(_, value)| value.sees_event()) {
        doubts.push(doubt(
            &join("assign", field),
            "`event` is what the last voter sends: those who voted before have not seen it",
            "let the event that leads here assign it, so that all vote on the same, or let another event follow",
        ));
    }
    doubts
}
