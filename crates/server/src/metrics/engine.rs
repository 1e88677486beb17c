//! What the engine counts itself: commands, timers, retention.

use lockkeeper_engine::{Engine, Purged, TimerFigures};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::PREFIX;

/// Its figures at this moment.
pub(super) fn registry(engine: &Engine) -> Registry {
    let mut registry = Registry::with_prefix(PREFIX);
    let TimerFigures { fired, postponed, firing } = engine.timer_figures();
    let Purged { instances, events, looked_at, sweeps, sweeps_failed } = engine.purged();
    let gauges = [
        ("commands_waiting", "Commands that wait, or are being committed, on this node now", engine.waiting() as u64),
        ("timers_firing", "Timers that this node is firing now", firing),
    ];
    for (name, help, value) in gauges {
        registry.register(name, help, ConstGauge::new(value));
    }
    let counters = [
        ("timers_fired", "Timers that have changed an instance, fired by this node", fired),
        ("timers_postponed", "Timers that could not fire on this node and are to be tried again", postponed),
        ("purged_instances", "Closed instances that this node has purged, by itself or by hand", instances),
        (
            "purged_events",
            "Changes that this node has purged from histories, those of purged instances included",
            events,
        ),
        ("retention_looked_at", "Instances that this node has looked at for what is older than it is kept", looked_at),
        ("retention_sweeps", "Times that this node has looked at all that is older than it is kept", sweeps),
        ("retention_sweeps_failed", "Times that this node could not look at all of it", sweeps_failed),
    ];
    for (name, help, value) in counters {
        registry.register(name, help, ConstCounter::new(value));
    }
    registry
}
