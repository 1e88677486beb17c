//! `start`: begins a run of an instance.

use std::time::Duration;

use clap::Args;
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

Started again under the same key, an instance is not begun twice.";

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
