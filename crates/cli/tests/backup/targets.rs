//! Where backups and restores go, and what is there already.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tokio::task::block_in_place;

use crate::COUNTER;
use crate::support::server::Store;

pub(crate) async fn with_instances(store: &Store, ids: &[&str]) {
    let server = block_in_place(|| store.serve());
    let api = server.api();
    api.put("counter", COUNTER).await;
    for id in ids {
        api.start("counter", &json!({ "id": id, "data": { "n": 0 } })).await;
    }
    block_in_place(|| server.stop());
}

/// What may be done with a file, as `chmod` writes it.
pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

async fn what_is_there_is_replaced_only_if_asked(target: Store) {
    let store = Store::new();
    with_instances(&store, &["new"]).await;
    with_instances(&target, &["old"]).await;
    let file = store.dir().join("backup").display().to_string();
    let url = target.url();
    block_in_place(|| {
        // Straight from the file: its server is stopped.
        store.cli().run(&["backup", &file, "--store", &store.url(), "--verify"]).ok();
        let said = target.cli().run(&["restore", &file, "--store", &url]);
        assert!(said.failed(1).contains("--replace"), "{said:?}");
    });
    let server = block_in_place(|| target.serve());
    server.api().instance("counter", "old").await;
    block_in_place(|| server.stop());
    block_in_place(|| target.cli().run(&["restore", &file, "--store", &url, "--replace"]).ok().to_owned());
    let server = block_in_place(|| target.serve());
    server.api().instance("counter", "new").await;
    let gone = server.api().get("/v1/workflows/counter/instances/old").await;
    gone.problem(404, "unknown_instance");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_replaced_only_if_asked() {
    what_is_there_is_replaced_only_if_asked(Store::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_is_replaced_only_if_asked() {
    what_is_there_is_replaced_only_if_asked(Store::shared()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_room_the_old_backup_stays() {
    let store = Store::new();
    with_instances(&store, &["a"]).await;
    let file = store.dir().join("backup");
    let name = file.display().to_string();
    store.cli().run(&["backup", &name, "--store", &store.url()]).ok();
    let before = fs::read(&file).unwrap();
    // No file of this process may be larger than 16 KiB: as a full disk, from there on.
    let limited = |arguments: &str| {
        let shell = format!("trap '' XFSZ; ulimit -f 16; exec {} {arguments}", env!("CARGO_BIN_EXE_lockkeeper"));
        Command::new("bash").args(["-c", &shell]).current_dir(store.dir()).output().unwrap()
    };
    let output = limited(&format!("backup {name} --store {}", store.url()));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(fs::read(&file).unwrap(), before);
    let target = Store::new();
    let output = limited(&format!("restore {name} --store {}", target.url()));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(!target.file().exists(), "nothing that looks like a store is left");
    // Without a server there is nothing to replace it with.
    assert_eq!(store.cli().run(&["backup", &name]).code, Some(69));
    assert_eq!(fs::read(&file).unwrap(), before);
    let left: Vec<_> = fs::read_dir(store.dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".lockkeeper-backup-")), "{left:?}");
    // A running embedded store is not read behind its server's back.
    let server = store.serve();
    let said = store.cli().run(&["backup", &name, "--store", &store.url()]);
    assert!(said.failed(1).contains("in use"), "{said:?}");
    drop(server);
}

/// A backup has the tokens' hashes, and everybody's data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_for_its_owner_alone() {
    let store = Store::new();
    let server = block_in_place(|| store.serve());
    server.api().put("counter", COUNTER).await;
    let (asked, direct) = (store.dir().join("asked"), store.dir().join("direct"));
    block_in_place(|| server.cli().run(&["backup", &asked.display().to_string()]).ok().to_owned());
    block_in_place(|| server.stop());
    let name = direct.display().to_string();
    block_in_place(|| store.cli().run(&["backup", &name, "--store", &store.url()]).ok().to_owned());
    assert_eq!((mode(&asked), mode(&direct)), (0o600, 0o600));
    // Whoever keeps it may protect it: the store made of it can be written to.
    fs::set_permissions(&direct, fs::Permissions::from_mode(0o400)).unwrap();
    let target = Store::new();
    target.cli().run(&["restore", &name, "--store", &target.url()]).ok();
    assert_eq!(mode(&target.file()) & 0o200, 0o200);
}
