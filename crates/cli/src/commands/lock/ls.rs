//! `lock ls`: who holds what.

use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::commands::list::limit;
use crate::commands::paging::Listing;
use crate::commands::{Context, field};
use crate::encode;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  lockkeeper lock ls
  lockkeeper lock ls --all -o json";

/// Lists the locks that are held or waited for.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LsArgs {
    /// The most locks to list.
    #[arg(long, value_name = "N", default_value_t = 50, conflicts_with = "all", value_parser = limit)]
    pub limit: usize,
    /// List all.
    #[arg(long)]
    pub all: bool,
}

/// Runs `lock ls`.
pub(super) async fn run(args: &LsArgs, context: &Context<'_>) -> Result<(), Failure> {
    let path = encode::path(&["v1", "locks"]);
    let listing = Listing { path, filters: Vec::new(), limit: (!args.all).then_some(args.limit) };
    if context.output.is_json() {
        return context.output.print(&listing.document(&context.client).await?);
    }
    let (items, rest) = listing.values(&context.client).await?;
    if items.is_empty() {
        context.output.note("no locks are held");
        return Ok(());
    }
    let rows = items.iter().flat_map(rows).collect();
    const HEADING: [&str; 8] = ["LOCK", "MODE", "OWNER", "HOST", "SINCE", "EXPIRES IN", "FENCE", "WAITERS"];
    context.output.print(&context.output.table(&HEADING, rows))?;
    if rest.next.is_some() {
        context.output.note("there are more: --limit N or --all");
    }
    Ok(())
}

/// A row for each holder; the name and the waiters stand in the first alone.
fn rows(item: &Value) -> Vec<Vec<String>> {
    let (name, waiters) = (field::text(item, "resource"), field::text(item, "waiters"));
    let holders = item.get("holders").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if holders.is_empty() {
        let nothing = || field::NOTHING.to_owned();
        return vec![vec![name, nothing(), nothing(), nothing(), nothing(), nothing(), nothing(), waiters]];
    }
    let row = |(place, holder): (usize, &Value)| {
        let first = |text: &str| if place == 0 { text.to_owned() } else { String::new() };
        vec![
            first(&name),
            mode(holder),
            field::text(holder, "owner"),
            field::text(holder, "host"),
            field::time(holder, "since"),
            expires_in(holder),
            field::text(holder, "fence"),
            first(&waiters),
        ]
    };
    holders.iter().enumerate().map(row).collect()
}

fn mode(holder: &Value) -> String {
    match field::number(holder, "permits") {
        Some(permits) => format!("1 of {permits}"),
        None => field::text(holder, "mode"),
    }
}

fn expires_in(holder: &Value) -> String {
    match holder.get("expires_in_ms").and_then(Value::as_u64) {
        Some(ms) => format!("{:.1} s", Duration::from_millis(ms).as_secs_f64()),
        None => field::NOTHING.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_holder_has_a_row() {
        let holder = |owner: &str| {
            json!({ "owner": owner, "host": "h", "mode": "permits", "permits": 3, "fence": 7,
                    "since": "2026-11-29T02:00:00Z", "expires_in_ms": 1_250 })
        };
        let rows = rows(&json!({ "resource": "r", "holders": [holder("a"), holder("b")], "waiters": 2 }));
        assert_eq!(rows[0], ["r", "1 of 3", "a", "h", "2026-11-29 02:00:00Z", "1.2 s", "7", "2"]);
        assert_eq!((rows[1][0].as_str(), rows[1][2].as_str(), rows[1][7].as_str()), ("", "b", ""));
    }

    #[test]
    fn a_name_that_is_only_waited_for_is_shown_too() {
        assert_eq!(rows(&json!({ "resource": "r", "holders": [], "waiters": 1 }))[0][7], "1");
    }
}
