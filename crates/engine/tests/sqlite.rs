//! The suite on a file.

mod suite;

use std::sync::Arc;

use lockkeeper_locks::{Durable, ServiceOptions};
use lockkeeper_store::{SqliteOptions, SqliteStore, Store};

use suite::support::Ground;

/// Races of two commands that end a run.
const RACING_PAIRS: usize = 10_000;

async fn ground() -> Ground {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(&folder.path().join("t.db"), SqliteOptions::default()).expect("an empty store");
    let store: Arc<dyn Store> = Arc::new(store);
    let locks = Arc::new(Durable::open(store.clone(), ServiceOptions::default()));
    Ground { other: store.clone(), store, locks, place: Box::new(folder) }
}
