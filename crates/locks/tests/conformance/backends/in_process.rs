//! In this process.

use std::sync::Arc;

use lockkeeper_locks::{InProcess, ServiceOptions};

use crate::bench::Bench;

/// Starts an empty service.
pub(crate) async fn start() -> Bench {
    Bench::new(Arc::new(InProcess::open(ServiceOptions::default())), Box::new(()))
}
