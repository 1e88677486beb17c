//! On the embedded store.

use std::sync::Arc;

use lockkeeper_locks::Durable;
use lockkeeper_store::{SqliteOptions, SqliteStore};

use crate::bench::{Bench, options};

/// Starts an empty service.
pub(crate) async fn start() -> Bench {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(&folder.path().join("store.db"), SqliteOptions::default()).expect("an empty store");
    Bench::new(Arc::new(Durable::open(Arc::new(store), options())), Box::new(folder))
}
