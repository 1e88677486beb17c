//! Jobs for the writer, and their answers.

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::CommitError;

/// What can be asked of the writer.
pub(super) trait Request: Send + 'static {
    /// What is answered.
    type Answer: Send + 'static;

    /// Bytes that it brings to its transaction.
    fn size(&self) -> usize;

    /// Does it in the transaction that is open. It may be done twice: the first time is taken back then.
    fn perform(&self, connection: &Connection) -> rusqlite::Result<(Self::Answer, Effect)>;

    /// It has been done, and is on stable storage: whoever else is to know of it may be told.
    fn done(&self, _answer: &Self::Answer) {}
}

/// What a job did to the open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It wrote nothing.
    Nothing,
    /// It wrote what is to be committed.
    Wrote,
    /// It wrote a part of what it should, and that must be taken back.
    Undo,
}

/// A request on its way, whatever its kind.
pub(super) trait Job: Send {
    /// Bytes that it brings to its transaction.
    fn size(&self) -> usize;
    /// Whether nobody waits for its answer any more. It need not be done then: nothing was promised.
    fn is_abandoned(&self) -> bool;
    /// Does it, and keeps what it came to until the transaction's fate is known.
    fn perform(&mut self, connection: &Connection) -> rusqlite::Result<Effect>;
    /// It could not be done, and has left nothing.
    fn fail(&mut self, reason: String);
    /// The commit is about to be sent: from here on only its answer can tell.
    fn mark_sent(&mut self);
    /// The transaction's fate is known to be good: tells what the job came to.
    fn answer(self: Box<Self>);
    /// The transaction did not take place: nothing was written.
    fn refuse(self: Box<Self>, reason: &str);
}

/// A request with the way back to who waits. Whatever happens to it, an answer is given; if it is dropped, the truth
/// about what is known.
pub(super) struct Task<R: Request> {
    request: R,
    back: Option<oneshot::Sender<Result<R::Answer, CommitError>>>,
    outcome: Option<Result<R::Answer, String>>,
    sent: bool,
}

/// Where an answer will arrive.
pub(super) type Arrival<T> = oneshot::Receiver<Result<T, CommitError>>;

impl<R: Request> Task<R> {
    /// A task, and where its answer will arrive.
    pub(super) fn new(request: R) -> (Box<Self>, Arrival<R::Answer>) {
        let (back, arrival) = oneshot::channel();
        (Box::new(Self { request, back: Some(back), outcome: None, sent: false }), arrival)
    }

    fn give(&mut self, answer: Result<R::Answer, CommitError>) {
        if let Some(back) = self.back.take() {
            // Whoever has stopped waiting does not need it.
            let _ = back.send(answer);
        }
    }
}

impl<R: Request> Job for Task<R> {
    fn size(&self) -> usize {
        self.request.size()
    }

    fn is_abandoned(&self) -> bool {
        self.back.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    fn perform(&mut self, connection: &Connection) -> rusqlite::Result<Effect> {
        self.outcome = None;
        let (answer, effect) = self.request.perform(connection)?;
        self.outcome = Some(Ok(answer));
        Ok(effect)
    }

    fn fail(&mut self, reason: String) {
        self.outcome = Some(Err(reason));
    }

    fn mark_sent(&mut self) {
        self.sent = true;
    }

    fn answer(mut self: Box<Self>) {
        if let Some(outcome) = self.outcome.take() {
            if let Ok(answer) = &outcome {
                self.request.done(answer);
            }
            self.give(outcome.map_err(CommitError::Unavailable));
        }
    }

    fn refuse(mut self: Box<Self>, reason: &str) {
        self.give(Err(CommitError::Unavailable(reason.to_owned())));
    }
}

impl<R: Request> Drop for Task<R> {
    fn drop(&mut self) {
        let reason = "the store's writer has ended".to_owned();
        let known = if self.sent { CommitError::Unknown(reason) } else { CommitError::Unavailable(reason) };
        self.give(Err(known));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::requests::Ping;

    #[test]
    fn a_dropped_task_says_what_is_known() {
        let (task, mut arrival) = Task::new(Ping { writes: false });
        drop(task);
        assert!(matches!(arrival.try_recv(), Ok(Err(CommitError::Unavailable(_)))));

        let (mut task, mut arrival) = Task::new(Ping { writes: false });
        task.mark_sent();
        drop(task);
        assert!(matches!(arrival.try_recv(), Ok(Err(CommitError::Unknown(_)))));
    }
}
