//! A person at a terminal: the command has it while it runs, and whoever started it has it again afterwards.

use crate::holder::Holding;

/// Reads a line and says it.
const READER: &str = "echo ready; read line; echo \"command: $line\"; exit 9";

#[test]
fn the_command_reads_from_the_terminal_and_the_shell_does_again() {
    let shell = "$HOLD; read line; echo \"shell: $line\"";
    let shown = Holding::script(READER).in_a_terminal(shell, &[("ready", "one\ntwo\n")]);
    assert!(shown.contains("command: one") && shown.contains("shell: two"), "{shown}");
}

#[test]
fn in_a_pipeline_it_has_the_terminal_once_it_asks_for_it() {
    let shell = "$HOLD | cat; read line; echo \"shell: $line\"";
    let shown = Holding::script(READER).in_a_terminal(shell, &[("ready", "one\ntwo\n")]);
    assert!(shown.contains("command: one") && shown.contains("shell: two"), "{shown}");
}

#[test]
fn who_was_stopped_for_want_of_the_terminal_and_has_it_by_now_goes_on() {
    let reader = format!("kill -s TTIN $$; {READER}");
    let shown = Holding::script(&reader).in_a_terminal("$HOLD; echo \"code: $?\"", &[("ready", "one\n")]);
    assert!(shown.contains("command: one") && shown.contains("code: 9"), "{shown}");
}

#[test]
fn ctrl_c_is_for_the_command() {
    let holding = Holding::script("trap 'exit 7' INT; echo ready; while :; do sleep 0.01; done");
    // A shell that waits for somebody who was interrupted too would end.
    let shown = holding.in_a_terminal("$HOLD; echo \"code: $?\"", &[("ready", "\u{3}")]);
    assert!(shown.contains("code: 7"), "{shown}");
}

#[test]
fn ctrl_c_reaches_a_command_that_has_not_the_terminal() {
    let holding = Holding::script("trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.01; done");
    let shown = holding.in_a_terminal("trap : INT; $HOLD | (trap : INT; cat; cat)", &[("ready", "\u{3}")]);
    assert!(shown.contains("interrupted"), "{shown}");
}

#[test]
fn ctrl_z_stops_it_until_it_is_continued() {
    let shell = "set -m; $HOLD; echo \"stopped: $?\"; fg; echo \"code: $?\"";
    let shown = Holding::script(READER).in_a_terminal(shell, &[("ready", "\u{1a}"), ("stopped: 1", "one\n")]);
    // 128 and SIGSTOP.
    assert!(shown.contains("stopped: 147"), "{shown}");
    assert!(shown.contains("command: one") && shown.contains("code: 9"), "{shown}");
}
