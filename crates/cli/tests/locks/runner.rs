//! A `lock run` in a process of its own.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::cli::Said;
use crate::support::marked::{MARK, Mark};
use crate::support::program::command;

/// Far above what anything takes here, even in a busy machine.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(30);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// A running `lock run`; killed when dropped.
pub(crate) struct Runner {
    pub(crate) child: Child,
    pub(crate) mark: Mark,
}

impl Runner {
    /// `lock run` with these arguments, its command the last words, in `dir`, on the server at `url`.
    pub(crate) fn start(dir: &Path, url: &str, args: &[&str]) -> Self {
        let mark = Mark::new();
        let mut command = command(dir);
        command.args(["lock", "run"]).args(args).env("LOCKKEEPER_URL", url).env(MARK, &mark.0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { child: command.spawn().expect("it starts"), mark }
    }

    /// `lock run` of a shell's script.
    pub(crate) fn script(dir: &Path, url: &str, args: &[&str], script: &str) -> Self {
        Self::start(dir, url, &[args, &["--", "sh", "-c", script]].concat())
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end; none of its processes may be left.
    pub(crate) fn end(mut self) -> Said {
        poll("the end of lock run", || self.ended().then_some(()));
        let code = self.child.wait().unwrap().code();
        let said = Said { code, out: text(self.child.stdout.take()), err: text(self.child.stderr.take()) };
        self.mark.assert_gone();
        said
    }

    /// Sends it a signal, for example `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success(), "kill -s {name}");
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn text(pipe: Option<impl Read>) -> String {
    let mut text = String::new();
    pipe.map(|mut pipe| pipe.read_to_string(&mut text).unwrap());
    text
}

/// Looks until there is something.
pub(crate) fn poll<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited for {what}");
        std::thread::sleep(PAUSE);
    }
}

/// Waits for a file.
pub(crate) fn await_file(path: &Path) {
    poll(&path.display().to_string(), || path.exists().then_some(()));
}
