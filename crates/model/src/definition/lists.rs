//! Lists of transitions, of which the first whose guard holds is taken: what is never taken, as far as the guards tell.

use super::Problem;
use super::reader::DraftTransition;
use crate::expression::Expression;

/// What is doubtful in `transitions`, where those of one event stand side by side.
///
/// Doubts and no problems: a definition that says too much is obeyed as it stands, and was accepted before.
pub(super) fn doubts(transitions: &[DraftTransition]) -> Vec<Problem> {
    transitions.chunk_by(|a, b| a.event == b.event && a.after == b.after).flat_map(doubts_of_list).collect()
}

fn doubts_of_list(list: &[DraftTransition]) -> Vec<Problem> {
    let mut doubts = Vec::new();
    // Past a guard that always holds one word is enough.
    let mut hidden = false;
    for (at, transition) in list.iter().enumerate() {
        let Some(guard) = transition.guard.as_ref().filter(|_| !hidden) else { continue };
        let is_last = at + 1 == list.len();
        match guard.constant() {
            Some(Ok(true)) if !is_last => {
                hidden = true;
                doubts.push(doubt(
                    transition,
                    "its guard always holds, and hides those after it",
                    "correct the guard, or move it to the end of the list",
                ));
            }
            Some(Ok(true)) => {}
            Some(Ok(false)) => {
                let remedy = "correct the guard, or remove the transition";
                doubts.push(doubt(transition, "its guard never holds: it is never taken", remedy));
            }
            // What can yield no truth value is told already.
            Some(Err(detail)) if !detail.starts_with("a guard yields") => {
                let message = format!("every command that comes to its guard is refused: {detail}");
                doubts.push(doubt(transition, &message, "write a condition, for example `data.amount > 0`"));
            }
            Some(Err(_)) => {}
            None => doubts.extend(same_as_before(&list[..at], transition, guard)),
        }
    }
    doubts
}

/// A guard that was tried before has failed before.
fn same_as_before(before: &[DraftTransition], transition: &DraftTransition, guard: &Expression) -> Option<Problem> {
    let is_same = |earlier: &&DraftTransition| earlier.guard.as_ref().is_some_and(|other| other.is_same(guard));
    let earlier = before.iter().find(is_same)?;
    let message = format!("its guard is that of {}: it is never taken", earlier.path);
    Some(doubt(transition, &message, "correct one of the guards, or remove the transition"))
}

fn doubt(transition: &DraftTransition, message: &str, remedy: &str) -> Problem {
    Problem::at(transition.place, &format!("{}.guard", transition.path), message, remedy)
}
