//! `get`: shows where an instance stands.

use clap::Args;
use serde_json::Value;

use crate::client::Request;
use crate::commands::{Context, field};
use crate::encode;
use crate::failure::Failure;
use crate::json;
use crate::output::{Output, printable};
use crate::target::Target;

/// Shows where an instance stands.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  lockkeeper get purchase/po-1\n  lockkeeper get purchase/po-1 -o json")]
pub(crate) struct GetArgs {
    /// The instance.
    #[arg(value_name = "WORKFLOW/ID")]
    pub target: Target,
    /// Take a cached answer, which may be older than the last move.
    #[arg(long)]
    pub stale_ok: bool,
}

/// Runs `get`.
pub(crate) async fn run(args: &GetArgs, context: &Context<'_>) -> Result<(), Failure> {
    let query = encode::query(&[("stale", args.stale_ok.then(|| "ok".to_owned()))]);
    let answer = context.client.call(&Request::get(args.target.path(&[]) + &query)).await?;
    if context.output.is_json() {
        return context.output.print(&json::pretty(&answer.text));
    }
    context.output.print(&card(context.output, &args.target, &answer.read()?))
}

/// A card: one line for each thing that is known.
fn card(output: &Output, target: &Target, instance: &Value) -> String {
    let started = format!("{} by {}", field::time(instance, "started_at"), field::text(instance, "started_by"));
    let timers: Vec<String> = instance["timers"].as_array().into_iter().flatten().map(timer).collect();
    let lines = [
        ("state", field::text(instance, "state")),
        ("status", field::text(instance, "status")),
        ("version", field::text(instance, "version")),
        ("open events", field::list(instance, "open_events")),
        ("data", field::text(instance, "data")),
        ("started", started),
        ("updated", field::time(instance, "updated_at")),
        ("run", field::text(instance, "run")),
        ("timers", timers.join("; ")),
        (
            "deadline",
            if field::is_given(instance, "deadline") { field::time(instance, "deadline") } else { String::new() },
        ),
    ];
    let mut card = target.to_string();
    // Most instances wait for no time.
    for (name, value) in lines.into_iter().filter(|(_, value)| !value.is_empty()) {
        let name = output.paint(crate::output::Colour::Dim, &format!("{name:<11}"));
        card.push_str(&format!("\n  {name}  {}", printable(&value)));
    }
    card
}

/// `72h > escalated at 2026-12-02 13:57:18Z`.
fn timer(timer: &Value) -> String {
    let target = field::text(timer, "target");
    let leads = if target == field::NOTHING { String::new() } else { format!(" > {target}") };
    format!("{}{leads} at {}", field::text(timer, "after"), field::time(timer, "due"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::OutputFormat;
    use serde_json::json;

    #[test]
    fn a_card_has_a_line_for_each_thing() {
        let instance = json!({"workflow": "purchase", "id": "po-1", "run": "r-1", "version": 2, "state": "review",
            "status": "running", "data": {"amount": 1200}, "started_by": "ann", "open_events": ["approve", "reject"],
            "started_at": "2026-11-29T13:57:18.123Z", "updated_at": "2026-11-29T13:58:00.000Z"});
        let shown = card(&Output::plain(OutputFormat::Table), &"purchase/po-1".parse().unwrap(), &instance);
        assert!(shown.starts_with("purchase/po-1\n  state        review\n  status       running\n"), "{shown}");
        assert!(shown.contains("\n  open events  approve, reject\n  data         {\"amount\":1200}\n"), "{shown}");
        assert!(!shown.contains("timers") && !shown.contains("deadline"), "{shown}");
        assert!(shown.contains("\n  started      2026-11-29 13:57:18Z by ann\n"), "{shown}");
    }

    #[test]
    fn what_happens_by_itself_is_shown_where_something_does() {
        let instance = json!({"state": "review", "deadline": "2026-12-30T00:00:00Z", "timers": [
            {"after": "24h", "target": null, "due": "2026-11-30T13:57:18.123Z"},
            {"after": "72h", "target": "escalated", "due": "2026-12-02T13:57:18.123Z"}]});
        let shown = card(&Output::plain(OutputFormat::Table), &"purchase/po-1".parse().unwrap(), &instance);
        let timers = "24h at 2026-11-30 13:57:18Z; 72h > escalated at 2026-12-02 13:57:18Z";
        assert!(shown.ends_with(&format!("\n  timers       {timers}\n  deadline     2026-12-30 00:00:00Z")), "{shown}");
    }
}
