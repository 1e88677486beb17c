//! What is told of how an instance's commands commit.

use chrono::{DateTime, Utc};
use lockkeeper_engine::{EventConcurrency, InstanceExplanation, Reason, Rung, Switch, Wait, Waits, Warning};
use lockkeeper_model::InstanceKey;
use lockkeeper_model::definition::ConcurrencyOutline;
use serde::Serialize;
use utoipa::ToSchema;

use crate::closed::{OnLockLossName, OnLockedName, ReasonName, RungName, StrategyName};

/// How the commands of an instance commit on one node, and why.
#[derive(Serialize, ToSchema)]
pub(crate) struct ExplanationView {
    /// Who tells: host name and process id. Each node judges by what it meets itself.
    #[schema(example = "host:1234")]
    node: String,
    workflow: String,
    id: String,
    /// When it was so, by the node's clock.
    at: DateTime<Utc>,
    version: i64,
    state: String,
    concurrency: ConcurrencyView,
    /// Events of its state that commit otherwise.
    events: Vec<EventView>,
    /// `optimistic`, `row_lock` or `lease`: how adaptive commands are tried.
    #[schema(value_type = RungName, example = "row_lock")]
    rung: Rung,
    /// Since when; none: since the node began.
    since: Option<DateTime<Utc>>,
    /// What brought it there: `score`, `exhausted`, `quiet` or `locks_gone`; none: nothing did.
    #[schema(value_type = Option<ReasonName>, example = "score")]
    reason: Option<Reason>,
    /// Share of `tries` that was contended, 0 to 1.
    score: f64,
    /// Tries of about the last half-minute; each counts for less as it ages.
    tries: f64,
    /// Contended ones among them.
    contended: f64,
    /// The workflow's threshold, 0 to 1; none before the first try.
    escalate_above: Option<f64>,
    /// How much has been gathered of what leads to another rung, 0 to 1.
    evidence: f64,
    /// The rung that it leads to; none while there is none.
    #[schema(value_type = Option<RungName>, example = "lease")]
    evidence_for: Option<Rung>,
    /// How its tries went; none before the first.
    waits: Option<WaitsView>,
    /// On the row lock or the lease: how long it stays there whatever happens.
    dwell_left_ms: Option<u64>,
    /// On the row lock or the lease: when it comes down if tries go on as now and none is contended.
    may_come_down_in_ms: Option<u64>,
    /// Another instance shares its rung and counts, by a collision of hashes.
    shared_slot: bool,
    /// The last changes of its rung, oldest first.
    switches: Vec<SwitchView>,
    /// It, or another instance, keeps its whole workflow waiting.
    warning: Option<WarningView>,
}

/// How commands commit.
#[derive(Serialize, ToSchema)]
struct ConcurrencyView {
    /// `optimistic`, `pessimistic`, `distributed` or `adaptive`.
    #[schema(value_type = StrategyName, example = "adaptive")]
    strategy: &'static str,
    /// Attempts of one command.
    attempts: u32,
    /// The first backoff.
    backoff_ms: u64,
    /// What is done about a row that another session has locked; none: no row is locked.
    #[schema(value_type = Option<OnLockedName>)]
    on_locked: Option<&'static str>,
    /// The longest wait for such a row, or for a lease; none: nobody waits.
    lock_timeout_ms: Option<u64>,
    /// The part of contended tries above which the row is locked, as it is written; none: it plays no part.
    #[schema(example = "5%")]
    escalate_above: Option<String>,
    /// Whether commands that wait for the same instance commit together.
    combine: bool,
    /// The expression that names the lock; none: no leases are taken.
    #[schema(example = "\"inventory/\" + data.sku")]
    lock_key: Option<String>,
    /// How long a lease lives without being renewed.
    lock_ttl_ms: Option<u64>,
    /// `row_lock` or `refuse`: what is done while the lock service is gone.
    #[schema(value_type = Option<OnLockLossName>)]
    on_lock_loss: Option<&'static str>,
}

/// An event that commits otherwise than its workflow.
#[derive(Serialize, ToSchema)]
struct EventView {
    event: String,
    concurrency: ConcurrencyView,
}

/// How tries went lately: means and maxima that fade.
#[derive(Serialize, ToSchema)]
struct WaitsView {
    /// For the row lock, or for the lease.
    lock_wait: WaitView,
    /// On this node, before the try.
    queue_wait: WaitView,
    /// For the commit.
    round_trip: WaitView,
    /// Commands that are committed together, on average.
    commands_per_try: f64,
}

