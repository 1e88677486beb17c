//! In this process.

use std::sync::Arc;

use lockkeeper_locks::InProcess;

use crate::bench::{Bench, options};

/// Starts an empty service.
pub(crate) async fn start() -> Bench {
    Bench::new(Arc::new(InProcess::open(options())), Box::new(()))
}
