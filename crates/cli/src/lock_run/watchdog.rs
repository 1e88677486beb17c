//! The process that starts the command and ends it in time, whatever becomes of `lock run`.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, getpid, set_child_subreaper, waitid};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Signals;
use super::channel::{Channel, Order, Report};
use super::ending::Family;
use super::handover;
use lockkeeper_locks::{Clock, Moment, SystemClock};

/// How long what a command has left behind may take to end, and the command itself once nobody waits for it: enough to
/// write a file and say why.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// Watches over the command of `lock run`, which starts it.
#[derive(Debug, Args)]
pub(crate) struct WatchdogArgs {
    /// The command and its arguments.
    #[arg(required = true, last = true)]
    pub command: Vec<OsString>,
}

/// Why the command's group is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The command itself has ended: others of its group may be left.
    Ended,
    /// `lock run` says so.
    Ordered { kill_at: Moment },
    /// `lock run` sent no new deadline.
    Overdue,
    /// `lock run` is gone.
    Orphaned,
}

/// The command under watch.
struct Watch {
    channel: Channel<Report, Order>,
    children: Signal,
    group: Pid,
    terminate_at: Moment,
    kill_at: Moment,
}

/// Starts the command and watches over it. Standard input is the socket to `lock run`.
///
/// # Errors
/// The system refuses something before the command has started.
pub(crate) async fn run(args: &WatchdogArgs) -> io::Result<()> {
    // What is caught does nothing to this process, and the command has the defaults again.
    let _caught = Signals::listen()?;
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let stdin = handover::receive(&socket)?;
    let mut channel = Channel::<Report, Order>::new(socket)?;
    let Some(Order::Until { terminate_at, kill_at }) = channel.hear().await else { return Ok(()) };
    let (terminate_at, kill_at) = (terminate_at.into(), kill_at.into());
    // It may have stood still since that was said.
    if SystemClock.now() >= terminate_at {
        return channel.say(&Report::Failed { errno: Errno::TIME.raw_os_error() });
    }
    set_child_subreaper(Some(getpid()))?;
    // Heard of from here on: whoever started this may ignore it, and then nothing would be left of a short command to ask.
    let children = signal(SignalKind::child())?;
    match start(&args.command, stdin) {
        Ok(group) => {
            let mut watch = Watch { channel, children, group, terminate_at, kill_at };
            // Without a hearer it ends at once.
            let _heard = watch.channel.say(&Report::Started { group: group.as_raw_nonzero().get() });
            watch.run().await
        }
        Err(error) => channel.say(&Report::Failed { errno: error.raw_os_error().unwrap_or(0) }),
    }
}

/// Starts the command as the leader of a group of its own.
fn start(command: &[OsString], stdin: OwnedFd) -> io::Result<Pid> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let child = Command::new(program).args(arguments).stdin(Stdio::from(stdin)).process_group(0).spawn()?;
    // Not waited for through `child`: that would free the group's id.
    Ok(Pid::from_child(&child))
}

impl Watch {
    async fn run(&mut self) -> io::Result<()> {
        let cause = self.cause().await?;
        let now = SystemClock.now();
        let kill_at = match cause {
            Cause::Ended | Cause::Orphaned => (now + GRACE).min(self.kill_at),
            Cause::Ordered { kill_at } => kill_at.min(self.kill_at),
            Cause::Overdue => self.kill_at,
        };
        let family = Family { group: self.group, ancestor: getpid() };
        let survivors = family.end(kill_at);
        match cause {
            Cause::Orphaned => complain("`lock run` was killed, so its command was ended", survivors),
            Cause::Overdue => complain("the lock could not be kept, so the command was ended", survivors),
            Cause::Ended | Cause::Ordered { .. } => {}
        }
        let status = self.peek(WaitIdOptions::EXITED)?;
        let report = Report::Ended {
            code: status.as_ref().and_then(WaitIdStatus::exit_status),
            signal: status.as_ref().and_then(WaitIdStatus::terminating_signal),
            overdue: cause == Cause::Overdue,
            survivors,
        };
        if self.channel.say(&report).is_ok() {
            // Until `lock run` has heard it, it may signal the group: its id must not come to mean another.
            while self.channel.hear().await.is_some() {}
        }
        reap(None);
        Ok(())
    }

    /// Waits until the group has to be ended.
    async fn cause(&mut self) -> io::Result<Cause> {
        loop {
            reap(Some(self.group));
            if self.peek(WaitIdOptions::EXITED)?.is_some() {
                return Ok(Cause::Ended);
            }
            let stopped = waitid(WaitId::Pid(self.group), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG)?;
            if let Some(signal) = stopped.and_then(|status| status.stopping_signal()) {
                let _heard = self.channel.say(&Report::Stopped { signal });
            }
            tokio::select! {
                order = self.channel.hear() => match order {
                    Some(Order::Until { terminate_at, kill_at }) => {
                        (self.terminate_at, self.kill_at) = (terminate_at.into(), kill_at.into());
                    }
                    Some(Order::End { kill_at }) => return Ok(Cause::Ordered { kill_at: kill_at.into() }),
                    None => return Ok(Cause::Orphaned),
                },
                () = SystemClock.sleep_until(self.terminate_at) => return Ok(Cause::Overdue),
                _ = self.children.recv() => {}
            }
        }
    }

    /// Looks at the command's state and leaves it as it is.
    fn peek(&self, state: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
        Ok(waitid(WaitId::Pid(self.group), state | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG)?)
    }
}

/// Forgets the ended children that the command has left to this process.
fn reap(but: Option<Pid>) {
    let pid = getpid().as_raw_nonzero();
    // They are adopted by the first thread.
    let children = fs::read_to_string(format!("/proc/self/task/{pid}/children")).unwrap_or_default();
    for child in children.split_whitespace().filter_map(|text| Pid::from_raw(text.parse().ok()?)) {
        if Some(child) != but {
            let _running = waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }
}

/// Says something where `lock run` cannot, now that writing can hold up nothing.
fn complain(what: &str, survivors: usize) {
    let survivors = if survivors == 0 { String::new() } else { format!("; {survivors} processes cannot be ended") };
    // Whoever read it may be gone.
    let _written = io::Write::write_all(&mut io::stderr(), format!("lockkeeper: {what}{survivors}\n").as_bytes());
}
