//! Stores of earlier releases, whose nodes may still be running.

use lockkeeper_store::{DateOf, DatedQuery, OnLocked, Store};

use lockkeeper_testbed::Session;

use crate::tools::{LONG, blocking, database, execute, key, must_commit, next, now, open, version};

/// Takes the newest migrations back, as if they had never run.
pub(crate) fn back_to_7() -> String {
    let second = include_str!("../../src/postgres/schema_2.sql").replace("$schema", "lockkeeper");
    let life =
        second.split("\n\n").find(|part| part.contains("CREATE FUNCTION lockkeeper.life()")).expect("its function");
    let life = life.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION");
    format!(
        "BEGIN; {life}; DROP FUNCTION lockkeeper.begin_life;
        ALTER TABLE lockkeeper.lives DROP COLUMN system, DROP COLUMN started;
        DROP FUNCTION lockkeeper.claim_dated; DROP FUNCTION lockkeeper.set_dates;
        ALTER TABLE lockkeeper.records DROP COLUMN primary_date_ms, DROP COLUMN secondary_date_ms;
        DELETE FROM lockkeeper.migrations WHERE number > 7; COMMIT"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_the_release_before_go_on_while_dates_are_added() {
    let database = database().await;
    let old = open(&database.url()).await;
    execute(&database, back_to_7()).await;
    // Every way to write, so that whatever the sessions remember of the table is of before.
    let write = async |version: i64| {
        must_commit(&old, next(&key("a"), version)).await;
        let all = vec![next(&key("a"), version + 1), next(&key("b"), version)];
        assert_eq!(old.commit_all(all).await, Ok(lockkeeper_store::AllVerdict::Committed));
        let locked = old.lock(&key("a"), &[], now(), OnLocked::Wait(LONG)).await.expect("locked");
        let written = locked.hold.commit(next(&key("a"), version + 2)).await;
        assert_eq!(written, Ok(lockkeeper_store::Verdict::Committed));
        must_commit(&old, next(&key("b"), version + 1)).await;
        must_commit(&old, next(&key("b"), version + 2)).await;
    };
    write(0).await;
    let new = open(&database.url()).await;
    write(3).await;
    must_commit(&old, next(&key("made by the old"), 0)).await;
    for id in ["a", "b"] {
        must_commit(&new, next(&key(id), 6)).await;
    }
    let query = DatedQuery { space: key("a").space, by: DateOf::Primary, before: now() + LONG, limit: 10 };
    let told = new.dated(&query).await.expect("an answer");
    let mut ids: Vec<&str> = told.iter().map(|dated| &*dated.key.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["a", "b", "made by the old"]);
    write(7).await;
    assert_eq!((version(&new, &key("a")).await, version(&new, &key("b")).await), (10, 10));
}

/// Whoever reads for long (a backup, `pg_dump`) makes the new release wait, and the new release nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_behind_a_migration_that_waits() {
    let database = database().await;
    let old = open(&database.url()).await;
    must_commit(&old, next(&key("a"), 0)).await;
    execute(&database, back_to_7()).await;
    let url = database.url();
    let reader = blocking(move || {
        let reader = Session::open(&url);
        reader.execute("BEGIN; SELECT count(*) FROM lockkeeper.records");
        reader
    });
    let reader = reader.await;
    let url = database.url();
    let opening = tokio::spawn(async move { open(&url).await });
    // Seen at it, so that what follows comes behind it, if anything does.
    let waits = "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
        JOIN pg_database d ON d.oid = l.database
        WHERE d.datname = current_database() AND c.relname = 'records' AND l.mode = 'AccessExclusiveLock' AND NOT l.granted";
    while execute(&database, waits).await == "0" {
        assert!(!opening.is_finished());
    }
    for version in 1..20 {
        must_commit(&old, next(&key("a"), version)).await;
    }
    assert!(!opening.is_finished(), "the reader is still there");
    blocking(move || drop(reader)).await;
    let new = opening.await.expect("opened");
    must_commit(&new, next(&key("a"), 20)).await;
}
