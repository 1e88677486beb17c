//! The metrics of locks.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// What this node sees of locks.
#[derive(Clone, Debug)]
pub(super) struct LockMetrics {
    pub(super) wait: Histogram,
    pub(super) hold: Histogram,
    pub(super) hand_off: Histogram,
    pub(super) asks: Family<AskLabels, Counter>,
    pub(super) renewals: Counter,
    pub(super) renewal_failures: Counter,
    pub(super) losses: Counter,
    pub(super) waiters: Gauge,
}

/// How an ask ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AskLabels {
    pub(super) outcome: AskOutcome,
}

/// How an ask ended, by its name in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "labels are written as the API writes outcomes")]
pub(super) enum AskOutcome {
    granted,
    held,
    lock_timeout,
    deadlock,
    busy,
    refused,
    unavailable,
}

impl LockMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        // 0.25 ms to 131 s: a round trip to the longest wait in one request and more.
        let short = || Histogram::new(exponential_buckets(0.000_25, 2.0, 20));
        // 1 ms to 4.6 h: jobs hold locks for long.
        let long = || Histogram::new(exponential_buckets(0.001, 4.0, 13));
        let metrics = Self {
            wait: short(),
            hold: long(),
            hand_off: short(),
            asks: Family::default(),
            renewals: Counter::default(),
            renewal_failures: Counter::default(),
            losses: Counter::default(),
            waiters: Gauge::default(),
        };
        let seconds = || Unit::Seconds;
        let help = "From an ask to its grant";
        registry.register_with_unit("lock_wait", help, seconds(), metrics.wait.clone());
        let help = "From a grant to its release, where both were made on this node";
        registry.register_with_unit("lock_hold", help, seconds(), metrics.hold.clone());
        let help = "From a release to the grant of one that waited for it, where both were made on this node";
        registry.register_with_unit("lock_hand_off", help, seconds(), metrics.hand_off.clone());
        registry.register("lock_asks", "Asks for leases, by how they ended", metrics.asks.clone());
        registry.register("lock_renewals", "Leases renewed", metrics.renewals.clone());
        let help = "Renewals that the lock service did not answer";
        registry.register("lock_renewal_failures", help, metrics.renewal_failures.clone());
        let help = "Leases that were found lost when they were to be renewed or released";
        registry.register("lock_losses", help, metrics.losses.clone());
        registry.register("lock_waiters", "Asks that wait on this node now", metrics.waiters.clone());
        metrics
    }
}
