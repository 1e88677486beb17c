//! The bounds of the store, each with its reason.

use std::time::Duration;

/// Bytes of one record's body: the data limit of its users (256 KiB) with room for what surrounds it. A record is read
/// and written whole.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of one event's body, and of one kept outcome.
pub const EVENT_BYTES_MAX: usize = 1024 * 1024 + 64 * 1024;

/// Bytes of a space, an id, a facet or an idempotency key: fits every index of every backend.
pub const TEXT_BYTES_MAX: usize = 512;

/// Events of one change set: what one batch of 256 commands on one record may come to, each of them two events at most.
pub const EVENTS_PER_SET_MAX: usize = 512;

/// Change sets of one all-or-nothing commit.
pub const SETS_PER_COMMIT_MAX: usize = 100;

/// Rows of one page.
pub const PAGE_MAX: usize = 1_000;

/// Rows that one page of a search may look at before it answers with what it has: no long readers.
pub const SCAN_MAX: usize = 10_000;

/// Idempotency keys of one change set: as many as events.
pub const KEYS_PER_SET_MAX: usize = EVENTS_PER_SET_MAX;

/// Requirements of one change set. Each is one look-up while the writer is held; the first set of a commit may carry
/// those of all records that the commit leaves as they are.
pub const REQUIREMENTS_PER_SET_MAX: usize = SETS_PER_COMMIT_MAX;

/// Fences of one change set: one for each command. Each is one row that is locked until the commit's end.
pub const FENCES_PER_SET_MAX: usize = EVENTS_PER_SET_MAX;

/// How long after its last use a resource's fence is remembered. Whoever was stopped for so long with a write in its
/// hands is not coming back: a lock is held for a day without being renewed at most.
pub const FENCES_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How far behind the last use of a fence the time may be that is kept for it: noting each use would make a write of
/// what is otherwise a look.
pub const FENCE_TOUCHED_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Bytes of one change set, everything counted: 256 events with the data limit of a user (256 KiB) each. What is
/// above it would hold up everybody else's commits for seconds.
pub const SET_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes of bodies after which a page ends before its limit, so that a reader of large records cannot fill the memory.
/// At least one row is always given.
pub const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Expired idempotency keys, or fences, forgotten at once: some ten milliseconds of the writer's time.
pub const PURGE_MAX: usize = 10_000;

/// The shortest life of a lease: stores count in whole milliseconds.
pub const TTL_MIN: Duration = Duration::from_millis(1);

/// The longest: a holder that has vanished keeps everybody else away for so long. Renewed, a lease may live longer.
pub const TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Names of one lease: each is looked at in one transaction, while others wait.
pub const CLAIMS_MAX: usize = 100;

/// Holders of one name at once: each look at the name looks at all of them.
pub const HOLDERS_MAX: u32 = 1_000;

/// Those who may wait for one name. With more the last of them would wait for minutes, even for a lock that is held for
/// milliseconds.
pub const WAITERS_MAX: u64 = 10_000;

/// Those who are granted ahead within one turn, such as many who wait to share a name: the turn stays short, and the next
/// one is told to ask, which grants further ones.
pub const GRANTS_AHEAD_MAX: usize = 32;

/// How long a grant ahead lasts at least where its place in the queue was kept for as long: whoever asked for a shorter
/// lease has to hear of it, on a busy machine, and renew it.
pub const AHEAD_MIN: Duration = Duration::from_secs(1);

/// How long the name of an ended try is remembered, so that a request that was under way for long cannot get it after
/// all: longer than any connection stays silent.
pub const ENDED_KEPT: Duration = Duration::from_secs(5 * 60);

/// Alarms that are told at once: some milliseconds of work.
pub const DUE_MAX: usize = PAGE_MAX;

/// How long nobody else is told of an alarm that somebody has been told of, at least: longer than it takes to do what is
/// due at a crowded record, and short enough that what a dead node has claimed is not waited for for long.
pub const ALARM_CLAIMED: Duration = Duration::from_secs(15);

/// How long nobody else is told of a record that somebody has been told of by its date: longer than it takes to tidy up a
/// page of them, and short enough that what a dead node has claimed is soon told of again.
pub const DATES_CLAIMED: Duration = Duration::from_secs(5 * 60);

/// How long rows of leases that have ended, and that nobody has asked for since, are left: for people who look.
pub const ENDED_LEASES_KEPT: Duration = Duration::from_secs(60 * 60);

/// Fences stay below 2^53, so that they are exact in JSON, JavaScript and Lua.
pub const FENCE_MAX: i64 = (1 << 53) - 1;

/// Waits that a search for deadlocks looks at: with more it looks at the youngest, and finds the others when those are
/// gone.
pub const EDGES_MAX: usize = 50_000;

/// News of who is to ask again, kept for whoever is slow to hear them. Whoever misses some asks for all that it waits for.
pub const WOKEN_KEPT: usize = 4_096;

/// Rows taken away at once that have lapsed or are forgotten: some milliseconds.
pub const LAPSED_AT_ONCE: usize = 1_000;
