//! The tables, as numbered migrations.
//!
//! `user_version` holds the number of the last migration that ran; each runs in one transaction with its number
//! (<https://www.sqlite.org/pragma.html#pragma_user_version>).

use rusqlite::{Connection, TransactionBehavior};

/// "LkKp": marks a file as ours (<https://www.sqlite.org/pragma.html#pragma_application_id>).
pub(super) const APPLICATION_ID: i32 = 0x4c6b_4b70;

/// Migration n is entry n - 1. What is released is never edited: add another.
const MIGRATIONS: &[&str] = &[FIRST, SECOND, THIRD, FOURTH, FIFTH];

/// The newest schema known here.
pub(super) const KNOWN: i64 = MIGRATIONS.len() as i64;

/// - Texts compare by bytes: BINARY is the default collation (<https://www.sqlite.org/datatype3.html#collation>).
/// - `records.record` grows with each new record, so it also orders them by creation, whatever clocks say; each index
///   ends with it.
/// - `records.body` is the last column, so that versions, facets and names are found on the row's first page.
/// - Events and keys lie in the order in which they came, found by narrow indexes. Laid by record, each small commit
///   would rewrite a page of its own, and the pages beside it whenever one is full (measured, single events on 100
///   records: 2.4 pages a commit, against 1.3).
/// - The sizes repeat `limits`; `verify` has checked them before.
const FIRST: &str = "
CREATE TABLE records (
    record          INTEGER PRIMARY KEY,
    space           TEXT    NOT NULL CHECK (octet_length(space) BETWEEN 1 AND 512),
    id              TEXT    NOT NULL CHECK (octet_length(id) BETWEEN 1 AND 512),
    version         INTEGER NOT NULL CHECK (version > 0),
    primary_facet   TEXT    NOT NULL CHECK (octet_length(primary_facet) <= 512),
    secondary_facet TEXT    NOT NULL CHECK (octet_length(secondary_facet) <= 512),
    created_ms      INTEGER NOT NULL,
    updated_ms      INTEGER NOT NULL,
    body            BLOB    NOT NULL CHECK (length(body) <= 1048576)
) STRICT;
CREATE UNIQUE INDEX records_by_id ON records (space, id);
CREATE INDEX records_by_space ON records (space);
CREATE INDEX records_by_primary ON records (space, primary_facet);
CREATE INDEX records_by_secondary ON records (space, secondary_facet);

CREATE TABLE events (
    event     INTEGER PRIMARY KEY,
    record    INTEGER NOT NULL,
    version   INTEGER NOT NULL CHECK (version > 0),
    commit_id BLOB    NOT NULL CHECK (length(commit_id) = 16),
    body      BLOB    NOT NULL CHECK (length(body) <= 1114112)
) STRICT;
CREATE UNIQUE INDEX events_by_version ON events (record, version);

CREATE TABLE idempotency_keys (
    entry       INTEGER PRIMARY KEY,
    record      INTEGER NOT NULL,
    key         TEXT    NOT NULL CHECK (octet_length(key) <= 512),
    version     INTEGER NOT NULL CHECK (version > 0),
    expires_ms  INTEGER NOT NULL,
    fingerprint BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    outcome     BLOB    NOT NULL CHECK (length(outcome) <= 1114112)
) STRICT;
CREATE UNIQUE INDEX idempotency_keys_by_name ON idempotency_keys (record, key);
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_ms);
";

