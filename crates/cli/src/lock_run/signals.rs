//! Signals that are caught: those that `lock run` passes on to its command, and those that end a command in good order.

use std::fs;
use std::io;
use std::task::{Context, Poll};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// What is passed on: all that asks something of a command. SIGCONT is not among them: it is sent to the group by who
/// continues it.
const PASSED_ON: [Signal; 8] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::WINCH, Signal::TSTP];

/// What ends a command that has something to put away first.
const ENDING: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// Signals that no longer do to this process what they do by default.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// From now on those are caught that are passed on. Those that were ignored before stay ignored, here and by the
    /// command: `nohup` and `&` in a script work so.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn listen() -> io::Result<Self> {
        Self::catch(&PASSED_ON)
    }

    /// From now on those are caught that ask for the end. Those that were ignored before stay ignored.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn ending() -> io::Result<Self> {
        Self::catch(&ENDING)
    }

    fn catch(signals: &[Signal]) -> io::Result<Self> {
        let ignored = ignored();
        let caught = signals.iter().copied().filter(|signal| ignored & bit(*signal) == 0);
        let streams = caught.map(|signal| Ok((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?)));
        streams.collect::<io::Result<_>>().map(Self)
    }

    /// The next one. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Signal> {
        for (signal, stream) in &mut self.0 {
            if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                return Poll::Ready(*signal);
            }
        }
        Poll::Pending
    }
}

/// The signals that are ignored, a bit each (`SigIgn`, proc_pid_status(5)).
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// A file that may not grow further (`ulimit -f`) is from now on an error of the write, as a full disk is, and not the end of
/// the process.
///
/// # Errors
/// The system refuses.
pub(crate) fn survive_file_limits() -> io::Result<()> {
    // Caught for as long as the process runs, whether somebody listens or not.
    unix::signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
}

fn bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}
