//! `explain`: shows how an instance's commands commit on a node, and why.

use clap::Args;

use crate::client::Request;
use crate::commands::Context;
use crate::commands::explanation::Explanation;
use crate::failure::Failure;
use crate::json;
use crate::output::{Colour, Output, printable};
use crate::target::Target;

const EXAMPLES: &str = "\
Examples:
  lockkeeper explain stock/sku-1
  lockkeeper explain stock/sku-1 -o json | jq .switches

Each node judges by what it meets itself: ask those that you mean, with --url.";

/// Shows how an instance's commands commit on a node, since when and why.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// The instance.
    #[arg(value_name = "WORKFLOW/ID")]
    pub target: Target,
}

/// Runs `explain`.
pub(crate) async fn run(args: &ExplainArgs, context: &Context<'_>) -> Result<(), Failure> {
    let answer = context.client.call(&Request::get(args.target.path(&["explain"]))).await?;
    if context.output.is_json() {
        return context.output.print(&json::pretty(&answer.text));
    }
    let explanation: Explanation = answer.read()?;
    context.output.print(&card(context.output, &args.target, &explanation))?;
    if let Some(warning) = explanation.warning() {
        let label = context.output.paint_error(Colour::Yellow, "warning:");
        context.output.note(&format!("{label} {}", printable(warning)));
    }
    Ok(())
}

/// A card: a line for each thing that is known, then one for each switch.
fn card(output: &Output, target: &Target, explanation: &Explanation) -> String {
    let mut card = target.to_string();
    for (name, value) in explanation.lines() {
        let name = output.paint(Colour::Dim, &format!("{name:<11}"));
        card.push_str(&format!("\n  {name}  {}", printable(&value)));
    }
    let switches = explanation.switches();
    if !switches.is_empty() {
        card.push_str(&format!("\n  {}", output.paint(Colour::Dim, "switches")));
    }
    for switch in switches {
        card.push_str(&format!("\n    {}", printable(&switch)));
    }
    card
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::OutputFormat;

    #[test]
    fn a_card_tells_the_story_of_a_key() {
        let told = json!({
            "node": "alpha:77", "workflow": "stock", "id": "sku-1", "at": "2026-11-29T12:05:16Z", "version": 9,
            "state": "active", "rung": "row_lock", "since": "2026-11-29T12:03:11Z", "reason": "score",
            "concurrency": {"strategy": "adaptive", "attempts": 3, "backoff_ms": 50, "on_locked": "wait",
                "lock_timeout_ms": 5000, "escalate_above": "5%", "combine": true},
            "events": [{"event": "retire", "concurrency": {"strategy": "optimistic", "attempts": 2, "backoff_ms": 10,
                "combine": true}}],
            "score": 0.25, "tries": 80.4, "contended": 20.1, "escalate_above": 0.05, "evidence": 0.5,
            "waits": {"lock_wait": {"mean_ms": 1.3, "max_ms": 14.0}, "queue_wait": {"mean_ms": 0.4, "max_ms": 3.0},
                "round_trip": {"mean_ms": 2.0, "max_ms": 4.04}, "commands_per_try": 3.42},
            "dwell_left_ms": 0, "may_come_down_in_ms": 65_000, "shared_slot": false,
            "switches": [{"from": "optimistic", "to": "row_lock", "at": "2026-11-29T12:03:11.5Z", "score": 0.85,
                "tries": 20.0, "contended": 17.0, "escalate_above": 0.05, "reason": "score", "dwell_ms": 30_000}],
            "warning": null,
        });
        let shown = card(
            &Output::plain(OutputFormat::Table),
            &"stock/sku-1".parse().unwrap(),
            &serde_json::from_value(told).unwrap(),
        );
        let expected = "stock/sku-1
  node         alpha:77
  rung         row lock since 2026-11-29 12:03:11Z (2 min): 17 of 20 tries contended (85 %), above 5 %
  strategy     adaptive, up to 3 attempts, backoff from 50ms, row lock above 5% contended, waits up to 5s for a locked row
  on retire    optimistic, up to 2 attempts, backoff from 10ms
  lately       20 of 80 tries contended (25 %), in about half a minute; 3.4 commands a try
  comes down   in 1 min, if nothing more is contended; 50 % of what that takes is there
  waits        row lock 1.3 ms (at most 14 ms), on this node 0.4 ms (at most 3 ms), commit 2 ms (at most 4 ms)
  switches
    2026-11-29 12:03:11Z  up to the row lock: 17 of 20 tries contended (85 %), above 5 %; for at least 30 s";
        assert_eq!(shown, expected);
    }
}
