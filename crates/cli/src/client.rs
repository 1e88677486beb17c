//! One HTTP request to the server and its answer.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cli::ConnectionArgs;
use crate::failure::{Failure, Unreachable};
use crate::problem::Problem;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an answer may take where nothing else is said: the server's own deadline and a little more.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(35);

/// The largest answer that is read, in bytes; 100 history items with the largest data fit.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A way to one server.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// The server's address without a trailing `/`.
    url: String,
    authorization: Option<HeaderValue>,
}

/// What is asked of the server.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The method.
    pub method: Method,
    /// Path and query, percent-encoded.
    pub path: String,
    /// The body and its type.
    pub body: Option<(&'static str, String)>,
    /// The idempotency key.
    pub key: Option<String>,
    /// How long the answer may take, from the first byte sent to the last one read.
    pub timeout: Duration,
}

/// A success.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The body as it came.
    pub text: String,
    /// Whether the key had been answered before, and this is that answer again.
    pub replayed: bool,
}

/// Why there is no success.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The server refused.
    Refused(Box<Problem>),
    /// There was no connection, and so nothing was sent.
    NotSent(String),
    /// The connection was lost, or the time was up, before the answer was complete.
    Lost(String),
}

impl Request {
    /// A request without a body.
    pub(crate) fn new(method: Method, path: String) -> Self {
        Self { method, path, body: None, key: None, timeout: ANSWER_TIMEOUT }
    }

    /// Reads something.
    pub(crate) fn get(path: String) -> Self {
        Self::new(Method::GET, path)
    }

    /// Posts a JSON body.
    pub(crate) fn post(path: String, body: &Value) -> Self {
        Self { body: Some(("application/json", body.to_string())), ..Self::new(Method::POST, path) }
    }
}

impl Answer {
    /// The body as a value.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_str(&self.text).map_err(|e| {
            Failure::failed(format!("cannot read the server's answer: {e}; is it a Lockkeeper of this version?"))
        })
    }
}

