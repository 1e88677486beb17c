//! `bench`: measures acknowledged moves against one synced commit at a time on the same disk.

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::output::Output;

/// Measures acknowledged moves per second against one synced commit at a time on the same disk.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// One instance that all clients write to, or many.
    #[arg(value_enum)]
    pub scenario: Scenario,
    /// The store to measure; without it, a new SQLite file in a temporary folder.
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Clients that send at once.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub clients: u32,
    /// Instances that `many` spreads its commands over.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub keys: u32,
    /// Seconds that each row is measured for.
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub seconds: u32,
    /// Measure through HTTP too, with the server in this process.
    #[arg(long)]
    pub http: bool,
}

/// What the clients write to: one instance, all of them (`hot`), or `--keys` instances (`many`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    Hot,
    Many,
}

/// Runs the benchmark and prints its rows.
///
/// # Errors
/// What kept it from measuring.
pub(crate) async fn run(_args: BenchArgs, _output: &Output) -> Result<ExitCode, Failure> {
    Err(Failure::failed("bench: not wired yet"))
}
