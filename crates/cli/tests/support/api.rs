//! The HTTP API as a client sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::call::{Answer, Call, instance};

/// Longer than the server works on any request.
const ANSWER_MAX: Duration = Duration::from_secs(40);

/// A way to one server, or to several that are asked in turn, with connections of its own. Clones share them.
#[derive(Clone)]
pub(crate) struct Api {
    http: reqwest::Client,
    urls: Arc<[String]>,
    turn: Arc<AtomicUsize>,
}

impl Api {
    pub(crate) fn new(url: &str) -> Self {
        Self::over(vec![url.to_owned()])
    }

    /// Requests are spread over these servers.
    pub(crate) fn over(urls: Vec<String>) -> Self {
        // Whoever was first has set it; there is only one.
        let _set_before = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .redirect(reqwest::redirect::Policy::none())
            .timeout(ANSWER_MAX)
            .build()
            .expect("a client");
        Self { http, urls: urls.into(), turn: Arc::default() }
    }

    /// The same client, for a server that listens elsewhere now.
    pub(crate) fn at(&self, url: &str) -> Self {
        Self { http: self.http.clone(), urls: [url.to_owned()].into(), turn: Arc::default() }
    }

    /// Sends the request once.
    ///
    /// # Errors
    /// There was no connection, or it was lost before the answer was complete.
    pub(crate) async fn try_call(&self, call: &Call) -> Result<Answer, reqwest::Error> {
        let url = &self.urls[self.turn.fetch_add(1, Ordering::Relaxed) % self.urls.len()];
        let mut request = self.http.request(call.method.clone(), format!("{url}{}", call.path));
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        if let Some(body) = &call.body {
            request = request.body(body.clone());
        }
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Answer { status, headers, text: response.text().await? })
    }

    /// Sends the request once, to a server that must answer.
    pub(crate) async fn call(&self, call: &Call) -> Answer {
        self.try_call(call).await.unwrap_or_else(|error| panic!("{call:?}: {error:?}"))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(&Call::get(path)).await
    }

    /// Puts a definition that must be good.
    pub(crate) async fn put(&self, workflow: &str, text: &str) {
        self.call(&Call::put(workflow, text)).await.ok();
    }

    /// Begins a run that must begin.
    pub(crate) async fn start(&self, workflow: &str, body: &Value) -> Value {
        let answer = self.call(&Call::start(workflow, body)).await;
        assert_eq!((answer.status, answer.outcome().as_str()), (201, "started"), "{answer:?}");
        answer.json()
    }

    /// Sends an event.
    pub(crate) async fn send(&self, workflow: &str, id: &str, body: &Value) -> Answer {
        self.call(&Call::send(workflow, id, body)).await
    }

    /// An instance that must be there.
    pub(crate) async fn instance(&self, workflow: &str, id: &str) -> Value {
        self.get(&instance(workflow, id, "")).await.ok()
    }
}
