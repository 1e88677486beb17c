//! The end of a group, and of what has left it.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group, pidfd_send_signal};

use super::processes::{self, Process};
use lockkeeper_locks::{Clock, Moment, SystemClock};

/// Between two looks at the clock: timers stand still while the machine is suspended.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Between two looks at the processes, where none of them can be waited for.
const PAUSE: Duration = Duration::from_millis(5);

/// How often SIGKILL is sent to what was started while it was being sent, and how long is waited each time. What is still
/// there after two seconds waits for a device, or belongs to another user.
const KILLS: u32 = 20;
const KILL_WAIT: Duration = Duration::from_millis(100);

/// How long SIGKILL is tried at the longest.
pub(super) const KILLING_MAX: Duration = KILL_WAIT.saturating_mul(KILLS);

/// A group, and all descendants of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    /// Its leader must not have been reaped, so that the id means this group.
    pub(super) group: Pid,
    /// Not among them.
    pub(super) ancestor: Pid,
}

impl Family {
    /// SIGTERM now, SIGKILL at `kill_at`; how many are there all the same. Blocks until then.
    pub(super) fn end(self, kill_at: Moment) -> usize {
        if self.members().is_empty() {
            return 0;
        }
        self.signal(Signal::TERM);
        // A stopped process hears of SIGTERM when it goes on.
        self.signal(Signal::CONT);
        if self.is_gone_by(kill_at) {
            return 0;
        }
        for _ in 0..KILLS {
            self.signal(Signal::KILL);
            if self.is_gone_by(SystemClock.now() + KILL_WAIT) {
                return 0;
            }
        }
        self.members().len()
    }

    /// Signals all; whoever has ended meanwhile does not hear it.
    pub(super) fn signal(self, signal: Signal) {
        // The group at once, so that nobody in it escapes by starting another.
        let _none_left = kill_process_group(self.group, signal);
        for process in self.members().iter().filter(|process| !processes::is_of(process, self.group)) {
            if let Ok(Some(descriptor)) = process.open() {
                let _ended = pidfd_send_signal(&descriptor, signal);
            }
        }
    }

    fn members(self) -> Vec<Process> {
        processes::of_group_or_under(self.group, self.ancestor)
    }

    /// Waits until all have ended, or the time is over.
    fn is_gone_by(self, deadline: Moment) -> bool {
        loop {
            let members = self.members();
            let Some(first) = members.first() else { return true };
            let left = deadline.since(SystemClock.now());
            if left.is_zero() {
                return false;
            }
            wait_for(first, left.min(LOOK_AGAIN));
        }
    }
}

/// Returns when the process has ended, or at the latest after `at_most`.
fn wait_for(process: &Process, at_most: Duration) {
    match process.open() {
        Ok(Some(descriptor)) => {
            let timeout = Timespec::try_from(at_most).ok();
            // An error is a signal; the caller looks again in any case.
            let _looked = poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], timeout.as_ref());
        }
        Ok(None) => {}
        Err(_) => std::thread::sleep(at_most.min(PAUSE)),
    }
}
