//! What a shell wants: completion, help, a version, pipes that end early.

use std::process::Stdio;

use crate::begin;
use crate::support::program::command;
use crate::support::server::Store;

#[test]
fn completion_scripts_name_the_commands() {
    let store = Store::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = store.cli().run(&["completion", shell]);
        for word in ["terminate", "explain", "completion", "--until-closed", "--at-least"] {
            let word = if shell == "fish" { word.trim_start_matches("--") } else { word };
            assert!(script.ok().contains(word), "{shell} does not complete {word}");
        }
    }
    assert_eq!(store.cli().run(&["completion", "cmd"]).code, Some(2));
}

#[test]
fn help_and_version_are_there_without_a_server() {
    let store = Store::new();
    let version = store.cli().run(&["--version"]);
    assert_eq!(version.ok(), format!("lockkeeper {}", env!("CARGO_PKG_VERSION")));
    let help = store.cli().run(&["--help"]);
    for name in [
        "serve",
        "apply",
        "show",
        "start",
        "send",
        "approval",
        "delegate",
        "add-approver",
        "recall",
        "get",
        "list",
        "history",
        "watch",
        "explain",
        "terminate",
        "cancel",
        "lock",
        "token",
        "completion",
        "bench",
    ] {
        assert!(help.ok().contains(&format!("  {name} ")), "{name} is not in the help");
        let said = store.cli().run(&[name, "--help"]);
        assert!(said.ok().contains("Usage: lockkeeper"), "{name}: {said:?}");
    }
}

/// `lockkeeper history ... | head -1`
#[test]
fn a_reader_that_leaves_is_no_fault() {
    let (store, server, cli) = begin("stock");
    let data = format!(r#"{{"on_hand": 1, "text": "{}"}}"#, "x".repeat(60_000));
    for id in 0..8 {
        cli.run_with(&["start", &format!("stock/{id}"), "--data", "-"], &data).ok();
    }
    let mut command = command(store.dir());
    command.args(["list", "stock", "-o", "json"]).env("LOCKKEEPER_URL", server.url());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
