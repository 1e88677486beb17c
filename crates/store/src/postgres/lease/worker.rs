//! A worker takes what has arrived while the last batch was being committed, and has it done in one transaction.
//!
//! Invariant: an answer, and the news for those it made room for, leave only after the commit.

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc};

use super::news::News;
use super::queue::Job;
use super::transaction::{self, Failed};
use crate::CommitError;
use crate::lease::LeaseRequest;
use crate::postgres::store::Shared;

/// Requests of one transaction: past it the sync is a small part of each.
pub(super) const REQUESTS_MAX: usize = 64;

/// Names that the asks of one transaction tell, reached or once exceeded.
const NAMES_MAX: usize = 256;

/// Works until the queue is closed and empty.
pub(super) async fn run(shared: Arc<Shared>, queue: Arc<Mutex<mpsc::Receiver<Job>>>, news: Arc<News>) {
    while let Some(batch) = gather(&queue).await {
        perform(&shared, &news, batch).await;
    }
}

/// What waits, in its order; the other worker gathers after this one.
async fn gather(queue: &Mutex<mpsc::Receiver<Job>>) -> Option<Vec<Job>> {
    let mut queue = queue.lock().await;
    let mut next = Some(queue.recv().await?);
    let (mut batch, mut names) = (Vec::new(), 0);
    while let Some(job) = next {
        if let LeaseRequest::Ask { ask, .. } = &job.request {
            names += ask.claims().len();
        }
        batch.push(job);
        let full = batch.len() >= REQUESTS_MAX || names >= NAMES_MAX;
        next = if full { None } else { queue.try_recv().ok() };
    }
    Some(batch)
}

async fn perform(shared: &Arc<Shared>, news: &News, mut batch: Vec<Job>) {
    batch.retain(Job::begin);
    let mut parts = vec![batch];
    while let Some(mut part) = parts.pop() {
        if part.is_empty() {
            continue;
        }
        let requests: Vec<&LeaseRequest> = part.iter().map(|job| &job.request).collect();
        match transaction::perform(shared, &requests).await {
            Ok(answered) => {
                // Whoever listens hears of it no later than whoever asked.
                news.tell(answered.iter().flat_map(|answered| answered.woken.iter().map(|woken| woken.lease)));
                for (job, answered) in part.into_iter().zip(answered) {
                    let _gone = job.answer.send(Ok(answered.answer));
                }
            }
            Err(Failed::TooMuch | Failed::Locked) if part.len() > 1 => {
                let half = part.split_off(part.len() / 2);
                parts.extend([half, part]);
            }
            Err(failed) => {
                if let Failed::Unknown(_, woken) = &failed {
                    // Woken for nothing they only ask once more.
                    news.tell(woken.iter().copied());
                }
                let error = CommitError::from(failed);
                for job in part {
                    let _gone = job.answer.send(Err(error.clone()));
                }
            }
        }
    }
}
