//! One row of the result.

use std::time::Duration;

use serde::Serialize;

use crate::bench::clients::Latencies;

/// What was measured under one name.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Whether it is what the others are compared with.
    pub(crate) peer: bool,
    /// Acknowledged moves a second.
    pub(crate) ok_per_s: f64,
    pub(crate) mean_ms: f64,
    /// None: a peer's own program does not tell it.
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: f64,
    pub(crate) success_pct: f64,
    /// The share of all cores that this process used, server and clients together; none where it cannot be told.
    pub(crate) cpu_pct: Option<f64>,
    /// Acknowledged moves less those in the store: more than 0 is a fault.
    pub(crate) lost: i64,
    /// Moves that were not acknowledged; some of them may have taken effect.
    #[serde(skip)]
    pub(crate) failed: u64,
    /// Each node's share of the acknowledged moves, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) node_shares_pct: Vec<f64>,
}

impl Row {
    /// A row of this process's own clients; `cpu` is a share of 1.
    pub(crate) fn measured(
        name: &str,
        latencies: &Latencies,
        failed: u64,
        wall: Duration,
        cpu: Option<f64>,
        lost: i64,
    ) -> Self {
        let acknowledged = latencies.count();
        Self {
            name: name.to_owned(),
            peer: false,
            ok_per_s: rounded(acknowledged as f64 / wall.as_secs_f64()),
            mean_ms: rounded(latencies.mean_ms()),
            p50_ms: Some(rounded(latencies.percentile_ms(50.0))),
            p99_ms: rounded(latencies.percentile_ms(99.0)),
            success_pct: rounded(100.0 * acknowledged as f64 / (acknowledged + failed).max(1) as f64),
            cpu_pct: cpu.map(|share| rounded(share * 100.0)),
            lost,
            failed,
            node_shares_pct: Vec::new(),
        }
    }

    /// Whether the store has less than was acknowledged, or more than was sent. What was answered `unknown` may be there.
    pub(crate) fn is_at_fault(&self) -> bool {
        !self.peer && (self.lost > 0 || self.lost.unsigned_abs() > self.failed)
    }

    pub(crate) fn into_peer(self) -> Self {
        Self { peer: true, ..self }
    }

    /// The moves of each node, as shares.
    pub(crate) fn with_nodes(self, moves: &[u64]) -> Self {
        let sum = moves.iter().sum::<u64>().max(1) as f64;
        let share = |moves: &u64| rounded(100.0 * *moves as f64 / sum);
        let node_shares_pct = if moves.len() > 1 { moves.iter().map(share).collect() } else { Vec::new() };
        Self { node_shares_pct, ..self }
    }
}

/// To three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
