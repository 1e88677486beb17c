//! `list`: lists workflows, or the instances of one.

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::commands::paging::Listing;
use crate::commands::{Context, field};
use crate::failure::Failure;
use crate::{encode, input, target};

const EXAMPLES: &str = "\
Examples:
  lockkeeper list                                    the workflows
  lockkeeper list purchase --state review            instances that wait for approval
  lockkeeper list ticket --status running --all -o json";

/// Lists workflows, or the instances of one workflow.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    /// The workflow whose instances are listed; without it, the workflows are.
    #[arg(value_parser = target::workflow_name)]
    pub workflow: Option<String>,
    /// Only instances in this state.
    #[arg(long, requires = "workflow", value_parser = input::name)]
    pub state: Option<String>,
    /// Only instances of this status.
    #[arg(long, requires = "workflow", value_enum)]
    pub status: Option<Status>,
    /// Only instances whose id contains this text.
    #[arg(long, requires = "workflow", value_name = "TEXT", allow_hyphen_values = true)]
    pub q: Option<String>,
    /// The most items to list.
    #[arg(long, value_name = "N", default_value_t = 50, conflicts_with = "all", value_parser = limit)]
    pub limit: usize,
    /// List all.
    #[arg(long)]
    pub all: bool,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Status {
    Running,
    Completed,
    Failed,
    Canceled,
    Terminated,
    TimedOut,
}

/// Reads `--limit`.
pub(crate) fn limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("write a whole number from 1".to_owned()),
    }
}

/// Runs `list`.
pub(crate) async fn run(args: &ListArgs, context: &Context<'_>) -> Result<(), Failure> {
    let listing = listing(args);
    if context.output.is_json() {
        return context.output.print(&listing.document(&context.client).await?);
    }
    let (items, rest) = listing.values(&context.client).await?;
    let rows: Vec<Vec<String>> = items.iter().map(|item| row(args, item)).collect();
    if rows.is_empty() {
        context.output.note(if args.workflow.is_some() {
            "no instances"
        } else {
            "no workflows yet: `lockkeeper apply -f FILE`"
        });
        return Ok(());
    }
    let heading: &[&str] = match args.workflow {
        Some(_) => &["ID", "STATE", "STATUS", "VERSION", "UPDATED"],
        None => &["WORKFLOW", "VERSION", "PUT"],
    };
    context.output.print(&context.output.table(heading, rows))?;
    if rest.next.is_some() {
        context.output.note("there are more: --limit N or --all");
    }
    Ok(())
}

fn listing(args: &ListArgs) -> Listing<'static> {
    let path = match &args.workflow {
        Some(workflow) => encode::path(&["v1", "workflows", workflow, "instances"]),
        None => encode::path(&["v1", "workflows"]),
    };
    let status = args.status.and_then(|status| status.to_possible_value()).map(|value| value.get_name().to_owned());
    let filters = vec![("state", args.state.clone()), ("status", status), ("q", args.q.clone())];
    Listing { path, filters, limit: (!args.all).then_some(args.limit) }
}

fn row(args: &ListArgs, item: &Value) -> Vec<String> {
    if args.workflow.is_none() {
        return vec![field::text(item, "workflow"), field::text(item, "version"), field::time(item, "put_at")];
    }
    vec![
        field::text(item, "id"),
        field::text(item, "state"),
        field::text(item, "status"),
        field::text(item, "version"),
        field::time(item, "updated_at"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_those_of_the_model() {
        let known: Vec<&str> = lockkeeper_model::Status::ALL.iter().map(|status| status.as_str()).collect();
        let named = Status::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        assert_eq!(named.map(|value| value.get_name().to_owned()).collect::<Vec<_>>(), known);
    }
}
