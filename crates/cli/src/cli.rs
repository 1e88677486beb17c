//! The command line: what can be written, and its help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::bench::BenchArgs;
use crate::commands::apply::ApplyArgs;
use crate::commands::close::CloseArgs;
use crate::commands::completion::CompletionArgs;
use crate::commands::get::GetArgs;
use crate::commands::history::HistoryArgs;
use crate::commands::list::ListArgs;
use crate::commands::send::SendArgs;
use crate::commands::show::ShowArgs;
use crate::commands::start::StartArgs;
use crate::commands::token::TokenArgs;
use crate::commands::watch::WatchArgs;
use crate::serve::ServeArgs;

const EXAMPLES: &str = "\
Examples:
  lockkeeper serve                                            run a server on 127.0.0.1:7070
  lockkeeper apply -f examples/purchase.yaml                  put a definition
  lockkeeper start purchase/po-1 --data '{\"amount\": 1200}'    begin an instance
  lockkeeper send purchase/po-1 submit --as ann               move it
  lockkeeper history purchase/po-1                            see who did what

WORKFLOW/ID splits at the first `/`; the id may contain more of them.

Exit codes:
  0   done (already_applied and pending_approval too)
  1   refused or failed; outcome, code and detail on standard error
  2   wrong usage
  69  the server cannot be reached or is unavailable, or nobody knows the outcome";

/// A workflow engine in which no move is lost and none happens twice.
#[derive(Debug, Parser)]
#[command(name = "lockkeeper", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    /// How results and errors are printed.
    #[arg(short, long, global = true, value_enum, default_value_t = OutputFormat::Table, value_name = "FORMAT")]
    pub output: OutputFormat,
    /// How the server is reached.
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// What is to be done.
    #[command(subcommand)]
    pub command: Command,
}

/// How the server is reached.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArgs {
    /// The server's address.
    #[arg(long, global = true, env = "LOCKKEEPER_URL", default_value = "http://127.0.0.1:7070", value_name = "URL")]
    pub url: String,
    /// The bearer token; safer in the environment, for others can read arguments.
    #[arg(long, global = true, env = "LOCKKEEPER_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// Certificates (PEM) to trust besides the system's.
    #[arg(long, global = true, value_name = "FILE")]
    pub ca_cert: Option<PathBuf>,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    // Plain comments: with help texts of their own, every `--help` would grow by a screen.
    // For people.
    Table,
    // The server's own JSON; errors as problem documents on standard error.
    Json,
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(ServeArgs),
    Apply(ApplyArgs),
    Show(ShowArgs),
    Start(StartArgs),
    Send(SendArgs),
    Get(GetArgs),
    List(ListArgs),
    History(HistoryArgs),
    Watch(WatchArgs),
    /// Ends a run at once; its status becomes `terminated`.
    Terminate(CloseArgs),
    /// Ends a run on request; its status becomes `canceled`.
    Cancel(CloseArgs),
    Token(TokenArgs),
    Completion(CompletionArgs),
    Bench(BenchArgs),
}
