//! Backups and restores that are ended before their end.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;
use tokio::task::block_in_place;

use crate::support::program::command;
use crate::support::server::Store;
use crate::targets::{mode, with_instances};

/// What is in a folder, but for a store's log, which may stay and may not.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.filter(|name| !name.ends_with("-wal") && !name.ends_with("-shm")).collect();
    names.sort();
    names
}

/// A backup that waits for a server which never answers: returned once it has asked.
fn waiting(folder: &Path, silent: &TcpListener) -> (Child, std::net::TcpStream) {
    let mut command = command(folder);
    command.args(["backup", "monday", "--url", &format!("http://{}", silent.local_addr().unwrap())]);
    // Whoever runs the tests in the background may have these ignored, and so would have the child.
    let mut ending = Command::new("env");
    ending.args(["--default-signal=INT,TERM,HUP", "--"]).arg(command.get_program()).args(command.get_args());
    ending.current_dir(folder);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => ending.env(name, value),
            None => ending.env_remove(name),
        };
    }
    let child = ending.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    (child, silent.accept().unwrap().0)
}

#[test]
fn ended_by_a_signal_it_leaves_nothing_and_killed_it_is_cleared_away_by_the_next() {
    let store = Store::new();
    let folder = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let (mut child, _asked) = waiting(folder.path(), &silent);
        assert_eq!(names(folder.path()).len(), 1, "the file in the making");
        let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
        assert_eq!(names(folder.path()), [""; 0], "{signal}");
    }
    let (mut killed, _asked) = waiting(folder.path(), &silent);
    let (mut at_work, _asked_too) = waiting(folder.path(), &silent);
    let [first, second] = &names(folder.path())[..] else { panic!("two are being made") };
    for made in [first, second] {
        let made = folder.path().join(made);
        assert_eq!((mode(&made), mode(&made.join("backup"))), (0o700, 0o600));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    drop(store.serve());
    let file = folder.path().join("monday").display().to_string();
    store.cli().run(&["backup", &file, "--store", &store.url()]).ok();
    let left = names(folder.path());
    assert!(left.len() == 2 && left.contains(&"monday".to_owned()), "that of the one at work stays: {left:?}");
    at_work.kill().unwrap();
    at_work.wait().unwrap();
}

/// As a server leaves it that is killed while it makes a backup: the lock in it is nobody's any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_server_has_left_goes() {
    let store = Store::new();
    let left = |name: &str| -> PathBuf {
        let left = store.dir().join(format!(".lockkeeper-backup-{name}"));
        fs::create_dir(&left).unwrap();
        // The lock last: a folder without one is nobody's only once it is old, and the server's own sweep may be going on.
        for file in ["backup", "lock"] {
            File::create(left.join(file)).unwrap();
        }
        left
    };
    let before = left("before");
    let server = block_in_place(|| store.serve());
    // The sweep at the start is nobody's to wait for; the one before a backup is.
    let meanwhile = left("meanwhile");
    let file = store.dir().join("monday").display().to_string();
    block_in_place(|| server.cli().run(&["backup", &file]).ok().to_owned());
    assert!(!before.exists() && !meanwhile.exists(), "{:?}", names(store.dir()));
    assert!(!names(store.dir()).iter().any(|name| name.starts_with(".lockkeeper-backup-")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_may_not_grow_is_an_error_and_not_the_end() {
    let store = Store::new();
    with_instances(&store, &["a"]).await;
    let limited = |arguments: &str| {
        let shell = format!("ulimit -f 16; exec {} {arguments}", env!("CARGO_BIN_EXE_lockkeeper"));
        Command::new("bash").args(["-c", &shell]).current_dir(store.dir()).output().unwrap()
    };
    let before = names(store.dir());
    let output = limited(&format!("backup monday --store {}", store.url()));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(names(store.dir()), before);
}

/// Each moment at which `restore --replace` may be killed, as it leaves the files then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_that_is_killed_anywhere_is_no_obstacle() {
    let source = Store::new();
    with_instances(&source, &["new"]).await;
    let file = source.dir().join("monday").display().to_string();
    source.cli().run(&["backup", &file, "--store", &source.url()]).ok();
    type Moment = fn(&Path);
    let moments: [(&str, Moment); 3] = [
        ("while the new file is written", |target| {
            fs::write(beside(target, ".restoring"), "half").unwrap();
            fs::write(beside(target, ".restoring-journal"), "half").unwrap();
        }),
        ("while the old file has two names", |target| {
            fs::write(beside(target, ".restoring"), "whole").unwrap();
            fs::hard_link(target, beside(target, ".replaced-1790000000000")).unwrap();
        }),
        ("twice", |target| {
            fs::hard_link(target, beside(target, ".replaced-1790000000000")).unwrap();
            fs::hard_link(target, beside(target, ".replaced-1790000000001")).unwrap();
        }),
    ];
    for (name, killed) in moments {
        let target = Store::new();
        with_instances(&target, &["old"]).await;
        let clean = names(target.dir());
        killed(&target.file());
        let server = block_in_place(|| target.serve());
        server.api().instance("counter", "old").await;
        block_in_place(|| server.stop());
        assert_eq!(names(target.dir()), clean, "{name}");
        killed(&target.file());
        let url = target.url();
        block_in_place(|| target.cli().run(&["restore", &file, "--store", &url, "--replace"]).ok().to_owned());
        let kept = names(target.dir()).iter().filter(|name| name.contains(".replaced-")).count();
        assert_eq!(kept, 1, "{name}: {:?}", names(target.dir()));
        let server = block_in_place(|| target.serve());
        server.api().instance("counter", "new").await;
        block_in_place(|| server.stop());
    }
    // Any other second name is none of ours.
    let target = Store::new();
    with_instances(&target, &["old"]).await;
    fs::hard_link(target.file(), beside(&target.file(), ".replaced-by-me")).unwrap();
    let said = target.cli().run(&["backup", &file, "--store", &target.url()]);
    assert!(said.failed(1).contains("hard links"), "{said:?}");
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_store_is_as_readable_as_the_one_it_replaces_or_as_a_new_one() {
    let source = Store::new();
    with_instances(&source, &["a"]).await;
    let made = mode(&source.file());
    let file = source.dir().join("monday").display().to_string();
    source.cli().run(&["backup", &file, "--store", &source.url()]).ok();
    let target = Store::new();
    let restore = |more: &[&str]| {
        let url = target.url();
        target.cli().run(&[&["restore", &file, "--store", &url], more].concat()).ok().to_owned()
    };
    restore(&[]);
    assert_eq!(mode(&target.file()), made, "as serve has made the other one");
    for wanted in [0o600, 0o640] {
        fs::set_permissions(target.file(), fs::Permissions::from_mode(wanted)).unwrap();
        restore(&["--replace"]);
        assert_eq!(mode(&target.file()), wanted);
    }
    let server = block_in_place(|| target.serve());
    assert_eq!(server.api().instance("counter", "a").await["data"], json!({ "n": 0 }));
}
