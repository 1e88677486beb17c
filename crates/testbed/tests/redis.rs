//! Redis: what the testbed starts, breaks and ends.

use lockkeeper_testbed::{Redis, Reply};

#[test]
fn a_server_answers_counts_and_forgets() {
    let mut server = Redis::start();
    assert_eq!(server.command(&["SET", "key", "välue"]).text().as_deref(), Some("OK"));
    assert_eq!(server.command(&["GET", "key"]).text().as_deref(), Some("välue"));
    assert_eq!(server.command(&["GET", "none"]), Reply::Nil);
    assert_eq!(server.calls("get"), 2);
    let life = server.info("run_id");
    server.restart();
    assert_ne!(server.info("run_id"), life);
    assert_eq!(server.command(&["EXISTS", "key"]).int(), Some(0));
}

#[test]
fn what_is_on_disk_outlives_a_kill_unless_it_is_emptied() {
    let mut server = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    server.command(&["RPUSH", "list", "a", "b"]);
    server.kill();
    server.restart();
    assert_eq!(server.command(&["LRANGE", "list", "0", "-1"]).texts(), Some(vec!["a".to_owned(), "b".to_owned()]));
    server.restart_empty();
    assert_eq!(server.command(&["EXISTS", "list"]).int(), Some(0));
}

#[test]
fn a_replica_has_what_its_master_has_and_takes_over() {
    let mut master = Redis::start();
    master.command(&["SET", "key", "value"]);
    let replica = master.replica();
    assert_eq!(replica.command(&["GET", "key"]).text().as_deref(), Some("value"));
    assert!(replica.try_command(&["SET", "key", "other"]).is_err_and(|error| error.starts_with("READONLY")));
    master.kill();
    replica.promote();
    replica.command(&["SET", "key", "other"]);
}

#[test]
fn a_clock_stands_still_and_jumps_and_expiry_goes_by_it() {
    let server = Redis::start_with_clock();
    let time = || server.command(&["EVAL", "return redis.call('TIME')", "0"]).texts().expect("a list");
    server.set_clock(2_000_000_000_123);
    assert_eq!(time(), ["2000000000", "123000"]);
    server.command(&["SET", "key", "value", "PX", "60000"]);
    assert_eq!(time(), ["2000000000", "123000"]);
    server.set_clock(2_000_000_060_124);
    assert_eq!(server.command(&["GET", "key"]), Reply::Nil);
}
