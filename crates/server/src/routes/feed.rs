//! What happens to all instances, as it happens.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt as _};
use lockkeeper_engine::{FeedEvent, FeedListener, FeedNews, HistoryItem, parse_cursor};
use lockkeeper_model::{InstanceKey, Refusal, WorkflowName};
use lockkeeper_store::{FeedCursor, FeedFrom, FeedGap};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use utoipa::{IntoParams, ToSchema};

use crate::app::AppState;
use crate::body::Params;
use crate::closed::GapReasonName;
use crate::limits::{FEED_KEEP_ALIVE, FEED_RETRY, FEED_STREAM_MAX, FEED_STREAMS_MAX};
use crate::problem::{Problem, malformed};
use crate::views::{HistoryView, ProblemView};

/// Which changes, from where on.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FeedParams {
    /// Only instances of this workflow.
    workflow: Option<String>,
    /// Only the instance with this id.
    id: Option<String>,
    /// Only changes of this kind: `start`, `move`, `vote`, ...
    kind: Option<String>,
    /// Where to begin: `now` (the default), `begin` (with the oldest change that is kept), or behind the change with this
    /// id. The header `Last-Event-ID` goes before it.
    after: Option<String>,
}

/// One change of an instance: the data of an event of the stream. The event's name is the change's kind, its id the place
/// to go on from.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChangeView {
    workflow: String,
    id: String,
    #[serde(flatten)]
    change: HistoryView,
}

/// The data of an event named `gap`: changes may be missing between the one before and the one after.
#[derive(Serialize, ToSchema)]
pub(crate) struct GapView {
    /// `purged`: retention has forgotten changes that were not told yet; the stream goes on with what is kept.
    /// `another_life`: the store was restored, or a standby was promoted; the stream ends.
    #[schema(value_type = GapReasonName, example = "purged")]
    reason: &'static str,
}

/// The data of an event named `unreadable`: there is a change here that this node cannot read.
#[derive(Serialize, ToSchema)]
pub(crate) struct UnreadableView {
    workflow: String,
    id: String,
    version: i64,
    /// Why.
    detail: String,
}

/// The committed changes of all instances, as server-sent events.
///
/// Each instance's changes come in the order of their versions, none is left out and none comes twice; a stream that is
/// taken up again with `Last-Event-ID` goes on where it broke. Events without data only move the id on.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "follow_events", tag = "events",
    params(
        FeedParams,
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was seen: go on behind it")
    ),
    responses(
        (status = 200, description = "A stream; it ends after some minutes, and goes on by `Last-Event-ID`. `data` is a ChangeView; in an event `gap` a GapView, in `unreadable` an UnreadableView",
         body = ChangeView, content_type = "text/event-stream"),
        (status = 410, description = "The id is from another life of the store: begin again with `after=begin` or `after=now`",
         body = ProblemView, content_type = "application/problem+json"),
        (status = "default", description = "Refused", body = ProblemView, content_type = "application/problem+json")
    )
)]
pub(crate) async fn follow(
    State(state): State<AppState>,
    headers: HeaderMap,
    Params(params): Params<FeedParams>,
) -> Result<Response, Problem> {
    let filter = Filter::new(&params)?;
    let from = begin(&headers, params.after.as_deref())?;
    let Ok(place) = state.streams.clone().try_acquire_owned() else {
        let detail =
            format!("{FEED_STREAMS_MAX} streams of events are open on this node; close some, or ask another node");
        return Err(Refusal::Busy { detail }.into());
    };
    let listener = state.engine.listen(from).await?.map_err(|_gap| Problem::Gone(ANOTHER_LIFE.to_owned()))?;
    let last = listener.cursor();
    let follower = Follower {
        listener,
        filter,
        stopping: state.stopping.clone(),
        // A client that begins now and hears nothing for long is to go on from here all the same.
        told: None,
        seen: last,
        told_at: Instant::now(),
        ended: false,
        _place: place,
    };
    let keep_alive = KeepAlive::new().interval(FEED_KEEP_ALIVE);
    let events = follower.events().take_until(tokio::time::sleep(FEED_STREAM_MAX));
    let mut response = Sse::new(events).keep_alive(keep_alive).into_response();
    // Proxies that gather what passes would hold events back.
    response.headers_mut().insert("x-accel-buffering", axum::http::HeaderValue::from_static("no"));
    Ok(response)
}

const ANOTHER_LIFE: &str = "this id is from another life of the store, which was restored or failed over to a standby since: \
                            changes that were told may be gone. Begin again with `after=begin` or `after=now`";

