//! `send`: sends an event to an instance.

use std::time::Duration;

use clap::Args;
use lockkeeper_model::limits::FENCE_END;
use lockkeeper_model::names::check_resource;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::client::Request;
use crate::commands::sender::SenderArgs;
use crate::commands::{Context, success};
use crate::failure::Failure;
use crate::retry::{self, Patience, WAIT_MAX};
use crate::target::Target;
use crate::{duration, input};

const EXAMPLES: &str = "\
Examples:
  lockkeeper send purchase/po-1 submit --as ann
  lockkeeper send purchase/po-1 approve --as bob --as-roles finance --expected-version 2
  lockkeeper send stock/sku-1 take --data '{\"quantity\": 5}' --key order-4711
  lockkeeper send ticket/7 --to closed --from resolved
  lockkeeper send stock/sku-1 take --data '{\"quantity\": 5}' --fence \"warehouse=$LOCKKEEPER_FENCE\"

When the connection breaks or the server is busy, the command is sent again under the same
idempotency key until --wait is over: it takes effect at most once. If nobody knows even then,
the key is shown.";

/// Sends an event to an instance, or asks for a state.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SendArgs {
    /// The instance.
    #[arg(value_name = "WORKFLOW/ID")]
    pub target: Target,
    /// The event's name; may be left out with --to.
    #[arg(required_unless_present = "to", value_parser = input::name)]
    pub event: Option<String>,
    /// The state to be reached; without EVENT, exactly one transition must lead there.
    #[arg(long, value_name = "STATE", value_parser = input::name)]
    pub to: Option<String>,
    /// Refuse unless the instance is in this state.
    #[arg(long, value_name = "STATE", value_parser = input::name)]
    pub from: Option<String>,
    /// Data for guards and assigns: JSON, @FILE, or - for standard input.
    #[arg(long, value_name = "JSON")]
    pub data: Option<String>,
    /// Refuse unless the instance is at this version.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
    pub expected_version: Option<i64>,
    /// Refuse unless this is the current run.
    #[arg(long, value_name = "RUN")]
    pub run: Option<Uuid>,
    /// Refuse if the lock RESOURCE has shown a newer fence than N; may be given for several locks.
    #[arg(long = "fence", value_name = "RESOURCE=N", value_parser = fence)]
    pub fences: Vec<(String, i64)>,
    /// Who acts.
    #[command(flatten)]
    pub sender: SenderArgs,
    /// How long to try, for example 5s [default: 10s].
    #[arg(long, value_name = "DURATION", value_parser = wait)]
    pub wait: Option<Duration>,
}

/// Runs `send`.
pub(crate) async fn run(args: &SendArgs, context: &Context<'_>) -> Result<(), Failure> {
    let mut body = body(args)?;
    let path = args.target.path(&["events"]);
    let key = args.sender.key_or_random();
    let answer = retry::call(&context.client, Patience::new(args.wait), &key, |attempt| {
        body["wait_ms"] = json!(u64::try_from(attempt.as_millis()).unwrap_or(u64::MAX));
        Request::post(path.clone(), &body)
    })
    .await?;
    success::print(context, &args.target.workflow, &answer)
}

/// Reads `--wait`.
pub(crate) fn wait(text: &str) -> Result<Duration, String> {
    let wait = duration::parse(text)?;
    if wait > WAIT_MAX { Err("at most 1h is allowed".to_owned()) } else { Ok(wait) }
}

/// Reads `RESOURCE=N`. A name may hold `=`, a number never does.
fn fence(text: &str) -> Result<(String, i64), String> {
    let expected = || "expected RESOURCE=N, for example inventory/sku-1=42".to_owned();
    let (resource, fence) = text.rsplit_once('=').ok_or_else(expected)?;
    check_resource(resource).map_err(|error| error.to_string())?;
    match fence.parse() {
        Ok(fence) if (1..FENCE_END).contains(&fence) => Ok((resource.to_owned(), fence)),
        _ => Err(expected()),
    }
}

/// The request's body; what was not given is not in it.
fn body(args: &SendArgs) -> Result<Value, Failure> {
    let data = args.data.as_deref().map(input::read_data).transpose()?;
    let fields = [
        ("event", args.event.as_ref().map(|v| json!(v))),
        ("to", args.to.as_ref().map(|v| json!(v))),
        ("from", args.from.as_ref().map(|v| json!(v))),
        ("expected_version", args.expected_version.map(|v| json!(v))),
        ("run", args.run.map(|v| json!(v))),
        ("data", data.map(Value::Object)),
        ("fences", fences(args)?),
        ("actor", args.sender.actor()),
    ];
    let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Ok(Value::Object(given.collect::<Map<_, _>>()))
}

/// The fences by their locks, if there are any; of one lock there is one.
fn fences(args: &SendArgs) -> Result<Option<Value>, Failure> {
    let mut fences = Map::new();
    for (resource, fence) in &args.fences {
        if fences.insert(resource.clone(), json!(fence)).is_some() {
            return Err(Failure::usage(format!("--fence names {resource:?} twice")));
        }
    }
    Ok((!fences.is_empty()).then_some(Value::Object(fences)))
}
