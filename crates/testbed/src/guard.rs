//! What ends a server whose test is gone.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A shell that waits for the end of this process: by reading from a pipe that only this process can write to. That
/// needs neither polling nor process ids, and no way to end a process, SIGKILL included, leaves the pipe open.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    /// Watches over a folder and the server that works in `work`, a folder inside. `shell` is `sh` with the rights of
    /// that server; it leads a process group of its own, so that what ends the test's group does not end it.
    pub(crate) fn new(mut shell: Command, folder: &Path, work: &Path) -> Self {
        shell.args(["-c", include_str!("guard.sh"), "guard"]).arg(folder).arg(work).current_dir("/");
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(shell.spawn().expect("sh starts"))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It has deadlines of its own.
        let _ended = self.0.wait();
    }
}