/// One kind of wait.
#[derive(Serialize, ToSchema)]
struct WaitView {
    mean_ms: f64,
    max_ms: f64,
}

/// A change of the rung, with the numbers that led to it.
#[derive(Serialize, ToSchema)]
struct SwitchView {
    #[schema(value_type = RungName, example = "optimistic")]
    from: Rung,
    #[schema(value_type = RungName, example = "row_lock")]
    to: Rung,
    at: DateTime<Utc>,
    /// Share of `tries` that was contended, 0 to 1.
    score: f64,
    /// Tries that decided.
    tries: f64,
    /// Contended ones among them.
    contended: f64,
    /// The workflow's threshold, 0 to 1.
    escalate_above: f64,
    /// `score`, `exhausted`, `quiet` or `locks_gone`.
    #[schema(value_type = ReasonName, example = "score")]
    reason: Reason,
    /// How long the row lock is kept at least.
    dwell_ms: u64,
}

/// One instance takes most of its workflow's commands, and they wait for each other.
#[derive(Serialize, ToSchema)]
struct WarningView {
    workflow: String,
    /// The instance.
    key: String,
    since: DateTime<Utc>,
    /// When this was last so.
    at: DateTime<Utc>,
    /// Its share of the workflow's commands, 0 to 1.
    share: f64,
    /// Share of its commands that had to wait, 0 to 1.
    waited: f64,
    commands_per_second: f64,
    /// What happened, and what to do.
    text: String,
}

impl ExplanationView {
    pub(crate) fn new(node: &str, key: &InstanceKey, at: DateTime<Utc>, told: InstanceExplanation) -> Self {
        let InstanceExplanation { version, state, concurrency, events, contention, warning } = told;
        Self {
            node: node.to_owned(),
            workflow: key.workflow.to_string(),
            id: key.id.to_string(),
            at,
            version,
            state,
            concurrency: concurrency.into(),
            events: events.into_iter().map(EventView::from).collect(),
            rung: contention.rung,
            since: contention.since,
            reason: contention.reason,
            score: contention.score,
            tries: contention.tries,
            contended: contention.contended,
            escalate_above: contention.escalate_above,
            evidence: contention.evidence,
            evidence_for: contention.evidence_for,
            waits: contention.waits.map(WaitsView::from),
            dwell_left_ms: contention.dwell_left_ms,
            may_come_down_in_ms: contention.may_come_down_in_ms,
            shared_slot: contention.shared_slot,
            switches: contention.switches.into_iter().map(SwitchView::from).collect(),
            warning: warning.map(WarningView::from),
        }
    }
}

impl From<ConcurrencyOutline> for ConcurrencyView {
    fn from(outline: ConcurrencyOutline) -> Self {
        let ConcurrencyOutline {
            strategy,
            attempts,
            backoff_ms,
            on_locked,
            lock_timeout_ms,
            escalate_above,
            combine,
            lock_key,
            lock_ttl_ms,
            on_lock_loss,
        } = outline;
        Self {
            strategy,
            attempts,
            backoff_ms,
            on_locked,
            lock_timeout_ms,
            escalate_above,
            combine,
            lock_key,
            lock_ttl_ms,
            on_lock_loss,
        }
    }
}

impl From<EventConcurrency> for EventView {
    fn from(told: EventConcurrency) -> Self {
        Self { event: told.event, concurrency: told.concurrency.into() }
    }
}

impl From<Waits> for WaitsView {
    fn from(waits: Waits) -> Self {
        Self {
            lock_wait: waits.lock_wait.into(),
            queue_wait: waits.queue_wait.into(),
            round_trip: waits.round_trip.into(),
            commands_per_try: waits.commands_per_try,
        }
    }
}

impl From<Wait> for WaitView {
    fn from(Wait { mean_ms, max_ms }: Wait) -> Self {
        Self { mean_ms, max_ms }
    }
}

impl From<Switch<InstanceKey>> for SwitchView {
    fn from(switch: Switch<InstanceKey>) -> Self {
        let Switch { key: _, from, to, at, score, tries, contended, escalate_above, reason, dwell } = switch;
        let dwell_ms = u64::try_from(dwell.as_millis()).unwrap_or(u64::MAX);
        Self { from, to, at, score, tries, contended, escalate_above, reason, dwell_ms }
    }
}

impl From<Warning> for WarningView {
    fn from(warning: Warning) -> Self {
        let Warning { workflow, key, since, at, share, waited, commands_per_second, text } = warning;
        Self { workflow, key, since, at, share, waited, commands_per_second, text }
    }
}
