//! `purge`: forgets closed instances.

use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use serde::Deserialize;
use serde_json::json;

use crate::client::Request;
use crate::commands::Context;
use crate::commands::watch::Watched;
use crate::failure::Failure;
use crate::{duration, encode};

const EXAMPLES: &str = "\
Examples:
  lockkeeper purge ticket --closed-before 30d --dry-run      how many would go
  lockkeeper purge ticket --closed-before 30d
  lockkeeper purge ticket/4711 --closed-before 2m            one, as soon as it may go

Their histories and their data go, for good. The version stays, and how the run ended: a later start of the same id goes
on above it. What runs is never purged, nor what has ended within the last two minutes: a node may still have to learn from
its history whether a commit took place. It goes whatever the definition's `retention` says. Where tokens exist, the role
admin is needed. `serve --retention-closed 30d`, or `retention` in the definition, does it by itself.";

/// Forgets closed instances: their histories and their data.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PurgeArgs {
    /// The workflow, or one instance of it.
    #[arg(value_name = "WORKFLOW[/ID]")]
    pub target: Watched,
    /// Only those whose last change is longer ago.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub closed_before: Duration,
    /// Only say how many would go.
    #[arg(long)]
    pub dry_run: bool,
}

/// One step's answer.
#[derive(Deserialize)]
struct Step {
    instances: u64,
    events: u64,
    // A server of an earlier version does not tell it.
    #[serde(default)]
    too_young: u64,
    #[serde(default)]
    unreadable: u64,
    next_cursor: Option<String>,
}

/// Runs `purge`, step by step. Whatever breaks it off, it can be begun again.
pub(crate) async fn run(args: &PurgeArgs, context: &Context<'_>) -> Result<(), Failure> {
    let (workflow, id) = match &args.target {
        Watched::Workflow(workflow) => (workflow, None),
        Watched::Instance(target) => (&target.workflow, Some(&target.id)),
    };
    let path = encode::path(&["v1", "workflows", workflow, "purge"]);
    let bar = ProgressBar::new_spinner();
    let (mut instances, mut events, mut too_young, mut unreadable, mut cursor) = (0, 0, 0, 0, None);
    loop {
        let body = json!({ "closed_before_ms": args.closed_before.as_millis() as u64, "id": id, "dry_run": args.dry_run,
            "cursor": cursor });
        let step: Step = context.client.call(&Request::post(path.clone(), &body)).await?.read()?;
        instances += step.instances;
        events += step.events;
        too_young += step.too_young;
        unreadable += step.unreadable;
        bar.set_message(format!("{instances} instances, {events} changes"));
        bar.tick();
        cursor = step.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    bar.finish_and_clear();
    if context.output.is_json() {
        let document = json!({ "instances": instances, "events": events, "too_young": too_young,
            "unreadable": unreadable, "dry_run": args.dry_run });
        return context.output.print(&document.to_string());
    }
    context.output.print(&match args.dry_run {
        true => format!("{instances} instances would be purged"),
        false => format!("purged {instances} instances with {events} changes"),
    })?;
    if too_young > 0 {
        context.output.note(&format!(
            "{too_young} ended within the last two minutes and stay: a node may still have to learn from their histories \
             whether a commit took place; purge again later"
        ));
    }
    if unreadable > 0 {
        context.output.note(&format!("{unreadable} are damaged and stay; the server's log names them"));
    }
    Ok(())
}
