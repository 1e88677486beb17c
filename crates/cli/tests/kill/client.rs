//! A client that never gives up: it sends a command under its key until somebody says what came of it.

use std::time::Duration;

use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::command::Command;
use crate::support::api::Api;
use crate::support::call::Answer;

/// The pause after an answer that says "later".
const PAUSE: Duration = Duration::from_millis(20);

/// How long a lost server is waited for before it is asked again at the same address.
const NEW_ADDRESS_MAX: Duration = Duration::from_secs(1);

/// Attempts of one command: far more than there are kills.
const ATTEMPTS_MAX: u32 = 1_000;

/// One of many.
pub(crate) struct Client {
    pub(crate) api: Api,
    pub(crate) number: u64,
    pub(crate) random: StdRng,
    /// Where the server listens.
    pub(crate) address: watch::Receiver<String>,
    pub(crate) stop: watch::Receiver<bool>,
}

/// A command that was answered.
pub(crate) struct Done {
    pub(crate) command: Command,
    pub(crate) answer: Answer,
    /// How often it was sent.
    pub(crate) attempts: u32,
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
        for attempts in 1..=ATTEMPTS_MAX {
            let url = self.address.borrow_and_update().clone();
            match self.api.at(&url).try_call(&command.call).await {
                Ok(answer) if matches!(answer.status, 429 | 503 | 504) => sleep(PAUSE).await,
                Ok(answer) => return Done { command, answer, attempts },
                // The server was killed; its successor listens elsewhere.
                Err(_) => drop(timeout(NEW_ADDRESS_MAX, self.address.changed()).await),
            }
        }
        panic!("{} was sent {ATTEMPTS_MAX} times", command.key);
    }
}
