//! `start`: begins a run of an instance.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::client::Request;
use crate::commands::sender::SenderArgs;
use crate::commands::{Context, send, success};
use crate::failure::Failure;
use crate::retry::{self, Patience};
use crate::target::StartTarget;
use crate::{encode, input};

const EXAMPLES: &str = "\
Examples:
  lockkeeper start purchase/po-1 --as ann --data '{\"amount\": 1200}'
  lockkeeper start stock/sku-1 --data @sku-1.json
  lockkeeper start ticket --key mail-8c1f          the server chooses the id, the same one for the same key
  lockkeeper start report/daily --conflict-policy use_existing
                                                   begin it, or find the run that is going on
  lockkeeper start report/2026-11 --reuse-policy reject_duplicate --request-id nightly-7
                                                   once and never again; a retry of it is told the same
  lockkeeper start upload/u-7 --execution-timeout 30m
                                                   ended as timed_out if it has not ended by then

Started again under the same key or request id, an instance is not begun twice.";

/// Whether the id may run again after its last run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ReusePolicy {
    // Plain comments, as for the output format.
    AllowDuplicate,
    // Unless that run has completed.
    AllowDuplicateFailedOnly,
    RejectDuplicate,
}

/// What happens while a run of the id has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ConflictPolicy {
    // Refused: already_running.
    Fail,
    // Attached to that run.
    UseExisting,
    // That run is terminated, and the new one begins.
    TerminateExisting,
}

/// Begins an instance.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StartArgs {
    /// The instance; without an id, the server chooses one.
    #[arg(value_name = "WORKFLOW[/ID]")]
    pub target: StartTarget,
    /// The first data: JSON, @FILE, or - for standard input.
    #[arg(long, value_name = "JSON")]
    pub data: Option<String>,
    /// Whether the id may run again after its last run has ended; failed_only: unless that run has completed
    /// [default: allow_duplicate].
    #[arg(long, value_enum, value_name = "POLICY")]
    pub reuse_policy: Option<ReusePolicy>,
    /// What happens while a run of the id has not ended: refuse, attach to it, or terminate it and begin anew
    /// [default: fail].
    #[arg(long, value_enum, value_name = "POLICY")]
    pub conflict_policy: Option<ConflictPolicy>,
    /// Names this start: sent again under the same name, it begins nothing further.
    #[arg(long, value_name = "NAME")]
    pub request_id: Option<String>,
    /// How long the run may last, for example 30m or 14d: then it ends as timed_out.
    #[arg(long, value_name = "DURATION", value_parser = crate::duration::parse)]
    pub execution_timeout: Option<Duration>,
    /// Who acts.
    #[command(flatten)]
    pub sender: SenderArgs,
    /// How long to try, for example 5s [default: 10s].
    #[arg(long, value_name = "DURATION", value_parser = send::wait)]
    pub wait: Option<Duration>,
}

/// Runs `start`.
pub(crate) async fn run(args: &StartArgs, context: &Context<'_>) -> Result<(), Failure> {
    let data = args.data.as_deref().map(input::read_data).transpose()?;
    let fields = [
        ("id", args.target.id.as_ref().map(|id| json!(id))),
        ("data", data.map(Value::Object)),
        ("reuse_policy", name(args.reuse_policy.as_ref())),
        ("conflict_policy", name(args.conflict_policy.as_ref())),
        ("request_id", args.request_id.as_ref().map(|request| json!(request))),
        ("execution_timeout_ms", args.execution_timeout.map(|timeout| json!(timeout.as_millis() as u64))),
        ("actor", args.sender.actor()),
    ];
    let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let body = Value::Object(given.collect::<Map<_, _>>());
    let path = encode::path(&["v1", "workflows", &args.target.workflow, "instances"]);
    let key = args.sender.key_or_random();
    let request = |_| Request::post(path.clone(), &body);
    let answer = retry::call(&context.client, Patience::new(args.wait), &key, request).await?;
    success::print(context, &args.target.workflow, &answer)
}

/// A policy as the API names it.
fn name<P: ValueEnum>(policy: Option<&P>) -> Option<Value> {
    policy?.to_possible_value().map(|value| json!(value.get_name()))
}
