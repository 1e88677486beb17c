//! Processes found by a mark in their environment: whatever group or session they went to.

use std::fs;
use std::time::{Duration, Instant};

use uuid::Uuid;

/// The variable that has the mark.
pub(crate) const MARK: &str = "GUARDED_MARK";

/// Far above what anything takes here, even in a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// What all processes of one test have in their environment.
pub(crate) struct Mark(pub(crate) String);

/// A process with the mark.
#[derive(Debug)]
pub(crate) struct Marked {
    pub(crate) pid: u32,
    pub(crate) command: String,
}

impl Mark {
    pub(crate) fn new() -> Self {
        Self(Uuid::new_v4().to_string())
    }

    /// Those that have not ended.
    pub(crate) fn processes(&self) -> Vec<Marked> {
        let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter_map(|pid: u32| {
            // A process that has ended has an empty environment.
            let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
            let line = format!("{MARK}={}", self.0);
            let has_it = environment.split(|byte| *byte == 0).any(|variable| variable == line.as_bytes());
            let command = fs::read(format!("/proc/{pid}/cmdline")).ok().filter(|_| has_it)?;
            Some(Marked { pid, command: String::from_utf8_lossy(&command).replace('\0', " ") })
        })
        .collect()
    }

    /// The watchdog.
    pub(crate) fn watchdog(&self) -> u32 {
        let all = self.processes();
        let found = all.iter().find(|process| process.command.contains(" lock watchdog "));
        found.unwrap_or_else(|| panic!("no watchdog among {all:?}")).pid
    }

    /// Waits until none but `but` is left.
    pub(crate) fn await_gone(&self, but: &[u32]) {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let left: Vec<Marked> = self.processes().into_iter().filter(|one| !but.contains(&one.pid)).collect();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "still there: {left:?}");
            std::thread::sleep(PAUSE);
        }
    }

    /// None is left.
    pub(crate) fn assert_gone(&self) {
        let left = self.processes();
        assert!(left.is_empty(), "still there: {left:?}");
    }
}
