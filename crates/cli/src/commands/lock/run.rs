//! `lock run`: runs a command while a lock is held.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use lockkeeper_locks::{Acquire, Clock, Lease, Locks, Moment, Released, SystemClock};
use rustix::process::{Signal, getpid, kill_process};

use super::resource;
use crate::commands::Context;
use crate::duration;
use crate::failure::Failure;
use crate::lock_failure::LockFailure;
use crate::lock_run::{Deadline, End, Guarded, Launch, Signals, SpawnError};
use crate::output::Output;
use crate::remote_locks::RemoteLocks;

/// The shortest time to live: a third of it must be enough for a renewal, a fifth for the command to end.
const TTL_MIN: Duration = Duration::from_millis(200);

/// The longest.
const TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a command has to end that has used up `--at-most`, between SIGTERM and SIGKILL.
const AT_MOST_GRACE: Duration = Duration::from_secs(5);

/// How long it has when the lock was taken from it: others may have it already.
const LOST_GRACE: Duration = Duration::from_secs(1);

/// How long a place in the queue, or a lease that came too late, is tried to be given back when `lock run` is interrupted.
const GIVE_BACK_WAIT: Duration = Duration::from_secs(2);

/// The exit code of a command that has used up `--at-most`: that of timeout(1).
const EXIT_AT_MOST: u8 = 124;

/// Those of a command that cannot be executed and of one that does not exist: those of shells (POSIX, 2.8.2).
const EXIT_NOT_EXECUTABLE: u8 = 126;
const EXIT_NOT_FOUND: u8 = 127;

const EXAMPLES: &str = "\
Examples:
  lockkeeper lock run nightly-report --nowait -- ./report.sh
  lockkeeper lock run deploy --wait 10m --at-most 1h -- ./deploy.sh production
  lockkeeper lock run billing --nowait --at-least 1m -- ./bill.sh       cron on several machines
  lockkeeper lock run db -- sh -c 'pg_dump app | gzip > app.gz'

The command and all that it starts end before the lock can pass on: when it is lost, when the server cannot be
reached any more, and when `lock run` itself is killed or stopped. It is ended by SIGTERM, and later by SIGKILL.
What became another user (sudo) cannot be ended from here: run `lock run` as that user.
Stopped by Ctrl-Z for longer than --ttl, it has lost the lock.

The command finds in its environment:
  LOCKKEEPER_RESOURCE  the lock's name
  LOCKKEEPER_FENCE     a number that grows with each holder: whoever checks it can refuse a late one
  LOCKKEEPER_LEASE     what this holding of the lock is called

Exit codes:
  the command's own; 128 and the signal's number, if it died of one
  75   somebody else holds the lock, or it was not to be had in time
  76   the lock was lost, and the command was ended
  69   the server cannot be reached or is unavailable
  124  the command took longer than --at-most
  126, 127  the command cannot be executed, or does not exist
  2    wrong usage";

/// Runs a command while a lock is held.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// The lock's name.
    #[arg(value_parser = resource)]
    pub resource: String,
    /// How long the lock outlives this process, at most; it is renewed after a third of it.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = ttl)]
    pub ttl: Duration,
    /// How long to wait for the lock.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub wait: Duration,
    /// Do not wait.
    #[arg(long, conflicts_with = "wait")]
    pub nowait: bool,
    /// Keep the lock at least so long, even if the command is done sooner: machines whose clocks are apart start a
    /// scheduled job once.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub at_least: Option<Duration>,
    /// End the command after so long.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub at_most: Option<Duration>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Reads `--ttl`.
fn ttl(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        ttl if ttl < TTL_MIN => Err(format!("at least {}ms is needed", TTL_MIN.as_millis())),
        ttl if ttl > TTL_MAX => Err("at most 24h is allowed".to_owned()),
        ttl => Ok(ttl),
    }
}

/// Runs `lock run`.
pub(super) async fn run(args: &RunArgs, context: Context<'_>) -> Result<ExitCode, Failure> {
    let url = context.client.url().to_owned();
    let remote = Arc::new(RemoteLocks::new(context.client));
    let locks = Locks::new(remote.clone());
    let mut signals =
        Signals::listen().map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
    let wait = if args.nowait { Duration::ZERO } else { args.wait };
    let how = Acquire::new().ttl(args.ttl).wait(wait).owner(owner());
    let asked = tokio::select! {
        lease = locks.acquire(&args.resource, how) => lease.map_err(|error| LockFailure::of(error, &url)),
        signal = ending(&mut signals) => Err(LockFailure::Interrupted(signal_code(signal)).into()),
    };
    let lease = match asked {
        Ok(lease) => lease,
        Err(failure) => {
            // The place in the queue is given back; it lapses by itself if that takes too long.
            let _in_time = tokio::time::timeout(GIVE_BACK_WAIT, locks.settled()).await;
            return Err(failure);
        }
    };
    let granted_at = SystemClock.now();
    let name = remote.name(lease.id());
    let (end, signals) = match guard(args, &lease, name, signals, context.output).await {
        Ok(guarded) => guarded,
        Err(failure) => {
            lease.release().await;
            return Err(failure);
        }
    };
    let Some(code) = end else {
        // Nothing is held any more, or it is not known: it is given back all the same.
        lease.release().await;
        return Err(LockFailure::Lost(args.resource.clone()).into());
    };
    if let Some(at_least) = args.at_least {
        keep(&lease, granted_at + at_least, signals).await;
    }
    match lease.release().await {
        Released::Released => Ok(ExitCode::from(code)),
        Released::AlreadyLost => Err(LockFailure::Lost(args.resource.clone()).into()),
        Released::Unconfirmed => {
            context.output.note("the release was not confirmed; the lock is free at the latest when its time is over");
            Ok(ExitCode::from(code))
        }
    }
}

