//! `apply`: puts definitions.

use std::path::PathBuf;

use clap::Args;
use lockkeeper_model::{Definition, Format, Problem};
use reqwest::Method;
use serde::Deserialize;

use crate::client::{Answer, CallError, Request};
use crate::commands::Context;
use crate::failure::Failure;
use crate::import::ImportArgs;
use crate::input::DefinitionFile;
use crate::{encode, import, json, report};

const EXAMPLES: &str = "\
Examples:
  lockkeeper apply -f examples/purchase.yaml
  lockkeeper apply -f purchase.yaml -f stock.json
  generate-definition | lockkeeper apply -f -
  lockkeeper apply -f machine.scxml --lossy --guard 'isValid=size(event.text) > 0'

The same text again keeps its version; another text becomes the next one.";

/// Puts definitions; every problem is shown in its line.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ApplyArgs {
    /// A definition in YAML or JSON, or a machine of XState, SCXML or Symfony; - for standard input. May be given several
    /// times.
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// How machines of other tools are read.
    #[command(flatten)]
    pub import: ImportArgs,
}

/// The only thing that is read here: where the definition is to be put. The server judges the rest.
#[derive(Deserialize)]
struct Head {
    workflow: String,
}

/// The answer to a put.
#[derive(Deserialize)]
struct Put {
    workflow: String,
    version: i64,
    #[serde(default)]
    warnings: Vec<Problem>,
}

/// Runs `apply`: every file is tried, also after one that was refused.
pub(crate) async fn run(args: &ApplyArgs, context: &Context<'_>) -> Result<(), Failure> {
    args.import.check_files(args.files.len())?;
    let mut all_done = true;
    for path in &args.files {
        match put(path, args, context).await {
            Ok(()) => {}
            Err(failure @ (Failure::Refused(_) | Failure::Failed(_) | Failure::Reported)) if args.files.len() > 1 => {
                failure.report(context.output);
                all_done = false;
            }
            Err(failure) => return Err(failure),
        }
    }
    if all_done { Ok(()) } else { Err(Failure::Reported) }
}

async fn put(path: &std::path::Path, args: &ApplyArgs, context: &Context<'_>) -> Result<(), Failure> {
    let file = import::open(path, &args.import, context.output)?;
    let Some(workflow) = workflow_of(&file) else { return Err(report_unreadable(&file, context)) };
    let kind = match file.format {
        Format::Yaml => "application/yaml",
        Format::Json => "application/json",
    };
    let request = Request {
        body: Some((kind, file.text.clone())),
        ..Request::new(Method::PUT, encode::path(&["v1", "workflows", &workflow]))
    };
    match context.client.try_call(&request).await {
        Ok(answer) => print(&file, &answer, context),
        Err(CallError::Refused(problem)) if !context.output.is_json() => {
            match problem.field("problems").cloned().map(serde_json::from_value::<Vec<Problem>>) {
                Some(Ok(problems)) => Err(report::problems(context.output, &file, &problems)),
                _ => Err(Failure::Refused(problem)),
            }
        }
        Err(error) => Err(context.client.failure(error)),
    }
}

/// The workflow's name, if the text can be read as far as that.
fn workflow_of(file: &DefinitionFile) -> Option<String> {
    let head: Option<Head> = match file.format {
        Format::Yaml => serde_saphyr::from_str(&file.text).ok(),
        Format::Json => serde_json::from_str(&file.text).ok(),
    };
    head.and_then(|head| crate::target::workflow_name(&head.workflow).ok())
}

fn print(file: &DefinitionFile, answer: &Answer, context: &Context<'_>) -> Result<(), Failure> {
    if context.output.is_json() {
        return context.output.print(&json::pretty(&with_told(&answer.text, &file.told)));
    }
    let put: Put = answer.read()?;
    report::warnings(context.output, file, &put.warnings);
    context.output.print(&format!("{}: version {}", put.workflow, put.version))
}

/// The answer with what was told on reading a machine of another tool before its own warnings.
fn with_told(answer: &str, told: &[Problem]) -> String {
    let (false, Ok(serde_json::Value::Object(mut document))) = (told.is_empty(), serde_json::from_str(answer)) else {
        return answer.to_owned();
    };
    let own = document.remove("warnings").and_then(|own| own.as_array().cloned()).unwrap_or_default();
    let told = told.iter().filter_map(|problem| serde_json::to_value(problem).ok());
    document.insert("warnings".to_owned(), told.chain(own).collect());
    serde_json::Value::Object(document).to_string()
}

/// A text that names no workflow cannot be sent anywhere: it is checked here, with the checker that the server has.
fn report_unreadable(file: &DefinitionFile, context: &Context<'_>) -> Failure {
    match Definition::read(&file.text, file.format) {
        Err(problems) if !problems.is_empty() => report::problems(context.output, file, &problems),
        _ => Failure::failed(format!("{}: no `workflow: NAME` can be found in it", file.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str, format: Format) -> DefinitionFile {
        DefinitionFile { name: "x".into(), text: text.into(), format, ending: String::new(), told: Vec::new() }
    }

    #[test]
    fn the_name_is_found_whatever_else_is_wrong() {
        let yaml = "workflow: purchase\ninitial: 7\nstates: nonsense\n";
        assert_eq!(workflow_of(&file(yaml, Format::Yaml)).as_deref(), Some("purchase"));
        assert_eq!(workflow_of(&file("{\"workflow\":\"stock\",\"x\":1}", Format::Json)).as_deref(), Some("stock"));
        for bad in ["", "states: {}", "workflow: Not A Name", "workflow: [", "- a"] {
            assert_eq!(workflow_of(&file(bad, Format::Yaml)), None, "{bad}");
        }
    }
}
