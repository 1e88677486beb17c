//! `terminate` and `cancel`: end a run from outside its definition.

use clap::Args;
use serde_json::json;
use uuid::Uuid;

use crate::client::Request;
use crate::commands::sender::SenderArgs;
use crate::commands::{Context, success};
use crate::failure::Failure;
use crate::retry::{self, Patience};
use crate::target::Target;

/// Which way a run is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// At once.
    Terminate,
    /// On request.
    Cancel,
}

/// Which run is ended, and why.
#[derive(Debug, Args)]
pub(crate) struct CloseArgs {
    /// The instance.
    #[arg(value_name = "WORKFLOW/ID")]
    pub target: Target,
    /// Why; the history keeps it.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// The run that is meant; without it, the current one.
    #[arg(long, value_name = "RUN")]
    pub run: Option<Uuid>,
    /// Who acts.
    #[command(flatten)]
    pub(crate) sender: SenderArgs,
}

/// Runs `terminate` or `cancel`.
pub(crate) async fn run(ending: Ending, args: &CloseArgs, context: &Context<'_>) -> Result<(), Failure> {
    let verb = match ending {
        Ending::Terminate => "terminate",
        Ending::Cancel => "cancel",
    };
    let mut body = json!({ "reason": args.reason });
    if let Some(run) = args.run {
        body["run"] = json!(run);
    }
    if let Some(actor) = args.sender.actor() {
        body["actor"] = actor;
    }
    let path = args.target.path(&[verb]);
    let key = args.sender.key_or_random();
    let request = |_| Request::post(path.clone(), &body);
    let answer = retry::call(&context.client, Patience::new(None), &key, request).await?;
    success::print(context, &args.target.workflow, &answer)
}
