//! A client that never gives up: it sends a command under its key, to one node after another, until somebody says what
//! came of it.

use std::time::Duration;

use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::command::Command;
use crate::support::api::Api;
use crate::support::call::Answer;

/// The pause after an answer that says "later": the first, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(200));

/// How long nodes that are all lost are waited for before they are asked again at the same addresses.
const NEW_ADDRESS_MAX: Duration = Duration::from_secs(1);

/// Attempts of one command: far more than there are kills.
const ATTEMPTS_MAX: u32 = 1_000;

/// One of many.
pub(crate) struct Client {
    pub(crate) api: Api,
    pub(crate) number: usize,
    pub(crate) random: StdRng,
    /// Where the nodes listen.
    pub(crate) addresses: watch::Receiver<Vec<String>>,
    pub(crate) stop: watch::Receiver<bool>,
}

/// A command that was answered.
pub(crate) struct Done {
    pub(crate) command: Command,
    pub(crate) answer: Answer,
    /// How often it was sent.
    pub(crate) attempts: u32,
    /// What it was answered before: `unknown`, `unavailable`, `busy`.
    pub(crate) before: Vec<String>,
}

impl Client {
    /// Sends command after command; returns what was answered.
    pub(crate) async fn run(mut self, acknowledged: watch::Sender<u64>) -> Vec<Done> {
        let mut done = Vec::new();
        while !*self.stop.borrow() {
            let key = format!("client-{}-{}", self.number, done.len());
            let command = Command::random(key, &mut self.random);
            done.push(self.send(command).await);
            acknowledged.send_modify(|count| *count += 1);
        }
        done
    }

    async fn send(&mut self, command: Command) -> Done {
        let (mut node, mut lost) = (self.number, 0);
        let mut before = Vec::new();
        for attempts in 1..=ATTEMPTS_MAX {
            let urls = self.addresses.borrow_and_update().clone();
            match self.api.at(&urls[node % urls.len()]).try_call(&command.call).await {
                Ok(answer) if matches!(answer.status, 429 | 503 | 504) => {
                    before.push(answer.outcome());
                    sleep((PAUSE.0 * attempts).min(PAUSE.1)).await;
                    (node, lost) = (node + 1, 0);
                }
                Ok(answer) => return Done { command, answer, attempts, before },
                // The node was killed; its successor listens elsewhere. Until then there are the others.
                Err(_) => {
                    (node, lost) = (node + 1, lost + 1);
                    if lost % urls.len() == 0 {
                        drop(timeout(NEW_ADDRESS_MAX, self.addresses.changed()).await);
                    }
                }
            }
        }
        panic!("{} was sent {ATTEMPTS_MAX} times", command.key);
    }
}
