//! `lock`: holds a lock while a command runs, and shows who holds which.

mod ls;
mod release;
mod run;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::ls::LsArgs;
use self::release::ReleaseArgs;
use self::run::RunArgs;
use crate::commands::Context;
use crate::failure::Failure;
use crate::lock_run::{self, WatchdogArgs};

const EXAMPLES: &str = "\
Examples:
  lockkeeper lock run nightly-report --nowait -- ./report.sh    only one at a time, the others leave
  lockkeeper lock run deploy --wait 10m -- ./deploy.sh          one after another
  lockkeeper lock ls                                            who holds what
  lockkeeper lock release deploy --force                        take it from whoever holds it";

/// Holds a lock while a command runs; shows and ends locks.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LockArgs {
    /// What is to be done.
    #[command(subcommand)]
    pub command: LockCommand,
}

/// What is to be done with locks.
#[derive(Debug, Subcommand)]
pub(crate) enum LockCommand {
    Run(RunArgs),
    Ls(LsArgs),
    Release(ReleaseArgs),
    #[command(hide = true)]
    Watchdog(WatchdogArgs),
}

/// Runs `lock`.
pub(crate) async fn run<'a>(
    args: LockArgs,
    context: impl FnOnce() -> Result<Context<'a>, Failure>,
) -> Result<ExitCode, Failure> {
    match args.command {
        LockCommand::Run(args) => return run::run(&args, context()?).await,
        LockCommand::Ls(args) => ls::run(&args, &context()?).await?,
        LockCommand::Release(args) => release::run(&args, &context()?).await?,
        LockCommand::Watchdog(args) => lock_run::run_watchdog(&args).await.map_err(Failure::failed)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a lock's name.
fn resource(text: &str) -> Result<String, String> {
    lockkeeper_model::names::check_text("the name", text, lockkeeper_model::limits::ID_BYTES_MAX)
        .map_err(|error| error.to_string())?;
    if matches!(text, "." | "..") {
        return Err("`.` and `..` are not allowed: they vanish from URLs".to_owned());
    }
    Ok(text.to_owned())
}
