//! A client that follows the feed, and comes back with the last id whenever its stream breaks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Far above what anything takes, even in a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Versions that were told of each instance, in the order in which they came.
pub(crate) type Told = BTreeMap<String, Vec<i64>>;

/// A follower under way; ended when dropped.
pub(crate) struct Follower {
    task: JoinHandle<()>,
    told: Arc<Mutex<Told>>,
    news: watch::Receiver<usize>,
    streams: watch::Receiver<usize>,
}

/// One open stream.
pub(crate) struct Stream {
    response: reqwest::Response,
    rest: String,
}

/// One event of it.
#[derive(Debug, Default)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

pub(crate) fn http() -> reqwest::Client {
    let _set_before = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client")
}

impl Stream {
    /// Opens one; none: nobody answers, or not well.
    pub(crate) async fn open(http: &reqwest::Client, url: &str, query: &str, last: Option<&str>) -> Option<Self> {
        let mut request = http.get(format!("{url}/v1/events{query}"));
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        let response = request.send().await.ok()?;
        assert!(matches!(response.status().as_u16(), 200 | 503), "{response:?}");
        (response.status() == 200).then(|| Self { response, rest: String::new() })
    }

    /// The next event, comments and moves of the id included; none: the stream is over.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.rest.split_once("\n\n") {
                let (event, rest) = (read(event), rest.to_owned());
                self.rest = rest;
                return Some(event);
            }
            let piece = self.response.chunk().await.ok()??;
            self.rest.push_str(std::str::from_utf8(&piece).expect("no event is cut within a character here"));
        }
    }

    /// The next event with data.
    pub(crate) async fn change(&mut self) -> Event {
        loop {
            let event = tokio::time::timeout(LONG, self.next()).await.expect("news").expect("the stream goes on");
            if !event.data.is_null() {
                return event;
            }
        }
    }
}

fn read(text: &str) -> Event {
    let mut event = Event::default();
    for line in text.lines() {
        match line.split_once(": ") {
            Some(("id", id)) => event.id = Some(id.to_owned()),
            Some(("event", name)) => name.clone_into(&mut event.name),
            Some(("data", data)) => event.data = serde_json::from_str(data).expect("JSON"),
            _ => {}
        }
    }
    event
}

impl Follower {
    /// Follows from the beginning; the servers are asked in turn.
    pub(crate) fn begin(urls: watch::Receiver<Vec<String>>) -> Self {
        let (told, count, opened) = (Arc::<Mutex<Told>>::default(), watch::Sender::new(0), watch::Sender::new(0));
        let (news, streams) = (count.subscribe(), opened.subscribe());
        let task = tokio::spawn(follow(urls, told.clone(), count, opened));
        Self { task, told, news, streams }
    }

    /// Waits until as many changes were told.
    pub(crate) async fn until(&mut self, changes: usize) {
        let reached = tokio::time::timeout(LONG, self.news.wait_for(|count| *count >= changes)).await.is_ok();
        assert!(reached, "{} of {changes} changes were told", *self.news.borrow());
    }

    /// How often a stream was opened.
    pub(crate) fn streams(&self) -> usize {
        *self.streams.borrow()
    }

    pub(crate) fn told(&self) -> Told {
        self.told.lock().unwrap().clone()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(
    urls: watch::Receiver<Vec<String>>,
    told: Arc<Mutex<Told>>,
    count: watch::Sender<usize>,
    opened: watch::Sender<usize>,
) {
    let http = http();
    let mut last: Option<String> = None;
    for turn in 0.. {
        let url = {
            let urls = urls.borrow();
            urls[turn % urls.len()].clone()
        };
        let Some(mut stream) = Stream::open(&http, &url, "?after=begin", last.as_deref()).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        opened.send_modify(|count| *count += 1);
        while let Some(event) = stream.next().await {
            if event.id.is_some() {
                last = event.id;
            }
            let Some(version) = event.data["version"].as_i64() else { continue };
            let key = format!("{}/{}", event.data["workflow"].as_str().unwrap(), event.data["id"].as_str().unwrap());
            told.lock().unwrap().entry(key).or_default().push(version);
            count.send_modify(|count| *count += 1);
        }
    }
}