/// Who holds the lock, for people: the user and this process.
fn owner() -> String {
    let user = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok().filter(|name| is_name(name)));
    let user = user.unwrap_or_else(|| rustix::process::getuid().as_raw().to_string());
    format!("{user}:{}", std::process::id())
}

fn is_name(text: &str) -> bool {
    const NAME_BYTES_MAX: usize = 128;
    lockkeeper_model::names::check_text("the user", text, NAME_BYTES_MAX).is_ok()
}

/// Waits for a signal that ends this process; those that stop it are done to it.
async fn ending(signals: &mut Signals) -> Signal {
    loop {
        match signals.next().await {
            Signal::TSTP => _ = kill_process(getpid(), Signal::STOP),
            Signal::WINCH => {}
            signal => return signal,
        }
    }
}

fn signal_code(signal: Signal) -> u8 {
    u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX)
}

/// Runs the command while the lease is held; none: the lease was lost.
async fn guard(
    args: &RunArgs,
    lease: &Lease,
    name: Option<String>,
    signals: Signals,
    output: &Output,
) -> Result<(Option<u8>, Signals), Failure> {
    let binary =
        std::env::current_exe().map_err(|error| Failure::failed(format!("cannot find this binary: {error}")))?;
    let fence = lease.fence().map(|fence| fence.to_string()).unwrap_or_default();
    let name = name.unwrap_or_default();
    let environment = [
        ("LOCKKEEPER_RESOURCE", OsStr::new(&args.resource)),
        ("LOCKKEEPER_FENCE", OsStr::new(&fence)),
        ("LOCKKEEPER_LEASE", OsStr::new(&name)),
    ];
    let launch = Launch { binary: &binary, command: &args.command, environment: &environment };
    let deadline = |valid_until| Deadline::before(valid_until, args.ttl);
    let mut valid_until = lease.valid_until();
    let mut guarded = match Guarded::spawn(launch, deadline(valid_until), signals).await {
        Ok(guarded) => guarded,
        Err(error) => return Err(not_started(&args.command[0], &error)),
    };
    let at_most = args.at_most.map(|at_most| SystemClock.now() + at_most);
    let (mut is_lost, mut is_late) = (false, false);
    let end = loop {
        // Looked at here, no renewal is missed between two waits.
        if !is_lost && lease.valid_until() != valid_until {
            valid_until = lease.valid_until();
            guarded.extend(deadline(valid_until));
        }
        let limit = at_most.filter(|_| !is_late).unwrap_or(Moment::since_start(Duration::MAX));
        tokio::select! {
            end = guarded.wait() => break end,
            renewed = lease.renewed(), if !is_lost => match renewed {
                Some(_) => {}
                None => {
                    is_lost = true;
                    guarded.end(LOST_GRACE);
                }
            },
            () = SystemClock.sleep_until(limit), if !is_late => {
                is_late = true;
                guarded.end(AT_MOST_GRACE);
            }
        }
    };
    tell(&end, output);
    // A command that ended by itself just in time is lost too: its last steps may have been outside of the lease.
    let is_lost = is_lost || end.overdue || !lease.is_held();
    let code = end.status.map_or(1, |status| u8::try_from(status.code()).unwrap_or(u8::MAX));
    let code = if is_late { EXIT_AT_MOST } else { code };
    Ok(((!is_lost).then_some(code), guarded.into_signals()))
}

/// Says what nobody else says.
fn tell(end: &End, output: &Output) {
    if end.unwatched && !end.overdue {
        output.error_text("lockkeeper: the watchdog died, so the command was ended");
    }
    if end.survivors > 0 {
        output.error_text(&format!("lockkeeper: {} processes of the command cannot be ended", end.survivors));
    }
}

fn not_started(program: &OsStr, error: &SpawnError) -> Failure {
    let SpawnError::Command(cause) = error else { return Failure::failed(error) };
    let code = if cause.kind() == io::ErrorKind::NotFound { EXIT_NOT_FOUND } else { EXIT_NOT_EXECUTABLE };
    LockFailure::NotStarted { program: program.to_string_lossy().into_owned(), detail: cause.to_string(), code }.into()
}

/// Keeps the lease until then, unless it is lost or somebody does not want to wait.
async fn keep(lease: &Lease, until: Moment, mut signals: Signals) {
    tokio::select! {
        () = SystemClock.sleep_until(until) => {}
        _ = lease.lost() => {}
        _ = ending(&mut signals) => {}
    }
}
