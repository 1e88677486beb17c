//! Two nodes on one PostgreSQL server, and each of the three killed in turn.

use std::time::{Duration, Instant};

use lockkeeper_testbed::{Postgres, StopMode};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;
use tokio::task::block_in_place;

use crate::load::{CLIENTS, Load};
use crate::support::api::Api;
use crate::support::seed::{number, seed};
use crate::support::server::Server;
use crate::verdict::{Promise, judge};
use crate::{KILLS, world};

/// Acknowledged commands between one kill and the next, at most.
const ACKNOWLEDGED_MAX: u64 = 100;

/// Restarts of the server under a node that stays up.
const RESTARTS: usize = 10;

/// How long a node may take to work again after the database does.
const BACK_WITHIN: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_and_database_killed_in_turn_lose_nothing() {
    let (seed, kills, begin) = (seed(), number("LOCKKEEPER_KILLS", KILLS), Instant::now());
    let mut random = StdRng::seed_from_u64(seed);
    let dir = TempDir::new().unwrap();
    let mut database = block_in_place(Postgres::start);
    let serve = |database: &Postgres| block_in_place(|| Server::start(dir.path(), &database.url()));
    let mut nodes = [serve(&database), serve(&database)];
    let urls = nodes.iter().map(|node| node.url().to_owned()).collect();
    let api = nodes[0].api();
    world::prepare(&api).await;
    let mut load = Load::begin(&api, seed, urls);
    for turn in 0..kills {
        load.more(random.random_range(1..=ACKNOWLEDGED_MAX)).await;
        match turn % 3 {
            2 => block_in_place(|| {
                database.kill();
                database.restart();
            }),
            node => {
                let node = usize::try_from(node).unwrap();
                block_in_place(|| nodes[node].program.kill());
                nodes[node] = serve(&database);
                load.moved(node, nodes[node].url());
            }
        }
    }
    let done = load.end().await;
    let loaded = begin.elapsed();
    let api = Api::over(nodes.iter().map(|node| node.url().to_owned()).collect());
    let verdict = judge(&api, &done, Promise::Kept).await;
    println!(
        "{kills} kills of two nodes and their database under {CLIENTS} clients: {verdict}; load {loaded:.1?}, all {:.1?}",
        begin.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_comes_back_by_itself_when_its_database_does() {
    let (seed, begin) = (seed(), Instant::now());
    let mut random = StdRng::seed_from_u64(seed);
    let dir = TempDir::new().unwrap();
    let mut database = block_in_place(Postgres::start);
    let node = block_in_place(|| Server::start(dir.path(), &database.url()));
    let api = node.api();
    world::prepare(&api).await;
    let mut load = Load::begin(&api, seed, vec![node.url().to_owned()]);
    let mut longest = Duration::ZERO;
    for _ in 0..RESTARTS {
        load.more(random.random_range(1..=ACKNOWLEDGED_MAX)).await;
        block_in_place(|| {
            database.stop(StopMode::Immediate);
            database.restart();
        });
        let up = Instant::now();
        load.more(1).await;
        longest = longest.max(up.elapsed());
    }
    let done = load.end().await;
    assert!(longest < BACK_WITHIN, "it took {longest:?} until something was acknowledged again");
    api.get("/readyz").await.ok();
    let verdict = judge(&api, &done, Promise::Kept).await;
    let open = node.program.log().matches("the fate of a commit is not known").count();
    println!(
        "{RESTARTS} immediate restarts of the database under {CLIENTS} clients: {verdict}; {open} commits whose fate had to \
         be asked after; back within {longest:.1?}, all {:.1?}",
        begin.elapsed()
    );
}
