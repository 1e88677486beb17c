//! A store in a process of its own: this test binary, started again.
//!
//! The child is the test `child` below, which does nothing unless the environment gives it a role. It prints `ack id
//! version` once a commit was answered; the parent kills it, or its disk fails.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;

use lockkeeper_store::{Store, Verdict};

use crate::tools::{key, next, open};

const ROLE: &str = "STORE_TEST_ROLE";
const STORE: &str = "STORE_TEST_PATH";

/// Records that the child writes to, each by a task of its own.
const WRITERS: usize = 8;

/// What a child does.
pub(crate) const COMMIT_FOREVER: &str = "commit-forever";
/// Commits, loses its disk, and goes on committing.
pub(crate) const LOSE_THE_DISK: &str = "lose-the-disk";
/// Fills its disk, which is the shim's doing, and finds its way back.
pub(crate) const MEET_A_FULL_DISK: &str = "meet-a-full-disk";

/// A running child.
pub(crate) struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// What it has acknowledged.
    pub(crate) acknowledged: Vec<(String, i64)>,
}

impl Process {
    /// Starts one on the store at `path`.
    pub(crate) fn start(role: &str, path: &Path, environment: &[(&str, &Path)]) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command.args(["process::child", "--exact", "--nocapture"]).env(ROLE, role).env(STORE, path);
        command.envs(environment.iter().copied());
        // Where an abort may leave its core.
        command.current_dir(path.parent().expect("a folder")).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("a child");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Self { child, lines, acknowledged: Vec::new() }
    }

    /// Waits until it has acknowledged `count` commits in all.
    pub(crate) fn await_acknowledged(&mut self, count: usize) {
        while self.acknowledged.len() < count {
            assert!(self.read_line(), "the child ended early");
        }
    }

    /// Kills it as no process can resist.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
    }

    /// Takes what it still says, and how it ended.
    pub(crate) fn end(&mut self) -> ExitStatus {
        while self.read_line() {}
        self.child.wait().expect("an end")
    }

    fn read_line(&mut self) -> bool {
        let Some(line) = self.lines.next() else { return false };
        let line = line.expect("text");
        // The test harness may have begun the line.
        if let Some((_, ack)) = line.split_once("ack ") {
            let (id, version) = ack.split_once(' ').expect("an id and a version");
            self.acknowledged.push((id.to_owned(), version.parse().expect("a number")));
        }
        true
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A test that failed leaves nothing running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens the store and finds everything that was acknowledged, history without gaps, and nothing half done.
pub(crate) async fn assert_kept(path: &Path, acknowledged: &[(String, i64)]) {
    let store = open(path).expect("the store");
    for (id, version) in acknowledged {
        let events = store.events(&key(id), version - 1, 1).await.expect("an answer");
        assert_eq!(events.first().map(|event| event.version), Some(*version), "{id} {version} was acknowledged");
    }
    for writer in 0..WRITERS {
        let key = key(&format!("k{writer}"));
        let version = store.read(&key).await.expect("an answer").map_or(0, |record| record.version);
        let mut after = 0;
        loop {
            let events = store.events(&key, after, 1000).await.expect("an answer");
            for event in &events {
                after += 1;
                assert_eq!((event.version, &event.body[..]), (after, format!("event {after}").as_bytes()));
            }
            if events.is_empty() {
                break;
            }
        }
        assert_eq!(after, version, "the record and its history say the same");
    }
    store.close().await;
}

fn acknowledge(id: &str, version: i64) {
    // Straight to the pipe: what is in a buffer when the process dies was never said.
    let line = format!("ack {id} {version}\n");
    let _ = std::io::stdout().lock().write_all(line.as_bytes()).and_then(|()| std::io::stdout().flush());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let path = std::env::var_os(STORE).expect("a path");
    match role.as_str() {
        COMMIT_FOREVER => commit_forever(Path::new(&path)).await,
        #[cfg(target_os = "linux")]
        LOSE_THE_DISK => crate::disk::lose_the_disk(Path::new(&path)).await,
        #[cfg(target_os = "linux")]
        MEET_A_FULL_DISK => crate::disk::meet_a_full_disk(Path::new(&path)).await,
        other => panic!("no such role: {other}"),
    }
}

async fn commit_forever(path: &Path) {
    let store = Arc::new(open(path).expect("a store"));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let id = format!("k{writer}");
            let key = key(&id);
            let mut version = store.read(&key).await.expect("an answer").map_or(0, |record| record.version);
            while store.commit(next(&key, version)).await == Ok(Verdict::Committed) {
                version += 1;
                acknowledge(&id, version);
            }
        });
    }
    writers.join_next().await;
    panic!("a commit of its own record was not taken");
}
