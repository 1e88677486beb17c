//! The place of one server, and the user as whom it runs.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::command::{command, run};
use crate::guard::Guard;
use crate::programs;

/// As whom servers run that refuse root; Debian's package makes it.
const SERVANT: &str = "postgres";

/// A folder for a server's files, gone when dropped or when this process ends; whatever works in it ends too.
#[derive(Debug)]
pub(crate) struct Folder {
    // Dropped first: the guard needs the folder.
    _guard: Guard,
    dir: TempDir,
    user: Option<(u32, u32)>,
}

impl Folder {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("lockkeeper-testbed-").tempdir().expect("a temporary folder");
        let user = servant(dir.path());
        let work = dir.path().join("data");
        give(dir.path(), user);
        make(&work, user);
        let guard = Guard::new(as_user(&programs::of_system("sh"), user), dir.path(), &work);
        Self { _guard: guard, dir, user }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Where the server works.
    pub(crate) fn work(&self) -> PathBuf {
        self.path().join("data")
    }

    /// Where the server logs.
    pub(crate) fn log(&self) -> PathBuf {
        self.path().join("log")
    }

    /// A program that runs as the server's user and leads a process group of its own: a signal to the group of the
    /// test is none to it.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = as_user(program, self.user);
        command.current_dir(self.work());
        command
    }

    /// Writes a file that the server can use and nobody else.
    pub(crate) fn write(&self, path: &Path, bytes: impl AsRef<[u8]>) {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        let written = file.and_then(|mut file| file.write_all(bytes.as_ref()));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        give(path, self.user);
    }

    /// Makes a folder that the server can use and nobody else.
    pub(crate) fn make(&self, path: &Path) {
        make(path, self.user);
    }
}

/// PostgreSQL wants its folder to be nobody else's.
fn make(path: &Path, user: Option<(u32, u32)>) {
    let made = DirBuilder::new().mode(0o700).create(path);
    made.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    give(path, user);
}

fn as_user(program: &Path, user: Option<(u32, u32)>) -> Command {
    let mut command = command(program);
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command.process_group(0);
    command
}

/// None: this process's own. A new folder belongs to the effective user.
fn servant(new: &Path) -> Option<(u32, u32)> {
    let owner = fs::metadata(new).expect("it was made").uid();
    (owner == 0).then(|| (id("-u"), id("-g")))
}

fn id(which: &str) -> u32 {
    let mut command = Command::new("id");
    command.args([which, SERVANT]);
    let text = run(command, "");
    text.trim().parse().unwrap_or_else(|error| panic!("id {which} {SERVANT} says {text:?}: {error}"))
}

fn give(path: &Path, user: Option<(u32, u32)>) {
    if let Some((uid, gid)) = user {
        chown(path, Some(uid), Some(gid)).unwrap_or_else(|error| panic!("chown {}: {error}", path.display()));
    }
}
