//! The way to the writer, and back.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::time::timeout;

use super::options::SqliteOptions;
use super::queue::{Job, Request, Task};
use crate::CommitError;

/// The bounded queue before the writer.
#[derive(Debug)]
pub(super) struct WriterQueue {
    // A std mutex: held to clone or take the sender, never over an await. None: closed.
    sender: Mutex<Option<mpsc::Sender<Box<dyn Job>>>>,
    queue_wait: Duration,
    verdict_wait: Duration,
}

impl WriterQueue {
    pub(super) fn new(sender: mpsc::Sender<Box<dyn Job>>, options: &SqliteOptions) -> Self {
        Self { sender: Mutex::new(Some(sender)), queue_wait: options.queue_wait, verdict_wait: options.verdict_wait }
    }

    /// Sends a request to the writer and waits for its answer.
    pub(super) async fn submit<R: Request>(&self, request: R) -> Result<R::Answer, CommitError> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(sender) = sender else { return Err(CommitError::Unavailable("the store is closed".to_owned())) };
        let (task, arrival) = Task::new(request);
        match sender.send_timeout(task, self.queue_wait).await {
            Ok(()) => {}
            Err(SendTimeoutError::Timeout(_)) => {
                return Err(CommitError::Unavailable(format!("its queue was full for {:?}", self.queue_wait)));
            }
            Err(SendTimeoutError::Closed(_)) => {
                return Err(CommitError::Unavailable("the store's writer has ended".to_owned()));
            }
        }
        // The writer ends when the last sender is gone: not held while waiting.
        drop(sender);
        match timeout(self.verdict_wait, arrival).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(CommitError::Unknown("the store's writer has ended".to_owned())),
            Err(_) => Err(CommitError::Unknown(format!("no verdict within {:?}", self.verdict_wait))),
        }
    }

    /// Nothing more is accepted; the writer ends when it has done what was.
    pub(super) fn close(&self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
