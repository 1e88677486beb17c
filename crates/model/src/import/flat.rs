//! A tree of states as states on one level.
//!
//! A definition's state stands for a state without others inside (a *leaf*), and is called by its path. It has the
//! transitions of its own and, behind them, those of the states around it, as they are tried there too. A transition is
//! followed at once through what happens without an event: into the state where a state begins, on from a final state
//! inside of another, and along transitions that need no event, whose guards become parts of its own.

use std::collections::HashMap;

use super::chart::{Chart, ChartState, Guard, Trigger, Way};
use super::script::Script;
use crate::Problem;
use crate::definition::Place;
use crate::limits::{STATES_MAX, TRANSITIONS_MAX};

/// Transitions without an event that one transition may be followed along; each can double the ways.
const CHAIN_MAX: usize = 8;

/// A machine on one level.
pub(super) struct FlatMachine {
    pub(super) initial: String,
    pub(super) states: Vec<FlatState>,
    /// Where each state, and each list of its transitions, stands in the source: by its path in the definition.
    sources: HashMap<String, (Place, String)>,
}

/// A state of the definition.
pub(super) struct FlatState {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) is_final: bool,
    /// By event or delay, in the order in which they are first met.
    pub(super) lists: Vec<(Trigger, Vec<FlatWay>)>,
}

/// A transition of the definition.
#[derive(Clone, PartialEq)]
pub(super) struct FlatWay {
    pub(super) target: Option<String>,
    pub(super) guard: Option<String>,
    /// Fields with CEL expressions.
    pub(super) assigns: Vec<(String, String)>,
    pub(super) description: Option<String>,
}

impl FlatMachine {
    /// A problem of the definition at the place of the source that it comes from.
    pub(super) fn at_source(&self, mut problem: Problem) -> Problem {
        let mut path = problem.path.as_str();
        let found = loop {
            match (self.sources.get(path), path.rfind(['.', '['])) {
                (Some(found), _) => break Some(found),
                (None, Some(end)) => path = &path[..end],
                (None, None) => break None,
            }
        };
        let (place, path) = found.cloned().unwrap_or_default();
        (problem.line, problem.column, problem.path) = (place.line, place.column, path);
        problem
    }
}

/// Makes one level of `chart`, and notes in it what is lost on the way, and what cannot be.
pub(super) fn flatten(chart: &mut Chart) -> FlatMachine {
    let mut flat = Flattening::new(chart);
    let begin = flat.begin();
    let leaves: Vec<usize> = (0..flat.chart.states.len()).filter(|at| flat.is_leaf(*at)).collect();
    let lists: Vec<Lists> = leaves.iter().map(|leaf| flat.lists(*leaf)).collect();
    let reached = flat.reached(begin, &leaves, &lists);
    let mut machine = FlatMachine { initial: flat.name(begin).to_owned(), states: Vec::new(), sources: HashMap::new() };
    for (leaf, lists) in leaves.into_iter().zip(lists) {
        if !reached[leaf] {
            flat.unreached(leaf);
            continue;
        }
        let state = flat.state(leaf, &lists);
        let path = format!("states.{}", state.name);
        let source = &flat.chart.states[leaf];
        machine.sources.insert(path.clone(), (source.place, source.path.clone()));
        for (trigger, ways) in &lists {
            let (Trigger::Event(name), Some(first)) = (trigger, ways.first()) else { continue };
            machine.sources.insert(format!("{path}.on.{name}"), first.source.clone());
        }
        machine.states.push(state);
    }
    flat.check_names(&machine);
    machine
}

type Lists = Vec<(Trigger, Vec<Step>)>;

/// A transition that was followed to its end.
#[derive(Clone)]
struct Step {
    guard: Option<Guard>,
    /// The leaf it ends in; none: it stays.
    target: Option<usize>,
    assigns: Vec<(String, Script)>,
    description: Option<String>,
    source: (Place, String),
}

