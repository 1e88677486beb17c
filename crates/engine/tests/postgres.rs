//! The suite on a database that two nodes have open.

mod suite;

use std::sync::Arc;

use lockkeeper_locks::{InProcess, ServiceOptions};
use lockkeeper_store::{PostgresOptions, PostgresStore, Store};
use lockkeeper_testbed::shared_database;

use suite::support::Ground;

async fn ground() -> Ground {
    let database = tokio::task::spawn_blocking(shared_database).await.expect("a database");
    let node = async || {
        let options = PostgresOptions::from_url(&database.url()).expect("a good url");
        Arc::new(PostgresStore::open(options).await.expect("an empty store"))
    };
    let (store, other): (Arc<dyn Store>, Arc<dyn Store>) = (node().await, node().await);
    // A lock server beside the database, that knows nothing of it.
    let locks = Arc::new(InProcess::open(ServiceOptions::default()));
    Ground { store, other, locks, place: Box::new(database) }
}
