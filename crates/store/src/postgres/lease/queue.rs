//! The way of a request to the workers, and of its answer back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::news::News;
use super::worker;
use crate::CommitError;
use crate::lease::{LeaseAnswer, LeaseId, LeaseRequest};
use crate::postgres::store::Shared;
use crate::postgres::turn::Turn;

/// Requests that may wait: those of ten thousand who wait for a lock ask every few seconds.
const QUEUE: usize = 4_096;

/// Two: while one commits the other gathers and loads. More make the batches smaller.
const WORKERS: usize = 2;

/// How long closing waits for what is under way.
const CLOSE_WAIT: Duration = Duration::from_secs(30);

pub(super) type Answer = Result<LeaseAnswer, CommitError>;

/// A request, and who waits for its answer.
pub(super) struct Job {
    pub(super) request: LeaseRequest,
    pub(super) answer: oneshot::Sender<Answer>,
    turn: Arc<Turn>,
}

impl Job {
    /// About to be worked on; false: nobody waits for it any more.
    pub(super) fn begin(&self) -> bool {
        !self.answer.is_closed() && self.turn.begin()
    }
}

/// All requests of one node.
#[derive(Debug)]
pub(in crate::postgres) struct Queue {
    // Std mutexes: held to clone or take, never over an await. None: closed.
    sender: Mutex<Option<mpsc::Sender<Job>>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    news: Arc<News>,
}

impl Queue {
    /// Starts the workers.
    pub(in crate::postgres) fn start(shared: &Arc<Shared>) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
        let news = Arc::new(News::new(shared));
        let tasks =
            (0..WORKERS).map(|_| tokio::spawn(worker::run(shared.clone(), receiver.clone(), news.clone()))).collect();
        Self { sender: Mutex::new(Some(sender)), tasks: Mutex::new(tasks), news }
    }

    /// Does what is asked, together with others.
    pub(in crate::postgres) async fn change(&self, request: LeaseRequest, shared: &Shared) -> Answer {
        let closed = || CommitError::Unavailable("the store is closed".to_owned());
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(sender) = sender else { return Err(closed()) };
        let late = || {
            let bound = shared.options.connection_wait;
            CommitError::Unavailable(format!("its turn did not come within {bound:?}"))
        };
        let until = Instant::now() + shared.options.connection_wait;
        let turn = Arc::new(Turn::default());
        let (answer, mut arrival) = oneshot::channel();
        match timeout_at(until, sender.send(Job { request, answer, turn: turn.clone() })).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(closed()),
            Err(_) => return Err(late()),
        }
        drop(sender);
        let told = match timeout_at(until, &mut arrival).await {
            Ok(told) => told,
            Err(_) if turn.withdraw() => return Err(late()),
            Err(_) => arrival.await,
        };
        told.unwrap_or_else(|_| Err(CommitError::Unknown("the store stopped working on it".to_owned())))
    }

    /// Whether the news of other nodes are heard.
    pub(in crate::postgres) fn hears_others(&self) -> bool {
        self.news.hears_others()
    }

    /// Hears of those who are to ask again.
    pub(in crate::postgres) fn woken(&self) -> broadcast::Receiver<LeaseId> {
        self.news.subscribe()
    }

    /// Lets what was accepted come to its end.
    pub(in crate::postgres) async fn close(&self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        if timeout(CLOSE_WAIT, join_all(tasks)).await.is_err() {
            tracing::error!("leases were still being changed {CLOSE_WAIT:?} after the store was closed");
        }
        self.news.close();
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.news.close();
    }
}