struct Flattening<'c> {
    chart: &'c mut Chart,
    /// Leaves that transitions went through without staying.
    passed: Vec<bool>,
    steps: usize,
    is_over: bool,
}

impl<'c> Flattening<'c> {
    fn new(chart: &'c mut Chart) -> Self {
        let passed = vec![false; chart.states.len()];
        Self { chart, passed, steps: 0, is_over: false }
    }

    fn name(&self, at: usize) -> &str {
        &self.chart.states[at].name
    }

    fn is_leaf(&self, at: usize) -> bool {
        at != 0 && self.chart.states[at].children.is_empty()
    }

    /// The state itself and those around it, from the inside.
    fn chain(&self, at: usize) -> Vec<usize> {
        std::iter::successors(Some(at), |at| self.chart.states[*at].parent).collect()
    }

    /// The leaf in which a state begins.
    fn leaf_of(&mut self, mut at: usize) -> Option<usize> {
        // Each step leads inside, so it ends.
        while !self.chart.states[at].children.is_empty() {
            match self.chart.states[at].initial {
                Some(initial) => at = initial,
                None => {
                    let ChartState { place, path, .. } = &self.chart.states[at];
                    let (place, path) = (*place, path.clone());
                    self.chart.problem(place, &path, "it does not say in which state it begins", "add `initial`");
                    return None;
                }
            }
        }
        (at != 0).then_some(at)
    }

    /// The leaf in which a run begins, after what happens by itself.
    fn begin(&mut self) -> usize {
        let Some(leaf) = self.leaf_of(0) else {
            let (place, path) = (self.chart.states[0].place, self.chart.states[0].path.clone());
            if self.chart.problems.is_empty() {
                self.chart.problem(place, &path, "the machine has no states", "add `states`");
            }
            return 0;
        };
        let source = (self.chart.states[leaf].place, self.chart.states[leaf].path.clone());
        let start = Step { guard: None, target: Some(leaf), assigns: Vec::new(), description: None, source };
        let mut ends = Vec::new();
        self.follow(start, leaf, &mut vec![leaf], &mut ends);
        match ends.as_slice() {
            [Step { guard: None, target: Some(leaf), assigns, .. }] if assigns.is_empty() => *leaf,
            [] => leaf,
            _ => {
                let ChartState { place, path, name, .. } = &self.chart.states[leaf];
                let message = format!(
                    "a run begins in {name:?}, and whether it goes on from there at once depends on data: it stays there"
                );
                let (place, path) = (*place, path.clone());
                self.chart.lose(place, &path, message, "begin in a state that is left by an event");
                leaf
            }
        }
    }

    /// What leads on from a leaf: its own transitions, then those of the states around it.
    fn lists(&mut self, leaf: usize) -> Lists {
        let mut lists: Vec<(Trigger, Vec<Way>)> = Vec::new();
        if self.is_end(leaf) {
            return Vec::new();
        }
        for state in self.chain(leaf) {
            for at in 0..self.chart.states[state].ways.len() {
                let way = self.chart.states[state].ways[at].clone();
                if matches!(way.trigger, Trigger::Always | Trigger::Done(_)) {
                    continue;
                }
                if matches!(way.trigger, Trigger::After(_)) && state != leaf {
                    self.lose_timer(state, &way);
                }
                match lists.iter_mut().find(|(trigger, _)| *trigger == way.trigger) {
                    None => lists.push((way.trigger.clone(), vec![way])),
                    // What comes behind one without a guard is never tried.
                    Some((_, ways)) if ways.last().is_none_or(|last| last.guard.is_none()) => {}
                    Some((_, ways)) => ways.push(way),
                }
            }
        }
        lists
            .into_iter()
            .map(|(trigger, ways)| (trigger, self.followed(leaf, ways)))
            .filter(|(_, l)| !l.is_empty())
            .collect()
    }

