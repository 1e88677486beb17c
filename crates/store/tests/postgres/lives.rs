//! Which history is which: a life is that of one cluster, one timeline and one table, and goes on over restarts.

use lockkeeper_store::{ChangeSet, PostgresStore, Store, Verdict};
use lockkeeper_testbed::Postgres;

use crate::tools::{blocking, database, eventually, execute, key, must_commit, next, now, open};
use crate::upgrades::back_to_7;

async fn life(store: &PostgresStore) -> i64 {
    store.confirm(&key("a"), &[], now()).await.expect("an answer").life
}

fn of_life(mut set: ChangeSet, life: i64) -> ChangeSet {
    set.life = Some(life);
    set
}

/// What an insert needs to make the newest life again.
const NEWEST: &str = "SELECT format('%s, %s, %s, %L', life, timeline, system, started) FROM lockkeeper.lives
    ORDER BY life DESC LIMIT 1";

/// Its tables have the numbers that they had, since they were made by the same steps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dump_in_a_cluster_made_anew_is_another_life() {
    let (first, second) = blocking(|| (Postgres::start_unrelated(), Postgres::start_unrelated())).await;
    let original = open(&first.url()).await;
    must_commit(&original, next(&key("a"), 0)).await;
    let before = life(&original).await;
    open(&second.url()).await.close().await;
    let (_first, second) = blocking(move || {
        let dumped = first.execute(NEWEST);
        second.execute(&format!(
            "DELETE FROM lockkeeper.lives; INSERT INTO lockkeeper.lives (life, timeline, system, started, home)
                VALUES ({dumped}, 'lockkeeper.records'::regclass)"
        ));
        (first, second)
    })
    .await;
    let restored = open(&second.url()).await;
    assert!(life(&restored).await > before);
    let stale = restored.commit(of_life(next(&key("a"), 0), before)).await;
    assert!(matches!(stale, Ok(Verdict::Lost(_))), "{stale:?}");
    let after = life(&restored).await;
    must_commit(&restored, of_life(next(&key("a"), 0), after)).await;
    assert_eq!(life(&restored).await, after, "and it is one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_started_again_lives_on() {
    let server = blocking(Postgres::start).await;
    let store = open(&server.url()).await;
    must_commit(&store, next(&key("a"), 0)).await;
    let before = life(&store).await;
    let server = blocking(move || {
        let mut server = server;
        server.restart();
        server
    })
    .await;
    eventually("the server is back", || async { store.ping().await.is_ok() }).await;
    must_commit(&store, of_life(next(&key("a"), 1), before)).await;
    assert_eq!(life(&store).await, before);
    let noted = "SELECT count(*), bool_and(started = pg_postmaster_start_time()
        AND system = (SELECT system_identifier FROM pg_control_system())) FROM lockkeeper.lives";
    assert_eq!(server.execute(noted), "1|t");
}

/// Who reads only, may not write it, or comes while another session notes it, is told at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_has_to_note_that_a_life_goes_on() {
    let server = blocking(Postgres::start).await;
    let store = open(&server.url()).await;
    let before = life(&store).await;
    let (told, noted) = blocking(move || {
        server.execute(
            "UPDATE lockkeeper.lives SET started = now() - interval '1 day'; CREATE ROLE reader;
            GRANT USAGE ON SCHEMA lockkeeper TO reader; GRANT SELECT, INSERT ON lockkeeper.lives TO reader;
            GRANT SELECT ON lockkeeper.records TO reader",
        );
        let told = [
            server.execute("SET default_transaction_read_only = on; SELECT lockkeeper.life()"),
            server.execute("SET ROLE reader; SELECT lockkeeper.life()"),
        ];
        let first = server.session();
        first.execute("BEGIN; SELECT lockkeeper.life()");
        let meanwhile = server.execute("SET lock_timeout = 1; SELECT lockkeeper.life()");
        first.execute("COMMIT");
        let noted = server.execute("SELECT started = pg_postmaster_start_time() FROM lockkeeper.lives");
        ([told[0].clone(), told[1].clone(), meanwhile], noted)
    })
    .await;
    assert_eq!(told, [before.to_string(), before.to_string(), before.to_string()]);
    assert_eq!(noted, "t");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_release_begins_no_new_life() {
    let database = database().await;
    let old = open(&database.url()).await;
    execute(&database, back_to_7()).await;
    must_commit(&old, next(&key("a"), 0)).await;
    let before = life(&old).await;
    let new = open(&database.url()).await;
    assert_eq!((life(&new).await, life(&old).await), (before, before));
    must_commit(&old, of_life(next(&key("a"), 1), before)).await;
    assert_eq!(
        execute(&database, "SELECT count(*), count(system), count(started) FROM lockkeeper.lives").await,
        "1|1|1"
    );
    // As a node of the release before begins one, when it restores a backup.
    let renew =
        "INSERT INTO lockkeeper.lives (life, timeline, home) SELECT life + 1, timeline, home FROM lockkeeper.lives";
    execute(&database, renew).await;
    assert_eq!((life(&new).await, life(&old).await), (before + 1, before + 1));
    assert_eq!(
        execute(&database, "SELECT count(*), count(system), count(started) FROM lockkeeper.lives").await,
        "2|2|2"
    );
}

/// Of two lives the later one has the greater number, if they do not begin within the same few milliseconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_a_life_is_hardly_ahead_of_the_clock() {
    let database = database().await;
    open(&database.url()).await.close().await;
    let drawn = "DO $$ DECLARE v_before bigint; v_life bigint; BEGIN FOR i IN 1 .. 200 LOOP
        DELETE FROM lockkeeper.lives;
        v_before := floor(extract(epoch FROM clock_timestamp()) * 1000);
        v_life := lockkeeper.life();
        ASSERT v_life > v_before, 'behind the clock';
        ASSERT v_life <= floor(extract(epoch FROM clock_timestamp()) * 1000) + 16, 'ahead of the clock';
        END LOOP; END $$";
    execute(&database, drawn).await;
}
