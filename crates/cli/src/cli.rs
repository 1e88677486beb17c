//! The command line: what can be written, and its help.

use std::path::PathBuf;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::bench::BenchArgs;
use crate::commands::act::{AddApproverArgs, DelegateArgs, RecallArgs};
use crate::commands::apply::ApplyArgs;
use crate::commands::approval::ApprovalArgs;
use crate::commands::backup::{BackupArgs, RestoreArgs};
use crate::commands::close::CloseArgs;
use crate::commands::completion::CompletionArgs;
use crate::commands::explain::ExplainArgs;
use crate::commands::get::GetArgs;
use crate::commands::history::HistoryArgs;
use crate::commands::list::ListArgs;
use crate::commands::lock::LockArgs;
use crate::commands::migrate::MigrateArgs;
use crate::commands::purge::PurgeArgs;
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
  lockkeeper lock run nightly --nowait -- ./report.sh         run it on one machine at a time

WORKFLOW/ID splits at the first `/`; the id may contain more of them.

Exit codes:
  0   done (already_applied, attached and pending_approval too)
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

impl Cli {
    /// Reads the command line; what is wrong with it, or its help, ends the process.
    pub(crate) fn read() -> Self {
        Self::try_parse().unwrap_or_else(|error| explained(error).exit())
    }
}

/// An error of the command line as it would be without the environment: its usage shows what is given there as if it had to be
/// written.
fn explained(error: clap::Error) -> clap::Error {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return error;
    }
    let bare = |command: clap::Command| command.mut_args(|argument| argument.env(Resettable::Reset));
    let command = bare(Cli::command()).mut_subcommands(bare);
    let mut error = command.try_get_matches().err().unwrap_or(error);
    let stray = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(stray)) if error.kind() == ErrorKind::UnknownArgument => stray.clone(),
        _ => return error,
    };
    if std::env::args().nth(1).is_some_and(|command| command == "apply") && !stray.starts_with('-') {
        let tip = format!("a definition's file is given with -f: lockkeeper apply -f {stray}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
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
    Approval(ApprovalArgs),
    Delegate(DelegateArgs),
    AddApprover(AddApproverArgs),
    Recall(RecallArgs),
    Get(GetArgs),
    List(ListArgs),
    History(HistoryArgs),
    Watch(WatchArgs),
    Explain(ExplainArgs),
    /// Ends a run at once; its status becomes `terminated`.
    #[command(after_help = "Example:\n  lockkeeper terminate purchase/po-1 --reason 'the supplier is gone'")]
    Terminate(CloseArgs),
    /// Ends a run on request; its status becomes `canceled`.
    #[command(after_help = "Example:\n  lockkeeper cancel purchase/po-1 --reason 'ordered twice'")]
    Cancel(CloseArgs),
    Migrate(MigrateArgs),
    Lock(LockArgs),
    Token(TokenArgs),
    Backup(BackupArgs),
    Restore(RestoreArgs),
    Purge(PurgeArgs),
    Completion(CompletionArgs),
    Bench(BenchArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_send_takes_its_conditions() {
        let line = "lockkeeper send w/a/b go --from a --as ann --as-roles x,y --expected-version 7 --wait 5s -o json";
        let cli = parse(line).unwrap();
        assert_eq!(cli.output, OutputFormat::Json);
        let Command::Send(args) = cli.command else { panic!("not a send") };
        assert_eq!((args.target.to_string().as_str(), args.event.as_deref()), ("w/a/b", Some("go")));
        assert_eq!(args.sender.roles, ["x", "y"]);
        assert_eq!((args.expected_version, args.wait), (Some(7), Some(std::time::Duration::from_secs(5))));
    }

    #[test]
    fn acts_take_conditions_and_a_sender() {
        let Command::Delegate(args) = parse("lockkeeper delegate w/1 approve --to zoe --as bob").unwrap().command
        else {
            panic!("not a delegation")
        };
        assert_eq!((args.event.as_str(), args.to.as_str()), ("approve", "zoe"));
        let line = "lockkeeper recall w/1 --as bob --expected-version 4 --from review";
        let Command::Recall(args) = parse(line).unwrap().command else { panic!("not a recall") };
        assert_eq!((args.event, args.terms.expected_version), (None, Some(4)));
    }

    #[test]
    fn global_options_stand_anywhere() {
        for line in ["lockkeeper --url http://h -o json list", "lockkeeper list --url http://h -o json"] {
            let cli = parse(line).unwrap();
            assert_eq!((cli.connection.url.as_str(), cli.output), ("http://h", OutputFormat::Json), "{line}");
        }
    }

    #[test]
    fn wrong_usage_is_refused() {
        for line in [
            "lockkeeper",
            "lockkeeper send w/1",
            "lockkeeper send w go",
            "lockkeeper send w/1 go --as-roles x",
            "lockkeeper send w/1 go --wait 2h",
            "lockkeeper send w/1 go --run 7",
            "lockkeeper send w/1 go --expected-version -1",
            "lockkeeper delegate w/1 approve",
            "lockkeeper add-approver w/1 approve",
            "lockkeeper recall w",
            "lockkeeper start w/1 --key ä",
            "lockkeeper start w/1 --reuse-policy never",
            "lockkeeper start w/1 --conflict-policy",
            "lockkeeper apply",
            "lockkeeper list --state a",
            "lockkeeper list w --status done",
            "lockkeeper list w --all --limit 5",
            "lockkeeper history w/1 --limit 0",
            "lockkeeper explain w",
            "lockkeeper terminate w/1",
            "lockkeeper migrate w/1 --reason r --map a",
            "lockkeeper migrate w --all --run 5 --reason r",
            "lockkeeper migrate w/1",
            "lockkeeper serve --tls-cert a.pem",
            "lockkeeper token create",
            "lockkeeper lock",
            "lockkeeper lock run r",
            "lockkeeper lock run r true",
            "lockkeeper lock run r --ttl 0s -- true",
            "lockkeeper lock run r --ttl 25h -- true",
            "lockkeeper lock run r --ttl 0.4ms -- true",
            "lockkeeper lock run r --nowait --wait 1s -- true",
            "lockkeeper lock run .. -- true",
            "lockkeeper lock release r",
            "lockkeeper completion tcl",
        ] {
            let error = parse(line).err().unwrap_or_else(|| panic!("accepted: {line}"));
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn examples_are_of_their_own_command() {
        for command in Cli::command().get_subcommands() {
            let Some(help) = command.get_after_help() else { continue };
            let own = format!("lockkeeper {}", command.get_name());
            assert!(help.to_string().contains(&own), "{own}: {help}");
        }
    }

    #[test]
    fn the_token_is_never_shown_in_help() {
        let help = Cli::command().render_long_help().to_string();
        assert!(help.contains("LOCKKEEPER_TOKEN]"), "the variable is named without its value");
    }
}
