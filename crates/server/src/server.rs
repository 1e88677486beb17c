//! The running server: a listener, and its orderly end.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum_server::Handle;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use lockkeeper_engine::{Clock, Engine};
use lockkeeper_locks::LockService;
use lockkeeper_store::scratch;
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::app::{AppState, router};
use crate::auth::Gate;
use crate::connections::Bounded;
use crate::limits::{CONNECTIONS_MAX, DRAIN_MAX, FLUSH_MAX, REQUEST_READ_MAX, REQUESTS_MAX, STREAMS_MAX};
use crate::metrics::Metrics;
use crate::tokens::Tokens;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Certificate and key; none: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Where tokens take the time from.
    pub clock: Arc<dyn Clock>,
    /// Whether only tokens with the role `admin` may put definitions, end runs from outside and release locks by force:
    /// whatever leads past the rules of definitions.
    pub admins_only: bool,
    /// What is told at `/metrics`; the lock service should be measured by it.
    pub metrics: Metrics,
}

/// PEM files for TLS.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Why a server did not start. Each message says what to do.
#[derive(Debug, Error)]
pub enum StartError {
    /// Reachable from outside, and anybody could do anything.
    #[error(
        "{0} is reachable from other machines and there are no tokens: listen on 127.0.0.1, or make a token first with \
         `lockkeeper token create --name NAME --roles admin --store URL`"
    )]
    Open(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source} (is another server running there? choose another with --listen)")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Certificate or key cannot be used.
    #[error("cannot use {certificate} with {key} for TLS: {source} (both must be PEM files, and belong together)")]
    Tls {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The store did not say whether there are tokens.
    #[error("cannot read the tokens: {0}")]
    Tokens(lockkeeper_model::Refusal),
}

/// A server that is listening.
pub struct Server {
    address: SocketAddr,
    tls: bool,
    engine: Engine,
    locks: Arc<dyn LockService>,
    handle: Handle<SocketAddr>,
    stopping: CancellationToken,
    requests: Arc<Semaphore>,
    serving: JoinHandle<io::Result<()>>,
}

impl Server {
    /// Listens and serves, until [`Server::stop`].
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(
        engine: Engine,
        locks: Arc<dyn LockService>,
        options: ServerOptions,
    ) -> Result<Self, StartError> {
        let scratch = engine.store().scratch();
        // Nobody waits for it, and nothing depends on it.
        drop(tokio::task::spawn_blocking(move || scratch::sweep(&scratch)));
        let tokens = Tokens::new(engine.store().clone(), options.clock.clone());
        let tokens_required = tokens.any().await.map_err(StartError::Tokens)?;
        if !tokens_required && !options.listen.ip().is_loopback() {
            return Err(StartError::Open(options.listen));
        }
        let tls = match &options.tls {
            Some(files) => Some(load_tls(files).await?),
            None => None,
        };
        let failed = |source| StartError::Listen { address: options.listen, source };
        let listener = std::net::TcpListener::bind(options.listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let stopping = CancellationToken::new();
        let state = AppState::new(
            engine.clone(),
            locks.clone(),
            options.metrics.clone(),
            Gate::new(tokens, tokens_required, options.admins_only),
            stopping.clone(),
        );
        let requests = state.requests.clone();
        let app = router(state);
        let handle = Handle::new();
        let failed = |source| StartError::Listen { address: options.listen, source };
        let mut server = axum_server::from_tcp(listener)
            .map_err(failed)?
            .handle(handle.clone())
            .first_request_timeout(REQUEST_READ_MAX)
            .acceptor(Bounded::new(CONNECTIONS_MAX));
        limit_time(server.http_builder());
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        let serving = match tls.clone() {
            Some(tls) => tokio::spawn(server.map(|bounded| RustlsAcceptor::new(tls).acceptor(bounded)).serve(app)),
            None => tokio::spawn(server.serve(app)),
        };
        Ok(Self { address, tls: tls.is_some(), engine, locks, handle, stopping, requests, serving })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.address)
    }

    /// Returns if the listener breaks; a server that is well never does. May be dropped and called again.
    pub async fn broke(&mut self) -> io::Error {
        match (&mut self.serving).await {
            Ok(Ok(())) => io::Error::other("the listener ended"),
            Ok(Err(error)) => error,
            Err(error) => io::Error::other(error),
        }
    }

    /// Takes no more connections, answers the requests under way, finishes the accepted commands, closes the
    /// lock service and the store.
    ///
    /// # Errors
    /// What broke the listener, if something did.
    pub async fn stop(mut self) -> io::Result<()> {
        self.stopping.cancel();
        self.handle.graceful_shutdown(Some(DRAIN_MAX));
        // A listener that broke before has been awaited already, and must not be polled again.
        let served = if self.serving.is_finished() {
            Ok(())
        } else {
            let served = tokio::select! {
                served = &mut self.serving => served,
                () = answered(&self.requests) => {
                    // Those left have asked for nothing whole: they are not waited for.
                    self.handle.shutdown();
                    (&mut self.serving).await
                }
            };
            served.unwrap_or_else(|error| Err(io::Error::other(error)))
        };
        // First whoever may hold leases: it gives them back.
        self.engine.shutdown().await;
        self.locks.close().await;
        served
    }
}

/// Returns once no request is under way, and the last answers have had time to be written out.
async fn answered(requests: &Semaphore) {
    const ALL: u32 = REQUESTS_MAX as u32;
    // Held meanwhile: whoever asks now is refused, and so nothing is done that could go unanswered. An error cannot be:
    // nobody closes it.
    let _all = requests.acquire_many(ALL).await;
    tokio::time::sleep(FLUSH_MAX).await;
}

async fn load_tls(files: &TlsFiles) -> Result<RustlsConfig, StartError> {
    // Another part of the process may have chosen a provider before; either will do.
    let _already_chosen = rustls::crypto::ring::default_provider().install_default();
    RustlsConfig::from_pem_file(&files.certificate, &files.key).await.map_err(|source| StartError::Tls {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        source,
    })
}

/// A client that sends its request a byte a minute, or goes without a word, does not hold its connection for ever.
fn limit_time(builder: &mut hyper_util::server::conn::auto::Builder<hyper_util::rt::TokioExecutor>) {
    builder.http1().timer(hyper_util::rt::TokioTimer::new()).header_read_timeout(REQUEST_READ_MAX);
    builder
        .http2()
        .timer(hyper_util::rt::TokioTimer::new())
        .keep_alive_interval(REQUEST_READ_MAX)
        .keep_alive_timeout(REQUEST_READ_MAX)
        .max_concurrent_streams(STREAMS_MAX);
}
