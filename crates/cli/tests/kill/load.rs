//! Many clients at work.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::{Client, Done};
use crate::support::api::Api;

pub(crate) const CLIENTS: usize = 64;

/// Nodes that acknowledge nothing for so long are stuck.
const STUCK: Duration = Duration::from_secs(60);

/// Clients, each of which sends one command after another.
pub(crate) struct Load {
    clients: JoinSet<Vec<Done>>,
    addresses: watch::Sender<Vec<String>>,
    stop: watch::Sender<bool>,
    progress: watch::Receiver<u64>,
}

impl Load {
    /// Begins; the nodes listen at `urls`.
    pub(crate) fn begin(api: &Api, seed: u64, urls: Vec<String>) -> Self {
        let addresses = watch::Sender::new(urls);
        let acknowledged = watch::Sender::new(0_u64);
        let stop = watch::Sender::new(false);
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let random = StdRng::seed_from_u64(seed.wrapping_mul(CLIENTS as u64).wrapping_add(number as u64));
            let (addresses, stop) = (addresses.subscribe(), stop.subscribe());
            clients.spawn(Client { api: api.clone(), number, random, addresses, stop }.run(acknowledged.clone()));
        }
        Self { clients, addresses, stop, progress: acknowledged.subscribe() }
    }

    /// Waits until so many more commands are acknowledged.
    pub(crate) async fn more(&mut self, commands: u64) {
        let target = *self.progress.borrow_and_update() + commands;
        let reached = tokio::time::timeout(STUCK, self.progress.wait_for(|count| *count >= target)).await;
        assert!(reached.is_ok(), "no {commands} commands more were acknowledged within {STUCK:?}");
    }

    /// A node listens elsewhere.
    pub(crate) fn moved(&self, node: usize, url: &str) {
        self.addresses.send_modify(|urls| url.clone_into(&mut urls[node]));
    }

    /// Lets each client finish its command; returns all that was answered.
    pub(crate) async fn end(mut self) -> Vec<Done> {
        self.stop.send_replace(true);
        let mut done = Vec::new();
        while let Some(joined) = self.clients.join_next().await {
            done.extend(joined.expect("a client does not panic"));
        }
        done
    }
}
