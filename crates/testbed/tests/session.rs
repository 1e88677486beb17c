//! Sessions hold what they have locked, and lose it when they end.

use lockkeeper_testbed::{PgBouncer, Postgres, Proxy, Session, StopMode};

const LOCK: &str = "SELECT n FROM locked FOR UPDATE NOWAIT";

fn server() -> Postgres {
    let server = Postgres::start();
    server.execute("CREATE TABLE locked (n int); INSERT INTO locked VALUES (1)");
    server
}

#[test]
fn a_lock_is_met_by_others_until_its_session_ends() {
    let server = server();
    let (holder, other) = (server.session(), server.session());
    holder.execute("BEGIN;");
    assert_eq!(holder.execute(LOCK), "1");
    let error = other.try_execute(LOCK).unwrap_err();
    assert!(error.contains("could not obtain lock"), "{error}");
    other.send("SELECT n FROM locked FOR UPDATE");
    other.wait_until_blocked();
    holder.execute("COMMIT");
    assert_eq!(other.answer().unwrap(), "1");
    holder.execute("BEGIN");
    holder.execute(LOCK);
    drop(holder);
    assert_eq!(other.execute(LOCK), "1", "closed is rolled back");
}

#[test]
fn a_session_says_when_it_is_over() {
    let mut server = server();
    let session = server.session();
    let pid = session.pid();
    assert_eq!(server.execute(&format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}")), "1");
    server.stop(StopMode::Immediate);
    let error = session.try_execute("SELECT 1").unwrap_err();
    assert!(error.contains("connection"), "{error}");
}

#[test]
fn a_paused_server_is_silent_and_goes_on() {
    let server = server();
    let session = server.session();
    server.pause();
    session.send("INSERT INTO locked VALUES (2)");
    std::thread::sleep(std::time::Duration::from_millis(100));
    server.resume();
    session.answer().unwrap();
    assert_eq!(server.execute("SELECT count(*) FROM locked"), "2");
}

#[test]
fn a_pool_shares_its_connections() {
    let server = server();
    let pool = PgBouncer::start_with(server.address(), 1);
    let sessions = [(); 3].map(|()| Session::open(&pool.url("postgres")));
    let pids: Vec<String> = sessions.iter().map(|session| session.execute("SELECT pg_backend_pid()")).collect();
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    let other = PgBouncer::start(&server);
    assert_ne!(other.port(), pool.port());
    server.database("more");
    let session = Session::open(&other.url("more"));
    assert_eq!(session.execute("SELECT current_database()"), "more");
}

/// What an old connection has sent takes effect after the client has lost it.
#[test]
fn a_commit_arrives_after_its_client_is_gone() {
    let server = server();
    let proxy = Proxy::start(server.address());
    let session = Session::open(&format!("postgres://postgres@{}/postgres", proxy.address()));
    session.execute("BEGIN; INSERT INTO locked VALUES (2)");
    proxy.hold_requests();
    session.send("COMMIT");
    // Nothing tells when it is in the proxy.
    std::thread::sleep(std::time::Duration::from_millis(200));
    proxy.cut_clients();
    assert!(session.answer().is_err());
    assert_eq!(server.execute("SELECT count(*) FROM locked"), "1");
    proxy.resume();
    let count = || server.execute("SELECT count(*) FROM locked");
    let begun = std::time::Instant::now();
    while count() != "2" {
        assert!(begun.elapsed().as_secs() < 20, "the commit does not arrive");
    }
}
