//! `watch`: follows what happens, to one instance or to all (`watch_all`).

use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::Args;
use lockkeeper_model::WorkflowName;
use serde_json::{Value, json};

use crate::client::{Answer, CallError, Request};
use crate::commands::paging::{self, PAGE_ITEMS, Page};
use crate::commands::{Context, field, history, history_table, watch_all};
use crate::failure::Failure;
use crate::target::Target;
use crate::{duration, encode, retry};

/// How long the server keeps a question open while nothing happens.
const POLL: Duration = Duration::from_secs(20);

/// How much longer than the server a poll waits.
const GRACE: Duration = Duration::from_secs(10);

/// The pause after an empty answer that came at once: a server that does not wait is not asked in a loop.
const EMPTY_PAUSE: Duration = Duration::from_secs(1);

/// What tells a change from another one that made the same version in another life of the store.
const SAME: [&str; 4] = ["at", "run", "kind", "event"];

const EXAMPLES: &str = "\
Examples:
  lockkeeper watch purchase/po-1
  lockkeeper watch purchase/po-1 --until-closed && echo done
  lockkeeper watch stock/sku-1 --from 1200 -o json | jq .event
  lockkeeper watch                                       all instances, from now on
  lockkeeper watch purchase --after begin                those of a workflow, from the oldest change
  lockkeeper watch --after \"$CURSOR\" -o json            from where an earlier watch ended: its last `cursor`

With -o json, each change is one line; where changes were purged, a line {\"gap\":\"purged\"} stands in their place. A lost connection is taken up again where it broke; after
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
    /// What the change that made that version was; none: none was seen yet.
    last: Option<Value>,
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
    let seen = args.from.unwrap_or(1) - 1;
    let mut watch = Watch { args, target, context, version_at_begin, seen, last: None, is_overtaken: false };
    if !context.output.is_json() {
        context.output.print(&history_table::line_heading(context.output))?;
    }
    loop {
        if args.until_closed && (watch.is_overtaken || closed_at.is_some_and(|version| version <= watch.seen)) {
            return Ok(());
        }
        let asked = Instant::now();
        let page = watch.poll().await?;
        // After the page, so that it is of the life that is found.
        watch.assure_life().await?;
        watch.tell_purged(&page)?;
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
        let mut request = self.history(self.seen, PAGE_ITEMS, POLL);
        request.timeout = POLL + GRACE;
        self.ask(&request).await?.read()
    }

    fn history(&self, after: i64, limit: usize, wait: Duration) -> Request {
        let query = encode::query(&[
            ("limit", Some(limit.to_string())),
            ("cursor", Some(after.to_string())),
            ("wait_ms", Some(wait.as_millis().to_string())),
        ]);
        Request::get(self.target.path(&["history"]) + &query)
    }

    /// Looks whether the last change that was seen is still the one that made its version: a store that was restored, or
    /// failed over to a standby, gives versions out again.
    async fn assure_life(&self) -> Result<(), Failure> {
        let Some(last) = &self.last else { return Ok(()) };
        let page: Page = self.ask(&self.history(self.seen - 1, 1, Duration::ZERO)).await?.read()?;
        let found = page.items.first().map(|raw| paging::value(raw)).transpose()?;
        let is_same = match found.filter(|item| field::number(item, "version") == Some(self.seen)) {
            Some(item) => SAME.iter().all(|name| item[name] == last[name]),
            // Purged since; or it never happened.
            None => page.oldest_version.is_some_and(|oldest| oldest > self.seen),
        };
        if is_same {
            return Ok(());
        }
        let target = self.target;
        Err(Failure::failed(format!("{}; begin again with `lockkeeper watch {target}`", watch_all::ANOTHER_LIFE)))
    }

    /// Says that versions are missing before a page, and goes on behind them.
    fn tell_purged(&mut self, page: &Page) -> Result<(), Failure> {
        let first = page.items.first().map(|raw| paging::value(raw)).transpose()?;
        let kept = first.and_then(|item| field::number(&item, "version")).or(page.oldest_version);
        let Some(oldest) = kept.filter(|kept| *kept > self.seen + 1) else { return Ok(()) };
        let output = self.context.output;
        if output.is_json() {
            output.print(&json!({ "gap": "purged", "oldest_version": oldest }).to_string())?;
        } else {
            output.note(&history::purged(self.seen + 1, oldest, page.items.is_empty()));
        }
        (self.seen, self.last) = (oldest - 1, None);
        Ok(())
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
            self.print(raw.get(), &item)?;
            (self.seen, self.last) = (version, Some(item));
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
