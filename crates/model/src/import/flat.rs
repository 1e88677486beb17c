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

/// How often transitions are followed: each way that is kept may be the end of a chain.
const FOLLOWED_MAX: usize = TRANSITIONS_MAX * CHAIN_MAX;

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
    flat.check_events();
    let begin = flat.begin();
    let leaves: Vec<usize> = (0..flat.chart.states.len()).filter(|at| flat.is_leaf(*at)).collect();
    let lists: Vec<Lists> = leaves.iter().map(|leaf| flat.lists(*leaf)).collect();
    let reached = flat.reached(begin, &leaves, &lists);
    flat.check_timers_around(&leaves, &lists, &reached);
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

/// A transition without an event, and what is left to be asked about behind it.
type Unasked = (Way, Vec<Trigger>);

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
    followed: usize,
    is_over: bool,
}

impl<'c> Flattening<'c> {
    fn new(chart: &'c mut Chart) -> Self {
        let passed = vec![false; chart.states.len()];
        Self { chart, passed, steps: 0, followed: 0, is_over: false }
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
        let done = self.done(leaf);
        self.follow(start, leaf, &done, &mut vec![leaf], &mut ends);
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

    /// What leads on from a leaf: its own transitions, then those of the states around it; and the timers of all of these.
    fn lists(&mut self, leaf: usize) -> Lists {
        if self.is_end(leaf) || self.is_over {
            return Vec::new();
        }
        let mut lists: Vec<(Trigger, Vec<Way>)> = Vec::new();
        let chain = self.chain(leaf);
        for state in &chain {
            let events = self.chart.states[*state].ways.iter().filter(|way| matches!(way.trigger, Trigger::Event(_)));
            events.for_each(|way| insert(&mut lists, way.clone()));
        }
        // Of timers for the same time that of the outer state fires first: it was set first.
        for state in chain.iter().rev() {
            self.timers(*state).into_iter().for_each(|way| insert(&mut lists, way));
        }
        lists
            .into_iter()
            .map(|(trigger, ways)| (trigger, tried(self.followed(leaf, ways))))
            .filter(|(_, l)| !l.is_empty())
            .collect()
    }

    /// What happens at the times of a state, without what comes to nothing.
    fn timers(&mut self, state: usize) -> Vec<Way> {
        let mut lists: Vec<(Trigger, Vec<Way>)> = Vec::new();
        let timed = self.chart.states[state].ways.iter().filter(|way| matches!(way.trigger, Trigger::After(_)));
        timed.for_each(|way| insert(&mut lists, way.clone()));
        let does_nothing = |way: &Way| way.target.is_none() && way.assigns.is_empty();
        for (_, ways) in &mut lists {
            while ways.last().is_some_and(does_nothing) {
                ways.pop();
            }
            if let Some(idle) = ways.iter().find(|way| does_nothing(way)) {
                let message =
                    "what it does is not carried over, and when its guard holds the others are not to be tried";
                let remedy = "give it a target, or let the others ask for the opposite";
                self.chart.problem(idle.place, &idle.path, message, remedy);
            }
        }
        lists.into_iter().flat_map(|(_, ways)| ways).collect()
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
                Some(target) => {
                    let done = self.done(target);
                    self.follow(step, target, &done, &mut vec![target], &mut ends);
                }
                // Nothing has changed that a guard could look at.
                None if step.assigns.is_empty() => self.end(step, &mut ends),
                // What the leaf is done with was asked about when it was entered.
                None => self.follow(step, leaf, &[], &mut vec![leaf], &mut ends),
            }
        }
        ends
    }

    /// Follows `step`, which has come to the leaf `at`, along what happens there by itself, and adds where it may end.
    /// `done`: what it has come by that nothing has been asked about yet, in its order.
    fn follow(&mut self, step: Step, at: usize, done: &[Trigger], been: &mut Vec<usize>, ends: &mut Vec<Step>) {
        self.followed += 1;
        if self.is_over || self.followed > FOLLOWED_MAX {
            return self.too_many();
        }
        for unasked in self.unasked(at, done) {
            let way = &unasked.0;
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
            self.follow_along(&step, at, &unasked, guard.filter(|_| !always), been, ends);
            if always {
                self.passed[at] |= way.target.is_some();
                return;
            }
        }
        self.end(step, ends);
    }

    fn follow_along(
        &mut self,
        step: &Step,
        at: usize,
        (way, done): &Unasked,
        guard: Option<Guard>,
        been: &mut Vec<usize>,
        ends: &mut Vec<Step>,
    ) {
        let target = match (way.target, &way.trigger) {
            (Some(target), _) => self.leaf_of(target),
            (None, Trigger::Done(_)) => Some(at),
            (None, _) => {
                let message = "it needs no event and leads nowhere: it would be taken for ever";
                self.chart.problem(way.place, &way.path, message, "give it an event or a target");
                None
            }
        };
        let Some(target) = target else { return };
        // A transition that stays enters nothing: it is over once, since it takes what it was asked about.
        let enters = way.target.is_some();
        if enters && been.contains(&target) || been.len() > CHAIN_MAX {
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
        let mut done = done.clone();
        let target_of_step = if enters {
            done.extend(self.done(target));
            Some(target)
        } else {
            step.target
        };
        let step = Step { guard, target: target_of_step, assigns, ..step.clone() };
        been.push(target);
        self.follow(step, target, &done, been, ends);
        been.pop();
    }

    /// What a leaf is done with as soon as it is entered.
    fn done(&self, leaf: usize) -> Vec<Trigger> {
        let state = &self.chart.states[leaf];
        let done = state.parent.filter(|parent| state.is_final && *parent != 0);
        done.map(|parent| Trigger::Done(self.name(parent).to_owned())).into_iter().collect()
    }

    /// The transitions that are taken in a leaf without an event, in the order in which they are tried, each with what is
    /// left to be asked about behind it: those that need nothing go before all that wait for something to be done.
    fn unasked(&self, leaf: usize, done: &[Trigger]) -> Vec<Unasked> {
        if self.is_end(leaf) {
            return Vec::new();
        }
        let chain = self.chain(leaf);
        let triggered = |trigger: &Trigger, left: &[Trigger]| {
            let ways = chain.iter().flat_map(|state| &self.chart.states[*state].ways);
            let ways = ways.filter(|way| way.trigger == *trigger);
            ways.map(|way| (way.clone(), left.to_vec())).collect::<Vec<_>>()
        };
        let mut ways = triggered(&Trigger::Always, done);
        for (at, trigger) in done.iter().enumerate() {
            ways.extend(triggered(trigger, &done[at + 1..]));
        }
        ways
    }

    /// What takes a transition without an event of its own asks for nothing that is sent: it would be asked again with each
    /// event, whether that has a transition or not; and what a state is done with is not known here.
    fn check_events(&mut self) {
        for at in 0..self.chart.states.len() {
            let ways = self.chart.states[at].ways.iter();
            let asks = |way: &&Way| way.guard.as_ref().is_some_and(Guard::sees_event);
            let takes = |way: &Way| way.assigns.iter().any(|(_, value)| value.sees_event());
            let found: Vec<_> = ways
                .filter(|way| match way.trigger {
                    Trigger::Always => asks(way),
                    Trigger::Done(_) => asks(way) || takes(way),
                    Trigger::Event(_) | Trigger::After(_) => false,
                })
                .map(|way| (way.trigger == Trigger::Always, way.place, way.path.clone()))
                .collect();
            for (is_always, place, path) in found {
                let message = if is_always {
                    "it needs no event, and its guard asks for what was sent: it would be asked again with every event"
                } else {
                    "it asks for what the state was done with, which is not known here: `event` is what was sent"
                };
                let remedy = "let an event take this transition, or assign what it asks for to a field before";
                self.chart.problem(place, &path, message, remedy);
            }
        }
    }

    fn end(&mut self, step: Step, ends: &mut Vec<Step>) {
        self.steps += 1;
        if self.steps <= TRANSITIONS_MAX {
            ends.push(step);
        } else {
            self.too_many();
        }
    }

    fn too_many(&mut self) {
        self.is_over = true;
        self.chart.is_too_much(format!("on one level it has more than {TRANSITIONS_MAX} transitions"));
    }

    /// Whether a run ends in the leaf.
    fn is_end(&self, leaf: usize) -> bool {
        let state = &self.chart.states[leaf];
        state.is_final && state.parent == Some(0)
    }

    /// The timer of a state with others inside goes on while the run moves inside of it. Here each of those has a timer of
    /// its own, which begins when it is entered: that is another time wherever there are such moves.
    fn check_timers_around(&mut self, leaves: &[usize], lists: &[Lists], reached: &[bool]) {
        for state in 0..self.chart.states.len() {
            let is_timed = |way: &Way| matches!(way.trigger, Trigger::After(_));
            if self.is_leaf(state) || !self.chart.states[state].ways.iter().any(is_timed) {
                continue;
            }
            let from = leaves.iter().zip(lists).filter(|(leaf, _)| reached[**leaf] && self.is_inside(**leaf, state));
            let steps = from.flat_map(|(_, lists)| lists).flat_map(|(_, steps)| steps);
            let moves: Vec<&(Place, String)> = steps
                .filter(|step| step.target.is_some_and(|target| self.is_inside(target, state)))
                .map(|step| &step.source)
                .collect();
            if !moves.is_empty() {
                self.check_timers_of(state, &moves);
            }
        }
    }

    fn is_inside(&self, at: usize, around: usize) -> bool {
        std::iter::successors(Some(at), |at| self.chart.states[*at].parent).any(|at| at == around)
    }

    /// The timers of `state`, within which there are moves that are written at `moves`.
    fn check_timers_of(&mut self, state: usize, moves: &[&(Place, String)]) {
        let of = if state == 0 { "the machine".to_owned() } else { format!("{:?}", self.name(state)) };
        for way in self.timers(state) {
            let source = (way.place, way.path.clone());
            if moves.iter().any(|moved| **moved == source) {
                let message = format!(
                    "the delay is that of the states inside of {of} together, and leads to one of them: here it would fire \
                     there again and again"
                );
                self.chart.problem(way.place, &way.path, message, "give each of them a delay of its own");
            } else {
                let message = format!(
                    "the delay is that of the states inside of {of} together: here it begins anew in each of them"
                );
                self.chart.lose(way.place, &way.path, message, "give each of them a delay of its own");
            }
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
            lists.iter().map(|(trigger, steps)| (trigger.clone(), steps.iter().map(way).collect())).collect();
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

/// Puts a transition behind those of its trigger, unless they end with one that is always taken.
fn insert(lists: &mut Vec<(Trigger, Vec<Way>)>, way: Way) {
    match lists.iter_mut().find(|(trigger, _)| *trigger == way.trigger) {
        None => lists.push((way.trigger.clone(), vec![way])),
        // What comes behind one without a guard is never tried.
        Some((_, ways)) if ways.last().is_none_or(|last| last.guard.is_none()) => {}
        Some((_, ways)) => ways.push(way),
    }
}

/// The transitions of a list that are ever tried.
fn tried(steps: Vec<Step>) -> Vec<Step> {
    let guard = |step: &Step| step.guard.as_ref().filter(|guard| guard.constant() != Some(true)).map(Guard::cel);
    let mut kept: Vec<(Option<String>, Step)> = Vec::new();
    for step in steps {
        let guard = guard(&step);
        let is_hidden = kept.last().is_some_and(|(last, _)| last.is_none());
        if !is_hidden && !kept.iter().any(|(before, _)| *before == guard) {
            kept.push((guard, step));
        }
    }
    kept.into_iter().map(|(_, step)| step).collect()
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
