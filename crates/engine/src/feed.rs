//! What happens to all instances, as it happens.
//!
//! One reader a node follows the store's feed while somebody listens, and hands what it finds to all who do. Whoever is
//! too slow for that, or has just come, reads the store itself until it has caught up: a listener costs memory for what
//! it is being told, never for what it has not taken yet.

use std::collections::VecDeque;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lockkeeper_model::{Entry, InstanceKey, Refusal};
use lockkeeper_store::{FeedCursor, FeedFrom, FeedGap};
use tokio::sync::{Notify, broadcast};

use crate::codec;
use crate::definitions::unavailable;
use crate::engine::Engine;
use crate::limits::{FEED_BATCHES_KEPT, FEED_HELD_PAUSE, FEED_PAGE, FEED_POLL};

/// One committed change of an instance.
#[derive(Clone, Debug)]
pub struct FeedEvent {
    /// Where to go on behind it.
    pub cursor: FeedCursor,
    /// The instance.
    pub key: InstanceKey,
    /// The version that the change made.
    pub version: i64,
    /// The change; or why it cannot be read. The rest of the feed does not wait for that.
    pub entry: Result<Arc<Entry>, Refusal>,
}

/// What a listener is told next.
#[derive(Clone, Debug)]
pub enum FeedNews {
    /// A change.
    Event(FeedEvent),
    /// Nothing that concerns instances up to here.
    Passed(FeedCursor),
    /// Changes may be missing between what was told and what comes.
    Gap(FeedGap, FeedCursor),
}

/// Changes that follow each other without a gap.
#[derive(Debug)]
struct Batch {
    /// Behind this place.
    from: FeedCursor,
    /// Up to this one.
    to: FeedCursor,
    events: Vec<FeedEvent>,
}

/// What the node's one reader and its listeners share.
pub(crate) struct FeedHub {
    batches: broadcast::Sender<Arc<Batch>>,
    listeners: AtomicUsize,
    /// This node has committed something, or somebody has begun to listen.
    woken: Notify,
    reader: Mutex<bool>,
}

/// That somebody listens. Dropped: no longer.
struct Listening(Engine);

/// Somebody who listens.
pub struct FeedListener {
    listening: Listening,
    batches: broadcast::Receiver<Arc<Batch>>,
    cursor: FeedCursor,
    waiting: VecDeque<FeedNews>,
    /// All that the store has was read: the reader's batches go on from here.
    caught_up: bool,
}

impl Default for FeedHub {
    fn default() -> Self {
        Self {
            batches: broadcast::Sender::new(FEED_BATCHES_KEPT),
            listeners: AtomicUsize::new(0),
            woken: Notify::new(),
            reader: Mutex::new(false),
        }
    }
}

impl FeedHub {
    /// Tells of a commit of this node. Nearly free while nobody listens.
    pub(crate) fn committed(&self) {
        if self.listeners.load(Ordering::SeqCst) > 0 {
            self.woken.notify_one();
        }
    }
}

/// Reads a cursor as text.
///
/// # Errors
/// `malformed`.
pub fn parse_cursor(text: &str) -> Result<FeedCursor, Refusal> {
    FeedCursor::from_str(text).map_err(|error| Refusal::Malformed { detail: error.to_string() })
}

impl Engine {
    /// Listens to what happens from a place on. A cursor that means nothing in the store is told as its [`FeedGap`].
    ///
    /// # Errors
    /// `unavailable`.
    pub async fn listen(&self, from: FeedFrom) -> Result<Result<FeedListener, FeedGap>, Refusal> {
        self.inner.accepts()?;
        // Listening begins before looking, so that nothing falls between the two.
        let listening = Listening::begin(self);
        let batches = self.inner.feed.batches.subscribe();
        let page = self.feed_page(from).await?;
        if let Some(gap @ FeedGap::AnotherLife) = page.gap {
            return Ok(Err(gap));
        }
        let mut listener =
            FeedListener { listening, batches, cursor: page.batch.from, waiting: VecDeque::new(), caught_up: false };
        listener.take(page);
        self.start_feed_reader();
        Ok(Ok(listener))
    }

    /// One page of the store's feed, decoded.
    async fn feed_page(&self, from: FeedFrom) -> Result<ReadPage, Refusal> {
        let page = self.inner.store.feed(from, FEED_PAGE).await.map_err(|e| unavailable(&e))?;
        let mut events = Vec::with_capacity(page.items.len());
        for item in page.items {
            // Definitions and tokens have spaces that are no names of workflows.
            let Ok(key) = InstanceKey::new(&item.key.space, &item.key.id) else { continue };
            let entry = codec::decode_entry(&item.event.body).map(Arc::new);
            if let Err(why) = &entry {
                tracing::error!(record = %item.key, version = item.event.version, %why, "an event cannot be read");
            }
            events.push(FeedEvent { cursor: item.cursor, key, version: item.event.version, entry });
        }
        let batch = Batch { from: page.from, to: page.next, events };
        Ok(ReadPage { batch, gap: page.gap, more: page.more, held_back: page.held_back })
    }

