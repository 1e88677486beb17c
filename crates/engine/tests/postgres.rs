//! The suite on a database that two nodes have open.

mod suite;

use std::sync::Arc;

use lockkeeper_locks::{Durable, ServiceOptions};
use lockkeeper_store::{PostgresOptions, PostgresStore, Store};
use lockkeeper_testbed::shared_database;

use suite::support::Ground;

/// Races of two commands that end a run: each is three commits, and four processes share the machine.
const RACING_PAIRS: usize = 1_000;

async fn ground() -> Ground {
    let database = tokio::task::spawn_blocking(shared_database).await.expect("a database");
    let node = async || {
        let options = PostgresOptions::from_url(&database.url()).expect("a good url");
        Arc::new(PostgresStore::open(options).await.expect("an empty store"))
    };
    let (store, other): (Arc<dyn Store>, Arc<dyn Store>) = (node().await, node().await);
    let locks = Arc::new(Durable::open(store.clone(), ServiceOptions::default()));
    Ground { store, other, locks, place: Box::new(database) }
}
