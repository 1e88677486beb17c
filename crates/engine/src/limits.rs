//! The bounds of a node, each with its reason.

use std::time::Duration;

/// How long a command may take, if its sender asks for no less: after it the sender has given up.
pub const DEADLINE_MAX: Duration = Duration::from_secs(30);

/// Commands that may wait on one node, over all instances. Full: `busy`.
pub const QUEUE_COMMANDS_MAX: usize = 65_536;

/// Bytes of the data of all commands that wait on one node; without it 65,536 commands of 256 KiB would be 16 GiB.
pub const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Commands of one instance that are committed together: past it the write no longer gets cheaper by the command.
pub const BATCH_COMMANDS_MAX: usize = 256;

/// Bytes of the data of commands that are committed together: keeps one instance's batch from delaying all others.
pub const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Decisions after which a batch lets other tasks run: a decision may cost up to a millisecond of CEL.
pub const DECISIONS_PER_TURN: usize = 32;

/// Bytes of instances kept in memory.
pub const CACHE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Bytes of the texts of the definition versions kept compiled in memory; the compiled form is some ten times as large.
pub const DEFINITIONS_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Workflows whose newest version is remembered.
pub const NEWEST_REMEMBERED: u64 = 10_000;

/// Instances that are being decided and committed at once; each holds a parsed instance and the new body. The store
/// commits some hundreds together.
pub const ACTIVE_KEYS_MAX: usize = 1_024;

/// Moves of one `transitions` request.
pub const MOVES_MAX: usize = 100;

/// The longest single backoff, however many attempts: as long as the longest first one that a definition may ask for.
pub const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// First and longest pause between two tries to learn the fate of a commit whose answer was lost.
pub const SETTLE_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// How long an idempotency key is kept, unless set otherwise: a week of retries, queues and redeliveries.
pub const KEY_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

/// How often expired idempotency keys are looked for, and how many are forgotten in one transaction.
pub const PURGE: (Duration, usize) = (Duration::from_secs(60), 1_000);

/// Timers that are being fired at once on one node: two full transactions of the embedded store, and half of the instances
/// that may be decided at once, so that commands get on.
pub const FIRES_MAX: usize = 512;

/// How long one of them may take: within the store's claim, so that nobody else fires it meanwhile.
pub const FIRE_WAIT: Duration = Duration::from_secs(10);

/// How much later a timer is tried again that could not fire for a row or a lock that somebody keeps.
pub const FIRE_AGAIN: Duration = Duration::from_secs(30);

/// The shortest pause between two looks at what is due, however close the next timer is: so many milliseconds it may be
/// late.
pub const LOOK_PAUSE_MIN: Duration = Duration::from_millis(10);

/// The longest, unless set otherwise: a node hears of its own timers at once, so this is how long those of a dead node wait
/// at most for another to look (or its claims for running out).
pub const LOOK_PAUSE_MAX: Duration = Duration::from_secs(5);

/// The longest pause between two looks while the store does not answer.
pub const LOOK_BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Tries to put a definition while others put theirs.
pub const PUT_ATTEMPTS_MAX: u32 = 5;

/// Names of existing things that an "unknown" answer carries.
pub const KNOWN_NAMES_MAX: usize = 10;

/// How long a history request may wait for the next change.
pub const HISTORY_WAIT_MAX: Duration = Duration::from_secs(25);

/// How long a shutdown waits for what was accepted: a little more than any command may take.
pub const SHUTDOWN_MAX: Duration = Duration::from_secs(35);

/// How long a shutdown waits for its leases to be given back: one answer of a lock server that lives.
pub const LEASES_GIVEN_BACK: Duration = Duration::from_secs(2);

/// Lost writes of one adaptive or pessimistic command before it is answered `conflict`. Under the row lock a write is
/// lost only while the record is being made, or when the store begins another life: once or twice.
pub const ADAPTIVE_LOSSES_MAX: u32 = 10;

