//! Which lock service a `--locks` names, and how it is opened.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_locks::{Durable, LockService, RedisLocks, RedisOptions, ServiceOptions};
use lockkeeper_store::Store;

use crate::failure::Failure;
use crate::store_url::without_password;

/// A lock service, named and not yet opened.
#[derive(Clone, Debug)]
pub(crate) enum LocksUrl {
    /// `store`: where the instances are.
    Store,
    /// `redis://…`: a Redis server; the floor of its fences is kept in the store.
    Redis(Box<RedisOptions>),
}

impl LocksUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it, never with its password.
    pub(crate) fn parse(url: &str) -> Result<Self, Failure> {
        if url == "store" {
            return Ok(Self::Store);
        }
        if url.starts_with("redis://") || url.starts_with("rediss://") {
            let options = RedisOptions::parse(url).map_err(|error| Failure::usage(format!("--locks: {error}")))?;
            return Ok(Self::Redis(Box::new(options)));
        }
        Err(Failure::usage(format!(
            "--locks {:?}: write store, or redis://user:password@host:6379",
            without_password(url)
        )))
    }

    /// Opens it, with leases of Redis that live for at most `redis_max_ttl`. A Redis that does not answer yet is met
    /// later: most of what a server does needs no locks. Must be called within a runtime.
    ///
    /// # Errors
    /// What kept it from being opened, and what to do.
    pub(crate) async fn open(
        self,
        store: Arc<dyn Store>,
        redis_max_ttl: Duration,
    ) -> Result<Arc<dyn LockService>, Failure> {
        Ok(match self {
            Self::Store => Arc::new(Durable::open(store, ServiceOptions::default())),
            Self::Redis(options) => {
                let options = options.with_floor(Arc::new(store)).with_max_ttl(redis_max_ttl);
                Arc::new(RedisLocks::open_lazily(options).await.map_err(Failure::failed)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_known_by_their_urls() {
        assert!(matches!(LocksUrl::parse("store"), Ok(LocksUrl::Store)));
        for url in ["redis://h", "redis://:secret@h:1/3", "rediss://h"] {
            assert!(matches!(LocksUrl::parse(url), Ok(LocksUrl::Redis(_))), "{url}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_without_its_password() {
        for url in ["memcached://app:hunter2@h", "redis://app:hunter2@h:port"] {
            let Err(Failure::Usage(text)) = LocksUrl::parse(url) else { panic!("accepted {url}") };
            assert!(!text.contains("hunter2") && text.contains("--locks"), "{text}");
        }
    }
}
