//! The bounds of a single workflow, instance and command. Each says why it is what it is.

/// Serialised size of an instance's data, and of the data sent with one event, in bytes. An instance is read, decided
/// and written whole; past this size one move costs more than a synced commit.
pub const DATA_BYTES_MAX: usize = 256 * 1024;

/// Nesting of an instance's data, and of the data sent with one event: less than `serde_json` reads (128), so that what
/// was written can be read again.
pub const DATA_DEPTH_MAX: usize = 100;

/// Size of a definition's text in bytes: the size of an HTTP body.
pub const DEFINITION_BYTES_MAX: usize = 1024 * 1024;

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

/// Bytes of the reason given when a run is terminated or canceled.
pub const REASON_BYTES_MAX: usize = 2_048;

/// Voters of one approval: votes travel with the instance.
pub const QUORUM_MAX: usize = 100;

/// Fields that one transition assigns: all of them are evaluated before any is kept.
pub const ASSIGNS_MAX: usize = 64;

/// Regular expressions of one definition: each may take 128 KiB once compiled.
pub const PATTERNS_MAX: usize = 100;

/// Bytes of one CEL expression.
pub const EXPRESSION_BYTES_MAX: usize = 2_048;

/// Nesting of brackets in a CEL expression: its parser is recursive, and a stack is finite.
pub const EXPRESSION_DEPTH_MAX: usize = 24;

/// Comprehensions (`all`, `exists`, `map`, `filter` ...) inside one another: the cost grows with this power.
pub const COMPREHENSION_DEPTH_MAX: usize = 2;

/// Steps that the guards and assigns of one command may take together, counted as they go; 10,000 steps stay below
/// about a millisecond.
pub const EXPRESSION_STEPS_MAX: u64 = 10_000;
