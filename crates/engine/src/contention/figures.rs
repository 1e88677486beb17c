//! How long the tries of a slot's main key took.

use std::time::Duration;

use super::attempt::Try;
use super::explanation::{Wait, Waits, rounded};

/// A fading mean and maximum, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Figure {
    mean: f32,
    max: f32,
}

/// The waits and the size of the batches of one key, fading like its counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    lock_wait: Figure,
    queue_wait: Figure,
    round_trip: Figure,
    /// Mean; 0 while there is no try.
    commands: f32,
}

impl Figure {
    fn add(&mut self, value: Duration, part: f32) {
        let value = value.as_secs_f32() * 1e3;
        self.mean += (value - self.mean) * part;
        self.max = self.max.max(value);
    }

    fn wait(self) -> Wait {
        Wait { mean_ms: rounded(self.mean), max_ms: rounded(self.max) }
    }
}

impl Figures {
    /// Lets time pass: only the maxima change by it.
    pub(super) fn fade(&mut self, left: f32) {
        self.lock_wait.max *= left;
        self.queue_wait.max *= left;
        self.round_trip.max *= left;
    }

    /// Adds a try, the last of `tries` fading ones.
    pub(super) fn add(&mut self, attempt: &Try, tries: f32) {
        // Moving a mean by 1/n, with a fading n, is the fading mean.
        let part = if self.commands == 0.0 { 1.0 } else { 1.0 / tries };
        self.lock_wait.add(attempt.lock_wait.unwrap_or_default(), part);
        self.queue_wait.add(attempt.queue_wait, part);
        self.round_trip.add(attempt.round_trip, part);
        self.commands += (attempt.commands.max(1) as f32 - self.commands) * part;
    }

    pub(super) fn waits(&self) -> Option<Waits> {
        (self.commands > 0.0).then(|| Waits {
            lock_wait: self.lock_wait.wait(),
            queue_wait: self.queue_wait.wait(),
            round_trip: self.round_trip.wait(),
            commands_per_try: rounded(self.commands),
        })
    }
}
