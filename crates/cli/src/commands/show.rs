//! `show`: shows a definition file without a server.

use std::path::PathBuf;

use clap::Args;
use lockkeeper_model::Definition;

use crate::failure::Failure;
use crate::input::DefinitionFile;
use crate::output::Output;

/// Checks a definition file and shows its states and events; needs no server.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  lockkeeper show examples/purchase.yaml")]
pub(crate) struct ShowArgs {
    /// A definition in YAML or JSON; - for standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Runs `show`.
pub(crate) fn run(args: &ShowArgs, output: &Output) -> Result<(), Failure> {
    let file = DefinitionFile::read(&args.file)?;
    let definition =
        Definition::read(&file.text, file.format).map_err(|problems| Failure::failed(format!("{problems:?}")))?;
    let rows = definition
        .state_names()
        .map(|state| vec![state.to_owned(), definition.open_events(state).join(", ")])
        .collect();
    output.print(&output.table(&["STATE", "EVENTS"], rows))
}
