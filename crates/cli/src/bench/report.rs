//! What a benchmark prints, and how it shows that it is still at work.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::bench::clients::{Load, Measured};
use crate::output::Output;

/// A bar on standard error, where that is a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(rows: u64, each: Duration) -> Self {
        let bar = ProgressBar::new(rows);
        // The template is a constant; were it wrong, the default style would do.
        if let Ok(style) = ProgressStyle::with_template("{spinner} [{pos}/{len}] {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(format!("{} s each", each.as_secs()));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar }
    }

    pub(crate) fn next(&self, name: &str) {
        self.bar.inc(1);
        self.bar.set_message(name.to_owned());
    }

    pub(crate) fn done(&self) {
        self.bar.finish_and_clear();
    }
}

/// The rows as a table, or as JSON.
pub(crate) fn render(rows: &[Measured], load: &Load, store: &str, output: &Output) -> String {
    // The first row is the peer.
    let peer = rows.first().map_or(f64::NAN, ok_per_s);
    if output.is_json() {
        let rows: Vec<Value> = rows.iter().map(|row| as_json(row, peer)).collect();
        let document = json!({
            "rows": rows, "store": store, "clients": load.clients, "keys": load.keys,
            "seconds": load.duration.as_secs(),
        });
        return format!("{document:#}");
    }
    let heading = ["row", "moves/s", "mean ms", "p50 ms", "p99 ms", "success", "ratio", "CPU", "lost"];
    let cells = rows.iter().map(|row| {
        vec![
            row.name.clone(),
            format!("{:.0}", ok_per_s(row)),
            format!("{:.2}", row.latencies.mean_ms()),
            format!("{:.2}", row.latencies.percentile_ms(50.0)),
            format!("{:.2}", row.latencies.percentile_ms(99.0)),
            format!("{:.2} %", success_pct(row)),
            format!("{:.1} x", ok_per_s(row) / peer),
            row.cpu.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            row.lost.to_string(),
        ]
    });
    let table = output.table(&heading, cells.collect());
    format!(
        "{table}\n\n{} clients, {} instance(s), {} s a row, {store}",
        load.clients,
        load.keys,
        load.duration.as_secs()
    )
}

fn ok_per_s(row: &Measured) -> f64 {
    row.acknowledged as f64 / row.wall.as_secs_f64()
}

fn success_pct(row: &Measured) -> f64 {
    100.0 * row.acknowledged as f64 / (row.acknowledged + row.failed).max(1) as f64
}

fn as_json(row: &Measured, peer: f64) -> Value {
    let round = |value: f64| (value * 1e3).round() / 1e3;
    json!({
        "name": row.name,
        "ok_per_s": round(ok_per_s(row)),
        "mean_ms": round(row.latencies.mean_ms()),
        "p50_ms": round(row.latencies.percentile_ms(50.0)),
        "p99_ms": round(row.latencies.percentile_ms(99.0)),
        "success_pct": round(success_pct(row)),
        "ratio": round(ok_per_s(row) / peer),
        "cpu_pct": row.cpu.map(|share| round(share * 100.0)),
        "lost": row.lost,
    })
}
