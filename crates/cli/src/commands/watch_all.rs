//! `watch` without an instance: follows what happens to all instances, or to those of a workflow.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{CallError, Request};
use crate::commands::watch::{WatchArgs, Watched};
use crate::commands::{Context, history_table};
use crate::failure::Failure;
use crate::sse::{Event, Reader};
use crate::{encode, retry};

/// How long a stream may be silent: the server says something every ten seconds.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How wide the instances' names are shown.
const NAME_WIDTH: usize = 24;

/// What is said when what was shown may never have happened.
pub(crate) const ANOTHER_LIFE: &str = "the store has begun another life (it was restored, or failed over to a standby): what \
                                       was shown may be gone";

/// Where the watch stands.
struct Feed<'a> {
    args: &'a WatchArgs,
    context: &'a Context<'a>,
    /// Where to go on: what was asked for, then the id of the last event that was shown.
    after: String,
    /// When something was heard last.
    heard: Instant,
}

/// How a stream ended.
enum Ended {
    /// The server has ended it, as it does every few minutes; it can be taken up again.
    Over,
    /// It broke, and can be taken up again.
    Broken(CallError),
    /// The rest is not to be had.
    Gone,
}

/// Runs it; ends only by a failure.
pub(crate) async fn run(args: &WatchArgs, context: &Context<'_>) -> Result<(), Failure> {
    if args.until_closed || args.from.is_some() {
        return Err(Failure::usage("--until-closed and --from go with one instance: write WORKFLOW/ID"));
    }
    let after = args.after.clone().unwrap_or_else(|| "now".to_owned());
    let mut feed = Feed { args, context, after, heard: Instant::now() };
    if !context.output.is_json() {
        let heading = history_table::line_heading(context.output);
        context.output.print(&format!("{:<NAME_WIDTH$}  {heading}", "INSTANCE"))?;
    }
    match &args.target {
        Some(Watched::Workflow(workflow)) => tell_unknown(workflow, context).await,
        Some(Watched::Instance(target)) => tell_unknown(&target.workflow, context).await,
        None => {}
    }
    // Whether it was said that nothing is heard.
    let (mut retries, mut is_told) = (0, false);
    loop {
        let begun = Instant::now();
        let ended = feed.follow().await?;
        if feed.heard > begun {
            (retries, is_told) = (0, false);
        }
        let is_over = matches!(ended, Ended::Over);
        let error = match ended {
            Ended::Gone => {
                return Err(Failure::failed(format!("{ANOTHER_LIFE}; begin again with --after begin or --after now")));
            }
            Ended::Over => CallError::Lost("the server ended the stream".to_owned()),
            Ended::Broken(error) => error,
        };
        let pause_min = match &error {
            CallError::Refused(problem) if problem.is_worth_a_retry() => problem.retry_after.unwrap_or_default(),
            CallError::Refused(_) => return Err(context.client.failure(error)),
            CallError::NotSent(_) | CallError::Lost(_) => Duration::ZERO,
        };
        let pause = pause_min + retry::backoff(retries);
        if feed.heard.elapsed() + pause >= args.retry_for {
            return Err(context.client.failure(error));
        }
        if !is_over && !is_told {
            context.output.note(&format!("the stream from {} broke; taking it up again", context.client.url()));
            is_told = true;
        }
        retries += 1;
        tokio::time::sleep(pause).await;
    }
}

/// Says that a workflow is not known, if it is not: it may come, or its name may be wrong.
async fn tell_unknown(workflow: &str, context: &Context<'_>) {
    let request = Request::get(encode::path(&["v1", "workflows", workflow]));
    if let Err(CallError::Refused(problem)) = context.client.try_call(&request).await
        && problem.outcome == "unknown_workflow"
    {
        context.output.note(&format!("{}: waiting until it is put", problem.detail));
    }
}

impl Feed<'_> {
    /// Follows one stream to its end.
    async fn follow(&mut self) -> Result<Ended, Failure> {
        let (workflow, id) = match &self.args.target {
            None => (None, None),
            Some(Watched::Workflow(workflow)) => (Some(workflow.clone()), None),
            Some(Watched::Instance(target)) => (Some(target.workflow.clone()), Some(target.id.clone())),
        };
        let query = encode::query(&[("workflow", workflow), ("id", id), ("after", Some(self.after.clone()))]);
        let mut response = match self.context.client.stream(&format!("/v1/events{query}"), SILENCE_MAX).await {
            Ok(response) => response,
            Err(error) => return Ok(Ended::Broken(error)),
        };
        let mut reader = Reader::default();
        loop {
            let piece = match self.context.client.piece(&mut response, SILENCE_MAX).await {
                Ok(Some(piece)) => piece,
                Ok(None) => return Ok(Ended::Over),
                Err(error) => return Ok(Ended::Broken(error)),
            };
            self.heard = Instant::now();
            for event in reader.take(&piece).map_err(Failure::failed)? {
                if !self.show(&event)? {
                    return Ok(Ended::Gone);
                }
            }
        }
    }

    /// Shows an event, and goes on behind it; false: there is no going on.
    fn show(&mut self, event: &Event) -> Result<bool, Failure> {
        let output = self.context.output;
        let value: Value = match event.data.as_str() {
            "" => Value::Null,
            data => serde_json::from_str(data)
                .map_err(|e| Failure::failed(format!("cannot read the server's event: {e}; is it of this version?")))?,
        };
        let cursor = event.id.as_deref().unwrap_or(&self.after);
        if event.name == "gap" {
            if value["reason"] == "another_life" {
                return Ok(false);
            }
            if output.is_json() {
                output.print(&serde_json::json!({ "cursor": cursor, "gap": value["reason"] }).to_string())?;
            } else {
                output.note("changes are missing here: retention has purged them before they were shown");
            }
        } else if let Value::Object(change) = &value {
            if event.name == "unreadable" && !output.is_json() {
                let field = |name: &str| crate::output::printable(value[name].as_str().unwrap_or_default());
                let (workflow, id, detail) = (field("workflow"), field("id"), field("detail"));
                output.note(&format!("{workflow}/{id}: version {} cannot be read: {detail}", value["version"]));
            } else if output.is_json() {
                let mut line = serde_json::Map::from_iter([("cursor".to_owned(), Value::from(cursor))]);
                line.extend(change.clone());
                output.print(&Value::Object(line).to_string())?;
            } else {
                let field = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
                let name = crate::output::printable(&format!("{}/{}", field("workflow"), field("id")));
                output.print(&format!("{name:<NAME_WIDTH$}  {}", history_table::line(output, &value)))?;
            }
        }
        if let Some(id) = &event.id {
            id.clone_into(&mut self.after);
        }
        Ok(true)
    }
}
