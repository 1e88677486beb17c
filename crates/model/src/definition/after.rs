//! `after`: what happens when a visit has lasted for so long.

use std::time::Duration;

use super::Definition;
use super::fields::{Findings, join};
use super::machine::{After, State, Transition};
use super::node::{Field, Node, Value};
use super::reader::DraftTransition;
use crate::duration;
use crate::instance::Timer;
use crate::limits::{TIMER_MAX, TIMERS_MAX};
use crate::{Instance, Timestamp};

/// What only somebody who sends an event can be asked for, and why not here.
const NEEDS_A_SENDER: [&str; 5] = ["roles", "approval", "concurrency", "return", "recall"];

impl Findings<'_> {
    /// The block `after` of a state: times, each with a target or with transitions as events have them.
    pub(super) fn after(&mut self, field: &Field, state_path: &str, is_final: bool) -> Vec<DraftTransition> {
        let path = join(state_path, "after");
        if is_final {
            self.add(field.place, &path, "nothing leads on from a final state", "remove `after`, or `type: final`");
        }
        let node = &field.node;
        let Value::Map(times) = &node.value else {
            let message = format!("expected times with what happens then, found {}", node.value.kind());
            self.add(node.place, &path, message, "write for example `{72h: escalated}`");
            self.lost = true;
            return Vec::new();
        };
        if times.len() > TIMERS_MAX {
            let message = format!("{} times in one state; at most {TIMERS_MAX} are allowed", times.len());
            self.add(node.place, &path, message, "give each stage a state of its own");
        }
        let mut transitions: Vec<DraftTransition> = Vec::new();
        for time in times {
            let Some(delay) = self.delay(time, &path) else { continue };
            if let Some(same) = transitions.iter().find(|other| other.after == Some(delay)) {
                let message = format!("{:?} and {:?} are the same time", same.event, time.name);
                self.add(time.place, &join(&path, &time.name), message, "put them into one list, each with its guard");
                continue;
            }
            transitions.extend(self.timed(time, delay, &path));
        }
        transitions
    }

    fn delay(&mut self, time: &Field, path: &str) -> Option<Duration> {
        let remedy = "write a time from 1ms to 3660d, for example `90s`, `30m`, `72h` or `14d`";
        let message = match duration::parse(&time.name) {
            Some(delay) if (Duration::from_millis(1)..=TIMER_MAX).contains(&delay) => return Some(delay),
            Some(_) => format!("the time {:?} is out of bounds", time.name),
            None => format!("{:?} is not a time", time.name),
        };
        self.add(time.place, &join(path, &time.name), message, remedy);
        self.lose()
    }

    /// What happens at one time.
    fn timed(&mut self, time: &Field, delay: Duration, path: &str) -> Vec<DraftTransition> {
        let Field { name, place, node } = time;
        let path = join(path, name);
        let single = std::slice::from_ref(node);
        let (items, is_list) = match &node.value {
            Value::List(items) => (items.as_slice(), true),
            _ => (single, false),
        };
        if items.is_empty() {
            self.add(*place, &path, "an empty list of transitions", "write a target state, or remove the time");
            self.lost = true;
        }
        let mut transitions = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let path = if is_list { format!("{path}[{at}]") } else { path.clone() };
            if self.asks_for_a_sender(item, &path) {
                continue;
            }
            if let Some(transition) = self.transition(name, at, item, path.clone()) {
                if transition.target.is_none() && transition.assigns.is_empty() {
                    self.add(item.place, &path, "it does nothing", "give it a `target`, or `assign` something");
                }
                transitions.push(DraftTransition { after: Some(delay), ..transition });
            }
        }
        transitions
    }

    /// Refuses fields that make no sense where nobody sends anything.
    fn asks_for_a_sender(&mut self, node: &Node, path: &str) -> bool {
        let Value::Map(fields) = &node.value else { return false };
        let mut found = false;
        for field in fields.iter().filter(|field| NEEDS_A_SENDER.contains(&field.name.as_str())) {
            let message = format!("`{}` has no meaning here: a timer fires by itself", field.name);
            let remedy = match field.name.as_str() {
                "concurrency" => "remove it: timers commit as the workflow's `concurrency` says",
                _ => "remove it; if somebody has to agree, let the timer lead to a state that waits for an event",
            };
            self.add(field.place, &join(path, &field.name), message, remedy);
            self.lost = true;
            found = true;
        }
        found
    }
}

impl State {
    /// Adds what happens after `delay`, behind what has been added for that time.
    pub(super) fn add_way(&mut self, delay: Duration, way: Transition) {
        match self.after.iter_mut().find(|after| after.delay == delay) {
            Some(after) => after.ways.push(way),
            None => self.after.push(After { text: way.event.clone(), delay, ways: vec![way] }),
        }
    }
}

impl Definition {
    /// The timers of a visit to `state` that began at `entered`, in the order in which they are due. For instances that
    /// come from another definition.
    pub fn timers_of_visit(&self, state: &str, entered: Timestamp) -> Vec<Timer> {
        self.machine.find(state).map(|at| self.machine.states[at].timers(entered)).unwrap_or_default()
    }

    /// The time of a timer as the definition says it, such as `72h`, and where it leads if it leads to one state only.
    pub fn timer(&self, instance: &Instance, timer: &Timer) -> Option<(&str, Option<&str>)> {
        let after = self.machine.states[self.machine.find(&instance.state)?].after.get(timer.after)?;
        let target = after.ways.first().and_then(|way| way.target);
        let target = target.filter(|target| after.ways.iter().all(|way| way.target == Some(*target)));
        Some((&after.text, target.map(|target| self.machine.states[target].name.as_str())))
    }
}
