//! One process per store.
//!
//! The lock is the kernel's (`flock`), held by the open file: it dies with the process, however that ends. The file
//! itself stays: removing it would let a second process lock a new file of the same name while a third holds the old
//! one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

use super::place;
use crate::OpenError;

/// Held for as long as the store writes.
#[derive(Debug)]
pub(super) struct LockFile {
    // Closing the file releases the lock.
    _file: File,
}

impl LockFile {
    /// Takes the lock of the store at `path` (settled), or says who has it.
    pub(super) fn acquire(path: &Path) -> Result<Self, OpenError> {
        let lock_path = place::beside(path, ".lock");
        let unusable = |error: std::io::Error| OpenError::Unusable {
            path: path.to_owned(),
            detail: format!(
                "{error} at its lock file {}: the store needs a folder that this user can write to, on a file system with locks",
                lock_path.display()
            ),
        };
        // Not truncated on opening: it may name the process that holds it.
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::InUse { path: path.to_owned(), holder: holder(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        name_holder(&mut file).map_err(unusable)?;
        Ok(Self { _file: file })
    }
}

fn name_holder(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())
}

/// Who wrote itself into the file; none while the holder has not come to it, or where the content is not its.
fn holder(file: &mut File) -> Option<u32> {
    // A process number has at most ten digits: whatever is longer is not one.
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
