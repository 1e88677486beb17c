//! The bounds of the store, each with its reason.

/// Bytes of one record's body: the data limit of its users (256 KiB) with room for what surrounds it. A record is read
/// and written whole.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of one event's body, and of one kept outcome.
pub const EVENT_BYTES_MAX: usize = 1024 * 1024 + 64 * 1024;

/// Bytes of a space, an id, a facet or an idempotency key: fits every index of every backend.
pub const TEXT_BYTES_MAX: usize = 512;

/// Events of one change set: what one batch of commands on one record may come to.
pub const EVENTS_PER_SET_MAX: usize = 256;

/// Change sets of one all-or-nothing commit.
pub const SETS_PER_COMMIT_MAX: usize = 100;

/// Rows of one page.
pub const PAGE_MAX: usize = 1_000;

/// Rows that one page of a search may look at before it answers with what it has: no long readers.
pub const SCAN_MAX: usize = 10_000;

/// Idempotency keys looked up at once.
pub const KEYS_PER_LOOKUP_MAX: usize = EVENTS_PER_SET_MAX;
