//! The terminal from which `lock run` was started, and whose turn it is (termios(3), "job control").

use std::fs::File;
use std::io::{self, IsTerminal};

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The controlling terminal.
#[derive(Debug)]
pub(super) struct Terminal(File);

impl Terminal {
    /// None: there is none, as under cron or a service manager.
    pub(super) fn open() -> Option<Self> {
        File::open("/dev/tty").ok().map(Self)
    }

    /// Whether commands started here talk to a person: not where one end is a pipe, for then others of the pipeline use
    /// the terminal.
    pub(super) fn is_for_the_command() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Makes `group` the one that reads from it and hears of Ctrl-C, if it is our turn; whether it was.
    pub(super) fn give_to(&self, group: Pid) -> bool {
        self.turn() == Some(getpgrp()) && self.set(group)
    }

    /// Whether it is `group`'s turn.
    pub(super) fn is_of(&self, group: Pid) -> bool {
        self.turn() == Some(group)
    }

    /// Takes it back from `group`, if that has it.
    pub(super) fn take_from(&self, group: Pid) {
        if self.is_of(group) {
            self.set(getpgrp());
        }
    }

    fn turn(&self) -> Option<Pid> {
        tcgetpgrp(&self.0).ok()
    }

    fn set(&self, group: Pid) -> bool {
        // Whoever is in the background and asks for the terminal is stopped by SIGTTOU, unless it is blocked.
        let stop: SigSet = [Signal::SIGTTOU].into_iter().collect();
        if stop.thread_block().is_err() {
            return false;
        }
        let set = tcsetpgrp(&self.0, group).is_ok();
        // It was possible to block it.
        let _unblocked = stop.thread_unblock();
        set
    }
}
