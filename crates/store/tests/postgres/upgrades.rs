//! Stores of earlier releases, whose nodes may still be running.

use lockkeeper_store::{DateOf, DatedQuery, OnLocked, Store};

use crate::tools::{LONG, database, execute, key, must_commit, next, now, open, version};

/// Takes the newest migration back, as if it had never run.
pub(crate) const BACK_TO_7: &str = "DROP FUNCTION lockkeeper.claim_dated; DROP FUNCTION lockkeeper.set_dates;
    ALTER TABLE lockkeeper.records DROP COLUMN primary_date_ms, DROP COLUMN secondary_date_ms;
    DELETE FROM lockkeeper.migrations WHERE number = 8";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_the_release_before_go_on_while_dates_are_added() {
    let database = database().await;
    let old = open(&database.url()).await;
    execute(&database, BACK_TO_7).await;
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
