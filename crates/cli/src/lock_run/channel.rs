//! What `lock run` and its watchdog say to each other: a JSON text a line.

use std::io;
use std::marker::PhantomData;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;

use rustix::net::SendFlags;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;

use lockkeeper_locks::Moment;

/// Far more than a message has, in bytes.
const LINE_BYTES_MAX: usize = 1024;

/// What the watchdog is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// SIGTERM at the first of these instants, SIGKILL at the second, unless a later message moves them.
    Until { terminate_at: Instant, kill_at: Instant },
    /// SIGTERM now, SIGKILL then.
    End { kill_at: Instant },
}

/// What the watchdog tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// The command runs, and leads this group.
    Started { group: i32 },
    /// The command could not be started: the system's error number.
    Failed { errno: i32 },
    /// The command was stopped by this signal.
    Stopped { signal: i32 },
    /// The command has ended, and all that it had started.
    Ended { code: Option<i32>, signal: Option<i32>, overdue: bool, survivors: usize },
}

/// A [`Moment`] as it is sent: nanoseconds since the clock's start. 64 bits reach for 584 years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Instant(u64);

impl From<Moment> for Instant {
    fn from(moment: Moment) -> Self {
        Self(u64::try_from(moment.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Instant> for Moment {
    fn from(Instant(nanos): Instant) -> Self {
        Self::since_start(Duration::from_nanos(nanos))
    }
}

/// One end of the socket, which says `S` and hears `H`.
#[derive(Debug)]
pub(super) struct Channel<S, H> {
    stream: UnixStream,
    /// What has been read and not yet been taken.
    read: Vec<u8>,
    kinds: PhantomData<fn(S) -> H>,
}

impl<S: Serialize, H: DeserializeOwned> Channel<S, H> {
    pub(super) fn new(stream: StdUnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream: UnixStream::from_std(stream)?, read: Vec::new(), kinds: PhantomData })
    }

    /// Says something without waiting.
    ///
    /// # Errors
    /// The other side is gone, or has not listened for thousands of messages.
    pub(super) fn say(&self, message: &S) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        // Not by the runtime, which asks the system only after it has seen the socket ready once.
        match rustix::net::send(&self.stream, &line, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)? {
            written if written == line.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// The next message; none: the other side is gone, or talks nonsense. May be dropped and called again.
    pub(super) async fn hear(&mut self) -> Option<H> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return serde_json::from_slice(&line).ok();
            }
            if self.read.len() > LINE_BYTES_MAX {
                return None;
            }
            self.stream.readable().await.ok()?;
            match self.stream.try_read_buf(&mut self.read) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }
}
