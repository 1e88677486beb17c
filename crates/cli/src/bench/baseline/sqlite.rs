//! The peer: the same change, one synced commit at a time, as a careful program without a combiner would make it.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use crate::bench::clients::{Cpu, Latencies};
use crate::bench::row::Row;
use crate::failure::Failure;

/// About what a move of the benchmark's workflow writes.
const RECORD_BYTES: usize = 350;
const EVENT_BYTES: usize = 250;

/// Commits one change after another in a file of its own in `folder`, with the settings that the store has: WAL, and a
/// sync with each commit.
pub(crate) fn measure(folder: &Path, duration: Duration) -> Result<Row, Failure> {
    let file = tempfile::Builder::new().prefix(".lockkeeper-baseline-").tempdir_in(folder);
    let file = file.map_err(|error| Failure::failed(format!("cannot write in {}: {error}", folder.display())))?;
    let failed = |error: rusqlite::Error| Failure::failed(format!("the baseline failed: {error}"));
    let mut connection = Connection::open(file.path().join("baseline.db")).map_err(failed)?;
    prepare(&connection).map_err(failed)?;
    let mut latencies = Latencies::default();
    let cpu = Cpu::now();
    let start = Instant::now();
    let mut version = 0i64;
    while start.elapsed() < duration {
        let begun = Instant::now();
        version += 1;
        commit(&mut connection, version).map_err(failed)?;
        latencies.record(begun.elapsed());
    }
    let wall = start.elapsed();
    let stored: i64 = connection.query_row("SELECT version FROM record", [], |row| row.get(0)).map_err(failed)?;
    let row = Row::measured("one synced commit at a time", &latencies, 0, wall, cpu.share(wall), version - stored);
    Ok(row.into_peer())
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch(
        "CREATE TABLE record(id INTEGER PRIMARY KEY, version INTEGER NOT NULL, body BLOB NOT NULL) STRICT;
         CREATE TABLE event(record INTEGER, version INTEGER, body BLOB NOT NULL, PRIMARY KEY(record, version)) STRICT, WITHOUT ROWID;",
    )?;
    connection.execute("INSERT INTO record VALUES(1, 0, x'00')", [])?;
    Ok(())
}

fn commit(connection: &mut Connection, version: i64) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction
        .prepare_cached("UPDATE record SET version = ?1, body = ?2 WHERE id = 1 AND version = ?1 - 1")?
        .execute(params![version, [b'r'; RECORD_BYTES]])?;
    transaction
        .prepare_cached("INSERT INTO event VALUES(1, ?1, ?2)")?
        .execute(params![version, [b'e'; EVENT_BYTES]])?;
    transaction.commit()
}
