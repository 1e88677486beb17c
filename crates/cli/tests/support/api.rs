//! The HTTP API as a client sees it.

use std::time::Duration;

use serde_json::Value;

use super::call::{Answer, Call, instance};

/// Longer than the server works on any request.
const ANSWER_MAX: Duration = Duration::from_secs(40);

/// A way to one server, with connections of its own. Clones share them.
#[derive(Clone)]
pub(crate) struct Api {
    http: reqwest::Client,
    url: String,
}

impl Api {
    pub(crate) fn new(url: &str) -> Self {
        // Whoever was first has set it; there is only one.
        let _set_before = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .redirect(reqwest::redirect::Policy::none())
            .timeout(ANSWER_MAX)
            .build()
            .expect("a client");
        Self { http, url: url.to_owned() }
    }

    /// The same client, for a server that listens elsewhere now.
    pub(crate) fn at(&self, url: &str) -> Self {
        Self { http: self.http.clone(), url: url.to_owned() }
    }

    /// Sends the request once.
    ///
    /// # Errors
    /// There was no connection, or it was lost before the answer was complete.
    pub(crate) async fn try_call(&self, call: &Call) -> Result<Answer, reqwest::Error> {
        let mut request = self.http.request(call.method.clone(), format!("{}{}", self.url, call.path));
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
