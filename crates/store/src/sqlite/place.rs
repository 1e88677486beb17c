//! From a path as given to the one name that a store's file goes by.
//!
//! Two spellings of one file must meet at one lock file, and SQLite's log belongs to a *name*: a database that is opened
//! under two names loses data (<https://www.sqlite.org/howtocorrupt.html>, 2.5).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::OpenError;

/// The one name of the file at `path`, which may not exist yet.
pub(super) fn settle(path: &Path) -> Result<PathBuf, OpenError> {
    let unusable = |detail: String| OpenError::Unusable { path: path.to_owned(), detail };
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            let example = path.join("lockkeeper.db");
            Err(unusable(format!("it is a folder: give the name of a file, such as {}", example.display())))
        }
        Ok(found) => {
            refuse_second_name(&found).map_err(unusable)?;
            fs::canonicalize(path).map_err(|error| unusable(error.to_string()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => settle_new(path),
        Err(error) => Err(unusable(format!("{error}: check the path and its permissions"))),
    }
}

/// A file beside the store's file, named by it.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

fn settle_new(path: &Path) -> Result<PathBuf, OpenError> {
    let unusable = |detail: String| OpenError::Unusable { path: path.to_owned(), detail };
    if fs::symlink_metadata(path).is_ok() {
        return Err(unusable(
            "it is a link to a file that does not exist: remove the link or create its target".into(),
        ));
    }
    let Some(name) = path.file_name() else {
        return Err(unusable("it names no file: give a path such as lockkeeper.db".into()));
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match fs::canonicalize(folder) {
        Ok(folder) => Ok(folder.join(name)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(unusable(format!("the folder {} does not exist: create it, or give another path", folder.display())))
        }
        Err(error) => Err(unusable(format!("the folder {}: {error}", folder.display()))),
    }
}

#[cfg(unix)]
fn refuse_second_name(found: &fs::Metadata) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    if found.nlink() > 1 {
        return Err(format!(
            "the file has {} names (hard links), and its log belongs to only one of them: copy it instead of linking it",
            found.nlink()
        ));
    }
    Ok(())
}

#[cfg(not(unix))]
fn refuse_second_name(_found: &fs::Metadata) -> Result<(), String> {
    Ok(())
}
