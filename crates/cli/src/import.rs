//! Machines of other tools: read as definitions, and what is lost on the way.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{Args, ValueEnum};
use lockkeeper_model::import::{Options, Source, guard_names, import};
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
    /// A guard of the machine in CEL, by its name or by the condition as it stands there; may be given several times.
    #[arg(long = "guard", value_name = "NAME=CEL", value_parser = guard_text)]
    pub guards: Vec<String>,
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

impl ImportArgs {
    /// Which of the flags say something about one machine, and nothing about a definition.
    fn flags(&self) -> Option<&'static str> {
        match (self.workflow.is_some(), self.guards.is_empty()) {
            (false, true) => None,
            (true, true) => Some("--workflow"),
            (false, false) => Some("--guard"),
            (true, false) => Some("--workflow and --guard"),
        }
    }

    /// Refuses flags that say something about one machine where there are `files` files.
    pub(crate) fn check_files(&self, files: usize) -> Result<(), Failure> {
        match self.flags().filter(|_| files > 1) {
            Some(flags) => Err(Failure::usage(format!("{flags}: give one file, it is not known which is meant"))),
            None => Ok(()),
        }
    }
}

fn guard_text(text: &str) -> Result<String, String> {
    if text.contains('=') {
        return Ok(text.to_owned());
    }
    Err("write NAME=CEL, for example 'isValid=size(event.text) > 0'".to_owned())
}

/// `NAME=CEL`. A name may be a condition as it stands in the machine, whose comparisons have a `=` too: the longest that is
/// known is meant. Else the name ends at the first `=` that is no part of a comparison.
fn guard(text: &str, known: &BTreeSet<String>) -> (String, String) {
    let behind = |name: &String| {
        let cel = text.trim_start().strip_prefix(name.as_str())?.trim_start().strip_prefix('=')?;
        (!cel.starts_with('=')).then(|| (name.clone(), cel.trim().to_owned()))
    };
    if let Some(found) = known.iter().filter_map(behind).max_by_key(|(name, _)| name.len()) {
        return found;
    }
    let bytes = text.as_bytes();
    let is_own = |at: usize| {
        let before = at.checked_sub(1).map_or(b' ', |before| bytes[before]);
        !b"=!<>".contains(&before) && !matches!(bytes.get(at + 1), Some(b'=' | b'>'))
    };
    let mut marks = text.match_indices('=').map(|(at, _)| at);
    let at = marks.clone().find(|at| is_own(*at)).or(marks.next()).unwrap_or(text.len());
    (text[..at].trim().to_owned(), text.get(at + 1..).unwrap_or_default().trim().to_owned())
}

/// Reads a definition; a machine of another tool as what it becomes.
pub(crate) fn open(path: &Path, args: &ImportArgs, output: &Output) -> Result<DefinitionFile, Failure> {
    let file = DefinitionFile::read(path)?;
    let (source, format) = match args.format {
        None => (Source::detect(&file.ending, &file.text), file.format),
        Some(FileFormat::Yaml) => (None, Format::Yaml),
        Some(FileFormat::Json) => (None, Format::Json),
        Some(FileFormat::Xstate) => (Some(Source::XState), file.format),
        Some(FileFormat::Scxml) => (Some(Source::Scxml), file.format),
        Some(FileFormat::Symfony) => (Some(Source::Symfony), file.format),
    };
    let Some(source) = source else {
        return match args.flags() {
            Some(flags) => Err(Failure::usage(format!(
                "{flags}: {} is a definition, and no machine of another tool (--format says which it is)",
                file.name
            ))),
            None => Ok(DefinitionFile { format, ..file }),
        };
    };
    let known = guard_names(&file.text, source);
    let guards = args.guards.iter().map(|text| guard(text, &known)).collect();
    let options = Options { workflow: args.workflow.clone(), guards };
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
        told,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_is_a_name_and_an_expression() {
        let known = ["a", "items.some(i => i > 1)", "check('k=v')", "a == b", "over {\"n\":20}"];
        let known = known.into_iter().map(str::to_owned).collect();
        for (text, name, cel) in [
            ("a=data.x == 1", "a", "data.x == 1"),
            ("x === f(y) && a<=2 = data.x", "x === f(y) && a<=2", "data.x"),
            ("a = ", "a", ""),
            (
                "items.some(i => i > 1)=data.items.exists(i, i > 1)",
                "items.some(i => i > 1)",
                "data.items.exists(i, i > 1)",
            ),
            ("check('k=v') = data.ok", "check('k=v')", "data.ok"),
            ("a == b=data.c", "a == b", "data.c"),
            ("over {\"n\":20}=data.x > 20", "over {\"n\":20}", "data.x > 20"),
            ("all(x => x)=data.y", "all(x => x)", "data.y"),
            ("=x", "", "x"),
        ] {
            assert_eq!(guard(text, &known), (name.to_owned(), cel.to_owned()), "{text}");
        }
        assert!(guard_text("a").is_err());
    }
}
