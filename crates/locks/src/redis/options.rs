//! How a Redis server is to be used.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_store::limits::{TTL_MAX, TTL_MIN};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};
use thiserror::Error;

use super::floor::{FenceFloor, ProcessFloor};
use crate::ServiceOptions;

/// The longest time to live unless told otherwise. So long does nobody get a lease after a server may have forgotten some.
pub const REDIS_MAX_TTL_DEFAULT: Duration = Duration::from_secs(60);

/// Settings of a lock service on Redis.
#[derive(Clone)]
pub struct RedisOptions {
    pub(super) server: ConnectionInfo,
    pub(super) max_ttl: Duration,
    pub(super) floor: Arc<dyn FenceFloor>,
    pub(super) service: ServiceOptions,
}

/// A URL that cannot be used; never with its password.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct BadRedisUrl(pub(super) String);

impl RedisOptions {
    /// The server at `redis://[user:password@]host[:port][/database]`, or `rediss://` for TLS, whose certificate has to
    /// be one that the system trusts. With [`REDIS_MAX_TTL_DEFAULT`], and the floor of fences in this process.
    ///
    /// # Errors
    /// [`BadRedisUrl`] says what is expected.
    pub fn parse(url: &str) -> Result<Self, BadRedisUrl> {
        let expected = "expected redis://[user:password@]host[:port][/database], or rediss:// for TLS";
        if !url.starts_with("redis://") && !url.starts_with("rediss://") {
            return Err(BadRedisUrl(format!("this is no URL of Redis; {expected}")));
        }
        let server = url.into_connection_info().map_err(|error| BadRedisUrl(format!("{error}; {expected}")))?;
        // News of who is to ask again come on the connection that everything else is asked on.
        let redis = server.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let tcp = server.tcp_settings().clone().set_nodelay(true);
        Ok(Self {
            server: server.set_redis_settings(redis).set_tcp_settings(tcp),
            max_ttl: REDIS_MAX_TTL_DEFAULT,
            floor: Arc::new(ProcessFloor),
            service: ServiceOptions::default(),
        })
    }

    /// With this longest time to live, brought into the bounds of leases: longer leases are refused, and for so long
    /// nobody gets a lease after the server may have forgotten some. Of nodes that share a server the longest counts.
    #[must_use]
    pub fn with_max_ttl(mut self, max_ttl: Duration) -> Self {
        self.max_ttl = max_ttl.clamp(TTL_MIN, TTL_MAX);
        self
    }

    /// With this memory of the floor of fences.
    #[must_use]
    pub fn with_floor(mut self, floor: Arc<dyn FenceFloor>) -> Self {
        self.floor = floor;
        self
    }

    /// With these settings of the service.
    #[must_use]
    pub fn with_service(mut self, service: ServiceOptions) -> Self {
        self.service = service;
        self
    }

    /// Where it is, for people: without user and password.
    pub(super) fn describe(&self) -> String {
        let database = self.server.redis_settings().db();
        let path = if database == 0 { String::new() } else { format!("/{database}") };
        match self.server.addr() {
            ConnectionAddr::TcpTls { host, port, .. } => format!("rediss://{}:{port}{path}", bracketed(host)),
            ConnectionAddr::Tcp(host, port) => format!("redis://{}:{port}{path}", bracketed(host)),
            other => other.to_string(),
        }
    }
}

/// As an address of IPv6 is written before a port.
fn bracketed(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("server", &self.describe())
            .field("max_ttl", &self.max_ttl)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_told_without_its_password() {
        for (url, told) in [
            ("redis://h", "redis://h:6379"),
            ("redis://ann:secret@h:1/3", "redis://h:1/3"),
            ("rediss://:secret@h:1", "rediss://h:1"),
            ("redis://[::1]:7", "redis://[::1]:7"),
        ] {
            let options = RedisOptions::parse(url).expect(url);
            assert_eq!(options.describe(), told);
            assert!(!format!("{options:?}").contains("secret"));
        }
    }

    #[test]
    fn what_is_no_url_of_redis_is_refused_without_its_password() {
        for url in
            ["", "localhost:6379", "http://h", "unix:///tmp/x", "redis://:secret@h/base", "redis://:secret@h:99999"]
        {
            let error = RedisOptions::parse(url).expect_err(url).to_string();
            assert!(error.contains("expected redis://") && !error.contains("secret"), "{error}");
        }
    }
}
