//! Which store a `--store` names, and how it is opened.

use std::path::PathBuf;
use std::sync::Arc;

use lockkeeper_store::{PostgresOptions, PostgresStore, SqliteOptions, SqliteStore, Store};

use crate::failure::Failure;

/// A store, named and not yet opened.
#[derive(Debug)]
pub(crate) enum StoreUrl {
    /// `sqlite://FILE`: embedded, one process.
    Sqlite(PathBuf),
    /// `postgres://…`: any number of nodes.
    Postgres(Box<PostgresOptions>),
}

impl StoreUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it, never with its password.
    pub(crate) fn parse(url: &str) -> Result<Self, Failure> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            let options = PostgresOptions::from_url(url).map_err(|error| Failure::usage(error.to_string()))?;
            return Ok(Self::Postgres(Box::new(options)));
        }
        match url.strip_prefix("sqlite://") {
            Some("") => Err(Failure::usage(
                "--store sqlite:// names no file: write sqlite://lockkeeper.db, or sqlite:///var/lib/lockkeeper.db",
            )),
            Some(path) => Ok(Self::Sqlite(PathBuf::from(path))),
            None => Err(Failure::usage(format!(
                "--store {:?}: write sqlite://FILE (for example sqlite://lockkeeper.db), or \
                 postgres://user:password@host:5432/database",
                without_password(url)
            ))),
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// What kept it from being opened, and what to do.
    pub(crate) async fn open(self) -> Result<Arc<dyn Store>, Failure> {
        Ok(match self {
            Self::Sqlite(path) => {
                Arc::new(SqliteStore::open(&path, SqliteOptions::default()).map_err(Failure::failed)?)
            }
            Self::Postgres(options) => Arc::new(PostgresStore::open(*options).await.map_err(Failure::failed)?),
        })
    }
}

/// Opens the store that a URL names.
///
/// # Errors
/// What is wrong with the URL, or kept the store from being opened.
pub(crate) async fn open(url: &str) -> Result<Arc<dyn Store>, Failure> {
    StoreUrl::parse(url)?.open().await
}

/// `scheme://user:secret@host` without what stands before the `@`.
pub(crate) fn without_password(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn files_are_relative_or_absolute() {
        let path = |url| match StoreUrl::parse(url) {
            Ok(StoreUrl::Sqlite(path)) => path,
            other => panic!("{other:?}"),
        };
        assert_eq!(path("sqlite://lockkeeper.db"), Path::new("lockkeeper.db"));
        assert_eq!(path("sqlite:///var/lib/l.db"), Path::new("/var/lib/l.db"));
        assert!(StoreUrl::parse("sqlite://").is_err());
    }

    #[test]
    fn databases_are_known_by_both_names() {
        for url in ["postgres://app@db/x", "postgresql://app@db/x"] {
            assert!(matches!(StoreUrl::parse(url), Ok(StoreUrl::Postgres(_))), "{url}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_without_its_password() {
        for (url, told) in
            [("mysql://app:hunter2@db/x", "mysql://…@db/x"), ("postgres://app:hunter2@db:port/x", "--store")]
        {
            let Err(Failure::Usage(text)) = StoreUrl::parse(url) else { panic!("accepted {url}") };
            assert!(!text.contains("hunter2") && text.contains(told), "{text}");
        }
    }
}
