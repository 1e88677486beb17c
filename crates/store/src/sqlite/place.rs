//! From a path as given to the one name that a store's file goes by.
//!
//! Two spellings of one file must meet at one lock file, and SQLite's log belongs to a *name*: a database that is opened
//! under two names loses data (<https://www.sqlite.org/howtocorrupt.html>, 2.5).
//!
//! A restore that replaces a store gives the old file a second name before the new one takes the first. If it is killed between
//! the two, the second name says what it is, and whoever holds the store's lock takes it away again.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
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
            let settled = fs::canonicalize(path).map_err(|error| unusable(error.to_string()))?;
            refuse_second_name(&settled, &found).map_err(unusable)?;
            Ok(settled)
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

/// What the name of a store's file has behind it once a restore has replaced it, before the time.
const REPLACED: &str = ".replaced-";

/// What the name has behind it of a file that is to become the store.
pub(super) const RESTORING: &str = ".restoring";

/// Files that SQLite puts beside a file, and the file itself.
const OF_A_FILE: [&str; 4] = ["", "-journal", "-wal", "-shm"];

/// Under which name a restore at this time keeps the file that it replaces.
pub(super) fn aside(path: &Path, now_ms: i64) -> PathBuf {
    beside(path, &format!("{REPLACED}{now_ms}"))
}

/// Takes away the second name that a killed restore has given the store at `path` (settled), whose lock is held: it did not
/// come to replace it.
pub(super) fn mend(path: &Path) -> io::Result<()> {
    for name in second_names(path) {
        fs::remove_file(&name)?;
        tracing::warn!(store = %path.display(), "a restore that was to replace the store was interrupted: the store is as before");
    }
    Ok(())
}

/// Removes a file with what SQLite has put beside it: a log beside another file would be played into that one.
pub(super) fn clear(path: &Path) -> io::Result<()> {
    for suffix in OF_A_FILE {
        match fs::remove_file(beside(path, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// The names that a killed restore has given the file besides its own.
fn second_names(path: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name), Ok(found)) = (path.parent(), path.file_name(), fs::metadata(path)) else {
        return Vec::new();
    };
    if found.nlink() < 2 {
        return Vec::new();
    }
    let is_one = |entry: &fs::DirEntry| {
        let given = entry.file_name();
        let rest = given.as_encoded_bytes().strip_prefix(name.as_encoded_bytes());
        let time = rest.and_then(|rest| rest.strip_prefix(REPLACED.as_bytes()));
        time.is_some_and(|time| !time.is_empty() && time.iter().all(u8::is_ascii_digit))
            && fs::symlink_metadata(entry.path())
                .is_ok_and(|entry| (entry.dev(), entry.ino()) == (found.dev(), found.ino()))
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(is_one).map(|entry| entry.path()).collect()
}

fn refuse_second_name(path: &Path, found: &fs::Metadata) -> Result<(), String> {
    // What a killed restore has left is put away once the lock is held.
    let others = found.nlink().saturating_sub(1 + second_names(path).len() as u64);
    if others > 0 {
        return Err(format!(
            "the file has {} names (hard links), and its log belongs to only one of them: copy it instead of linking it",
            found.nlink()
        ));
    }
    Ok(())
}