fn begin(headers: &HeaderMap, after: Option<&str>) -> Result<FeedFrom, Problem> {
    let last = headers.get("last-event-id").map(|id| id.to_str().map_err(|_| malformed("Last-Event-ID is not ASCII")));
    let after = match last.transpose()?.filter(|id| !id.is_empty()) {
        Some(last) => Some(last),
        None => after,
    };
    Ok(match after {
        None | Some("" | "now") => FeedFrom::Now,
        Some("begin" | "0") => FeedFrom::Oldest,
        Some(cursor) => FeedFrom::After(parse_cursor(cursor)?),
    })
}

/// Which changes a stream is to have.
struct Filter {
    workflow: Option<WorkflowName>,
    id: Option<String>,
    kind: Option<String>,
}

impl Filter {
    fn new(params: &FeedParams) -> Result<Self, Problem> {
        let workflow = params.workflow.as_deref().map(WorkflowName::new).transpose()?;
        Ok(Self { workflow, id: params.id.clone(), kind: params.kind.clone() })
    }

    /// Whether it lets a change pass; one without a kind may be of any.
    fn lets(&self, key: &InstanceKey, kind: Option<&str>) -> bool {
        self.workflow.as_ref().is_none_or(|workflow| *workflow == key.workflow)
            && self.id.as_deref().is_none_or(|id| id == key.id.as_str())
            && self.kind.as_ref().zip(kind).is_none_or(|(wanted, kind)| wanted == kind)
    }
}

/// One stream: it reads on only when its client has taken what came before.
struct Follower {
    listener: FeedListener,
    filter: Filter,
    stopping: CancellationToken,
    /// The last place that the client was told.
    told: Option<FeedCursor>,
    /// The last place that was looked at.
    seen: FeedCursor,
    told_at: Instant,
    ended: bool,
    _place: OwnedSemaphorePermit,
}

impl Follower {
    fn events(self) -> impl Stream<Item = Result<Event, Infallible>> {
        stream::unfold(self, |mut follower| async move { follower.next().await.map(|event| (Ok(event), follower)) })
    }

    async fn next(&mut self) -> Option<Event> {
        while !self.ended {
            let quiet = self.told_at + if self.told.is_none() { Duration::ZERO } else { FEED_KEEP_ALIVE };
            let news = tokio::select! {
                biased;
                () = self.stopping.cancelled() => return None,
                news = self.listener.next() => news,
                // What was looked at and is none of the client's need not be looked at again when it comes back.
                () = tokio::time::sleep_until(quiet), if self.told != Some(self.seen) => {
                    return Some(self.tell(Event::default().retry(FEED_RETRY), self.seen));
                }
            };
            match news {
                Ok(FeedNews::Event(event)) => {
                    self.seen = event.cursor;
                    if let Some(told) = self.change(event) {
                        return Some(told);
                    }
                }
                Ok(FeedNews::Passed(cursor)) => self.seen = cursor,
                Ok(FeedNews::Gap(FeedGap::Purged, cursor)) => {
                    self.seen = cursor;
                    let gap = Event::default().event("gap").json_data(GapView { reason: "purged" });
                    return Some(self.tell(gap.ok()?, cursor));
                }
                Ok(FeedNews::Gap(FeedGap::AnotherLife, _)) => {
                    // Without an id: whoever comes back with the old one is told again.
                    self.ended = true;
                    return Event::default().event("gap").json_data(GapView { reason: "another_life" }).ok();
                }
                Err(refusal) => {
                    tracing::debug!(%refusal, "a stream of events waits for the store");
                    self.stopping.run_until_cancelled(tokio::time::sleep(FEED_RETRY)).await?;
                }
            }
        }
        None
    }

    fn change(&mut self, event: FeedEvent) -> Option<Event> {
        let FeedEvent { cursor, key, version, entry } = event;
        let (workflow, id) = (key.workflow.to_string(), key.id.to_string());
        let told = match entry {
            Ok(entry) => {
                let Ok(Value::String(kind)) = serde_json::to_value(&entry.kind) else { return None };
                if !self.filter.lets(&key, Some(&kind)) {
                    return None;
                }
                let change = HistoryView::from(HistoryItem { version, entry: (*entry).clone() });
                Event::default().event(kind).json_data(ChangeView { workflow, id, change })
            }
            Err(_) if !self.filter.lets(&key, None) => return None,
            Err(why) => {
                let view = UnreadableView { workflow, id, version, detail: why.to_string() };
                Event::default().event("unreadable").json_data(view)
            }
        };
        Some(self.tell(told.ok()?, cursor))
    }

    fn tell(&mut self, event: Event, cursor: FeedCursor) -> Event {
        (self.told, self.told_at) = (Some(cursor), Instant::now());
        event.id(cursor.to_string())
    }
}
