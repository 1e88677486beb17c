//! Which lock service a `--locks` names, and how it is opened.

use std::sync::Arc;

use lockkeeper_locks::{Durable, LockService, ServiceOptions};
use lockkeeper_store::Store;

use crate::failure::Failure;

/// A lock service, named and not yet opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocksUrl {
    /// `store`: where the instances are.
    Store,
}

impl LocksUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it, never with its password.
    pub(crate) fn parse(url: &str) -> Result<Self, Failure> {
        match url {
            "store" => Ok(Self::Store),
            _ => Err(Failure::usage(format!("--locks {:?}: write store", crate::store_url::without_password(url)))),
        }
    }

    /// Opens it. Must be called within a runtime.
    ///
    /// # Errors
    /// What kept it from being opened, and what to do.
    pub(crate) async fn open(self, store: Arc<dyn Store>) -> Result<Arc<dyn LockService>, Failure> {
        Ok(match self {
            Self::Store => Arc::new(Durable::open(store, ServiceOptions::default())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_known() {
        assert_eq!(LocksUrl::parse("store").unwrap(), LocksUrl::Store);
    }

    #[test]
    fn what_cannot_be_read_is_named_without_its_password() {
        let Err(Failure::Usage(text)) = LocksUrl::parse("memcached://app:hunter2@h") else { panic!("accepted") };
        assert!(!text.contains("hunter2") && text.contains("memcached://…@h"), "{text}");
    }
}
