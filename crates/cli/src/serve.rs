//! `serve`: runs the server.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::failure::Failure;

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
/// What kept it from starting.
pub(crate) async fn run(_args: ServeArgs) -> Result<ExitCode, Failure> {
    Err(Failure::failed("serve: not wired yet"))
}
