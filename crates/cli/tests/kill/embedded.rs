//! `kill -9` of a node with a store of its own.

use std::time::Instant;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::block_in_place;

use crate::load::{CLIENTS, Load};
use crate::support::seed::{number, seed};
use crate::support::server::Store;
use crate::verdict::{Promise, judge};
use crate::{ACKNOWLEDGED_MAX, KILLS, world};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_is_in_the_history_exactly_once() {
    let (seed, kills, begin) = (seed(), number("LOCKKEEPER_KILLS", KILLS), Instant::now());
    let mut random = StdRng::seed_from_u64(seed);
    let store = Store::new();
    let mut server = block_in_place(|| store.serve());
    let api = server.api();
    world::prepare(&api).await;
    let mut load = Load::begin(&api, seed, vec![server.url().to_owned()]);
    for _ in 0..kills {
        load.more(random.random_range(1..=ACKNOWLEDGED_MAX)).await;
        block_in_place(|| server.kill());
        server = block_in_place(|| store.serve());
        load.moved(0, server.url());
    }
    let done = load.end().await;
    let loaded = begin.elapsed();
    let verdict = judge(&server.api(), &done, Promise::Kept).await;
    println!("{kills} kills under {CLIENTS} clients: {verdict}; load {loaded:.1?}, all {:.1?}", begin.elapsed());
}
