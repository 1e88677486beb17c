//! `serve`: runs the server.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lockkeeper_engine::{Engine, Options, Retention, SystemClock};
use lockkeeper_locks::Locks;
use lockkeeper_server::metrics::Metrics;
use lockkeeper_server::{Server, ServerOptions, TlsFiles};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::failure::Failure;
use crate::locks_url::LocksUrl;
use crate::store_url;

/// Runs the server until it is told to stop (SIGTERM, Ctrl-C).
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address and port to listen on.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7070")]
    pub listen: String,
    /// Where instances, histories and definitions are kept.
    #[arg(
        long,
        value_name = "URL",
        env = "LOCKKEEPER_STORE",
        hide_env_values = true,
        default_value = "sqlite://lockkeeper.db"
    )]
    pub store: String,
    /// Where locks are kept: `store`, beside the instances; or redis://user:password@host:6379.
    #[arg(long, value_name = "URL", env = "LOCKKEEPER_LOCKS", hide_env_values = true, default_value = "store")]
    pub locks: String,
    /// The longest time to live of a lock on Redis. For so long nobody gets one after a Redis server was restarted, for it
    /// may have forgotten some.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = crate::duration::parse)]
    pub redis_max_ttl: Duration,
    /// Purge closed instances so long after their last change: their histories and their data. Without it they are kept. A
    /// definition may say otherwise for its workflow.
    #[arg(long, value_name = "DURATION", value_parser = crate::duration::parse_retention)]
    pub retention_closed: Option<Duration>,
    /// Purge changes in histories after so long; the last one always stays. Without it all are kept. A definition may say
    /// otherwise for its workflow.
    #[arg(long, value_name = "DURATION", value_parser = crate::duration::parse_retention)]
    pub retention_history: Option<Duration>,
    /// Let only tokens with the role `admin` put definitions, end runs (terminate, cancel, terminate_existing) and release
    /// locks by force. Without it any token may, whatever the approvals of definitions ask for.
    #[arg(long, env = "LOCKKEEPER_ADMINS_ONLY", value_parser = clap::builder::FalseyValueParser::new())]
    pub admins_only: bool,
    /// TLS certificate chain (PEM); needs --tls-key.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// TLS private key (PEM); needs --tls-cert.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// How log lines are written to standard error.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// How log lines are written: for people, or one JSON object a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Runs the server.
///
/// # Errors
/// What kept it from starting, or what ended it.
pub(crate) async fn run(args: ServeArgs) -> Result<ExitCode, Failure> {
    start_log(args.log_format);
    let listen = listen_address(&args.listen)?;
    let tls = args.tls_cert.zip(args.tls_key).map(|(certificate, key)| TlsFiles { certificate, key });
    // Heard from here on: a service manager may stop what it has just started.
    let mut signals = StopSignals::listen()?;
    let locks = LocksUrl::parse(&args.locks)?;
    let store = store_url::open(&args.store).await?;
    let metrics = Metrics::new();
    let locks = metrics.metered(locks.open(store.clone(), args.redis_max_ttl).await?);
    let retention = Retention { closed: args.retention_closed, history: args.retention_history };
    let engine_options = Options { retention, locks: Some(Locks::new(locks.clone())), ..Options::default() };
    let engine = Engine::new(store.clone(), engine_options);
    let options = ServerOptions { listen, tls, clock: Arc::new(SystemClock), admins_only: args.admins_only, metrics };
    let mut server = match Server::start(engine.clone(), locks.clone(), options).await {
        Ok(server) => server,
        Err(error) => {
            locks.close().await;
            engine.shutdown().await;
            return Err(Failure::failed(error));
        }
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        store = store.describe(),
        locks = locks.describe(),
        "listening on {}",
        server.url()
    );
    tokio::select! {
        signal = signals.next() => tracing::info!(signal, "stopping: finishing what was accepted"),
        error = server.broke() => tracing::error!(%error, "the listener broke: stopping"),
    }
    // Whoever asks twice does not want to wait; what was accepted and not answered is then `unknown` to its sender.
    tokio::select! {
        stopped = server.stop() => stopped.map_err(|error| Failure::failed(format!("the listener broke: {error}")))?,
        signal = signals.next() => {
            tracing::warn!(signal, "stopping at once");
            return Ok(ExitCode::FAILURE);
        }
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// `HOST:PORT`; `localhost` is 127.0.0.1.
fn listen_address(text: &str) -> Result<SocketAddr, Failure> {
    let numeric = text.replacen("localhost:", "127.0.0.1:", 1);
    numeric.parse().map_err(|_| {
        Failure::usage(format!(
            "--listen {text:?}: write an IP address and a port, for example 127.0.0.1:7070 or [::1]:7070"
        ))
    })
}

/// SIGTERM and SIGINT.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// From now on they no longer end the process.
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")));
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Waits for the next one. May be dropped and called again.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Log lines go to standard error; `LOCKKEEPER_LOG` chooses which, in the manner of `RUST_LOG`.
fn start_log(format: LogFormat) {
    let filter = EnvFilter::try_from_env("LOCKKEEPER_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    // Whoever reads standard error may go; a line that cannot be written must not end the server.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    // A log that was started before stays in force.
    let _already_started = match format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => log.json().try_init(),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_numeric_or_localhost() {
        assert_eq!(listen_address("localhost:80").unwrap().to_string(), "127.0.0.1:80");
        assert_eq!(listen_address("[::1]:7070").unwrap().to_string(), "[::1]:7070");
        for bad in ["7070", "127.0.0.1", "example.org:80", ""] {
            assert!(matches!(listen_address(bad), Err(Failure::Usage(_))), "{bad}");
        }
    }
}
