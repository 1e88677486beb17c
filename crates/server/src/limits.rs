//! The bounds of the HTTP door, each with its reason.

use std::time::Duration;

/// Bytes of a request's body; larger: 413.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of the bodies of all requests under way: 16,384 requests of a megabyte would be 16 GiB.
pub const BODIES_BYTES_MAX: usize = 128 * 1024 * 1024;

/// How long a client may take to send its body, or its request's head: against those who send a byte a minute.
pub const REQUEST_READ_MAX: Duration = Duration::from_secs(30);

/// What is read and thrown away of a body that is too large, in bytes and in time, so that its sender can take the answer.
pub const BODY_DISCARDED_MAX: (usize, Duration) = (16 * 1024 * 1024, Duration::from_secs(5));

/// Requests under way at once, waiting ones included; more: `busy`. Twenty times what saturates a node.
pub const REQUESTS_MAX: usize = 16_384;

/// Connections at once; more are closed. Each may carry a request, and some are idle.
pub const CONNECTIONS_MAX: usize = 20_000;

/// Requests under way on one HTTP/2 connection.
pub const STREAMS_MAX: u32 = 1_024;

/// Items of a page where no `limit` is given, and at most.
pub const PAGE_DEFAULT: usize = 50;
/// See [`PAGE_DEFAULT`].
pub const PAGE_MAX: usize = 1_000;

/// What `Retry-After` says with `busy` and `unavailable`, in seconds: the queue of a healthy node is gone by then.
pub const RETRY_AFTER_SECONDS: u64 = 1;

/// How long a token's principal is remembered: how long another node may take to notice a revocation.
pub const TOKEN_MEMORY: Duration = Duration::from_secs(5);

/// Tokens remembered at once.
pub const TOKENS_REMEMBERED: u64 = 10_000;

/// How long a shutdown waits for requests under way: a little more than any may take.
pub const DRAIN_MAX: Duration = Duration::from_secs(32);

/// How long a shutdown leaves connections on which no request is under way: long enough to write out the last answers.
pub const FLUSH_MAX: Duration = Duration::from_secs(1);

/// Leases that nobody took and that are being given back at once; further ones end with their time to live. Far more than
/// clients give up in the time that a release takes.
pub const HANDING_BACK_MAX: usize = 1_024;

/// How often it is tried to give a lease back that nobody took, and the pause after the first try; it doubles. In all 3 s:
/// what is away for longer is away for most leases' lives.
pub const HAND_BACK_TRIES: u32 = 5;
/// See [`HAND_BACK_TRIES`].
pub const HAND_BACK_PAUSE: Duration = Duration::from_millis(200);

/// Leases whose holding is timed at once, and for how long after their last renewal: the longest time to live.
pub const LEASES_TIMED: u64 = 100_000;
/// See [`LEASES_TIMED`].
pub const LEASE_TIMED_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// Releases whose hand-off is timed at once, and for how long: who has not got a free name by then waits for another.
pub const RELEASES_TIMED: u64 = 10_000;
/// See [`RELEASES_TIMED`].
pub const RELEASE_TIMED_FOR: Duration = Duration::from_secs(60);

/// Workflows that the page at `/` lists.
pub const PAGE_WORKFLOWS: usize = 50;

/// Streams of events at once; more: `busy`. Each holds a connection, and at most one page of changes that it is told.
pub const FEED_STREAMS_MAX: usize = 1_000;

/// After so long without an event a stream is sent a comment, or the place that was looked at: proxies close what is
/// silent for a minute or less, and a client notices that its server is gone.
pub const FEED_KEEP_ALIVE: Duration = Duration::from_secs(10);

/// After so long a stream ends, and its client comes back to where it was: so that a token that was revoked has no stream
/// for ever.
pub const FEED_STREAM_MAX: Duration = Duration::from_secs(5 * 60);

/// How soon a client is to come back when its stream breaks.
pub const FEED_RETRY: Duration = Duration::from_secs(1);

/// How long a backup waits for a client that takes nothing of it: others want its place, and it fills the disk.
pub const BACKUP_STALL_MAX: Duration = Duration::from_secs(60);

/// Backups at once: each reads the whole store, and has a copy of it on the disk until it is sent.
pub const BACKUPS_MAX: usize = 1;