/// - `fences`: of each lock's name the latest fence that was seen, and when it was last used (to the day: `limits`).
/// - `counters`: numbers that never fall.
const SECOND: &str = "
CREATE TABLE fences (
    resource   TEXT    NOT NULL PRIMARY KEY CHECK (octet_length(resource) BETWEEN 1 AND 512),
    last       INTEGER NOT NULL CHECK (last BETWEEN 1 AND 9007199254740991),
    touched_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX fences_by_touch ON fences (touched_ms);

CREATE TABLE counters (
    name  TEXT    NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Leases (`lease::law`). A lease has a row for each of its names; `capacity` is how many may hold the name as far as
/// this one is concerned. `lease_tickets` has one row.
const THIRD: &str = "
CREATE TABLE lease_holders (
    resource   TEXT    NOT NULL CHECK (octet_length(resource) BETWEEN 1 AND 512),
    lease      BLOB    NOT NULL CHECK (length(lease) = 16),
    capacity   INTEGER NOT NULL CHECK (capacity > 0),
    fence      INTEGER NOT NULL CHECK (fence > 0),
    since_ms   INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    ttl_ms     INTEGER NOT NULL CHECK (ttl_ms > 0),
    names      INTEGER NOT NULL CHECK (names > 0),
    owner      TEXT    NOT NULL CHECK (octet_length(owner) BETWEEN 1 AND 512),
    host       TEXT    NOT NULL CHECK (octet_length(host) BETWEEN 1 AND 512),
    PRIMARY KEY (resource, lease)
) STRICT, WITHOUT ROWID;
CREATE INDEX lease_holders_by_lease ON lease_holders (lease);

CREATE TABLE lease_waiters (
    resource   TEXT    NOT NULL CHECK (octet_length(resource) BETWEEN 1 AND 512),
    ticket     INTEGER NOT NULL,
    lease      BLOB    NOT NULL CHECK (length(lease) = 16),
    capacity   INTEGER NOT NULL CHECK (capacity > 0),
    since_ms   INTEGER NOT NULL,
    lapses_ms  INTEGER NOT NULL,
    owner      TEXT    NOT NULL CHECK (octet_length(owner) BETWEEN 1 AND 512),
    host       TEXT    NOT NULL CHECK (octet_length(host) BETWEEN 1 AND 512),
    cycle      TEXT,
    PRIMARY KEY (resource, ticket)
) STRICT, WITHOUT ROWID;
CREATE INDEX lease_waiters_by_lease ON lease_waiters (lease);
CREATE INDEX lease_waiters_by_lapse ON lease_waiters (resource, lapses_ms);

CREATE TABLE lease_tickets (last INTEGER NOT NULL) STRICT;
INSERT INTO lease_tickets VALUES (0);

CREATE TABLE lease_ended (
    lease    BLOB    PRIMARY KEY CHECK (length(lease) = 16),
    until_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX lease_ended_by_time ON lease_ended (until_ms);
";

/// Alarms. Who has claimed one is remembered by the process that has the file open (`claims`).
const FOURTH: &str = "
CREATE TABLE alarms (
    record INTEGER PRIMARY KEY,
    due_ms INTEGER NOT NULL CHECK (due_ms >= 0)
) STRICT;
CREATE INDEX alarms_by_due ON alarms (due_ms);
";

/// Dates ([`crate::DateOf`]): null until they are set, both together. A new record costs one entry of one index; and its next
/// versions leave these indexes alone, since no commit names one of their columns.
const FIFTH: &str = "
ALTER TABLE records ADD COLUMN primary_date_ms INTEGER;
ALTER TABLE records ADD COLUMN secondary_date_ms INTEGER;
CREATE INDEX records_undated ON records (space, created_ms) WHERE primary_date_ms IS NULL;
CREATE INDEX records_by_primary_date ON records (space, primary_date_ms) WHERE primary_date_ms IS NOT NULL;
CREATE INDEX records_by_secondary_date ON records (space, secondary_date_ms) WHERE secondary_date_ms IS NOT NULL;
";

/// The number of the last migration that ran.
pub(super) fn found(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Runs the migrations above `found`.
pub(super) fn migrate(connection: &mut Connection, found: i64) -> rusqlite::Result<()> {
    let done = usize::try_from(found).unwrap_or(0);
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(done) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", (index + 1) as i64)?;
        transaction.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::limits::{BODY_BYTES_MAX, EVENT_BYTES_MAX, FENCE_MAX, TEXT_BYTES_MAX};

    #[test]
    fn the_sizes_are_those_of_limits() {
        assert_eq!((TEXT_BYTES_MAX, BODY_BYTES_MAX, EVENT_BYTES_MAX), (512, 1_048_576, 1_114_112));
        assert_eq!(FENCE_MAX, 9_007_199_254_740_991);
    }
}
