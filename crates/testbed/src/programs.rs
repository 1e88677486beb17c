//! Where the programs are.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The first major version that is tested.
const OLDEST: u32 = 14;

/// Where Debian has the programs of each version; those of the server are not in `PATH`.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Names the folder of PostgreSQL's programs.
const OVERRIDE: &str = "LOCKKEEPER_TEST_POSTGRES_BIN";

/// One of PostgreSQL's programs: in the folder that `LOCKKEEPER_TEST_POSTGRES_BIN` names, else of the newest version in
/// `/usr/lib/postgresql`, else in `PATH`.
pub(crate) fn of_postgres(name: &str) -> PathBuf {
    let folder = std::env::var_os(OVERRIDE).map(PathBuf::from).or_else(newest);
    let found = match folder {
        Some(folder) => Some(folder.join(name)).filter(|path| path.is_file()),
        None => in_path(name),
    };
    found.unwrap_or_else(|| {
        panic!("no program `{name}`: install PostgreSQL {OLDEST} or later (Debian: apt-get install postgresql), or let {OVERRIDE} name the folder of its programs")
    })
}

/// Any other program.
pub(crate) fn of_system(name: &str) -> PathBuf {
    in_path(name).unwrap_or_else(|| panic!("no program `{name}`: install it (Debian: apt-get install {name})"))
}

fn newest() -> Option<PathBuf> {
    let versions = Path::new(DEBIAN).read_dir().ok()?.filter_map(Result::ok);
    let usable = versions.filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let folder = entry.path().join("bin");
        (version >= OLDEST && folder.join("postgres").is_file()).then_some((version, folder))
    });
    usable.max().map(|(_, folder)| folder)
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Where Debian has PgBouncer, and where not everybody looks.
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join(OsStr::new(name))).find(|path| path.is_file())
}
