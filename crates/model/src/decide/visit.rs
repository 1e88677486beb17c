//! Entering states: forward, back to where the run has been, and back to where the last move came from.

use std::sync::Arc;

use super::send::Judged;
use super::{Change, Decision, success};
use crate::definition::machine::Transition;
use crate::instance::{Entered, Instance, Undo};
use crate::outcome::{ActReason, SuccessKind};
use crate::{Entry, Kind, Refusal};

impl Judged<'_> {
    /// Begins a visit of the state at `target`. Votes and what else belonged to the last one are gone, also if it is the
    /// same state.
    pub(super) fn enter(&self, instance: &mut Instance, target: usize, event: Option<&str>) {
        super::enter(instance, self.machine, target, self.now);
        let event = event.map(str::to_owned);
        let (from, decided_on) = (Some(self.current.state.clone()), self.current.version);
        instance.entered = Entered { event, from, decided_on, at: Some(self.now) };
    }

    /// The states to which `transition` may lead back now, the last one first; none for one that leads forward.
    pub(super) fn way_back(&self, transition: &Transition) -> Vec<usize> {
        self.machine.ways_back(transition, &self.current.path)
    }

    /// Where `transition` leads; none: it stays.
    ///
    /// # Errors
    /// It leads back, and it is not clear where to, or the run has been nowhere before.
    pub(super) fn destination(&self, transition: &Transition) -> Result<Option<usize>, Refusal> {
        if transition.back.is_none() {
            return Ok(transition.target);
        }
        let name = |at: usize| self.machine.states[at].name.as_str();
        let passed = self.way_back(transition);
        let meant = |at: &usize| self.send.to.as_ref().is_none_or(|to| name(*at) == to);
        let event = &transition.event;
        match passed.iter().copied().filter(meant).collect::<Vec<_>>().as_slice() {
            [target] => Ok(Some(*target)),
            [] => {
                let detail = format!("{event:?} leads back to a state that the run has passed, and there is none");
                Err(Refusal::ActRefused { reason: ActReason::NotAllowed, detail })
            }
            several => {
                let names = several.iter().map(|at| name(*at)).collect::<Vec<_>>().join(", ");
                let detail = format!("{event:?} may lead back to several states: name one in `to`: {names}");
                Err(Refusal::AmbiguousTarget { detail, events: vec![event.clone()] })
            }
        }
    }

    /// What it takes to take `transition` back, which has led to `after`.
    pub(super) fn undo(&self, transition: &Transition, after: &Instance) -> Undo {
        let (before, absent) = (crate::Data::new(), Vec::new());
        let path = &self.current.path;
        let path = (shorter(&after.path, &self.current.state) != path).then(|| path.clone());
        let mut undo = Undo { actor: self.command.actor.id.clone(), before, absent, path };
        for (field, _) in &transition.assigns {
            match self.current.data.get(field) {
                Some(value) => drop(undo.before.insert(field.clone(), value.clone())),
                None => undo.absent.push(field.clone()),
            }
        }
        undo
    }

    /// What it takes to take the last move back, if nothing has happened since, by whichever way.
    pub(super) fn undoable(&self) -> Option<&Undo> {
        let visit_began = self.current.entered.decided_on.checked_add(1);
        self.current.undo.as_deref().filter(|_| visit_began == Some(self.current.version))
    }

    /// Takes the last move back: the state before is entered anew, with the data before.
    ///
    /// # Errors
    /// It was somebody else's, something has happened since, or its transition does not allow it.
    pub(super) fn recall_move(&self, event: &str) -> Result<Decision, Refusal> {
        let refuse = |reason, detail: String| Err(Refusal::ActRefused { reason, detail });
        let (current, actor) = (self.current, &self.command.actor.id);
        let origin = current.entered.from.as_ref().and_then(|from| self.machine.find(from));
        let Some(origin) = origin.filter(|_| current.entered.event.as_deref() == Some(event)) else {
            return refuse(
                ActReason::NothingToRecall,
                format!("{actor:?} has done nothing by {event:?} since the run came here"),
            );
        };
        let Some(undo) = self.undoable() else {
            let may = |way: &Transition| way.event == event && way.recall;
            return if self.machine.states[origin].transitions.iter().any(may) {
                let state = &current.state;
                refuse(ActReason::ActedSince, format!("something has happened since the run came to {state:?}"))
            } else {
                refuse(ActReason::NotAllowed, format!("{event:?} cannot be taken back: it has no `recall: true`"))
            };
        };
        if undo.actor != *actor {
            let by = &undo.actor;
            return refuse(ActReason::NotAllowed, format!("{by:?} sent {event:?}: nobody else can take it back"));
        }
        let mut instance = self.successor()?;
        if !(undo.before.is_empty() && undo.absent.is_empty()) {
            let mut data = (*current.data).clone();
            undo.absent.iter().for_each(|field| drop(data.remove(field)));
            data.extend(undo.before.clone());
            instance.data = Arc::new(data);
        }
        self.enter(&mut instance, origin, None);
        // Entering goes forward; this is the way back.
        instance.path = undo.path.clone().unwrap_or_else(|| shorter(&current.path, &instance.state).to_vec());
        let entry: Entry = self.entry(Kind::Recall, event, &instance);
        let success = success(self.command, &instance, SuccessKind::Applied);
        Ok(Decision::Change(Box::new(Change { instance, entry, success })))
    }
}

/// The path before `state` was left, as far as leaving it has only added it.
fn shorter<'p>(path: &'p [String], state: &str) -> &'p [String] {
    path.split_last().filter(|(last, _)| *last == state).map_or(path, |(_, before)| before)
}
