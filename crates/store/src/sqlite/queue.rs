//! Jobs for the writer, and their answers.

use tokio::sync::oneshot;

use crate::{AllVerdict, ChangeSet, CommitError, Timestamp, Verdict, verify};

/// What the writer is asked to do.
#[derive(Debug)]
pub(super) enum Job {
    /// Commit one set.
    Set(Box<ChangeSet>, Answer<Verdict>),
    /// Commit several, all or none.
    All(Vec<ChangeSet>, Answer<AllVerdict>),
    /// Forget keys that had expired.
    Purge { now: Timestamp, limit: usize, answer: Answer<usize> },
    /// Show that a transaction can be begun.
    Ping(Answer<()>),
}

impl Job {
    /// Bytes that it brings to its transaction.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Set(set, _) => verify::size(set),
            Self::All(sets, _) => sets.iter().map(verify::size).sum(),
            Self::Purge { .. } | Self::Ping(_) => 0,
        }
    }

    /// Whether nobody waits for its answer any more. It need not be done then: nothing was promised.
    pub(super) fn is_abandoned(&self) -> bool {
        match self {
            Self::Set(_, answer) => answer.is_abandoned(),
            Self::All(_, answer) => answer.is_abandoned(),
            Self::Purge { answer, .. } => answer.is_abandoned(),
            Self::Ping(answer) => answer.is_abandoned(),
        }
    }

    /// Answers that nothing was written.
    pub(super) fn refuse(self, reason: &str) {
        match self {
            Self::Set(_, answer) => answer.refuse(reason),
            Self::All(_, answer) => answer.refuse(reason),
            Self::Purge { answer, .. } => answer.refuse(reason),
            Self::Ping(answer) => answer.refuse(reason),
        }
    }
}

/// The way back to who waits. Whatever happens to it, an answer is given: if it is dropped, the truth about what is
/// known.
#[derive(Debug)]
pub(super) struct Answer<T> {
    back: Option<oneshot::Sender<Result<T, CommitError>>>,
    sent: bool,
}

impl<T> Answer<T> {
    /// An answer, and where it will arrive.
    pub(super) fn new() -> (Self, oneshot::Receiver<Result<T, CommitError>>) {
        let (back, arrival) = oneshot::channel();
        (Self { back: Some(back), sent: false }, arrival)
    }

    fn is_abandoned(&self) -> bool {
        self.back.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    fn give(mut self, answer: Result<T, CommitError>) {
        if let Some(back) = self.back.take() {
            // Whoever has stopped waiting does not need it.
            let _ = back.send(answer);
        }
    }

    /// Answers that nothing was written.
    pub(super) fn refuse(self, reason: &str) {
        self.give(Err(CommitError::Unavailable(reason.to_owned())));
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        let Some(back) = self.back.take() else { return };
        let reason = "the store's writer has ended".to_owned();
        let _ = back.send(Err(if self.sent { CommitError::Unknown(reason) } else { CommitError::Unavailable(reason) }));
    }
}

/// What a job came to, held back until the transaction's fate is known.
pub(super) trait Held {
    /// The commit is about to be sent: from here on only its answer can tell.
    fn mark_sent(&mut self);
    /// The transaction's fate is known to be good.
    fn release(self: Box<Self>);
    /// The transaction did not take place.
    fn refuse(self: Box<Self>, reason: &str);
}

/// An answer with its content.
pub(super) struct Outcome<T> {
    /// The way back.
    pub(super) answer: Answer<T>,
    /// What is to be said.
    pub(super) value: T,
}

impl<T> Held for Outcome<T> {
    fn mark_sent(&mut self) {
        self.answer.sent = true;
    }

    fn release(self: Box<Self>) {
        let Self { answer, value } = *self;
        answer.give(Ok(value));
    }

    fn refuse(self: Box<Self>, reason: &str) {
        self.answer.refuse(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_answer_says_what_is_known() {
        let (answer, mut arrival) = Answer::<()>::new();
        drop(answer);
        assert!(matches!(arrival.try_recv(), Ok(Err(CommitError::Unavailable(_)))));

        let (answer, mut arrival) = Answer::new();
        let mut outcome = Outcome { answer, value: () };
        outcome.mark_sent();
        drop(outcome);
        assert!(matches!(arrival.try_recv(), Ok(Err(CommitError::Unknown(_)))));
    }
}
