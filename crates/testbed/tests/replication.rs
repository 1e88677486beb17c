//! Standbys follow, take over, and keep what they must.

use std::time::{Duration, Instant};

use lockkeeper_testbed::{Postgres, Replication};

const WRITE: &str = "INSERT INTO kept SELECT coalesce(max(n), 0) + 1 FROM kept RETURNING n";
const COUNT: &str = "SELECT count(*) FROM kept";

fn primary() -> Postgres {
    let primary = Postgres::start();
    primary.execute("CREATE TABLE kept (n int)");
    primary
}

#[test]
fn a_standby_follows_and_takes_over() {
    let mut primary = primary();
    let standby = primary.standby(Replication::Asynchronous);
    assert_ne!(standby.port(), primary.port());
    primary.execute(WRITE);
    let begun = Instant::now();
    while standby.execute(COUNT) != "1" {
        assert!(begun.elapsed() < Duration::from_secs(20), "the change does not arrive");
    }
    let error = standby.try_execute(WRITE).unwrap_err();
    assert!(error.contains("read-only"), "{error}");
    primary.kill();
    standby.promote();
    assert_eq!(standby.execute(WRITE), "2");
}

#[test]
fn a_commit_waits_for_a_synchronous_standby() {
    let mut primary = primary();
    let mut standby = primary.standby(Replication::Synchronous);
    assert_eq!(primary.execute(WRITE), "1");
    standby.pause();
    let session = primary.session();
    session.send(WRITE);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(primary.execute(COUNT), "1", "the commit waits");
    standby.resume();
    session.answer().unwrap();
    primary.kill();
    standby.promote();
    assert_eq!(standby.execute(COUNT), "2");
    assert_eq!(standby.execute(WRITE), "3", "it waits for nobody");
    let next = standby.standby(Replication::Synchronous);
    standby.execute(WRITE);
    standby.kill();
    next.promote();
    assert_eq!(next.execute(COUNT), "4");
}
