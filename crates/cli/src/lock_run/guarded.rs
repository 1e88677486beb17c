//! A command under a watchdog, as `lock run` has it in hand.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_current_process_group, kill_process_group, set_child_subreaper,
    waitid,
};
use thiserror::Error;

use super::Signals;
use super::channel::{Channel, Order, Report};
use super::ending::{Family, KILLING_MAX};
use super::handover;
use super::terminal::Terminal;
use super::watchdog::GRACE;
use lockkeeper_locks::{Clock, Moment, SystemClock};

/// How long a command has between SIGTERM and SIGKILL where its lease ends, at most, and as a share of the time to live:
/// what is taken from it is lost for renewing.
const NOTICE_MAX: Duration = Duration::from_secs(5);
const NOTICE_SHARE: u32 = 5;

/// How long before the lease's end SIGKILL is sent, at most, and as a share of the time to live: until all processes of
/// the group have really ended, on a busy machine.
const MARGIN_MAX: Duration = Duration::from_millis(500);
const MARGIN_SHARE: u32 = 10;

/// How much longer than its work takes the watchdog is waited for once it was told to end the command.
const ORDER_SLACK: Duration = Duration::from_secs(1);

/// By when a command has to be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    /// SIGTERM.
    terminate_at: Moment,
    /// SIGKILL, by the watchdog.
    kill_at: Moment,
    /// SIGKILL by `lock run`, if the watchdog has not reported its own.
    kill_alone_at: Moment,
}

/// How to start a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch<'a> {
    /// The binary that has the subcommand `lock watchdog`.
    pub(crate) binary: &'a Path,
    /// The command and its arguments.
    pub(crate) command: &'a [OsString],
    /// What its environment has besides ours.
    pub(crate) environment: &'a [(&'a str, &'a OsStr)],
}

/// A running command with its watchdog. Dropped, the command is ended.
#[derive(Debug)]
pub(crate) struct Guarded {
    watchdog: Child,
    /// None: the watchdog has been let go.
    channel: Option<Channel<Order, Report>>,
    family: Family,
    deadline: Deadline,
    /// The end has been ordered, and the watchdog is trusted with it until then.
    ordered: Option<Moment>,
    signals: Signals,
    terminal: Option<Terminal>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// None: nobody saw it.
    pub(crate) status: Option<Status>,
    /// Its deadline had come.
    pub(crate) overdue: bool,
    /// The watchdog died or did nothing.
    pub(crate) unwatched: bool,
    /// Processes of the command that could not be ended.
    pub(crate) survivors: usize,
}

/// The command's own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// It exited with this code.
    Code(i32),
    /// It died of this signal.
    Signal(i32),
}

/// A command that did not start.
#[derive(Debug, Error)]
pub(crate) enum SpawnError {
    /// The command itself; shells exit with 127 where it does not exist, and with 126 otherwise.
    #[error("{0}")]
    Command(io::Error),
    /// Its watchdog.
    #[error("cannot start the watchdog: {0}")]
    Watchdog(io::Error),
}

impl From<io::Error> for SpawnError {
    fn from(error: io::Error) -> Self {
        Self::Watchdog(error)
    }
}

impl Deadline {
    /// For a lease that may be used until `valid_until`, renewed for `ttl` at a time.
    pub(crate) fn before(valid_until: Moment, ttl: Duration) -> Self {
        let earlier = |by: Duration| Moment::since_start(valid_until.elapsed().saturating_sub(by));
        let margin = MARGIN_MAX.min(ttl / MARGIN_SHARE);
        let notice = NOTICE_MAX.min(ttl / NOTICE_SHARE);
        Self { terminate_at: earlier(margin + notice), kill_at: earlier(margin), kill_alone_at: earlier(margin / 2) }
    }

    fn order(self) -> Order {
        Order::Until { terminate_at: self.terminate_at.into(), kill_at: self.kill_at.into() }
    }
}

impl Status {
    /// The exit code that a shell gives for it.
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }

    fn from_wait(code: Option<i32>, signal: Option<i32>) -> Option<Self> {
        code.map(Self::Code).or(signal.map(Self::Signal))
    }
}

impl Guarded {
    /// Starts the command under a watchdog. From then on `signals` are passed on to it.
    ///
    /// # Errors
    /// [`SpawnError`]; nothing runs.
    pub(crate) async fn spawn(launch: Launch<'_>, deadline: Deadline, signals: Signals) -> Result<Self, SpawnError> {
        // Should the watchdog die, its children become ours.
        set_child_subreaper(Some(getpid())).map_err(io::Error::from)?;
        let (ours, theirs) = UnixStream::pair()?;
        handover::send(&ours, io::stdin().as_fd())?;
        let mut channel = Channel::<Order, Report>::new(ours)?;
        channel.say(&deadline.order())?;
        let mut watchdog = Command::new(launch.binary)
            .args(["lock", "watchdog", "--"])
            .args(launch.command)
            .envs(launch.environment.iter().copied())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .process_group(0)
            .spawn()?;
        // A command on a disk that does not answer never starts: the lock is not held for it for ever.
        let report = tokio::select! {
            report = channel.hear() => report,
            () = SystemClock.sleep_until(deadline.kill_at) => None,
        };
        let group = match report {
            Some(Report::Started { group }) => Pid::from_raw(group),
            Some(Report::Failed { errno }) => {
                watchdog.wait()?;
                return Err(SpawnError::Command(io::Error::from_raw_os_error(errno)));
            }
            _ => None,
        };
        let Some(group) = group else {
            // It may have started the command all the same: whatever it was is ours now.
            let orphans = Family { group: Pid::from_child(&watchdog), ancestor: getpid() };
            orphans.end(SystemClock.now() + GRACE);
            return Err(io::Error::other(format!("it ended: {}", watchdog.wait()?)).into());
        };
        let terminal = Terminal::open();
        if let Some(terminal) = terminal.as_ref().filter(|_| Terminal::is_for_the_command())
            && terminal.give_to(group)
        {
            // It may have asked for the terminal before, and been stopped.
            let _ended = kill_process_group(group, Signal::CONT);
        }
        let family = Family { group, ancestor: getpid() };
        Ok(Self { watchdog, channel: Some(channel), family, deadline, ordered: None, signals, terminal })
    }

