//! `watch`: follows what happens to an instance.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use crate::client::{CallError, Request};
use crate::commands::paging::{self, PAGE_ITEMS, Page};
use crate::commands::{Context, field, history_table};
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

With -o json, each change is one line. A lost connection is taken up again where it broke; after
--retry-for without an answer, watch gives up.";

/// Follows an instance: every change so far, then each as it happens.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WatchArgs {
    /// The instance.
    #[arg(value_name = "WORKFLOW/ID")]
    pub target: Target,
    /// End when the current run has ended.
    #[arg(long)]
    pub until_closed: bool,
    /// Begin with this version.
    #[arg(long, value_name = "VERSION", default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..))]
    pub from: i64,
    /// How long to go on without an answer.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    pub retry_for: Duration,
}

/// Where the watch stands.
struct Watch<'a> {
    args: &'a WatchArgs,
    context: &'a Context<'a>,
    /// The version that was current when the watch began.
    version_at_begin: i64,
    /// The last version that was seen.
    seen: i64,
    cursor: Option<String>,
    ended: bool,
}

/// Runs `watch`.
pub(crate) async fn run(args: &WatchArgs, context: &Context<'_>) -> Result<(), Failure> {
    let instance = instance(args, context).await?;
    let version_at_begin = field::number(&instance, "version").unwrap_or(0);
    let mut watch = Watch { args, context, version_at_begin, seen: 0, cursor: None, ended: false };
    if !context.output.is_json() {
        context.output.print(&history_table::line_heading(context.output))?;
    }
    loop {
        let asked = Instant::now();
        let page = watch.poll().await?;
        let news = watch.show(page)?;
        if args.until_closed && (watch.ended || news && watch.is_closed().await?) {
            return Ok(());
        }
        if !news && asked.elapsed() < EMPTY_PAUSE {
            tokio::time::sleep(EMPTY_PAUSE).await;
        }
    }
}

async fn instance(args: &WatchArgs, context: &Context<'_>) -> Result<Value, Failure> {
    context.client.call(&Request::get(args.target.path(&[]))).await?.read()
}

impl Watch<'_> {
    /// Asks for the next page until there is one, or until nobody has answered for too long.
    async fn poll(&self) -> Result<Page, Failure> {
        let query = encode::query(&[
            ("limit", Some(PAGE_ITEMS.to_string())),
            ("cursor", self.cursor.clone()),
            ("wait_ms", Some(POLL.as_millis().to_string())),
        ]);
        let mut request = Request::get(self.args.target.path(&["history"]) + &query);
        request.timeout = POLL + GRACE;
        let begin = Instant::now();
        let mut retries = 0;
        loop {
            let error = match self.context.client.try_call(&request).await {
                Ok(answer) => return answer.read(),
                Err(error) => error,
            };
            let pause_min = match &error {
                CallError::Refused(problem) if problem.is_worth_a_retry() => problem.retry_after.unwrap_or_default(),
                CallError::Refused(_) => return Err(self.context.client.failure(error)),
                CallError::NotSent(_) | CallError::Lost(_) => Duration::ZERO,
            };
            let pause = pause_min + retry::backoff(retries);
            if begin.elapsed() + pause >= self.args.retry_for {
                return Err(self.context.client.failure(error));
            }
            if retries == 0 {
                self.context.output.note(&format!("no answer from {}; trying again", self.context.client.url()));
            }
            retries += 1;
            tokio::time::sleep(pause).await;
        }
    }

    /// Prints what is new in a page; says whether anything was.
    fn show(&mut self, page: Page) -> Result<bool, Failure> {
        let seen_before = self.seen;
        for raw in &page.items {
            let item = paging::value(raw)?;
            let version = field::number(&item, "version").unwrap_or(0);
            if version <= self.seen {
                continue;
            }
            if self.args.until_closed && version > self.version_at_begin && field::text(&item, "kind") == "start" {
                // The run that was watched is over, and the id has begun another one.
                self.ended = true;
                return Ok(true);
            }
            self.seen = version;
            if version >= self.args.from {
                self.print(raw.get(), &item)?;
            }
        }
        // A last page may have no cursor: what it had is left out when it comes again.
        self.cursor = page.next_cursor.or(self.cursor.take());
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

    /// Whether the run has ended and its last change has been shown.
    async fn is_closed(&self) -> Result<bool, Failure> {
        let instance = instance(self.args, self.context).await?;
        let closed = field::text(&instance, "status") != "running";
        Ok(closed && field::number(&instance, "version").is_some_and(|version| version <= self.seen))
    }
}
