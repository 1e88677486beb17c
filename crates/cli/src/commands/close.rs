//! `terminate` and `cancel`: end a run from outside its definition.

use clap::Args;
use serde_json::json;
use uuid::Uuid;

use crate::client::Request;
use crate::commands::{Context, success};
use crate::failure::Failure;
use crate::input;
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
#[command(after_help = "Example:\n  lockkeeper cancel purchase/po-1 --reason 'ordered twice'")]
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
    /// Act as this actor. With a token, the token needs the role `act_as`.
    #[arg(long = "as", value_name = "ACTOR", value_parser = input::name)]
    pub actor: Option<String>,
    /// The actor's roles, separated by commas.
    #[arg(long = "as-roles", value_name = "ROLES", requires = "actor", value_delimiter = ',', value_parser = input::name)]
    pub roles: Vec<String>,
}

/// Runs `terminate` or `cancel`. It is sent once: a second one would find the run ended and say so.
pub(crate) async fn run(ending: Ending, args: &CloseArgs, context: &Context<'_>) -> Result<(), Failure> {
    let verb = match ending {
        Ending::Terminate => "terminate",
        Ending::Cancel => "cancel",
    };
    let mut body = json!({ "reason": args.reason });
    if let Some(run) = args.run {
        body["run"] = json!(run);
    }
    if let Some(actor) = input::actor(args.actor.as_deref(), &args.roles) {
        body["actor"] = actor;
    }
    let answer = context.client.call(&Request::post(args.target.path(&[verb]), &body)).await?;
    success::print(context, &args.target.workflow, &answer)
}
