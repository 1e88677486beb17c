//! `kill -9` of the server under load: what was acknowledged is in the history exactly once.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../support/mod.rs"]
mod support;

mod client;
mod command;
mod verdict;
mod world;

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;
use tokio::task::{JoinSet, block_in_place};

use crate::client::Client;
use crate::support::seed::{number, seed};
use crate::support::server::Store;

const CLIENTS: u64 = 64;

/// Kills, unless `LOCKKEEPER_KILLS` says otherwise.
const KILLS: u64 = 30;

/// Acknowledged commands between a start and the next kill, at most.
const ACKNOWLEDGED_MAX: u64 = 250;

/// A server that acknowledges nothing for so long is stuck.
const STUCK: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_is_in_the_history_exactly_once() {
    let (seed, kills, begin) = (seed(), number("LOCKKEEPER_KILLS", KILLS), Instant::now());
    let mut random = StdRng::seed_from_u64(seed);
    let store = Store::new();
    let mut server = block_in_place(|| store.serve());
    let api = server.api();
    world::prepare(&api).await;

    let address = watch::Sender::new(server.url().to_owned());
    let acknowledged = watch::Sender::new(0_u64);
    let stop = watch::Sender::new(false);
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let random = StdRng::seed_from_u64(seed.wrapping_mul(CLIENTS).wrapping_add(number));
        let (address, stop) = (address.subscribe(), stop.subscribe());
        clients.spawn(Client { api: api.clone(), number, random, address, stop }.run(acknowledged.clone()));
    }

    let mut progress = acknowledged.subscribe();
    for kill in 0..kills {
        let target = *progress.borrow_and_update() + random.random_range(1..=ACKNOWLEDGED_MAX);
        let reached = tokio::time::timeout(STUCK, progress.wait_for(|count| *count >= target)).await;
        assert!(reached.is_ok(), "no {target} acknowledged commands within {STUCK:?} after {kill} kills");
        block_in_place(|| server.kill());
        server = block_in_place(|| store.serve());
        address.send_replace(server.url().to_owned());
    }
    stop.send_replace(true);
    let loaded = begin.elapsed();

    let mut done = Vec::new();
    while let Some(joined) = clients.join_next().await {
        done.extend(joined.expect("a client does not panic"));
    }
    let verdict = verdict::judge(&server.api(), &done).await;
    println!("{kills} kills under {CLIENTS} clients: {verdict}; load {loaded:.1?}, all {:.1?}", begin.elapsed());
}
