//! `lock run` or its watchdog is killed or stopped.

use crate::holder::{Holder, Holding, LOST, signal};
use lockkeeper_locks::{Clock, SystemClock};

/// A pipeline with a child that ignores SIGTERM, and one that has left the group.
fn pipeline() -> Holder {
    let script = "setsid sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' &
        (trap '' TERM; while :; do sleep 0.01; done) | cat | (echo ready >&2; sleep 1000)";
    Holding::script(script).start()
}

#[test]
fn killed_its_command_is_ended_at_once() {
    let mut holder = pipeline();
    holder.child.kill().unwrap();
    holder.mark.await_gone(&[]);
    assert!(SystemClock.now() < holder.valid_until, "gone too late");
}

#[test]
fn stopped_its_command_is_ended_before_the_deadline() {
    let mut holder = pipeline();
    holder.await_renewal();
    holder.signal("STOP");
    // The watchdog waits until somebody has heard its report.
    holder.mark.await_gone(&[holder.pid(), holder.mark.watchdog()]);
    let gone_at = SystemClock.now();
    holder.signal("CONT");
    // The last deadline that it has sent may not have been read yet.
    holder.read_rest();
    assert!(gone_at < holder.valid_until, "gone too late");
    assert_eq!(holder.wait(), Some(LOST), "it hears of it");
}

#[test]
fn a_command_without_its_watchdog_is_ended() {
    let mut holder = pipeline();
    signal("KILL", holder.mark.watchdog());
    assert_eq!(holder.wait(), Some(143));
    holder.mark.assert_gone();
}

#[test]
fn a_watchdog_that_does_nothing_is_not_waited_for() {
    let mut holder =
        Holding::script("trap '' TERM; echo ready >&2; while :; do sleep 0.01; done").without_renewals().start();
    signal("STOP", holder.mark.watchdog());
    let but = [holder.pid()];
    holder.mark.await_gone(&but);
    assert!(SystemClock.now() < holder.valid_until, "gone too late");
    assert_eq!(holder.wait(), Some(LOST));
}

#[test]
fn a_stopped_command_is_ended_when_its_holder_dies() {
    let mut holder = Holding::script("echo ready >&2; kill -STOP $$").start();
    holder.child.kill().unwrap();
    holder.mark.await_gone(&[]);
}
