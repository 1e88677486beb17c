//! Exit codes, and what the command finds.

use tokio::task::block_in_place;

use crate::runner::Runner;
use crate::support::server::Store;
use crate::support::world::{World, in_both_worlds};

async fn codes_are_the_commands_own(world: World) {
    block_in_place(|| {
        let run = |script: &str| Runner::script(world.store.dir(), world.node(0).url(), &["r"], script).end();
        assert_eq!(run("exit 0").code, Some(0));
        assert_eq!(run("exit 42").code, Some(42));
        assert_eq!(run("kill -KILL $$").code, Some(137));
        assert_eq!(run("sleep 1000 & setsid sleep 1000 & exit 9").code, Some(9));
        let start = |command: &str| {
            Runner::start(world.store.dir(), world.node(0).url(), &["r", "--nowait", "--", command]).end()
        };
        let missing = start("/no/such/command");
        assert!(missing.failed(127).contains("cannot run /no/such/command: "), "{missing:?}");
        assert!(start("/etc/passwd").failed(126).contains("cannot run /etc/passwd: "));
    });
}

async fn the_command_finds_its_lock_in_the_environment(world: World) {
    block_in_place(|| {
        let script = "echo \"$LOCKKEEPER_RESOURCE $LOCKKEEPER_FENCE $LOCKKEEPER_LEASE\"";
        let run = || Runner::script(world.store.dir(), world.node(0).url(), &["a b/c"], script).end().ok().to_owned();
        let (first, second) = (run(), run());
        let fence = |line: &str| -> i64 { line.rsplit(' ').nth(1).unwrap().parse().unwrap() };
        assert!(first.starts_with("a b/c ") && fence(&first) < fence(&second), "{first}, {second}");
        let lease = first.rsplit(' ').next().unwrap();
        assert_eq!(lease.len(), 32, "{lease}");
    });
}

async fn signals_reach_the_command(world: World) {
    block_in_place(|| {
        let dir = world.store.dir();
        let script = "trap 'exit 9' TERM; touch ready; while :; do sleep 0.01; done";
        let runner = Runner::script(dir, world.node(0).url(), &["r"], script);
        crate::runner::await_file(&dir.join("ready"));
        runner.signal("TERM");
        assert_eq!(runner.end().code, Some(9));
    });
}

in_both_worlds!(codes_are_the_commands_own, the_command_finds_its_lock_in_the_environment, signals_reach_the_command);

#[test]
fn without_a_server_nothing_runs() {
    let store = Store::new();
    for args in [&["r", "--nowait"][..], &["r", "--wait", "200ms"]] {
        let runner = Runner::script(store.dir(), "http://127.0.0.1:9", args, "touch ran");
        let said = runner.end();
        assert!(said.failed(69).contains("unavailable (LK0023): cannot reach http://127.0.0.1:9"), "{said:?}");
    }
    assert!(!store.dir().join("ran").exists());
}

#[test]
fn wrong_usage_is_two() {
    let store = Store::new();
    for args in
        [&["lock", "run", "r"][..], &["lock", "run", "r", "--ttl", "0s", "--", "true"], &["lock", "release", "r"]]
    {
        assert_eq!(store.cli().run(args).code, Some(2), "{args:?}");
    }
}