impl Client {
    /// Reads the certificates and checks the address; connects only when something is asked.
    pub(crate) fn new(args: &ConnectionArgs) -> Result<Self, Failure> {
        let url = base_url(&args.url)?;
        // The process may have one default provider; whoever set it first, there is one.
        _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("lockkeeper/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none());
        if is_loopback(&url) {
            builder = builder.no_proxy();
        }
        if url.scheme() == "http" {
            // Plain HTTP needs none, and a machine without any certificates should not be refused it.
            builder = builder.tls_certs_only([]);
        } else if let Some(file) = &args.ca_cert {
            builder = builder.tls_certs_merge(certificates(file)?);
        }
        let http = builder.build().map_err(|e| Failure::failed(format!("cannot set up a client: {}", causes(&e))))?;
        let authorization = args.token.as_deref().filter(|token| !token.is_empty()).map(bearer).transpose()?;
        Ok(Self { http, url: url.as_str().trim_end_matches('/').to_owned(), authorization })
    }

    /// The server's address, for people.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Sends the request once.
    pub(crate) async fn try_call(&self, request: &Request) -> Result<Answer, CallError> {
        let mut builder =
            self.http.request(request.method.clone(), format!("{}{}", self.url, request.path)).timeout(request.timeout);
        if let Some(authorization) = &self.authorization {
            builder = builder.header(AUTHORIZATION, authorization.clone());
        }
        if let Some(key) = &request.key {
            builder = builder.header("Idempotency-Key", key);
        }
        if let Some((kind, text)) = &request.body {
            builder = builder.header(CONTENT_TYPE, *kind).body(text.clone());
        }
        let response = builder.send().await.map_err(classify)?;
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(read_seconds);
        let replayed = response.headers().get("Idempotency-Replayed").is_some_and(|value| value == "true");
        let text = read_body(response).await?;
        if status.is_success() {
            return Ok(Answer { text, replayed });
        }
        Err(CallError::Refused(Box::new(Problem::read(status.as_u16(), &text, retry_after))))
    }

    /// Sends the request once; whatever goes wrong ends the command.
    pub(crate) async fn call(&self, request: &Request) -> Result<Answer, Failure> {
        self.try_call(request).await.map_err(|error| match error {
            // A read changes nothing, whether it arrived or not.
            CallError::Lost(detail) if request.method == reqwest::Method::GET => {
                self.failure(CallError::NotSent(detail))
            }
            error => self.failure(error),
        })
    }

    /// Opens a stream of events; each answer of the server may take `silence`.
    pub(crate) async fn stream(&self, path: &str, silence: Duration) -> Result<reqwest::Response, CallError> {
        let request = self.http.get(format!("{}{path}", self.url)).header("Accept", "text/event-stream");
        self.open(request, silence).await
    }

    async fn open(
        &self,
        mut builder: reqwest::RequestBuilder,
        silence: Duration,
    ) -> Result<reqwest::Response, CallError> {
        if let Some(authorization) = &self.authorization {
            builder = builder.header(AUTHORIZATION, authorization.clone());
        }
        let response = within(silence, builder.send()).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let retry_after = response.headers().get(RETRY_AFTER).and_then(read_seconds);
        let text = match tokio::time::timeout(silence, read_body(response)).await {
            Ok(text) => text?,
            Err(_) => return Err(CallError::Lost("the answer does not end".to_owned())),
        };
        Err(CallError::Refused(Box::new(Problem::read(status.as_u16(), &text, retry_after))))
    }

    /// Asks for a file, whose first byte may take `silence` to come.
    pub(crate) async fn post_for_file(&self, path: &str, silence: Duration) -> Result<reqwest::Response, CallError> {
        self.open(self.http.post(format!("{}{path}", self.url)), silence).await
    }

    /// The next piece of a stream; none: the server has ended it, in good order.
    pub(crate) async fn piece(
        &self,
        stream: &mut reqwest::Response,
        silence: Duration,
    ) -> Result<Option<Vec<u8>>, CallError> {
        Ok(within(silence, stream.chunk()).await?.map(|piece| piece.to_vec()))
    }

    /// The failure of a request that is not sent again.
    pub(crate) fn failure(&self, error: CallError) -> Failure {
        let (detail, maybe_sent) = match error {
            CallError::Refused(problem) => return Failure::Refused(problem),
            CallError::NotSent(detail) => (detail, false),
            CallError::Lost(detail) => (detail, true),
        };
        Failure::Unreachable(Box::new(Unreachable { url: self.url.clone(), detail, maybe_sent, key: None }))
    }
}

fn base_url(text: &str) -> Result<Url, Failure> {
    let url = Url::parse(text).map_err(|e| Failure::usage(format!("--url {text}: {e}; write http://HOST:PORT")))?;
    if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
        return Err(Failure::usage(format!("--url {text}: write http://HOST:PORT or https://HOST:PORT")));
    }
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn certificates(file: &Path) -> Result<Vec<reqwest::Certificate>, Failure> {
    let wrong = |what: String| Failure::usage(format!("--ca-cert {}: {what}", file.display()));
    let pem = std::fs::read(file).map_err(|e| wrong(e.to_string()))?;
    match reqwest::Certificate::from_pem_bundle(&pem) {
        Ok(certificates) if certificates.is_empty() => Err(wrong("there is no certificate (PEM) in it".to_owned())),
        Ok(certificates) => Ok(certificates),
        Err(e) => Err(wrong(causes(&e))),
    }
}

fn bearer(token: &str) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| Failure::usage("the token contains characters that no token has"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The seconds of a `Retry-After`; its other form, a date, is not used by Lockkeeper.
fn read_seconds(value: &HeaderValue) -> Option<Duration> {
    value.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

async fn within<T>(bound: Duration, work: impl Future<Output = reqwest::Result<T>>) -> Result<T, CallError> {
    match tokio::time::timeout(bound, work).await {
        Ok(done) => done.map_err(classify),
        Err(_) => Err(CallError::Lost(format!("the server was silent for {} s", bound.as_secs()))),
    }
}

async fn read_body(mut response: reqwest::Response) -> Result<String, CallError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(classify)? {
        if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(CallError::Lost(format!("the answer is larger than {ANSWER_BYTES_MAX} bytes; ask for less")));
        }
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8(bytes).map_err(|_| CallError::Lost("the answer is not UTF-8".to_owned()))
}

fn classify(error: reqwest::Error) -> CallError {
    let not_sent = error.is_connect() || error.is_builder();
    let timed_out = error.is_timeout();
    let mut detail = causes(&error.without_url());
    if timed_out && !detail.contains("timed out") {
        detail.push_str(": timed out");
    }
    if not_sent { CallError::NotSent(detail) } else { CallError::Lost(detail) }
}

/// What happened, from the inside: the outer layers only say that something did.
fn causes(error: &dyn Error) -> String {
    const OUTER: [&str; 3] = ["error sending request", "client error", "builder error"];
    let mut texts: Vec<String> = Vec::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
        cause = error.source();
    }
    let is_outer = |text: &&String| OUTER.iter().any(|outer| text.starts_with(outer));
    let inner = texts.iter().take_while(is_outer).count().min(texts.len().saturating_sub(1));
    texts[inner..].join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(url: &str) -> Result<Client, Failure> {
        Client::new(&ConnectionArgs { url: url.into(), token: None, ca_cert: None })
    }

    #[test]
    fn addresses_may_have_a_path_and_a_slash_at_the_end() {
        assert_eq!(connect("http://h:1/").unwrap().url(), "http://h:1");
        assert_eq!(connect("https://h/lock/").unwrap().url(), "https://h/lock");
    }

    #[test]
    fn other_addresses_are_wrong_usage() {
        for bad in ["h:7070", "ftp://h", "", "http://", "http://h/?a=b"] {
            assert!(matches!(connect(bad), Err(Failure::Usage(_))), "{bad}");
        }
    }

    #[test]
    fn loopback_is_seen_in_every_spelling() {
        for url in ["http://localhost:1", "http://127.0.0.1", "http://[::1]:7070", "http://127.9.9.9"] {
            assert!(is_loopback(&Url::parse(url).unwrap()), "{url}");
        }
        assert!(!is_loopback(&Url::parse("http://localhost.example").unwrap()));
    }

    #[test]
    fn a_file_without_certificates_is_wrong_usage() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.pem");
        std::fs::write(&file, "no certificate").unwrap();
        assert!(matches!(certificates(&file), Err(Failure::Usage(_))));
        assert!(matches!(certificates(&folder.path().join("none")), Err(Failure::Usage(_))));
    }

    #[test]
    fn a_token_is_not_shown_by_debug() {
        let args = ConnectionArgs { url: "http://h".into(), token: Some("s3cret".into()), ca_cert: None };
        assert!(!format!("{:?}", Client::new(&args).unwrap()).contains("s3cret"));
    }
}
