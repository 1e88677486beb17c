//! `watch`: follows what happens, to one instance or to all (`watch_all`).

use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::Args;
use lockkeeper_model::WorkflowName;
use serde_json::Value;

use crate::client::{Answer, CallError, Request};
use crate::commands::paging::{self, PAGE_ITEMS, Page};
use crate::commands::{Context, field, history_table, watch_all};
use crate::failure::Failure;
use crate::target::Target;
use crate::{duration, encode, retry};

/// How long the server keeps a question open while nothing happens.
const POLL: Duration = Duration::from_secs(20);

/// How much longer than the server a poll waits.
const GRACE: Duration = Duration::from_secs(10);

/// The pause after an empty answer that came at once: a server that does not wait is not asked in a loop.
const EMPTY_PAUSE: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  lockkeeper watch purchase/po-1
  lockkeeper watch purchase/po-1 --until-closed && echo done
  lockkeeper watch stock/sku-1 --from 1200 -o json | jq .event
  lockkeeper watch                                       all instances, from now on
  lockkeeper watch purchase --after begin                those of a workflow, from the oldest change
  lockkeeper watch --after \"$CURSOR\" -o json            from where an earlier watch ended: its last `cursor`

With -o json, each change is one line. A lost connection is taken up again where it broke; after
--retry-for without an answer, watch gives up.";

/// Follows an instance: every change so far, then each as it happens. Without an instance: all of them, from now on.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WatchArgs {
    /// The instance, or the workflow; none: all.
    #[arg(value_name = "WORKFLOW[/ID]")]
    pub target: Option<Watched>,
    /// Follow the feed of all changes from here on: `now`, `begin` (the oldest change that is kept), or the `cursor` of a
    /// change that was shown with -o json. Without an instance `now` is the default.
    #[arg(long, value_name = "CURSOR", conflicts_with_all = ["until_closed", "from"])]
    pub after: Option<String>,
    /// End when the current run has ended.
    #[arg(long)]
    pub until_closed: bool,
    /// Begin with this version of the instance; 1 if not given.
    #[arg(long, value_name = "VERSION", value_parser = clap::value_parser!(i64).range(1..))]
    pub from: Option<i64>,
    /// How long to go on without an answer.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    pub retry_for: Duration,
}

/// What is watched.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Watched {
    /// All instances of a workflow.
    Workflow(String),
    /// One instance.
    Instance(Target),
}

impl FromStr for Watched {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return text.parse().map(Self::Instance);
        }
        let workflow = WorkflowName::new(text).map_err(|error| error.to_string())?;
        Ok(Self::Workflow(workflow.to_string()))
    }
}

/// Where the watch stands.
struct Watch<'a> {
    args: &'a WatchArgs,
    target: &'a Target,
    context: &'a Context<'a>,
    /// The version that was current when the watch began.
    version_at_begin: i64,
    /// The last version that was seen. A history's cursor is a version: here the next question begins.
    seen: i64,
    /// Whether the run that was watched is over, and the id has begun another one.
    is_overtaken: bool,
}

/// Runs `watch`.
pub(crate) async fn run(args: &WatchArgs, context: &Context<'_>) -> Result<(), Failure> {
    let target = match (&args.target, &args.after) {
        (Some(Watched::Instance(target)), None) => target,
        _ => return watch_all::run(args, context).await,
    };
    let instance: Value = context.client.call(&Request::get(target.path(&[]))).await?.read()?;
    let version_at_begin = field::number(&instance, "version").unwrap_or(0);
    let mut closed_at = closed_at(&instance);
    let mut watch =
        Watch { args, target, context, version_at_begin, seen: args.from.unwrap_or(1) - 1, is_overtaken: false };
    if !context.output.is_json() {
        context.output.print(&history_table::line_heading(context.output))?;
    }
    loop {
        if args.until_closed && (watch.is_overtaken || closed_at.is_some_and(|version| version <= watch.seen)) {
            return Ok(());
        }
        let asked = Instant::now();
        let page = watch.poll().await?;
        let has_news = watch.show(&page)?;
        if has_news && args.until_closed {
            closed_at = watch.closed_at().await?;
        } else if !has_news && asked.elapsed() < EMPTY_PAUSE {
            tokio::time::sleep(EMPTY_PAUSE).await;
        }
    }
}

/// The version at which the current run ended, if it has.
fn closed_at(instance: &Value) -> Option<i64> {
    let is_running = field::text(instance, "status") == "running";
    field::number(instance, "version").filter(|_| !is_running)
}

impl Watch<'_> {
    /// The next page, or an empty one if nothing happens for a while.
    async fn poll(&self) -> Result<Page, Failure> {
        let query = encode::query(&[
            ("limit", Some(PAGE_ITEMS.to_string())),
            ("cursor", Some(self.seen.to_string())),
            ("wait_ms", Some(POLL.as_millis().to_string())),
        ]);
        let mut request = Request::get(self.target.path(&["history"]) + &query);
        request.timeout = POLL + GRACE;
        self.ask(&request).await?.read()
    }

    async fn closed_at(&self) -> Result<Option<i64>, Failure> {
        let instance = self.ask(&Request::get(self.target.path(&[]))).await?.read()?;
        Ok(closed_at(&instance))
    }

    /// Asks until somebody answers, or until nobody has for too long.
    async fn ask(&self, request: &Request) -> Result<Answer, Failure> {
        let client = &self.context.client;
        let begin = Instant::now();
        let mut retries = 0;
        loop {
            let error = match client.try_call(request).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let pause_min = match &error {
                CallError::Refused(problem) if problem.is_worth_a_retry() => problem.retry_after.unwrap_or_default(),
                CallError::Refused(_) => return Err(client.failure(error)),
                CallError::NotSent(_) | CallError::Lost(_) => Duration::ZERO,
            };
            let pause = pause_min + retry::backoff(retries);
            if begin.elapsed() + pause >= self.args.retry_for {
                return Err(client.failure(error));
            }
            if retries == 0 {
                self.context.output.note(&format!("no answer from {}; trying again", client.url()));
            }
            retries += 1;
            tokio::time::sleep(pause).await;
        }
    }

    /// Prints what is new in a page; says whether anything was.
    fn show(&mut self, page: &Page) -> Result<bool, Failure> {
        let seen_before = self.seen;
        for raw in &page.items {
            let item = paging::value(raw)?;
            let version = field::number(&item, "version").unwrap_or(0);
            if version <= self.seen {
                continue;
            }
            let is_start = field::text(&item, "kind") == "start";
            if self.args.until_closed && is_start && version > self.version_at_begin {
                self.is_overtaken = true;
                break;
            }
            self.seen = version;
            self.print(raw.get(), &item)?;
        }
        Ok(self.seen > seen_before)
    }

    fn print(&self, raw: &str, item: &Value) -> Result<(), Failure> {
        let output = self.context.output;
        if !output.is_json() {
            return output.print(&history_table::line(output, item));
        }
        // JSON has no line ends inside of texts: those that are there are layout.
        output.print(&raw.replace(['\n', '\r'], " "))
    }
}
