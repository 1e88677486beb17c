//! Finds the key that serialises its workflow.
//!
//! The key with more than half of the commands is found without counting all keys, by the majority vote of R. S. Boyer
//! and J S. Moore (MJRTY, 1981; for more than one key: J. Misra and D. Gries, Finding Repeated Elements, 1982): one
//! candidate and its lead. Both are linear in the counts, so they may fade with them (as G. Cormode, F. Korn and S.
//! Tirthapura do, Exponentially Decayed Aggregates on Data Streams, 2008), and still no key has more than half of the
//! fading count without being the candidate. What the candidate had since it became one is counted beside it: that it
//! is a majority is then certain.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::now::Now;
use super::warning::Warning;

/// Counts fade to 37 % in this time, and a key must have been ahead for so long before anything is said: what is over
/// in less is a burst, which is what the queue is for.
const FADING: Duration = Duration::from_secs(30);

/// Commands of the workflow (fading) below which one key's share says little: seven a second.
const COMMANDS_MIN: f64 = 200.0;

/// A workflow and a key are warned of once in this time: it is a matter of design, not an alarm.
const AGAIN: Duration = Duration::from_secs(600);

/// A warning is shown for so long after it was last true, so that it can be read.
const SHOWN: Duration = Duration::from_secs(60);

/// Workflows that are watched: some hundreds of bytes each. The least recently used of a part is forgotten first.
const WORKFLOWS_MAX: usize = 1_024;

/// Parts with a lock each, so that workflows do not wait for each other.
const PARTS: usize = 16;

type Part = HashMap<Box<str>, Flow>;

/// The workflows of a node and the key that each waits for, if there is one.
pub(crate) struct HotKeys([Mutex<Part>; PARTS]);

/// What is kept of a workflow.
#[derive(Default)]
struct Flow {
    last: Duration,
    /// Fading count of commands.
    commands: f64,
    candidate: Option<Candidate>,
    /// The key that was last found, until it is no longer shown.
    hot: Option<Hot>,
    /// Keys warned of lately, by hash. No key is found within 30 s of another, so these are twenty at most.
    warned: Vec<(u64, Duration)>,
}

/// The one key that may have more than half of the commands.
struct Candidate {
    hash: u64,
    since: Now,
    lead: f64,
    /// Its commands since then, fading.
    commands: f64,
    /// Those among them that waited.
    waited: f64,
}

struct Hot {
    hash: u64,
    key: String,
    since: Now,
    at: Now,
    share: f64,
    waited: f64,
    rate: f64,
}

