//! On a schema in a database of its own, on a real server.

use std::sync::Arc;

use lockkeeper_locks::Durable;
use lockkeeper_store::{PostgresOptions, PostgresStore};
use lockkeeper_testbed::shared_database;

use crate::bench::{Bench, options};

/// Starts an empty service.
pub(crate) async fn start() -> Bench {
    let database = tokio::task::spawn_blocking(shared_database).await.expect("a database");
    let database_options = PostgresOptions::from_url(&database.url()).expect("a good url");
    let store = PostgresStore::open(database_options).await.expect("an empty store");
    Bench::new(Arc::new(Durable::open(Arc::new(store), options())), Box::new(database))
}