/// A write that is lost on a snapshot no older than this was lost to somebody who is at work at the same time; lost on an
/// older one, this node's memory was stale.
pub const YOUNG: Duration = Duration::from_secs(1);

/// How often a history request looks for what other nodes have written.
pub const HISTORY_POLL: Duration = Duration::from_millis(500);

/// How long a node shares a lease with the commands that come, before it gives it back and asks again behind the other
/// nodes that wait: some fifty synced commits, so that a lease costs each of them little, and short against what others
/// wait for it (5 s).
pub const LEASE_SHARED: Duration = Duration::from_millis(250);

/// Commands that share a lease before it is given back: four full batches of one instance, so that a node with a long
/// queue does not keep the others waiting until it is empty.
pub const LEASE_COMMANDS_MAX: usize = 4 * BATCH_COMMANDS_MAX;

/// How long a node keeps a lease that nobody needs: about a commit, so that whoever was just answered can send more.
pub const LEASE_LINGER: Duration = Duration::from_millis(5);

/// How long a node asks for a lease at a time: as long as any command may wait for one.
pub const LEASE_WAIT_MAX: Duration = DEADLINE_MAX;

/// How long after the lock service did not answer it is not asked again: its failures take seconds to notice.
pub const LOCKS_GONE: Duration = Duration::from_secs(1);

/// How often the lock service is asked whether it lives while leases are waited for, and how long its answer may take:
/// within the usual `lock_timeout` it is known to be gone.
pub const LOCKS_PING: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(2));

/// How long it may take to find out who is in the way of those whose wait is over.
pub const TIMEOUT_TOLD_WITHIN: Duration = Duration::from_millis(250);

/// How often a command may find, once it is decided, that it needs another lease than the one it has: each time somebody
/// else has changed what names the lock.
pub const REROUTES_MAX: u32 = 10;

/// Changes that are read from the feed at once.
pub const FEED_PAGE: usize = 100;

/// Pages of the feed that are kept for listeners who are slow; those who miss one read the store. At most 2 MiB each.
pub const FEED_BATCHES_KEPT: usize = 16;

/// How often the feed is looked at for what other nodes have committed, while somebody listens.
pub const FEED_POLL: Duration = Duration::from_millis(250);

/// The first pause while the feed holds something back: about a commit. It doubles, up to [`FEED_POLL`].
pub const FEED_HELD_PAUSE: Duration = Duration::from_millis(1);

/// How old a change is at least before it is forgotten, whatever is asked for: a node learns the fate of a commit whose
/// answer was lost from the change that bears its id, and goes on asking until its senders give up, [`DEADLINE_MAX`] after
/// the time of that change at most. The other three parts are for nodes whose clocks differ.
pub const FORGET_AGE_MIN: Duration = Duration::from_secs(4 * DEADLINE_MAX.as_secs());

/// How often a step of forgetting is tried while another node is at it, [`PURGE_PAUSE`] apart, before it is left to a later
/// sweep.
pub const FORGET_TRIES: u32 = 100;

/// Closed instances, or histories, that are looked through at once by a purge.
pub const PURGE_PAGE: usize = 100;

/// Events that are forgotten in one transaction: some milliseconds of the writer's time.
pub const PURGE_EVENTS: usize = 500;

/// Between two pages of a sweep, so that it takes a small part of the store's time.
pub const PURGE_PAUSE: Duration = Duration::from_millis(20);

/// Pages of one workflow in one sweep, so that what keeps coming of age in some workflows does not keep the others waiting:
/// a million instances; the rest is the next sweep's.
pub const PURGE_TURNS: usize = 10_000;

/// When a node sweeps for the first time, and how often then (give or take half of it, so that nodes do not sweep
/// together): what is kept for days may be kept for an hour more.
pub const PURGE_FIRST: Duration = Duration::from_secs(60);
/// See [`PURGE_FIRST`].
pub const PURGE_SWEEP: Duration = Duration::from_secs(60 * 60);