impl HotKeys {
    /// Nothing seen yet.
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(HashMap::new())))
    }

    /// Takes note of a batch of `key`: so many commands, of which so many had waited on this node for the one before.
    /// Warns when the key has taken more than half of the workflow's commands and most of them waited; once in ten
    /// minutes for a key.
    pub(crate) fn observe<K>(&self, workflow: &str, key: &K, commands: u32, waited: u32, now: Now) -> Option<Warning>
    where
        K: Hash + Display,
    {
        let mut part = self.part(workflow);
        if let Some(flow) = part.get_mut(workflow) {
            return flow.observe(workflow, key, commands, waited, now);
        }
        make_room(&mut part);
        let flow = part.entry(workflow.into()).or_default();
        flow.observe(workflow, key, commands, waited, now)
    }

    /// The warning of `workflow`, for as long as it is true and a minute more, with its latest numbers.
    pub(crate) fn warning(&self, workflow: &str, now: Now) -> Option<Warning> {
        let part = self.part(workflow);
        let hot = part.get(workflow)?.hot.as_ref()?;
        let shown = now.elapsed.saturating_sub(hot.at.elapsed) <= SHOWN;
        shown.then(|| hot.warning(workflow))
    }

    #[cfg(test)]
    pub(super) fn workflows(&self) -> usize {
        self.0.iter().map(|part| part.lock().map_or(0, |part| part.len())).sum()
    }

    fn part(&self, workflow: &str) -> MutexGuard<'_, Part> {
        let part = hash_of(workflow) as usize % PARTS;
        self.0[part].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flow {
    fn observe<K>(&mut self, workflow: &str, key: &K, commands: u32, waited: u32, now: Now) -> Option<Warning>
    where
        K: Hash + Display,
    {
        let hash = hash_of(key);
        self.count(hash, f64::from(commands), f64::from(waited.min(commands)), now);
        let hot = if self.look(hash, key, now) { self.hot.as_ref() } else { None };
        hot.map(|hot| hot.warning(workflow))
    }

    fn count(&mut self, hash: u64, commands: f64, waited: f64, now: Now) {
        let left = fading(now.elapsed.saturating_sub(self.last));
        self.last = self.last.max(now.elapsed);
        self.commands = self.commands * left + commands;
        if let Some(candidate) = &mut self.candidate {
            candidate.lead *= left;
            candidate.commands *= left;
            candidate.waited *= left;
        }
        match &mut self.candidate {
            Some(candidate) if candidate.hash == hash => {
                candidate.lead += commands;
                candidate.commands += commands;
                candidate.waited += waited;
            }
            Some(candidate) if candidate.lead >= commands => candidate.lead -= commands,
            other => {
                let lead = commands - other.as_ref().map_or(0.0, |candidate| candidate.lead);
                *other = Some(Candidate { hash, since: now, lead, commands, waited });
            }
        }
    }

    /// Whether a warning about `key`, whose commands were just counted, is due.
    fn look(&mut self, hash: u64, key: &impl Display, now: Now) -> bool {
        let Some(candidate) = self.candidate.as_ref().filter(|candidate| candidate.hash == hash) else { return false };
        let ahead = now.elapsed.saturating_sub(candidate.since.elapsed);
        let hot = self.commands >= COMMANDS_MIN
            && candidate.commands > self.commands / 2.0
            && candidate.waited > candidate.commands / 2.0
            && ahead >= FADING;
        if !hot {
            return false;
        }
        let share = candidate.commands / self.commands;
        let waited = candidate.waited / candidate.commands;
        // The fading count of a steady rate, `ahead` after its start.
        let rate = candidate.commands / (FADING.as_secs_f64() * (1.0 - fading(ahead)));
        let since = candidate.since;
        match &mut self.hot {
            Some(hot) if hot.hash == hash => {
                (hot.since, hot.at, hot.share, hot.waited, hot.rate) = (since, now, share, waited, rate);
            }
            other => *other = Some(Hot { hash, key: key.to_string(), since, at: now, share, waited, rate }),
        }
        self.warned.retain(|(_, at)| now.elapsed.saturating_sub(*at) < AGAIN);
        let first = self.warned.iter().all(|(warned, _)| *warned != hash);
        if first {
            self.warned.push((hash, now.elapsed));
        }
        first
    }
}

impl Hot {
    fn warning(&self, workflow: &str) -> Warning {
        let Self { key, since, at, share, waited, rate, .. } = self;
        Warning {
            workflow: workflow.to_owned(),
            key: key.clone(),
            since: since.wall,
            at: at.wall,
            share: (share * 1e3).round() / 1e3,
            waited: (waited * 1e3).round() / 1e3,
            commands_per_second: (rate * 10.0).round() / 10.0,
            text: Warning::text_of(workflow, key, *share, *waited, *rate),
        }
    }
}

/// Forgets the workflow that was longest unused, if the part is full. Looking at all is no matter: it happens once for a
/// workflow that comes anew.
fn make_room(part: &mut Part) {
    if part.len() >= WORKFLOWS_MAX / PARTS
        && let Some(oldest) = part.iter().min_by_key(|(_, flow)| flow.last).map(|(name, _)| name.clone())
    {
        part.remove(&oldest);
    }
}

fn fading(time: Duration) -> f64 {
    (-time.as_secs_f64() / FADING.as_secs_f64()).exp()
}

/// Equal on each start, so that what was seen once can be repeated.
fn hash_of(key: &(impl Hash + ?Sized)) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(key)
}