    fn followed(&mut self, leaf: usize, ways: Vec<Way>) -> Vec<Step> {
        let mut ends = Vec::new();
        for way in ways {
            let target = match way.target {
                Some(target) => match self.leaf_of(target) {
                    Some(target) => Some(target),
                    None => continue,
                },
                None => None,
            };
            let step = Step {
                guard: way.guard,
                target,
                assigns: way.assigns,
                description: way.description,
                source: (way.place, way.path),
            };
            match target {
                Some(target) => self.follow(step, target, &mut vec![target], &mut ends),
                // Nothing has changed that a guard could look at.
                None if step.assigns.is_empty() => self.end(step, &mut ends),
                None => self.follow(step, leaf, &mut vec![leaf], &mut ends),
            }
        }
        ends
    }

    /// Follows `step`, which has come to the leaf `at`, along what happens there by itself, and adds where it may end.
    fn follow(&mut self, step: Step, at: usize, been: &mut Vec<usize>, ends: &mut Vec<Step>) {
        let mut is_left = false;
        for way in self.unasked(at) {
            let guard = match way.guard.as_ref().map(|guard| guard.after(&step.assigns)) {
                Some(None) => {
                    let message = "what it asks for is assigned on the way to it: its guard cannot be carried over";
                    self.chart.problem(way.place, &way.path, message, "let an event take this transition");
                    continue;
                }
                Some(guard) => guard,
                None => None,
            };
            let holds = guard.as_ref().map_or(Some(true), Guard::constant);
            if holds == Some(false) {
                continue;
            }
            let always = holds == Some(true);
            self.follow_along(&step, &way, guard.filter(|_| !always), been, ends);
            if always {
                is_left = true;
                break;
            }
        }
        if is_left {
            self.passed[at] = true;
        } else {
            self.end(step, ends);
        }
    }

    fn follow_along(
        &mut self,
        step: &Step,
        way: &Way,
        guard: Option<Guard>,
        been: &mut Vec<usize>,
        ends: &mut Vec<Step>,
    ) {
        let target = match way.target {
            Some(target) => self.leaf_of(target),
            None => {
                let message = "it needs no event and leads nowhere: it would be taken for ever";
                self.chart.problem(way.place, &way.path, message, "give it an event or a target");
                None
            }
        };
        let Some(target) = target else { return };
        if been.contains(&target) || been.len() > CHAIN_MAX {
            let message = "transitions without an event lead round in a circle here, or along too long a chain";
            self.chart.problem(way.place, &way.path, message, "give one of them an event");
            return;
        }
        let Some(assigns) = merged(&step.assigns, &way.assigns) else {
            let message = "it assigns what depends on fields assigned on the way to it";
            self.chart.problem(way.place, &way.path, message, "let an event take this transition");
            return;
        };
        let guard = Guard::both(step.guard.clone(), guard);
        let step = Step { guard, target: Some(target), assigns, ..step.clone() };
        been.push(target);
        self.follow(step, target, been, ends);
        been.pop();
    }

    /// The transitions that are taken in a leaf without an event, in the order in which they are tried.
    fn unasked(&self, leaf: usize) -> Vec<Way> {
        let state = &self.chart.states[leaf];
        if self.is_end(leaf) {
            return Vec::new();
        }
        let done = state.parent.filter(|_| state.is_final).map(|parent| Trigger::Done(self.name(parent).to_owned()));
        let ways = self.chain(leaf).into_iter().flat_map(|state| &self.chart.states[state].ways);
        ways.filter(|way| way.trigger == Trigger::Always || Some(&way.trigger) == done.as_ref()).cloned().collect()
    }

    fn end(&mut self, step: Step, ends: &mut Vec<Step>) {
        self.steps += 1;
        if self.steps <= TRANSITIONS_MAX {
            ends.push(step);
        } else if !std::mem::replace(&mut self.is_over, true) {
            let message = format!("on one level it has more than {TRANSITIONS_MAX} transitions");
            self.chart.problem(Place::default(), "", message, "split the machine into several");
        }
    }

    /// Whether a run ends in the leaf.
    fn is_end(&self, leaf: usize) -> bool {
        let state = &self.chart.states[leaf];
        state.is_final && state.parent == Some(0)
    }

