//! Which lock service a `--locks` names, and how it is opened.

use std::sync::Arc;

use lockkeeper_locks::{Durable, LockService, RedisLocks, RedisOptions, ServiceOptions};
use lockkeeper_store::Store;

use crate::failure::Failure;
use crate::store_url::without_password;

/// A lock service, named and not yet opened.
pub(crate) enum LocksUrl {
    /// `store`: where the instances are.
    Store,
    /// `redis://…`: one Redis server.
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
            let wrong = |error| Failure::usage(format!("--locks {}: {error}", without_password(url)));
            return RedisOptions::parse(url).map(|options| Self::Redis(Box::new(options))).map_err(wrong);
        }
        let named = without_password(url);
        Err(Failure::usage(format!("--locks {named:?}: write store, or redis://user:password@host:6379")))
    }

    /// Opens it. Must be called within a runtime. What has to outlive the lock service itself is kept in `store`.
    ///
    /// # Errors
    /// What kept it from being opened, and what to do.
    pub(crate) async fn open(self, store: Arc<dyn Store>) -> Result<Arc<dyn LockService>, Failure> {
        Ok(match self {
            Self::Store => Arc::new(Durable::open(store, ServiceOptions::default())),
            Self::Redis(options) => {
                let options = options.with_floor(Arc::new(store));
                Arc::new(RedisLocks::open(options).await.map_err(Failure::failed)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        match LocksUrl::parse(url) {
            Err(Failure::Usage(text)) => text,
            _ => panic!("accepted {url}"),
        }
    }

    #[test]
    fn the_store_and_redis_are_known() {
        assert!(matches!(LocksUrl::parse("store"), Ok(LocksUrl::Store)));
        for url in ["redis://h", "redis://app:secret@h:6380/2", "rediss://h"] {
            assert!(matches!(LocksUrl::parse(url), Ok(LocksUrl::Redis(_))), "{url}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_without_its_password() {
        for (url, told) in [("memcached://app:hunter2@h", "memcached://…@h"), ("redis://app:hunter2@h:port", "--locks")]
        {
            let text = refusal(url);
            assert!(!text.contains("hunter2") && text.contains(told), "{text}");
        }
    }
}
