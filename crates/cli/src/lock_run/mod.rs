//! A command that runs while a deadline holds, and not a moment longer: the process machinery of `lock run`.
//!
//! `lock run` starts a *watchdog*, a process of the same binary in a process group of its own, and the watchdog starts
//! the command, in a group of the command's own. A socket between the two carries deadlines from `lock run` to the
//! watchdog. Whatever happens to `lock run`, the group is gone in time:
//! - killed, its end of the socket closes, and the watchdog ends the group;
//! - stopped, or cut off from the locks, it sends no new deadline, and the watchdog ends the group before the last one;
//! - if the watchdog dies instead, `lock run` ends the group.
//!
//! The watchdog is the command's parent, so that it knows the group before the command's first instruction, and the
//! group's id cannot come to mean another group while anybody may still signal it: the command is not reaped before.
//! Both processes are child subreapers (prctl(2)): what has left the group by setsid(2) is still found, as a descendant,
//! and ended too. What cannot be ended: processes of another user (`sudo`), and anything once both are killed at the
//! same time; the fence is for those.

mod channel;
mod ending;
mod guarded;
mod handover;
mod processes;
mod signals;
mod terminal;
mod watchdog;

pub(crate) use guarded::{Deadline, End, Guarded, Launch, SpawnError};
pub(crate) use signals::{Signals, survive_file_limits};
pub(crate) use watchdog::{WatchdogArgs, run as run_watchdog};
