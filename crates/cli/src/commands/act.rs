//! `delegate`, `add-approver` and `recall`: what may be done about an approval, short of voting.

use clap::Args;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::Request;
use crate::commands::sender::SenderArgs;
use crate::commands::{Context, success};
use crate::failure::Failure;
use crate::input;
use crate::retry::{self, Patience};
use crate::target::Target;

const DELEGATE_EXAMPLES: &str = "\
Example:
  lockkeeper delegate expense/e-1 approve --to zoe --as bob

The definition says whether votes may be handed over, and to whom (`delegation`). A vote that was
handed over cannot be handed on; `recall` takes it back, until it is cast.";

const ADD_EXAMPLES: &str = "\
Example:
  lockkeeper add-approver expense/e-1 approve zoe --as max --as-roles manager

Whoever is added has to agree as well: nobody becomes dispensable. The definition says who may add
somebody (`add_approvers`).";

const RECALL_EXAMPLES: &str = "\
Examples:
  lockkeeper recall expense/e-1 approve --as bob    the vote, else its delegation, else an added approver
  lockkeeper recall expense/e-1 submit --as ann     the move itself, if nothing has happened since
  lockkeeper recall expense/e-1 --as ann            whatever it was, where that is clear

The definition says what may be taken back (`recall`).";

/// Hands one's vote for an event to somebody else.
#[derive(Debug, Args)]
#[command(after_help = DELEGATE_EXAMPLES)]
pub(crate) struct DelegateArgs {
    /// The instance.
    #[arg(value_name = "WORKFLOW/ID")]
    pub target: Target,
    /// The event that is voted for.
    #[arg(value_parser = input::name)]
    pub event: String,
    /// Who gets the vote.
    #[arg(long, value_name = "ACTOR", value_parser = input::name)]
    pub to: String,
    /// Conditions, and who acts.
    #[command(flatten)]
    pub terms: Terms,
}

/// Adds somebody who must agree, too.
#[derive(Debug, Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(crate) struct AddApproverArgs {
    /// The instance.
    #[arg(value_name = "WORKFLOW/ID")]
    pub target: Target,
    /// The event that is voted for.
    #[arg(value_parser = input::name)]
    pub event: String,
    /// Who is added.
    #[arg(value_name = "ACTOR", value_parser = input::name)]
    pub approver: String,
    /// Conditions, and who acts.
    #[command(flatten)]
    pub terms: Terms,
}

/// Takes back what one did last by an event: a vote, a delegation, or the move.
#[derive(Debug, Args)]
#[command(after_help = RECALL_EXAMPLES)]
pub(crate) struct RecallArgs {
    /// The instance.
    #[arg(value_name = "WORKFLOW/ID")]
    pub target: Target,
    /// The event; may be left out where it is clear.
    #[arg(value_parser = input::name)]
    pub event: Option<String>,
    /// Conditions, and who acts.
    #[command(flatten)]
    pub terms: Terms,
}

/// Conditions, and who acts.
#[derive(Debug, Args)]
pub(crate) struct Terms {
    /// Data for the guards that tell which approval is meant, and for the history: JSON, @FILE, or - for standard input.
    #[arg(long, value_name = "JSON")]
    pub data: Option<String>,
    /// Refuse unless the instance is in this state.
    #[arg(long, value_name = "STATE", value_parser = input::name)]
    pub from: Option<String>,
    /// Refuse unless the instance is at this version.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
    pub expected_version: Option<i64>,
    /// Refuse unless this is the current run.
    #[arg(long, value_name = "RUN")]
    pub run: Option<Uuid>,
    /// Who acts.
    #[command(flatten)]
    pub sender: SenderArgs,
}

/// Runs `delegate`.
pub(crate) async fn delegate(args: &DelegateArgs, context: &Context<'_>) -> Result<(), Failure> {
    let act = json!({ "event": args.event, "delegate_to": args.to });
    run(act, &args.target, &args.terms, context).await
}

/// Runs `add-approver`.
pub(crate) async fn add_approver(args: &AddApproverArgs, context: &Context<'_>) -> Result<(), Failure> {
    let act = json!({ "event": args.event, "add_approver": args.approver });
    run(act, &args.target, &args.terms, context).await
}

/// Runs `recall`.
pub(crate) async fn recall(args: &RecallArgs, context: &Context<'_>) -> Result<(), Failure> {
    let mut act = json!({ "recall": true });
    if let Some(event) = &args.event {
        act["event"] = json!(event);
    }
    run(act, &args.target, &args.terms, context).await
}

async fn run(act: Value, target: &Target, terms: &Terms, context: &Context<'_>) -> Result<(), Failure> {
    let mut body = act;
    let data = terms.data.as_deref().map(input::read_data).transpose()?;
    let fields = [
        ("data", data.map(Value::Object)),
        ("from", terms.from.as_ref().map(|v| json!(v))),
        ("expected_version", terms.expected_version.map(|v| json!(v))),
        ("run", terms.run.map(|v| json!(v))),
        ("actor", terms.sender.actor()),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            body[name] = value;
        }
    }
    let path = target.path(&["events"]);
    let key = terms.sender.key_or_random();
    let request = |_| Request::post(path.clone(), &body);
    let answer = retry::call(&context.client, Patience::new(None), &key, request).await?;
    success::print(context, &target.workflow, &answer)
}
