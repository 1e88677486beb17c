//! How commands end, and what they leave behind.

use std::time::Duration;

use crate::holder::{Holding, LOST};
use lockkeeper_locks::{Clock, SystemClock};

#[test]
fn the_commands_own_code_is_ours() {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("kill -TERM $$", 143)] {
        assert_eq!(Holding::script(script).run().0, Some(code), "{script}");
    }
}

#[test]
fn a_command_that_cannot_run_is_told_as_shells_tell_it() {
    assert_eq!(Holding::command(&["/no/such/command"]).run().0, Some(127));
    assert_eq!(Holding::command(&["/etc/passwd"]).run().0, Some(126));
}

#[test]
fn what_is_left_of_its_group_is_ended() {
    let script = "sleep 1000 & (sleep 1000 & sleep 1000 &) ; sleep 1000 | sleep 1000 & exit 3";
    assert_eq!(Holding::script(script).run().0, Some(3));
}

#[test]
fn what_has_left_its_group_is_ended_too() {
    let script = "setsid sh -c 'trap \"\" TERM HUP; sleep 1000; sleep 1000' & setsid setsid sleep 1000 & exit 4";
    assert_eq!(Holding::script(script).run().0, Some(4));
}

#[test]
fn a_command_that_is_told_to_end_has_time_for_it() {
    let mut holder = Holding::script("trap 'exit 9' TERM; echo ready >&2; while :; do sleep 0.01; done").start();
    holder.signal("TERM");
    assert_eq!(holder.wait(), Some(9));
}

#[test]
fn other_signals_are_passed_on_as_they_are() {
    for name in ["INT", "HUP", "QUIT", "USR1", "USR2"] {
        let script = format!("trap 'exit 11' {name}; echo ready >&2; while :; do sleep 0.01; done");
        let mut holder = Holding::script(&script).start();
        holder.signal(name);
        assert_eq!(holder.wait(), Some(11), "{name}");
    }
}

#[test]
fn signals_that_were_ignored_stay_ignored() {
    // As under nohup(1): the command has it so too, and a shell cannot trap what was ignored when it started.
    let script = "echo ready >&2; kill -HUP $$; kill -HUP $PPID; exit 5";
    let nohup = "trap '' HUP; exec \"$@\"";
    let holding = Holding::script(script).under(&["sh", "-c", nohup, "nohup"]);
    assert_eq!(holding.run().0, Some(5));
}

#[test]
fn without_renewals_it_ends_before_the_deadline() {
    let scripts = [
        "echo ready >&2; sleep 1000",
        "echo ready >&2; sleep 1000 | sleep 1000",
        "trap '' TERM; echo ready >&2; while :; do sleep 0.01; done",
        "echo ready >&2; kill -STOP $$",
        "sh -c 'sh -c \"echo ready >&2; kill -STOP \\$\\$; sleep 1000\"; sleep 1000'; sleep 1000",
        "setsid sh -c 'echo ready >&2; sleep 1000'; sleep 1000",
    ];
    let holders: Vec<_> = scripts.map(|script| Holding::script(script).without_renewals().start()).into();
    for (mut holder, script) in holders.into_iter().zip(scripts) {
        let but = [holder.pid()];
        holder.mark.await_gone(&but);
        assert!(SystemClock.now() < holder.valid_until, "{script}: gone too late");
        assert_eq!(holder.wait(), Some(LOST), "{script}");
    }
}

#[test]
fn with_renewals_it_lives_on() {
    let mut holder = Holding::script("echo ready >&2; read line; exit 6").start();
    // Beyond the first deadline.
    for _ in 0..4 {
        holder.await_renewal();
    }
    assert_eq!(holder.wait(), Some(6));
}

#[test]
fn an_end_that_is_ordered_is_sigterm_then_sigkill() {
    let at_most = Duration::from_millis(100);
    let gentle = Holding::script("trap 'exit 8' TERM; while :; do sleep 0.01; done").at_most(at_most);
    assert_eq!(gentle.run().0, Some(8));
    let deaf = Holding::script("trap '' TERM; while :; do sleep 0.01; done").at_most(at_most);
    assert_eq!(deaf.run().0, Some(137));
}
