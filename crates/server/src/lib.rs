//! The HTTP API: thin handlers over [`lockkeeper_engine::Engine`].
//!
//! A request passes, in this order: the bound on requests under way, the check of `Host` and `Origin` or of the token
//! ([`auth`]), the handler ([`routes`]). Every error leaves as an RFC 9457 problem ([`problem`]).

mod app;
mod approvals;
mod auth;
mod body;
mod closed;
mod connections;
mod explanation;
mod headers;
mod lock_problem;
mod node;
mod path;
mod problem;
mod routes;
mod server;
mod views;

pub mod limits;
pub mod metrics;
pub mod tokens;

pub use app::openapi;
pub use server::{Server, ServerOptions, StartError, TlsFiles};
