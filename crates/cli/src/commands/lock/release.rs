//! `lock release`: takes a lock from whoever holds it.

use clap::Args;
use reqwest::Method;
use serde_json::Value;

use super::resource;
use crate::client::Request;
use crate::commands::{Context, field};
use crate::failure::Failure;
use crate::json;
use crate::output::{Colour, printable};
use crate::remote_locks::lock_path;

const EXAMPLES: &str = "\
Example:
  lockkeeper lock release deploy --force

Whoever held it hears of it at its next renewal: `lock run` ends its command and exits with 76. Until then its fence
protects what checks fences.";

/// Takes a lock from whoever holds it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReleaseArgs {
    /// The lock's name.
    #[arg(value_parser = resource)]
    pub resource: String,
    /// Yes, from somebody else: holders give their locks back themselves.
    #[arg(long, required = true)]
    pub force: bool,
}

/// Runs `lock release`.
pub(super) async fn run(args: &ReleaseArgs, context: &Context<'_>) -> Result<(), Failure> {
    let request = Request::new(Method::DELETE, lock_path(&args.resource, None));
    let answer = context.client.call(&request).await?;
    if context.output.is_json() {
        return context.output.print(&json::pretty(&answer.text));
    }
    let document: Value = answer.read()?;
    let holders = document.get("holders").and_then(Value::as_array).cloned().unwrap_or_default();
    if holders.is_empty() {
        return context.output.print(&printable(&format!("{} was not held", args.resource)));
    }
    let outcome = context.output.paint(Colour::Green, "released");
    for holder in &holders {
        let (owner, host, since) =
            (field::text(holder, "owner"), field::text(holder, "host"), field::time(holder, "since"));
        let sentence = format!("{} was held by {owner} on {host} since {since}", args.resource);
        context.output.print(&format!("{outcome}: {}", printable(&sentence)))?;
    }
    Ok(())
}
