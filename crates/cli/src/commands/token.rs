//! `token`: makes, lists and revokes tokens.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::ConnectionArgs;
use crate::client::{Answer, Client, Request};
use crate::commands::paging::Listing;
use crate::commands::{Context, field, token_store};
use crate::failure::Failure;
use crate::output::Output;
use crate::{encode, input, json};

const EXAMPLES: &str = "\
Examples:
  lockkeeper token create --name admin --roles admin --store sqlite://lockkeeper.db   the first one, server stopped
  LOCKKEEPER_TOKEN=$(lockkeeper token create --name ci --roles finance,approver)
  lockkeeper token ls
  lockkeeper token revoke ci

With --store the store itself is opened, and the server must be stopped. Without it, a running server is asked.";

/// Makes, lists and revokes tokens.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TokenArgs {
    /// What is to be done.
    #[command(subcommand)]
    pub action: Action,
}

/// What is to be done with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Makes a token and prints its secret, which is shown this once.
    Create {
        /// The principal that the token stands for.
        #[arg(long, value_parser = input::name)]
        name: String,
        /// Its roles, separated by commas.
        #[arg(long, value_delimiter = ',', value_parser = input::name)]
        roles: Vec<String>,
        /// Open this store directly; the server must be stopped.
        #[arg(long, value_name = "URL")]
        store: Option<String>,
    },
    /// Lists tokens, without their secrets.
    Ls {
        /// Open this store directly; the server must be stopped.
        #[arg(long, value_name = "URL")]
        store: Option<String>,
    },
    /// Makes a token worthless.
    Revoke {
        /// The token's name.
        #[arg(value_parser = input::name)]
        name: String,
        /// Open this store directly; the server must be stopped.
        #[arg(long, value_name = "URL")]
        store: Option<String>,
    },
}

/// A token that was just made.
#[derive(Deserialize)]
struct Created {
    token: String,
}

/// Runs `token`.
pub(crate) async fn run(args: &TokenArgs, connection: &ConnectionArgs, output: &Output) -> Result<(), Failure> {
    let context = || Client::new(connection).map(|client| Context { client, output });
    match &args.action {
        Action::Create { name, roles, store: Some(store) } => {
            print_created(output, name, &token_store::create(store, name, roles).await?)
        }
        Action::Create { name, roles, store: None } => create(&context()?, name, roles).await,
        Action::Ls { store: Some(store) } => print_list(output, &token_store::list(store).await?),
        Action::Ls { store: None } => list(&context()?).await,
        Action::Revoke { name, store: Some(store) } => {
            token_store::revoke(store, name).await?;
            print_revoked(output, name, None)
        }
        Action::Revoke { name, store: None } => revoke(&context()?, name).await,
    }
}

async fn create(context: &Context<'_>, name: &str, roles: &[String]) -> Result<(), Failure> {
    let body = json!({ "name": name, "roles": roles });
    let answer = context.client.call(&Request::post(encode::path(&["v1", "tokens"]), &body)).await?;
    print_created(context.output, name, &answer)
}

async fn list(context: &Context<'_>) -> Result<(), Failure> {
    let listing = Listing { path: encode::path(&["v1", "tokens"]), filters: Vec::new(), limit: None };
    print_list(context.output, &listing.document(&context.client).await?)
}

async fn revoke(context: &Context<'_>, name: &str) -> Result<(), Failure> {
    let request = Request::new(Method::DELETE, encode::path(&["v1", "tokens", name]));
    let answer = context.client.call(&request).await?;
    print_revoked(context.output, name, Some(&answer))
}

/// The secret alone on standard output, so that it can be taken from there.
fn print_created(output: &Output, name: &str, answer: &Answer) -> Result<(), Failure> {
    if output.is_json() {
        return output.print(&json::pretty(&answer.text));
    }
    let created: Created = answer.read()?;
    output.note(&format!("the secret of token {name:?}; keep it, it is not shown again:"));
    output.print(&created.token)
}

fn print_list(output: &Output, document: &str) -> Result<(), Failure> {
    if output.is_json() {
        return output.print(document);
    }
    let document: Value = serde_json::from_str(document).map_err(Failure::failed)?;
    let items = document.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    if items.is_empty() {
        output.note("no tokens: the server takes everybody on loopback at their word");
        return Ok(());
    }
    let rows = items.iter().map(row).collect();
    output.print(&output.table(&["NAME", "ROLES", "CREATED", "STATE"], rows))
}

fn row(item: &Value) -> Vec<String> {
    let state = if field::is_given(item, "revoked_at") { "revoked" } else { "valid" };
    vec![field::text(item, "name"), field::list(item, "roles"), field::time(item, "created_at"), state.to_owned()]
}

fn print_revoked(output: &Output, name: &str, answer: Option<&Answer>) -> Result<(), Failure> {
    match answer {
        Some(answer) if output.is_json() && !answer.text.is_empty() => output.print(&json::pretty(&answer.text)),
        _ if output.is_json() => output.print(&json::pretty(&json!({ "name": name, "revoked": true }).to_string())),
        _ => output.print(&format!("revoked: {name}")),
    }
}
