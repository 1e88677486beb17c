//! What is known of whether the store takes writes, so that it is not written to for each question.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::CommitError;

/// How long an answer holds: a write and its sync a second are nothing beside what the store does, and whoever sends requests
/// here or elsewhere by it asks every few seconds.
const HOLDS: Duration = Duration::from_secs(1);

/// The last answer, and when it was.
#[derive(Debug, Default)]
pub(super) struct Probe(Mutex<Option<(Instant, Result<(), CommitError>)>>);

impl Probe {
    /// The last answer, if it still holds.
    pub(super) fn last(&self, now: Instant) -> Option<Result<(), CommitError>> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, answer) = last.as_ref()?;
        (now.saturating_duration_since(*at) < HOLDS).then(|| answer.clone())
    }

    /// A write was tried.
    pub(super) fn note(&self, now: Instant, answer: &Result<(), CommitError>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, answer.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_for_a_second() {
        let (probe, begin) = (Probe::default(), Instant::now());
        assert_eq!(probe.last(begin), None);
        for answer in [Ok(()), Err(CommitError::Unavailable("full".to_owned()))] {
            probe.note(begin, &answer);
            assert_eq!(probe.last(begin + HOLDS / 2), Some(answer));
            assert_eq!(probe.last(begin + HOLDS), None);
        }
    }
}
