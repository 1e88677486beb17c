//! The processes of the machine, as /proc shows them (proc_pid_stat(5)).

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// One process that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    parent: i32,
    group: i32,
    /// In ticks since the machine's start: together with the id it is unique.
    started: u64,
}

impl Process {
    /// A descriptor of exactly this process; none: it has ended.
    ///
    /// # Errors
    /// The system has no descriptors of processes (Linux before 5.3).
    pub(super) fn open(&self) -> io::Result<Option<OwnedFd>> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(None) };
        let descriptor = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            opened => opened?,
        };
        // The id may have come to mean another process before it was opened, but not after.
        let is_same = read(self.pid).is_some_and(|now| now.started == self.started);
        Ok(is_same.then_some(descriptor))
    }
}

/// The processes of a group, and the descendants of a process, which itself is not among them.
pub(super) fn of_group_or_under(group: Pid, ancestor: Pid) -> Vec<Process> {
    let (group, ancestor) = (group.as_raw_nonzero().get(), ancestor.as_raw_nonzero().get());
    let all = all();
    let mut family = HashSet::from([ancestor]);
    // Children may be listed before their parents: looked at until nobody is added.
    while all.iter().any(|process| family.contains(&process.parent) && family.insert(process.pid)) {}
    all.into_iter()
        .filter(|process| process.pid != ancestor && (process.group == group || family.contains(&process.pid)))
        .collect()
}

/// Whether a process belongs to the group.
pub(super) fn is_of(process: &Process, group: Pid) -> bool {
    process.group == group.as_raw_nonzero().get()
}

fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(read).collect()
}

/// None: it has ended, though its parent may not have asked for it yet.
fn read(pid: i32) -> Option<Process> {
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse(pid: i32, stat: &str) -> Option<Process> {
    // The name stands in parentheses, and may contain some.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let id = |number: usize| i32::try_from(field(number)?).ok();
    let state = *fields.first()?;
    // A process whose first thread has ended looks like a zombie, and its other threads work on.
    let is_over = matches!(state, "Z" | "X") && field(20)? <= 1;
    (!is_over).then_some(Process { pid, parent: id(4)?, group: id(5)?, started: field(22)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(state: char, threads: u32) -> String {
        format!("7 (a) b (c)) {state} 3 5 5 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 991 1000 10")
    }

    #[test]
    fn names_may_contain_anything() {
        assert_eq!(parse(7, &stat('S', 1)), Some(Process { pid: 7, parent: 3, group: 5, started: 991 }));
    }

    #[test]
    fn a_zombie_is_over_unless_it_has_threads() {
        assert_eq!(parse(7, &stat('Z', 1)), None);
        assert!(parse(7, &stat('Z', 2)).is_some());
    }

    #[test]
    fn this_process_is_found_under_its_parent() {
        let parent = rustix::process::getppid().unwrap();
        let found = of_group_or_under(rustix::process::getpgrp(), parent);
        let pid = std::process::id();
        assert!(found.iter().any(|process| process.pid.unsigned_abs() == pid), "{found:?}");
        assert!(found.iter().all(|process| process.pid != parent.as_raw_nonzero().get()), "{found:?}");
    }
}
