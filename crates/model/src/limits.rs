//! The bounds of a single workflow, instance and command. Each says why it is what it is.

use std::time::Duration;

/// Serialised size of an instance's data, and of the data sent with one event, in bytes. An instance is read, decided
/// and written whole; past this size one move costs more than a synced commit.
pub const DATA_BYTES_MAX: usize = 256 * 1024;

/// Nesting of an instance's data, and of the data sent with one event: less than `serde_json` reads (128), so that what
/// was written can be read again.
pub const DATA_DEPTH_MAX: usize = 100;

/// Size of a definition's text in bytes: the size of an HTTP body.
pub const DEFINITION_BYTES_MAX: usize = 1024 * 1024;

/// Problems that are told of one text at once: nobody reads more, and finding their places takes time.
pub const PROBLEMS_MAX: usize = 100;

/// States of one definition. Past it a person no longer reads the machine, and checking it is no longer instant.
pub const STATES_MAX: usize = 500;

/// Transitions of one definition, over all its states; keeps the reachability check instant.
pub const TRANSITIONS_MAX: usize = 5_000;

/// Bytes of an instance's id and of a resource's name: fits every index of every backend.
pub const ID_BYTES_MAX: usize = 512;

/// Bytes of a workflow's, state's, event's or role's name, and of an actor's id.
pub const NAME_BYTES_MAX: usize = 128;

/// Roles that one actor may carry: they are stored with every change.
pub const ROLES_MAX: usize = 64;

/// Bytes of an idempotency key: longer than any UUID, hash or URL-safe token in use.
pub const KEY_BYTES_MAX: usize = 256;

/// Bytes of a start's `request_id`: like an idempotency key's, beside which it is kept.
pub const REQUEST_ID_BYTES_MAX: usize = KEY_BYTES_MAX;

/// Bytes of the reason given when a run is terminated or canceled.
pub const REASON_BYTES_MAX: usize = 2_048;

/// Timers of one state: they travel with the instance.
pub const TIMERS_MAX: usize = 16;

/// The longest `after`, and the longest execution timeout: ten years. What is further off is a mistake in the unit.
pub const TIMER_MAX: Duration = Duration::from_secs(3_660 * 24 * 3600);

/// The shortest time for which closed instances and histories may be kept: what is old is looked for about once an hour.
/// (It is far above what nodes need to learn the fate of a commit.)
pub const RETENTION_MIN: Duration = Duration::from_secs(3600);

/// The longest: ten years. What is longer is a mistake in the unit, or `forever`.
pub const RETENTION_MAX: Duration = Duration::from_secs(3_660 * 24 * 3600);

/// How often a timer whose guard or assign cannot be evaluated is tried again, and the first pause before that; each is
/// four times as long as the one before. In the end, after some 85 minutes, it is given up: somebody has to look.
pub const TIMER_TRIES: (u32, Duration) = (4, Duration::from_secs(60));

/// Voters of one approval: votes travel with the instance.
pub const QUORUM_MAX: usize = 100;

/// Groups of one approval: each is looked at for each vote.
pub const APPROVAL_GROUPS_MAX: usize = 16;

/// Approvers that may be added to one approval in a visit: each holds the move up.
pub const ADDITIONS_MAX: usize = 20;

/// Votes of one approval that may be handed over in a visit: as many as there are votes.
pub const DELEGATIONS_MAX: usize = QUORUM_MAX;

/// Attempts of one command, unless set otherwise: the second follows at once, and who loses two has met a crowd.
pub const ATTEMPTS_DEFAULT: u32 = 3;

/// Attempts of one command that a definition may ask for; each holds the command up for a doubled backoff.
pub const ATTEMPTS_MAX: u32 = 10;

/// The first backoff, unless set otherwise: some ten synced commits.
pub const BACKOFF_DEFAULT: Duration = Duration::from_millis(50);

/// The longest first backoff: two of them fit into the time that a command may take.
pub const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// How long a command waits for a locked row, or for a lease, unless set otherwise: longer than any commit, shorter than
/// the patience of whoever sent it.
pub const LOCK_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// The shortest wait for a locked row; not to wait at all is `on_locked: nowait`.
pub const LOCK_TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// The longest wait for a locked row: as long as a command may take at all.
pub const LOCK_TIMEOUT_MAX: Duration = Duration::from_secs(30);

/// The part of contended commands above which an adaptive instance goes to the row lock, unless set otherwise: at 5 % a
/// lock costs less than the lost writes.
pub const ESCALATE_ABOVE_DEFAULT: f64 = 0.05;

/// The largest such part that a definition may ask for: past it most commands have lost a write first.
pub const ESCALATE_ABOVE_MAX: f64 = 0.5;

/// How long a lease on a lock key lives without being renewed, unless set otherwise: so long others wait for a node that
/// died, and a node that is merely slow has time to finish.
pub const LOCK_TTL_DEFAULT: Duration = Duration::from_secs(30);

/// The shortest such life: a tenth of it is still longer than a commit and the lock server's answer.
pub const LOCK_TTL_MIN: Duration = Duration::from_secs(1);

/// The longest such life: past it a dead node's lock has to be released by hand anyway.
pub const LOCK_TTL_MAX: Duration = Duration::from_secs(24 * 3600);

/// Fences that one command may carry: each is a row that its commit looks at.
pub const FENCES_MAX: usize = 16;

/// The first number beyond fences: up to it every JSON reader keeps integers exact (RFC 8259, section 6).
pub const FENCE_END: i64 = 1 << 53;

/// How far ahead of the clock a fence may be. Locks grant fences from the seconds since 1970 x 2^20 on; one that none can
/// have granted, written once, would make everybody late until the clocks have caught up with it.
pub const FENCE_AHEAD: Duration = Duration::from_secs(24 * 3600);

/// Fences that may be granted in a second: those of the next second begin behind them.
pub const FENCES_PER_SECOND: i64 = 1 << 20;

/// Fields that one transition assigns: all of them are evaluated before any is kept.
pub const ASSIGNS_MAX: usize = 64;

/// Regular expressions of one definition: each may take 128 KiB once compiled.
pub const PATTERNS_MAX: usize = 100;

/// Steps that a schema may take for one byte of data, comparisons and positions of patterns: data of the largest size then
/// takes [`SCHEMA_STEPS_MAX`] at the most.
pub const SCHEMA_STEPS_PER_BYTE_MAX: u64 = 512;

/// Steps that checking data against its schema takes at the most: some tenths of a second if a schema and data are made to
/// be slow together. Plain ones take a few steps for a byte, and a millisecond.
pub const SCHEMA_STEPS_MAX: u64 = SCHEMA_STEPS_PER_BYTE_MAX * DATA_BYTES_MAX as u64;

/// Bytes of one CEL expression.
pub const EXPRESSION_BYTES_MAX: usize = 2_048;

/// Nesting of brackets in a CEL expression: its parser is recursive, and a stack is finite.
pub const EXPRESSION_DEPTH_MAX: usize = 24;

/// Comprehensions (`all`, `exists`, `map`, `filter` ...) inside one another: the cost grows with this power.
pub const COMPREHENSION_DEPTH_MAX: usize = 2;

/// Steps that the guards and assigns of one command may take together, counted as they go; 10,000 steps stay below
/// about a millisecond.
pub const EXPRESSION_STEPS_MAX: u64 = 10_000;
