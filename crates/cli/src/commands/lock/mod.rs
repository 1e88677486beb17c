//! `lock`: holds a lock while a command runs, and shows who holds which.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::commands::Context;
use crate::failure::Failure;
use crate::lock_run::{self, WatchdogArgs};

/// Holds a lock while a command runs; shows and ends locks.
#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    /// What is to be done.
    #[command(subcommand)]
    pub command: LockCommand,
}

/// What is to be done with locks.
#[derive(Debug, Subcommand)]
pub(crate) enum LockCommand {
    #[command(hide = true)]
    Watchdog(WatchdogArgs),
}

/// Runs `lock`.
pub(crate) async fn run<'a>(
    args: LockArgs,
    _context: impl FnOnce() -> Result<Context<'a>, Failure>,
) -> Result<ExitCode, Failure> {
    match args.command {
        LockCommand::Watchdog(args) => lock_run::run_watchdog(&args).await.map_err(Failure::failed)?,
    }
    Ok(ExitCode::SUCCESS)
}
