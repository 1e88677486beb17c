//! How a lease is to be had.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_store::lease::{Claim, Mode};

/// Lives of leases that say nothing else (the sources' thirty seconds): a holder that dies keeps others away for so long,
/// and one that is out of touch has twenty seconds to come back.
pub const TTL_DEFAULT: Duration = Duration::from_secs(30);

/// How a lease is to be had: alone, at once or not at all, for thirty seconds at a time, unless something else is said.
#[derive(Clone, Debug)]
pub struct Acquire {
    pub(super) ttl: Duration,
    pub(super) wait: Duration,
    pub(super) max_hold: Option<Duration>,
    pub(super) owner: Option<Arc<str>>,
    pub(super) mode: Mode,
}

impl Default for Acquire {
    fn default() -> Self {
        Self { ttl: TTL_DEFAULT, wait: Duration::ZERO, max_hold: None, owner: None, mode: Mode::Exclusive }
    }
}

impl Acquire {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long the lease lives without a renewal, from 1 ms to 24 h. It is renewed after a third of it.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How long to wait for it; zero: not at all.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long it may be held at most, however often it is renewed; then it is lost.
    #[must_use]
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Who asks, for people and for finding deadlocks: it names one flow of work (a job, a thread), which waits for one
    /// thing at a time. Without it each lease has an owner of its own, and deadlocks are not found.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<Arc<str>>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Together with others that share it, instead of alone.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.mode = Mode::Shared;
        self
    }

    /// One of so many that may hold it at once. As many hold it as the strictest of them allows.
    #[must_use]
    pub fn permits(mut self, permits: u32) -> Self {
        self.mode = Mode::Permits(permits);
        self
    }

    /// The claims on several names, all in this mode.
    pub(super) fn claims<N: Into<Arc<str>>>(&self, names: impl IntoIterator<Item = N>) -> Vec<Claim> {
        names.into_iter().map(|name| Claim { resource: name.into(), mode: self.mode }).collect()
    }
}
