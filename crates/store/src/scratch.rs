//! A place for a file in the making, which nobody else can read and which does not outlive its maker.
//!
//! It is a folder of its own with a lock (`flock`) in it, which dies with the process. So whoever makes the next one, or starts
//! a server, can tell what a killed process has left from what another process is making in the same folder.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use uuid::Uuid;

/// How these folders' names begin.
const PREFIX: &str = ".lockkeeper-backup-";

/// What is held as long as the folder is somebody's.
const LOCK: &str = "lock";

/// The file that is made.
const FILE: &str = "backup";

/// How old a folder without a lock file is when it is taken for nobody's: its maker has come to the lock long since.
const UNLOCKED_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// How often a folder is made anew when somebody's sweep has come between its making and its lock.
const ATTEMPTS: usize = 8;

/// A folder with an empty file for its owner alone; both are gone when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    // Closing the file releases the lock.
    _lock: File,
}

impl Scratch {
    /// Makes one in `inside`, and removes there what killed processes of this user have left. Blocks.
    ///
    /// # Errors
    /// The folder cannot be written to, or has no locks.
    pub fn new(inside: &Path) -> io::Result<Self> {
        sweep(inside);
        for _ in 0..ATTEMPTS {
            let folder = inside.join(format!("{PREFIX}{}", Uuid::new_v4().simple()));
            DirBuilder::new().mode(0o700).create(&folder)?;
            match begin(&folder) {
                Ok(Some(lock)) => return Ok(Self { folder, _lock: lock }),
                // Another's sweep has it.
                Ok(None) => {}
                Err(error) => {
                    let _gone = fs::remove_dir_all(&folder);
                    return Err(error);
                }
            }
        }
        Err(io::Error::other("others remove it as soon as it is made"))
    }

    /// The file.
    pub fn file(&self) -> PathBuf {
        self.folder.join(FILE)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

/// Puts the lock and the file into a new folder; none: the folder was taken for somebody's leftover meanwhile.
fn begin(folder: &Path) -> io::Result<Option<File>> {
    let made = |name: &str| OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(name));
    let taken = |error: io::Error| if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(error) };
    let lock = match made(LOCK) {
        Ok(lock) => lock,
        Err(error) => return taken(error),
    };
    match lock.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Ok(None),
        // Some network file systems have no locks. A sweep finds the same, and takes it for somebody's.
        Err(fs::TryLockError::Error(error))
            if matches!(
                error.raw_os_error().map(rustix::io::Errno::from_raw_os_error),
                Some(rustix::io::Errno::NOLCK | rustix::io::Errno::OPNOTSUPP)
            ) => {}
        Err(fs::TryLockError::Error(error)) => return Err(error),
    }
    // From here on nobody else can have the lock; but somebody may have had it, and have removed what it is in.
    match made(FILE) {
        Ok(_) => Ok(Some(lock)),
        Err(error) => taken(error),
    }
}

/// Removes what killed processes of this user have left in `inside`. What cannot be removed stays. Blocks.
pub fn sweep(inside: &Path) {
    let Ok(entries) = fs::read_dir(inside) else { return };
    for entry in entries.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) && is_left(&entry.path()) {
            tracing::info!(folder = %entry.path().display(), "a backup in the making was left by a killed process: removed");
        }
    }
}

/// Removes a folder that is nobody's; says whether it was.
fn is_left(folder: &Path) -> bool {
    // Not what a link of somebody else leads to.
    let Ok(found) = fs::symlink_metadata(folder) else { return false };
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return false;
    }
    match OpenOptions::new().write(true).open(folder.join(LOCK)) {
        Ok(lock) if lock.try_lock().is_ok() => remove(folder),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let age = found.modified().ok().and_then(|made| made.elapsed().ok());
            age.is_some_and(|age| age >= UNLOCKED_AGE) && remove(folder)
        }
        Ok(_) | Err(_) => false,
    }
}

/// First the file, which is what takes room: if that is all that happens, the lock still tells that it is nobody's.
fn remove(folder: &Path) -> bool {
    let _gone = fs::remove_file(folder.join(FILE));
    fs::remove_dir_all(folder).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::{Command, Stdio};
    use std::time::SystemTime;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    fn names(folder: &Path) -> Vec<PathBuf> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn it_is_its_owners_alone_and_gone_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(folder.path()).unwrap();
        assert_eq!((mode(&scratch.folder), mode(&scratch.file())), (0o700, 0o600));
        fs::write(scratch.file(), "a copy").unwrap();
        assert_eq!(mode(&scratch.file()), 0o600);
        drop(scratch);
        assert_eq!(names(folder.path()), Vec::<PathBuf>::new());
    }

    #[test]
    fn what_another_makes_is_left_alone_and_what_is_nobodys_goes() {
        let folder = tempfile::tempdir().unwrap();
        let held = Scratch::new(folder.path()).unwrap();
        // As a killed process leaves it: the lock is nobody's.
        let left = folder.path().join(format!("{PREFIX}left"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        fs::write(left.join(FILE), "half a copy").unwrap();
        // One whose maker has not come to the lock, and one whose maker never will.
        let (begun, old) = (folder.path().join(format!("{PREFIX}begun")), folder.path().join(format!("{PREFIX}old")));
        for made in [&begun, &old] {
            fs::create_dir(made).unwrap();
            fs::write(made.join(FILE), "").unwrap();
        }
        let long_ago = SystemTime::now() - 2 * UNLOCKED_AGE;
        File::open(&old).unwrap().set_modified(long_ago).unwrap();
        // What only looks like one.
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join(LOCK), "").unwrap();
        let link = folder.path().join(format!("{PREFIX}link"));
        symlink(elsewhere.path(), &link).unwrap();
        let file = folder.path().join(format!("{PREFIX}file"));
        fs::write(&file, "").unwrap();
        sweep(folder.path());
        let mut kept = vec![held.folder.clone(), begun, link, file];
        kept.sort();
        let mut found = names(folder.path());
        found.sort();
        assert_eq!(found, kept);
        assert!(elsewhere.path().join(LOCK).exists());
        drop(Scratch::new(folder.path()).unwrap());
        assert!(held.file().exists(), "still being made");
    }

    /// The lock is the kernel's: a process that is killed has none any more.
    #[test]
    fn a_killed_processs_folder_goes_with_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(format!("{PREFIX}left"));
        fs::create_dir(&left).unwrap();
        let script = "exec 9>lock && flock 9 && echo held && exec sleep 1000";
        let mut child =
            Command::new("sh").args(["-c", script]).current_dir(&left).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 4];
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        sweep(folder.path());
        assert!(left.exists(), "its process lives");
        child.kill().unwrap();
        child.wait().unwrap();
        sweep(folder.path());
        assert!(!left.exists());
    }

    #[test]
    fn many_at_once_do_not_take_each_others() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| {
                    for _ in 0..50 {
                        let scratch = Scratch::new(folder.path()).unwrap();
                        assert!(scratch.file().exists());
                    }
                });
            }
        });
        assert_eq!(names(folder.path()), Vec::<PathBuf>::new());
    }
}
