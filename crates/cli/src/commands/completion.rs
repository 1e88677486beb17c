//! `completion`: prints a completion script for a shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  source <(lockkeeper completion bash)
  lockkeeper completion zsh  > ~/.zfunc/_lockkeeper
  lockkeeper completion fish > ~/.config/fish/completions/lockkeeper.fish";

/// Prints a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionArgs {
    /// The shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Runs `completion`.
pub(crate) fn run(args: &CompletionArgs, output: &Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "lockkeeper", &mut script);
    output.print(String::from_utf8_lossy(&script).trim_end())
}
