//! Machines of other tools: read as definitions, and what is lost on the way.

use std::path::Path;

use clap::{Args, ValueEnum};
use lockkeeper_model::import::{Options, Source, import};
use lockkeeper_model::{Format, WorkflowName};

use crate::failure::Failure;
use crate::input::DefinitionFile;
use crate::output::Output;
use crate::report;

/// How machines of other tools are read.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Machines of other tools (docs/import.md)")]
pub(crate) struct ImportArgs {
    /// How the file is written; if not given, told by its name and its text.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<FileFormat>,
    /// Does without what cannot be carried over, and names it.
    #[arg(long)]
    pub lossy: bool,
    /// A guard of the machine in CEL, by its name; may be given several times.
    #[arg(long = "guard", value_name = "NAME=CEL", value_parser = guard)]
    pub guards: Vec<(String, String)>,
    /// The workflow's name, if not the machine's.
    #[arg(long = "workflow", value_name = "NAME", value_parser = WorkflowName::new)]
    pub workflow: Option<WorkflowName>,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    // A definition.
    Yaml,
    // A definition.
    Json,
    // XState v5, as JSON.
    Xstate,
    // State Chart XML.
    Scxml,
    // Symfony's workflow of type `state_machine`, as YAML.
    Symfony,
}

/// `NAME=CEL`. A name may be a condition as it stands in SCXML: the `=` of a comparison is part of it.
fn guard(text: &str) -> Result<(String, String), String> {
    let bytes = text.as_bytes();
    let is_own = |at: usize| {
        let before = at.checked_sub(1).map_or(b'=', |before| bytes[before]);
        !b"=!<>".contains(&before) && bytes.get(at + 1) != Some(&b'=')
    };
    let at = text.match_indices('=').map(|(at, _)| at).find(|at| is_own(*at));
    let at = at.ok_or("write NAME=CEL, for example 'isValid=size(event.text) > 0'")?;
    Ok((text[..at].trim().to_owned(), text[at + 1..].trim().to_owned()))
}

/// Reads a definition; a machine of another tool as what it becomes.
pub(crate) fn open(path: &Path, args: &ImportArgs, output: &Output) -> Result<DefinitionFile, Failure> {
    let file = DefinitionFile::read(path)?;
    let source = match args.format {
        None => Source::detect(&file.ending, &file.text),
        Some(FileFormat::Yaml) => return Ok(DefinitionFile { format: Format::Yaml, ..file }),
        Some(FileFormat::Json) => return Ok(DefinitionFile { format: Format::Json, ..file }),
        Some(FileFormat::Xstate) => Some(Source::XState),
        Some(FileFormat::Scxml) => Some(Source::Scxml),
        Some(FileFormat::Symfony) => Some(Source::Symfony),
    };
    let Some(source) = source else { return Ok(file) };
    let options = Options { workflow: args.workflow.clone(), guards: args.guards.iter().cloned().collect() };
    let imported =
        import(&file.text, source, &options).map_err(|problems| report::problems(output, &file, &problems))?;
    if !args.lossy && !imported.lost.is_empty() {
        return Err(report::lost(output, &file, &imported.lost));
    }
    let told: Vec<_> = imported.lost.into_iter().chain(imported.notes).collect();
    report::warnings(output, &file, &told);
    Ok(DefinitionFile {
        name: format!("{} as a definition", file.name),
        text: imported.text,
        format: Format::Yaml,
        ending: "yaml".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_is_a_name_and_an_expression() {
        for (text, name, cel) in [
            ("a=data.x == 1", "a", "data.x == 1"),
            ("x === f(y) && a<=2 = data.x", "x === f(y) && a<=2", "data.x"),
            ("a = ", "a", ""),
        ] {
            assert_eq!(guard(text), Ok((name.to_owned(), cel.to_owned())), "{text}");
        }
        for bad in ["a", "a == b", "=x"] {
            assert!(guard(bad).is_err(), "{bad}");
        }
    }
}
