//! What a benchmark prints, and how it shows that it is still at work.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::bench::clients::Load;
use crate::bench::row::Row;
use crate::output::Output;

/// A bar on standard error, where that is a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(each: Duration) -> Self {
        let bar = ProgressBar::new_spinner();
        // The template is a constant; were it wrong, the default style would do.
        if let Ok(style) = ProgressStyle::with_template("{spinner} row {pos}: {msg} {elapsed}") {
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
pub(crate) fn render(rows: &[Row], load: &Load, store: &str, output: &Output) -> String {
    let best = best_peer(rows);
    if output.is_json() {
        let rows: Vec<Value> = rows.iter().map(|row| as_json(row, best)).collect();
        let document = json!({
            "rows": rows, "store": store, "clients": load.clients, "keys": load.keys,
            "seconds": load.duration.as_secs(),
        });
        return format!("{document:#}");
    }
    let heading = ["row", "ok/s", "mean ms", "p50 ms", "p99 ms", "success", "ratio", "CPU", "lost"];
    let cells = rows.iter().map(|row| {
        let nodes: Vec<String> = row.node_shares_pct.iter().map(|share| format!("{share:.0} %")).collect();
        let nodes = if nodes.is_empty() { String::new() } else { format!(" ({})", nodes.join(" / ")) };
        vec![
            format!("{}{nodes}", row.name),
            format!("{:.0}", row.ok_per_s),
            format!("{:.2}", row.mean_ms),
            row.p50_ms.map_or("-".to_owned(), |p50| format!("{p50:.2}")),
            format!("{:.2}", row.p99_ms),
            format!("{:.2} %", row.success_pct),
            format!("{:.1} x", row.ok_per_s / best),
            row.cpu_pct.map_or("-".to_owned(), |share| format!("{share:.0} %")),
            row.lost.to_string(),
        ]
    });
    let table = output.table(&heading, cells.collect());
    format!(
        "{table}\n\n{} clients, {} instance(s), {} s a row, {store}; ratio: to the best peer",
        load.clients,
        load.keys,
        load.duration.as_secs()
    )
}

/// The most moves a second of any peer.
fn best_peer(rows: &[Row]) -> f64 {
    rows.iter().filter(|row| row.peer).map(|row| row.ok_per_s).fold(f64::NAN, f64::max)
}

fn as_json(row: &Row, best: f64) -> Value {
    let mut value = json!(row);
    value["ratio"] = json!((row.ok_per_s / best * 1e3).round() / 1e3);
    value
}
