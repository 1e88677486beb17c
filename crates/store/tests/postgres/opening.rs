//! Which databases are opened, and how the others are refused.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockkeeper_store::{ListOrder, OpenError, PostgresStore, Store, Verdict};
use lockkeeper_testbed::{Postgres, Proxy, Replication};

use crate::tools::{
    SHORT, blocking, database, eventually, execute, impatient, key, must_commit, next, open, open_with, options, query,
    refused, version,
};

/// What is said of a database that will not do.
async fn why(url: &str) -> String {
    match refused(url).await {
        OpenError::NoDatabase { url, detail } => {
            assert!(!url.contains('@') && !detail.contains("hunter2"), "{url}: {detail}");
            detail
        }
        other => panic!("{other:?}"),
    }
}

async fn succeeds(url: &str) -> bool {
    match PostgresStore::open(impatient(url)).await {
        Ok(store) => {
            store.close().await;
            true
        }
        Err(_) => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_database_becomes_a_store_once() {
    const NODES: usize = 8;
    let database = database().await;
    let url = database.url();
    let nodes = join_all((0..NODES).map(|_| open(&url))).await;
    for (n, node) in nodes.iter().enumerate() {
        must_commit(node, next(&key("a"), n as i64)).await;
    }
    let migrations = "SELECT string_agg(number::text, ' ' ORDER BY number) FROM lockkeeper.migrations";
    let numbers = execute(&database, migrations).await;
    assert!(numbers.starts_with("1 2"), "{numbers}");
    assert_eq!(open(&url).await.describe(), nodes[0].describe());
    assert_eq!(execute(&database, migrations).await, numbers, "it is not done again");
    assert_eq!(execute(&database, "SELECT count(*) FROM lockkeeper.lives").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_schemas_are_two_stores() {
    let database = database().await;
    let one = open(&format!("{}?schema=one", database.url())).await;
    let two = open(&format!("{}?schema=two&connections=4", database.url())).await;
    must_commit(&one, next(&key("a"), 0)).await;
    assert_eq!((version(&one, &key("a")).await, version(&two, &key("a")).await), (1, 0));
    must_commit(&two, next(&key("a"), 0)).await;
    must_commit(&two, next(&key("a"), 1)).await;
    assert_eq!((version(&one, &key("a")).await, version(&two, &key("a")).await), (1, 2));
    assert!(one.describe().ends_with("?schema=one"), "{}", one.describe());
    assert_eq!(execute(&database, "SELECT to_regnamespace('lockkeeper') IS NULL").await, "t");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_schema_is_refused_and_left_alone() {
    let database = database().await;
    open(&database.url()).await.close().await;
    execute(&database, "INSERT INTO lockkeeper.migrations VALUES (1000)").await;
    match refused(&database.url()).await {
        OpenError::TooNew { store, found, known } => {
            assert!(store.contains(database.name()) && !store.contains('@'), "{store}");
            assert_eq!(found, 1000);
            assert!(known >= 3);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(execute(&database, "SELECT max(number) FROM lockkeeper.migrations").await, "1000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_of_somebody_else_is_not_taken_over() {
    let database = database().await;
    execute(&database, "CREATE SCHEMA lockkeeper; CREATE TABLE lockkeeper.records (mine int)").await;
    assert!(why(&database.url()).await.contains("already exists"));
    assert_eq!(execute(&database, "SELECT to_regclass('lockkeeper.migrations') IS NULL").await, "t", "nothing is left");
    assert_eq!(execute(&database, "SELECT count(*) FROM lockkeeper.records").await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forgets_or_only_follows_is_refused() {
    let server = blocking(|| {
        let server = Postgres::start_with(&[("fsync", "off")]);
        server.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1'");
        server
    })
    .await;
    assert!(why(&server.url()).await.contains("fsync=off"));
    let server = blocking(move || {
        server.execute("ALTER SYSTEM SET fsync = on");
        server.execute("SELECT pg_reload_conf()");
        server
    })
    .await;
    let url = server.url();
    let address = url.strip_suffix("/postgres").expect("its database");
    assert!(why(&format!("{address}/latin")).await.contains("LATIN1"));
    let server = blocking(move || {
        server.execute("CREATE ROLE me LOGIN SUPERUSER PASSWORD 'right'");
        let access = "COPY (VALUES ('local all all trust'), ('host all me 127.0.0.1/32 scram-sha-256'),
            ('host all all 127.0.0.1/32 trust'), ('host replication all 127.0.0.1/32 trust')) TO '{}/pg_hba.conf'";
        server.execute(&access.replace("{}", &server.execute("SHOW data_directory")));
        server.execute("SELECT pg_reload_conf()");
        server
    })
    .await;
    let with = |password: &str| server.url().replace("postgres@", &format!("me:{password}@"));
    eventually("passwords are asked for", || async { !succeeds(&with("hunter2")).await }).await;
    let detail = why(&with("hunter2")).await;
    assert!(detail.contains("authentication failed"), "{detail}");
    let store = open(&with("right")).await;
    must_commit(&store, next(&key("a"), 0)).await;
    let (server, standby) = blocking(move || {
        let standby = server.standby(Replication::Asynchronous);
        (server, standby)
    })
    .await;
    assert!(why(&standby.url()).await.contains("standby"));
    // Switched off later, it is noticed.
    let server = blocking(move || {
        server.execute("ALTER SYSTEM SET fsync = off");
        server.execute("SELECT pg_reload_conf()");
        server
    })
    .await;
    eventually("it is noticed", || async { store.ping().await.is_err() }).await;
    drop((server, standby));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_cannot_be_reached_is_named_without_the_password() {
    let database = database().await;
    let name = database.name();
    execute(&database, format!("CREATE ROLE {name} LOGIN PASSWORD 'right'")).await;
    let url = database.url();
    let (_, address) = url.split_once('@').expect("the shared server's URL names a user");
    let absent = url.replace(name, "no_such_database");
    assert!(why(&absent).await.contains("no_such_database"));
    assert!(why(&format!("postgres://no_such_role:hunter2@{address}")).await.contains("no_such_role"));
    let detail = why("postgres://me:hunter2@no-such-host.invalid/db").await;
    assert!(!detail.is_empty());
    let closed = {
        let proxy = Proxy::start(address.split('/').next().expect("a host").parse().expect("an address"));
        proxy.address()
    };
    let detail = why(&format!("postgres://me:hunter2@{closed}/db")).await;
    assert!(detail.contains("refused"), "{detail}");
    execute(&database, format!("DROP ROLE {name}")).await;
}

/// A host that says nothing does not use up the time of the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_host_is_passed_over() {
    let database = database().await;
    let url = database.url();
    let (_, address) = url.split_once('@').expect("the shared server's URL names a user");
    let (server, name) = address.split_once('/').expect("and a database");
    let silent = Proxy::start(server.parse().expect("an address"));
    silent.stall();
    let begun = Instant::now();
    let both = format!("postgres://postgres@{},{server}/{name}", silent.address());
    let store = open_with(impatient(&both)).await;
    must_commit(&store, next(&key("a"), 0)).await;
    assert!(begun.elapsed() < SHORT * 3, "{:?}", begun.elapsed());
    // The next connection begins with the one that answered.
    let before = silent.connections();
    let reads = join_all((0..10).map(|_| async { version(&store, &key("a")).await })).await;
    assert_eq!((reads, silent.connections()), (vec![1; 10], before));
    let alone = why(&format!("postgres://postgres:hunter2@{}/{name}", silent.address())).await;
    assert!(alone.contains("no answer"), "{alone}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_cluster_behind_the_same_address_is_refused() {
    let database = database().await;
    let url = database.url();
    let (_, address) = url.split_once('@').expect("the shared server's URL names a user");
    let (server, name) = address.split_once('/').expect("and a database");
    let proxy = Proxy::start(server.parse().expect("an address"));
    let other = blocking(Postgres::start_unrelated).await;
    let made = name.to_owned();
    let other = blocking(move || {
        other.database(&made);
        other
    })
    .await;
    let store = open_with(impatient(&format!("postgres://postgres@{}/{name}", proxy.address()))).await;
    must_commit(&store, next(&key("a"), 0)).await;
    proxy.retarget(other.address());
    proxy.cut_clients();
    eventually("it is noticed", || async {
        match store.read(&key("a")).await {
            Err(error) => error.to_string().contains("another database cluster"),
            Ok(_) => false,
        }
    })
    .await;
    proxy.retarget(server.parse().expect("an address"));
    assert_eq!(version(&store, &key("a")).await, 1);
}

/// A dump that is put back is another history, on the same server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_were_restored_are_another_life() {
    let database = database().await;
    let store = open(&database.url()).await;
    must_commit(&store, next(&key("a"), 0)).await;
    let before = store.read(&key("a")).await.expect("an answer").expect("a record");
    // As a restored dump has it: the same rows in new tables.
    let restore = "CREATE TABLE lockkeeper.restored (LIKE lockkeeper.records INCLUDING ALL);
        INSERT INTO lockkeeper.restored OVERRIDING SYSTEM VALUE SELECT * FROM lockkeeper.records;
        DROP TABLE lockkeeper.records CASCADE; ALTER TABLE lockkeeper.restored RENAME TO records";
    execute(&database, restore).await;
    let functions = "SELECT proname FROM pg_proc WHERE pronamespace = 'lockkeeper'::regnamespace ORDER BY 1";
    assert!(execute(&database, functions).await.contains("commit_one"));
    let after = store.read(&key("a")).await.expect("an answer").expect("a record");
    assert_eq!((after.version, after.life > before.life), (1, true));
    let mut stale = next(&key("a"), 1);
    stale.life = Some(before.life);
    let told = store.commit(stale).await;
    assert!(matches!(told, Ok(Verdict::Lost(Some(_)))), "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opening_what_is_there_is_quick() {
    let database = database().await;
    open(&database.url()).await.close().await;
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let begun = Instant::now();
        let store = open(&database.url()).await;
        best = best.min(begun.elapsed());
        store.close().await;
    }
    assert!(best < Duration::from_millis(500), "{best:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_was_dropped_leaves_no_session() {
    let database = database().await;
    let store = open(&database.url()).await;
    must_commit(&store, next(&key("a"), 0)).await;
    store.list(&query(ListOrder::Id)).await.expect("an answer");
    drop(store);
    let sessions =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    eventually("all sessions end", || async { execute(&database, sessions).await == "0" }).await;
    assert!(options(&database.url()).connections > 4);
}