    /// The command has more time.
    pub(crate) fn extend(&mut self, deadline: Deadline) {
        // A watchdog that hears nothing ends the command at the deadline that it knows.
        if self.ordered.is_some() || self.say(&deadline.order()) {
            self.deadline = deadline;
        }
    }

    /// Begins to end the command: SIGTERM now, SIGKILL after `grace` or at its deadline. [`Self::wait`] for it.
    pub(crate) fn end(&mut self, grace: Duration) {
        let kill_at = (SystemClock.now() + grace).min(self.deadline.kill_at);
        self.ordered = Some(kill_at + KILLING_MAX + ORDER_SLACK);
        // A watchdog that is gone is seen by whoever waits.
        let _heard = self.say(&Order::End { kill_at: kill_at.into() });
    }

    /// The signals, to be listened to by others again.
    pub(crate) fn into_signals(self) -> Signals {
        self.signals
    }

    /// Waits until the command has ended, and all that it had started. May be dropped and called again until it has
    /// returned.
    pub(crate) async fn wait(&mut self) -> End {
        loop {
            let alone_at = self.ordered.unwrap_or(self.deadline.kill_alone_at).min(self.deadline.kill_alone_at);
            let Some(channel) = &mut self.channel else { return self.end_alone(GRACE).await };
            tokio::select! {
                report = channel.hear() => match report {
                    Some(Report::Ended { code, signal, overdue, survivors }) => {
                        self.let_go();
                        let status = Status::from_wait(code, signal);
                        return End { status, overdue, unwatched: false, survivors };
                    }
                    Some(Report::Stopped { signal }) => self.pause(signal),
                    Some(Report::Started { .. } | Report::Failed { .. }) => {}
                    None => return self.end_alone(GRACE).await,
                },
                signal = self.signals.next() => {
                    let _ended = kill_process_group(self.family.group, signal);
                }
                () = SystemClock.sleep_until(alone_at) => {
                    return self.end_alone(Duration::ZERO).await;
                }
            }
        }
    }

    fn say(&self, order: &Order) -> bool {
        self.channel.as_ref().is_some_and(|channel| channel.say(order).is_ok())
    }

    /// The command has stopped. If a shell can continue us, it has to hear of it from us: we stop, too.
    fn pause(&mut self, signal: i32) {
        let Some(terminal) = &self.terminal else { return };
        let group = self.family.group;
        match Signal::from_named_raw(signal) {
            // It wanted the terminal. It may have got it since it was stopped; else it gets it if it is our turn.
            Some(Signal::TTIN | Signal::TTOU) if terminal.is_of(group) || terminal.give_to(group) => {}
            Some(Signal::TSTP | Signal::TTIN | Signal::TTOU) => {
                terminal.take_from(group);
                // Returns when we are continued: after `fg` it is our turn again, after `bg` it is not.
                let _continued = kill_current_process_group(Signal::STOP);
                terminal.give_to(group);
            }
            // Whoever sends SIGSTOP to the command alone will continue it himself.
            _ => return,
        }
        let _ended = kill_process_group(group, Signal::CONT);
    }

    /// The watchdog has reported the end: it needs us no more, and we the terminal.
    fn let_go(&mut self) {
        if let Some(terminal) = &self.terminal {
            terminal.take_from(self.family.group);
        }
        self.channel = None;
        // It has nothing left to do but to see the channel close; an error would mean that it has been waited for.
        let _ended = self.watchdog.wait();
    }

    /// The watchdog is dead, or does nothing: ends the command without it.
    async fn end_alone(&mut self, grace: Duration) -> End {
        // An error means that it has ended already.
        let _gone = self.watchdog.kill();
        let _ended = self.watchdog.wait();
        self.channel = None;
        let overdue = self.deadline.kill_at <= SystemClock.now();
        let kill_at = (SystemClock.now() + grace).min(self.deadline.kill_at);
        let family = self.family;
        // Meanwhile the lease is renewed.
        let ending = tokio::task::spawn_blocking(move || family.end(kill_at));
        let survivors = ending.await.unwrap_or(1);
        if let Some(terminal) = &self.terminal {
            terminal.take_from(family.group);
        }
        let status = waitid(WaitId::Pid(family.group), WaitIdOptions::EXITED | WaitIdOptions::NOHANG).ok().flatten();
        let status = status.and_then(|status| Status::from_wait(status.exit_status(), status.terminating_signal()));
        End { status, overdue, unwatched: true, survivors }
    }
}
