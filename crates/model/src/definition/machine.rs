//! The compiled machine: states and transitions by position, ready to judge.

use std::collections::HashMap;
use std::time::Duration;

use super::Concurrency;
use super::approval::ApprovalRule;
use super::schema::DataSchema;
use crate::command::Send;
use crate::expression::Expression;
use crate::instance::{Status, Timer};
use crate::{Instance, Timestamp, duration};

/// One state.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) name: String,
    /// The status of a run that ends here; none: the state is not final.
    pub(crate) ends_as: Option<Status>,
    /// In the order of the text, those of one event side by side.
    pub(crate) transitions: Vec<Transition>,
    /// In the order of the text.
    pub(crate) after: Vec<After>,
}

/// What happens when a visit has lasted for so long.
#[derive(Debug)]
pub(crate) struct After {
    /// How long, as it is written.
    pub(crate) text: String,
    pub(crate) delay: Duration,
    /// The first whose guard holds is taken.
    pub(crate) ways: Vec<Transition>,
}

impl State {
    /// The timers of a visit that begins at `entered`, in the order in which they are due.
    pub(crate) fn timers(&self, entered: Timestamp) -> Vec<Timer> {
        let timer =
            |(after, of): (usize, &After)| Timer { after, due: duration::after(entered, of.delay), failures: 0 };
        let mut timers: Vec<Timer> = self.after.iter().enumerate().map(timer).collect();
        timers.sort_by_key(|timer| timer.due);
        timers
    }

    fn tell_chosen_by_data(&mut self) {
        // The transitions of an event stand side by side.
        for ways in self.transitions.chunk_by_mut(|way, next| way.event == next.event) {
            let is_open = |way: &Transition| way.guard.as_ref().is_none_or(Expression::is_same_for_all);
            let is_chosen_by_data = ways.iter().all(|way| is_open(way) && way.roles == ways[0].roles);
            ways.iter_mut().for_each(|way| way.is_chosen_by_data = is_chosen_by_data);
        }
    }
}

/// One way on from a state.
#[derive(Debug)]
pub(crate) struct Transition {
    /// The event; of an `after`, its time as it is written.
    pub(crate) event: String,
    /// Which of the event's transitions in its state this is, from 0.
    pub(crate) position: usize,
    /// The state it leads to; none: it stays, and the visit goes on, unless it leads `back`.
    pub(crate) target: Option<usize>,
    /// The earlier states to which it leads back, instead of to a target.
    pub(crate) back: Option<Return>,
    /// Whether its sender may take it back.
    pub(crate) recall: bool,
    pub(crate) guard: Option<Expression>,
    pub(crate) assigns: Vec<(String, Expression)>,
    pub(crate) approval: Option<ApprovalRule>,
    /// Who may send the event at all: any of these roles, sorted; empty: anybody.
    pub(crate) roles: Vec<String>,
    /// How it commits; the same for all transitions of its event in its state.
    pub(crate) concurrency: Concurrency,
    /// Whether it is the same for everybody which of its event's transitions is meant, and who may send it: the data alone
    /// choose.
    pub(crate) is_chosen_by_data: bool,
}

/// Where a transition leads back to.
#[derive(Debug)]
pub(crate) enum Return {
    /// The state before.
    Previous,
    /// Any state that the run has passed.
    Any,
    /// Those of these that the run has passed.
    To(Vec<usize>),
}

/// States by name, and events by where they lead on.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) initial: usize,
    pub(crate) states: Vec<State>,
    by_name: HashMap<String, usize>,
    by_event: HashMap<String, Vec<usize>>,
    has_lock_keys: bool,
    has_returns: bool,
    schema: Option<DataSchema>,
}

impl Transition {
    /// Whether the run stays in its state.
    pub(crate) fn stays(&self) -> bool {
        self.target.is_none() && self.back.is_none()
    }
}

impl Machine {
    pub(crate) fn new(initial: usize, mut states: Vec<State>) -> Self {
        states.iter_mut().for_each(State::tell_chosen_by_data);
        let by_name = states.iter().enumerate().map(|(at, state)| (state.name.clone(), at)).collect();
        let mut by_event: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, state) in states.iter().enumerate() {
            for transition in &state.transitions {
                let places = by_event.entry(transition.event.clone()).or_default();
                if places.last() != Some(&at) {
                    places.push(at);
                }
            }
        }
        let mut transitions = states.iter().flat_map(|state| &state.transitions);
        let has_lock_keys = transitions.any(|transition| transition.concurrency.lock_key.is_some());
        let has_returns = states.iter().flat_map(|state| &state.transitions).any(|way| way.back.is_some());
        Self { initial, states, by_name, by_event, has_lock_keys, has_returns, schema: None }
    }

    /// The same for data that has to be as `schema` says.
    pub(crate) fn with_schema(self, schema: Option<DataSchema>) -> Self {
        Self { schema, ..self }
    }

    /// What the data has to be; none: any.
    pub(crate) fn schema(&self) -> Option<&DataSchema> {
        self.schema.as_ref()
    }

    /// The position of the state `name`.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The states from which `event` leads on; none: no state has it.
    pub(crate) fn states_with(&self, event: &str) -> Option<impl Iterator<Item = &str>> {
        self.by_event.get(event).map(|places| places.iter().map(|at| self.states[*at].name.as_str()))
    }

    /// Whether a transition names a lock.
    pub(crate) fn has_lock_keys(&self) -> bool {
        self.has_lock_keys
    }

    /// Whether a transition leads back.
    pub(crate) fn has_returns(&self) -> bool {
        self.has_returns
    }

    /// Whether the path of a run of this version is known: releases before kept it only where there are ways back.
    pub(crate) fn knows_path(&self, instance: &Instance) -> bool {
        instance.path_known || self.has_returns() || instance.state == self.states[self.initial].name
    }

    /// The states to which `transition` may lead back on the way that `path` is, the last one first; none for one that leads
    /// forward.
    pub(crate) fn ways_back(&self, transition: &Transition, path: &[String]) -> Vec<usize> {
        let Some(back) = &transition.back else { return Vec::new() };
        let path = path.iter().rev().filter_map(|name| self.find(name));
        // What was passed under an earlier version may end the run in this one.
        let mut passed = path.filter(|at| self.states[*at].ends_as.is_none());
        match back {
            Return::Previous => passed.next().into_iter().collect(),
            Return::Any => passed.collect(),
            Return::To(states) => passed.filter(|at| states.contains(at)).collect(),
        }
    }

    /// How `send` commits in `state`; none: the transitions that it may mean are not known, or differ.
    pub(crate) fn concurrency_of(&self, state: &str, send: &Send) -> Option<&Concurrency> {
        let state = &self.states[self.find(state)?];
        let is_meant = |transition: &&Transition| match (&send.event, &send.to) {
            (Some(event), _) => transition.event == *event,
            (None, Some(to)) => transition.target.is_some_and(|target| self.states[target].name == *to),
            (None, None) => false,
        };
        let mut meant = state.transitions.iter().filter(is_meant).map(|transition| &transition.concurrency);
        let first = meant.next()?;
        meant.all(|other| other == first).then_some(first)
    }

    /// Every event's name, sorted.
    pub(crate) fn event_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.by_event.keys().cloned().collect();
        names.sort_unstable();
        names
    }
}
