//! `migrate`: moves runs to another version of their definition.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

use clap::Args;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, Request};
use crate::commands::paging::Listing;
use crate::commands::sender::SenderArgs;
use crate::commands::{Context, field, success};
use crate::failure::Failure;
use crate::retry::{self, Patience};
use crate::target::{StartTarget, Target};
use crate::{encode, input};

const EXAMPLES: &str = "\
Examples:
  lockkeeper migrate purchase/po-1 --reason 'new approval limits'
  lockkeeper migrate purchase --all --map review=checking --dry-run --reason 'see what would happen'
  lockkeeper migrate purchase --all --map review=checking --reason 'review was renamed'

A run goes on in the state of the same name, or in the one that --map names. With --all every running instance of the
workflow is moved, one after another; what is on that version already is left alone, so it may be run again after a break.
The exit code is 1 if any of them was refused. Where there are tokens, the role admin is needed.";

/// Moves runs to another version of their definition.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MigrateArgs {
    /// The instance; with --all the workflow.
    #[arg(value_name = "WORKFLOW[/ID]")]
    pub target: StartTarget,
    /// Every running instance of the workflow.
    #[arg(long, conflicts_with = "run")]
    pub all: bool,
    /// The version to move to [default: the newest].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    pub to_version: Option<i64>,
    /// The state that takes another's place in that version; may be given more than once.
    #[arg(long = "map", value_name = "OLD=NEW", value_parser = pair)]
    pub map: Vec<(String, String)>,
    /// Change nothing; say what would happen.
    #[arg(long)]
    pub dry_run: bool,
    /// Why; the history keeps it.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// The run that is meant; without it, the current one.
    #[arg(long, value_name = "RUN")]
    pub run: Option<Uuid>,
    /// Who acts.
    #[command(flatten)]
    pub(crate) sender: SenderArgs,
}

/// Reads `--map`.
fn pair(text: &str) -> Result<(String, String), String> {
    let (old, new) = text.split_once('=').ok_or("write OLD=NEW, for example review=checking")?;
    Ok((input::name(old)?, input::name(new)?))
}

/// Runs `migrate`.
pub(crate) async fn run(args: &MigrateArgs, context: &Context<'_>) -> Result<(), Failure> {
    let workflow = &args.target.workflow;
    match (&args.target.id, args.all) {
        (Some(id), false) => {
            let target = Target { workflow: workflow.clone(), id: id.clone() };
            let answer = one(args, context, &target, &args.sender.key_or_random()).await?;
            success::print(context, workflow, &answer)
        }
        (None, true) => all(args, context).await,
        (None, false) => Err(Failure::usage("name one instance (WORKFLOW/ID), or give --all")),
        (Some(_), true) => Err(Failure::usage("--all is for a workflow, not for one instance")),
    }
}

async fn one(args: &MigrateArgs, context: &Context<'_>, target: &Target, key: &str) -> Result<Answer, Failure> {
    let map: BTreeMap<&String, &String> = args.map.iter().map(|(old, new)| (old, new)).collect();
    let mut body = json!({ "reason": args.reason, "state_map": map, "dry_run": args.dry_run });
    if let Some(version) = args.to_version {
        body["to_version"] = json!(version);
    }
    if let Some(run) = args.run {
        body["run"] = json!(run);
    }
    if let Some(actor) = args.sender.actor() {
        body["actor"] = actor;
    }
    let path = target.path(&["migrate"]);
    let request = |_| Request::post(path.clone(), &body);
    retry::call(&context.client, Patience::new(None), key, request).await
}

/// Moves every running instance, one after another: each is a commit of its own, and a break leaves none half-moved.
async fn all(args: &MigrateArgs, context: &Context<'_>) -> Result<(), Failure> {
    let workflow = &args.target.workflow;
    let listing = Listing {
        path: encode::path(&["v1", "workflows", workflow, "instances"]),
        filters: vec![("status", Some("running".to_owned()))],
        limit: None,
    };
    let (items, _) = listing.values(&context.client).await?;
    let mut rows = Vec::with_capacity(items.len());
    let mut refused = 0_usize;
    let progress = Progress::new(items.len());
    for item in &items {
        let id = field::text(item, "id");
        let target = Target { workflow: workflow.clone(), id: id.clone() };
        match one(args, context, &target, &input::random_key()).await {
            Ok(answer) => rows.push(answer.read::<Value>()?),
            // A server that is gone answers for nobody else either.
            Err(Failure::Refused(problem)) if !problem.is_unavailable() => {
                refused += 1;
                rows.push(
                    json!({ "id": id, "outcome": problem.outcome, "code": problem.code, "detail": problem.detail }),
                );
            }
            Err(failure) => {
                progress.end();
                // What is done is done, and nobody else tells of it.
                if !rows.is_empty() {
                    print(args, context, &rows)?;
                }
                let left = items.len() - rows.len();
                context.output.note(&format!("{left} of {} instances were not come to, or nobody knows", items.len()));
                return Err(failure);
            }
        }
        progress.show(rows.len(), refused);
    }
    progress.end();
    print(args, context, &rows)?;
    match refused {
        0 => Ok(()),
        _ => Err(Failure::failed(format!("{refused} of {} instances were refused", rows.len()))),
    }
}

fn print(args: &MigrateArgs, context: &Context<'_>, rows: &[Value]) -> Result<(), Failure> {
    if context.output.is_json() {
        return context.output.print(&crate::json::pretty(&json!({ "items": rows }).to_string()));
    }
    if rows.is_empty() {
        context.output.note("no running instances");
        return Ok(());
    }
    let lines = rows.iter().map(|row| {
        let (version, state) = match row.get("migration") {
            Some(migration) => (
                format!("{} > {}", field::text(migration, "from_version"), field::text(migration, "to_version")),
                format!("{} > {}", field::text(migration, "from_state"), field::text(migration, "to_state")),
            ),
            None => (field::NOTHING.to_owned(), field::text(row, "state")),
        };
        vec![field::text(row, "id"), field::text(row, "outcome"), version, state, field::text(row, "detail")]
    });
    let heading = ["ID", "OUTCOME", "DEFINITION", "STATE", "DETAIL"];
    context.output.print(&context.output.table(&heading, lines.collect()))?;
    if args.dry_run {
        context.output.note("nothing was changed (--dry-run)");
    }
    Ok(())
}

/// A line on a terminal that tells how far it is.
struct Progress {
    total: usize,
    shown: bool,
}

impl Progress {
    /// How wide the bar is, in characters.
    const WIDTH: usize = 30;

    fn new(total: usize) -> Self {
        Self { total, shown: total > 0 && std::io::stderr().is_terminal() }
    }

    fn show(&self, done: usize, refused: usize) {
        self.write(&{
            let filled = (done * Self::WIDTH).checked_div(self.total).unwrap_or(Self::WIDTH);
            let bar = format!("{}{}", "#".repeat(filled), ".".repeat(Self::WIDTH.saturating_sub(filled)));
            format!("\r[{bar}] {done} of {}, {refused} refused", self.total)
        });
    }

    fn end(&self) {
        self.write("\n");
    }

    fn write(&self, text: &str) {
        if self.shown {
            let mut stderr = std::io::stderr();
            // A terminal that cannot be written to shows no progress; the work goes on.
            let _shown = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
        }
    }
}
