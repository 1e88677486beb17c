//! What is counted and timed, for Prometheus (OpenMetrics 1.0): by whoever does it, or, in the engine, by the engine itself.
//! Never labelled by a name that users choose: each would be
//! a series of its own, for ever.

mod engine;
mod locks;
mod metered;

use std::fmt;
use std::sync::Arc;

use lockkeeper_engine::Engine;
use lockkeeper_locks::LockService;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;

use self::locks::LockMetrics;
use self::metered::Metered;

/// Before each name.
const PREFIX: &str = "lockkeeper";

/// The metrics of one server.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    locks: LockMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let locks = LockMetrics::register(&mut registry);
        Self { registry: Arc::new(registry), locks }
    }

    /// The same lock service, measured: whoever uses it, and whatever it is.
    pub fn metered(&self, service: Arc<dyn LockService>) -> Arc<dyn LockService> {
        Arc::new(Metered::new(service, self.locks.clone()))
    }

    /// All of them, with what `engine` has counted by now, as OpenMetrics writes them.
    pub(crate) fn text(&self, engine: &Engine) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, &engine::registry(engine))?;
        encode_eof(&mut text)?;
        Ok(text)
    }
}
