//! A server in this process, on a store of its own, with one token.

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_engine::{Engine, Options, SystemClock};
use lockkeeper_locks::{Durable, Locks, ServiceOptions};
use lockkeeper_server::metrics::Metrics;
use lockkeeper_server::tokens::Tokens;
use lockkeeper_server::{Server, ServerOptions};
use lockkeeper_store::Store;
use lockkeeper_store::sqlite::{SqliteOptions, SqliteStore};
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tempfile::TempDir;

const ITEM: &str = "
workflow: item
initial: draft
states:
  draft: {on: {submit: {target: review, roles: [admin]}, set: {assign: {value: event.value}, concurrency: {preset: stock}}}}
  review: {on: {approve: {target: done, approval: {quorum: 2}}, reject: {target: draft, guard: event.sure}}}
  done: {type: final}
";

/// A server, and a client with an admin's token.
pub(crate) struct Running {
    _dir: TempDir,
    _server: Server,
    http: reqwest::Client,
    url: String,
    secret: String,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Running {
    /// Starts one with the workflow `item` and its instance `i`.
    pub(crate) async fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let store = SqliteStore::open(&dir.path().join("lockkeeper.db"), SqliteOptions::default()).unwrap();
        let (store, clock): (Arc<dyn Store>, _) = (Arc::new(store), Arc::new(SystemClock));
        let tokens = Tokens::new(store.clone(), clock.clone());
        let (_, secret) = tokens.create("admin", vec!["admin".to_owned(), "act_as".to_owned()], "test").await.unwrap();
        let locks = Arc::new(Durable::open(store.clone(), ServiceOptions::default()));
        let leases = Some(Locks::new(locks.clone()));
        let engine = Engine::new(store, Options { locks: leases, ..Options::default() });
        let metrics = Metrics::new();
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::start(
            engine,
            metrics.metered(locks),
            ServerOptions { listen, tls: None, clock, admins_only: false, metrics: metrics.clone() },
        )
        .await
        .unwrap();
        // Whoever was first has set it; there is only one.
        let _set_before = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let running = Self { _dir: dir, url: server.url(), _server: server, http, secret };
        let put = running.send(Method::PUT, "/v1/workflows/item", Some(ITEM.to_owned())).await;
        assert_eq!(put.status, 201, "{put:?}");
        let started = running.post("/v1/workflows/item/instances", &json!({ "id": "i" })).await;
        assert_eq!(started.status, 201, "{started:?}");
        running
    }

    /// Sends a request with the token.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<String>) -> Answer {
        self.send_as(method, path, body, Some(&self.secret)).await
    }

    pub(crate) async fn send_as(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        secret: Option<&str>,
    ) -> Answer {
        let mut request = self.http.request(method, format!("{}{path}", self.url));
        if let Some(secret) = secret {
            request = request.bearer_auth(secret);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { status, headers, text: response.text().await.unwrap() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, Some(body.to_string())).await
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    /// The media type, without its parameters.
    pub(crate) fn media_type(&self) -> &str {
        let kind = self.headers.get("content-type").map(|value| value.to_str().unwrap()).unwrap_or_default();
        kind.split(';').next().unwrap_or_default()
    }
}