    fn start_feed_reader(&self) {
        let mut started = self.inner.feed.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *started, true) {
            let (engine, stopped) = (self.clone(), self.inner.stopped.clone());
            self.inner.tasks.spawn(async move { stopped.run_until_cancelled(follow(&engine)).await });
        }
        self.inner.feed.woken.notify_one();
    }
}

/// A page as it was read.
struct ReadPage {
    batch: Batch,
    gap: Option<FeedGap>,
    more: bool,
    held_back: bool,
}

/// Follows the feed while somebody listens.
async fn follow(engine: &Engine) {
    let hub = &engine.inner.feed;
    // Where the last batch ended that was sent; none: nobody has listened since.
    let mut sent: Option<FeedCursor> = None;
    let mut from = FeedFrom::Now;
    let mut pause = FEED_HELD_PAUSE;
    loop {
        if hub.listeners.load(Ordering::SeqCst) == 0 {
            hub.woken.notified().await;
            (sent, from) = (None, FeedFrom::Now);
            continue;
        }
        let wait = match engine.feed_page(from).await {
            Ok(page) => {
                from = FeedFrom::After(page.batch.to);
                // After a gap each listener has to find its own: a batch that does not follow sends it to the store.
                let begin = sent.filter(|_| page.gap.is_none()).unwrap_or(page.batch.to);
                if sent.is_none() || page.gap.is_some() || !page.batch.events.is_empty() {
                    let batch = Batch { from: begin, ..page.batch };
                    sent = Some(batch.to);
                    // Nobody may be listening any more.
                    let _unheard = hub.batches.send(Arc::new(batch));
                    pause = FEED_HELD_PAUSE;
                }
                match page {
                    ReadPage { gap: Some(FeedGap::AnotherLife), .. } => {
                        (sent, from) = (None, FeedFrom::Now);
                        FEED_POLL
                    }
                    ReadPage { more: true, .. } => continue,
                    ReadPage { held_back: true, .. } => {
                        pause = (pause * 2).min(FEED_POLL);
                        pause
                    }
                    ReadPage { .. } => FEED_POLL,
                }
            }
            Err(refusal) => {
                tracing::debug!(%refusal, "the feed cannot be read for now");
                FEED_POLL
            }
        };
        // What other nodes commit is found by looking.
        let _elapsed = tokio::time::timeout(wait, hub.woken.notified()).await;
    }
}

impl FeedListener {
    /// Where to go on behind everything that was told.
    pub fn cursor(&self) -> FeedCursor {
        self.cursor
    }

    /// What comes next; may take for ever. May be dropped and called again.
    ///
    /// # Errors
    /// `unavailable`: the store did not answer; it may be asked again.
    pub async fn next(&mut self) -> Result<FeedNews, Refusal> {
        loop {
            if let Some(news) = self.waiting.pop_front() {
                self.cursor = match &news {
                    FeedNews::Event(event) => event.cursor,
                    FeedNews::Passed(cursor) | FeedNews::Gap(_, cursor) => *cursor,
                };
                return Ok(news);
            }
            if !self.caught_up {
                let page = self.listening.0.feed_page(FeedFrom::After(self.cursor)).await?;
                self.take(page);
                continue;
            }
            match self.batches.recv().await {
                Ok(batch) if self.cursor.has_passed(&batch.to) => {}
                Ok(batch) if self.cursor.has_passed(&batch.from) => {
                    let news = batch.events.iter().filter(|event| !self.cursor.has_passed(&event.cursor));
                    self.waiting.extend(news.cloned().map(FeedNews::Event));
                    self.waiting.push_back(FeedNews::Passed(batch.to));
                }
                // It was too slow, or something lies between: the store has it.
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => self.caught_up = false,
                Err(broadcast::error::RecvError::Closed) => {
                    return Err(Refusal::Unavailable { detail: "this node is shutting down".to_owned() });
                }
            }
        }
    }

    fn take(&mut self, page: ReadPage) {
        if let Some(gap) = page.gap {
            self.waiting.push_back(FeedNews::Gap(gap, page.batch.from));
        }
        self.waiting.extend(page.batch.events.into_iter().map(FeedNews::Event));
        if page.gap != Some(FeedGap::AnotherLife) {
            self.waiting.push_back(FeedNews::Passed(page.batch.to));
        }
        self.caught_up = !page.more;
    }
}

impl Listening {
    fn begin(engine: &Engine) -> Self {
        engine.inner.feed.listeners.fetch_add(1, Ordering::SeqCst);
        Self(engine.clone())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.inner.feed.listeners.fetch_sub(1, Ordering::SeqCst);
    }
}