    fn lose_timer(&mut self, state: usize, way: &Way) {
        let has_others = self.chart.states[state].children.len() > 1;
        let grandchildren = self.chart.states[state].children.iter().any(|at| !self.is_leaf(*at));
        if has_others || grandchildren {
            let message = format!(
                "the delay is that of the states inside of {:?} together: here it begins anew in each of them",
                self.name(state)
            );
            self.chart.lose(way.place, &way.path, message, "give each of them a delay of its own");
        }
    }

    /// Which leaves the definition's transitions reach.
    fn reached(&self, begin: usize, leaves: &[usize], lists: &[Lists]) -> Vec<bool> {
        let by_leaf: HashMap<usize, &Lists> = leaves.iter().copied().zip(lists).collect();
        let mut reached = vec![false; self.chart.states.len()];
        let mut open = vec![begin];
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut reached[at], true) {
                let steps = by_leaf.get(&at).into_iter().flat_map(|lists| lists.iter()).flat_map(|(_, steps)| steps);
                open.extend(steps.filter_map(|step| step.target));
            }
        }
        reached
    }

    fn unreached(&mut self, leaf: usize) {
        if self.passed[leaf] {
            return;
        }
        let ChartState { name, place, path, .. } = &self.chart.states[leaf];
        let (message, place, path) = (format!("nothing leads to state {name:?}: it is left out"), *place, path.clone());
        self.chart.lose(place, &path, message, "let a transition lead to it, or remove it");
    }

    fn state(&mut self, leaf: usize, lists: &Lists) -> FlatState {
        let ChartState { name, description, place, path, .. } = &self.chart.states[leaf];
        let (name, description) = (name.clone(), description.clone());
        let is_final = self.is_end(leaf);
        if !is_final && lists.is_empty() {
            let message = format!("nothing leads on from state {name:?}, and it is not final: here a run ends in it");
            let (place, path) = (*place, path.clone());
            self.chart.lose(place, &path, message, "make it final");
        }
        let way = |step: &Step| FlatWay {
            target: step.target.map(|target| self.name(target).to_owned()),
            guard: step.guard.as_ref().filter(|guard| guard.constant() != Some(true)).map(Guard::cel),
            assigns: step.assigns.iter().map(|(field, value)| (field.clone(), value.cel())).collect(),
            description: step.description.clone(),
        };
        let lists: Vec<_> =
            lists.iter().map(|(trigger, steps)| (trigger.clone(), tried(steps.iter().map(way).collect()))).collect();
        FlatState { name, description, is_final: is_final || lists.is_empty(), lists }
    }

    fn check_names(&mut self, machine: &FlatMachine) {
        let mut seen = std::collections::HashSet::new();
        if let Some(twice) = machine.states.iter().find(|state| !seen.insert(&state.name)) {
            let message = format!("two states would be called {:?}", twice.name);
            self.chart.problem(Place::default(), "", message, "rename one of them");
        }
        if machine.states.len() > STATES_MAX {
            let message = format!("on one level it has more than {STATES_MAX} states");
            self.chart.problem(Place::default(), "", message, "split the machine into several");
        }
    }
}

/// The transitions of a list that are ever tried.
fn tried(ways: Vec<FlatWay>) -> Vec<FlatWay> {
    let mut kept: Vec<FlatWay> = Vec::new();
    for way in ways {
        let is_hidden = kept.last().is_some_and(|last| last.guard.is_none());
        if !is_hidden && !kept.iter().any(|before| before.guard == way.guard) {
            kept.push(way);
        }
    }
    kept
}

/// What is assigned by `first` and then by `second`, all at once.
fn merged(first: &[(String, Script)], second: &[(String, Script)]) -> Option<Vec<(String, Script)>> {
    let mut merged = first.to_vec();
    for (field, value) in second {
        let value = value.after(first)?;
        merged.retain(|(name, _)| name != field);
        merged.push((field.clone(), value));
    }
    Some(merged)
}
