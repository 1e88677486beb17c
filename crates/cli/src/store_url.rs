//! Which store a `--store` names, and how it is opened.

use std::path::Path;
use std::sync::Arc;

use lockkeeper_store::Store;
use lockkeeper_store::sqlite::{SqliteOptions, SqliteStore};

use crate::failure::Failure;

/// What a store's URL begins with.
const SQLITE: &str = "sqlite://";

/// The file that a `sqlite://` URL names.
///
/// # Errors
/// Any other kind of URL.
pub(crate) fn sqlite_path(url: &str) -> Result<&Path, Failure> {
    match url.strip_prefix(SQLITE) {
        Some("") => Err(Failure::usage(
            "--store sqlite:// names no file: write sqlite://lockkeeper.db, or sqlite:///var/lib/lockkeeper.db",
        )),
        Some(path) => Ok(Path::new(path)),
        None => Err(Failure::usage(format!(
            "--store {:?}: this version knows `sqlite://FILE` only, for example sqlite://lockkeeper.db",
            without_password(url)
        ))),
    }
}

/// Opens a store.
///
/// # Errors
/// What kept it from being opened, and what to do.
pub(crate) fn open(url: &str) -> Result<Arc<dyn Store>, Failure> {
    let store = SqliteStore::open(sqlite_path(url)?, SqliteOptions::default()).map_err(Failure::failed)?;
    Ok(Arc::new(store))
}

/// `scheme://user:secret@host` without what stands before the `@`.
fn without_password(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_relative_or_absolute() {
        assert_eq!(sqlite_path("sqlite://lockkeeper.db").unwrap(), Path::new("lockkeeper.db"));
        assert_eq!(sqlite_path("sqlite:///var/lib/l.db").unwrap(), Path::new("/var/lib/l.db"));
        assert!(sqlite_path("sqlite://").is_err());
    }

    #[test]
    fn an_unknown_store_is_named_without_its_password() {
        let Err(Failure::Usage(text)) = sqlite_path("postgres://app:hunter2@db/x") else { panic!("accepted") };
        assert!(!text.contains("hunter2") && text.contains("postgres://…@db/x"), "{text}");
    }
}
