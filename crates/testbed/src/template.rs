//! An initialised folder that servers are copied from: copying takes a fraction of what `initdb` does.

use std::fs;
use std::path::{Path, PathBuf};

use crate::folder::Folder;
use crate::postgres::{Postgres, configure, initdb};

/// Names the template's folder. `with-servers` sets it for the tests that it runs.
pub const TEMPLATE: &str = "LOCKKEEPER_TEST_POSTGRES_TEMPLATE";

/// A folder as `initdb` leaves it, gone when dropped.
#[derive(Debug)]
pub struct Template(Folder);

impl Template {
    /// Makes one.
    #[must_use]
    pub fn make() -> Self {
        let folder = Folder::new();
        initdb(&folder);
        Self(folder)
    }

    /// Starts a server from it, as [`Postgres::start_with`] does.
    #[must_use]
    pub fn start_with(&self, settings: &[(&str, &str)]) -> Postgres {
        let folder = Folder::new();
        copy(&self.path(), &folder.work(), &folder);
        configure(&folder, settings);
        Postgres::launch(folder)
    }

    /// What [`TEMPLATE`] is to be set to.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.0.work()
    }
}

/// Makes a server's folder from the template, if there is one. Servers made so share their `system_identifier`.
pub(crate) fn copy_to(folder: &Folder) -> bool {
    let Some(template) = std::env::var_os(TEMPLATE) else { return false };
    copy(Path::new(&template), &folder.work(), folder);
    true
}

fn copy(from: &Path, to: &Path, folder: &Folder) {
    let entries = fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    for entry in entries.map(|entry| entry.expect("the template stays as it is")) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().expect("the template stays as it is").is_dir() {
            folder.make(&to);
            copy(&from, &to, folder);
        } else {
            let bytes = fs::read(&from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
            folder.write(&to, bytes);
        }
    }
}
