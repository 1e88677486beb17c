//! A peer that is a program of its own, run on the same server in the same run.
//!
//! It prints one JSON object a line for each strategy that it measures: `strategy`, `ok_per_s`, `mean_ms`, `p99_ms`,
//! `success_pct`, `lost` (of locks: `peer`, `pairs_per_s`, `mean_ms`, `p99_ms`). In its command line `{clients}`, `{keys}` and `{seconds}` are replaced.

use std::process::Stdio;

use serde::Deserialize;
use tokio::process::Command;

use crate::bench::clients::Load;
use crate::bench::row::Row;
use crate::failure::Failure;

/// A line of a peer's output.
#[derive(Deserialize)]
struct Line {
    #[serde(alias = "peer")]
    strategy: String,
    #[serde(alias = "pairs_per_s")]
    ok_per_s: f64,
    mean_ms: f64,
    p99_ms: f64,
    /// A program that waits until it has succeeded need not say so.
    #[serde(default = "all")]
    success_pct: f64,
    #[serde(default)]
    lost: i64,
}

fn all() -> f64 {
    100.0
}

/// Runs the command and reads its rows.
///
/// # Errors
/// It cannot be run, fails, or prints something else.
pub(crate) async fn measure(command: &str, load: &Load) -> Result<Vec<Row>, Failure> {
    let filled = command
        .replace("{clients}", &load.clients.to_string())
        .replace("{keys}", &load.keys.to_string())
        .replace("{seconds}", &load.duration.as_secs().to_string());
    let failed = |what: String| Failure::failed(format!("--peer {filled:?}: {what}"));
    let child = Command::new("sh")
        .args(["-c", &filled])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| failed(error.to_string()))?;
    if !child.status.success() {
        return Err(failed(child.status.to_string()));
    }
    let text = String::from_utf8_lossy(&child.stdout);
    let line = |line: &str| {
        let read: Line = serde_json::from_str(line).map_err(|error| failed(format!("{line:?}: {error}")))?;
        Ok(Row {
            name: format!("peer: {}", read.strategy),
            peer: true,
            ok_per_s: read.ok_per_s,
            mean_ms: read.mean_ms,
            p50_ms: None,
            p99_ms: read.p99_ms,
            success_pct: read.success_pct,
            cpu_pct: None,
            lost: read.lost,
            failed: 0,
            node_shares_pct: Vec::new(),
        })
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(line).collect()
}
