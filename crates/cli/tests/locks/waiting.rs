//! One after another.

use tokio::task::block_in_place;

use crate::runner::{Runner, await_file, poll};
use crate::support::world::{World, in_both_worlds};

/// How many wait for the only lock.
fn waiters(world: &World) -> Option<u64> {
    world.cli(0).run(&["lock", "ls", "-o", "json"]).json()["items"][0]["waiters"].as_u64()
}

fn await_waiters(world: &World, count: u64) {
    poll("those who wait", || (waiters(world) == Some(count)).then_some(()));
}

async fn the_second_waits_for_the_first(world: World) {
    block_in_place(|| {
        let dir = world.store.dir();
        let holding = "echo $LOCKKEEPER_FENCE >first; while [ ! -e go ]; do sleep 0.01; done; echo 1 >>order";
        let first = Runner::script(dir, world.node(0).url(), &["r"], holding);
        await_file(&dir.join("first"));
        let waiting = "echo $LOCKKEEPER_FENCE >second; echo 2 >>order";
        let second = Runner::script(dir, world.node(1).url(), &["r", "--wait", "25s"], waiting);
        await_waiters(&world, 1);
        std::fs::write(dir.join("go"), "").unwrap();
        first.end().ok();
        second.end().ok();
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
        assert_eq!(read("order"), "1\n2\n");
        let fence = |name: &str| -> i64 { read(name).trim().parse().unwrap() };
        assert!(fence("first") < fence("second"), "fences grow");
    });
}

async fn who_does_not_get_it_in_time_leaves_the_queue(world: World) {
    block_in_place(|| {
        let dir = world.store.dir();
        let script = "touch held; while [ ! -e go ]; do sleep 0.01; done";
        let first = Runner::script(dir, world.node(0).url(), &["r"], script);
        await_file(&dir.join("held"));
        let second = Runner::start(dir, world.node(1).url(), &["r", "--wait", "300ms", "--", "true"]);
        let said = second.end();
        assert!(said.failed(75).contains("lock_timeout (LK0012): r is held by "), "{said:?}");
        assert_eq!(waiters(&world), Some(0));
        std::fs::write(dir.join("go"), "").unwrap();
        first.end().ok();
    });
}

async fn whoever_is_told_to_stop_while_it_waits_leaves_the_queue(world: World) {
    block_in_place(|| {
        let dir = world.store.dir();
        let script = "touch held; while [ ! -e go ]; do sleep 0.01; done";
        let first = Runner::script(dir, world.node(0).url(), &["r"], script);
        await_file(&dir.join("held"));
        for (name, code) in [("TERM", 143), ("INT", 130)] {
            let second = Runner::start(dir, world.node(1).url(), &["r", "--wait", "25s", "--", "true"]);
            await_waiters(&world, 1);
            second.signal(name);
            second.end().failed(code);
            assert_eq!(waiters(&world), Some(0), "{name}");
        }
        // Killed, it says nothing; but its connection is gone.
        let second = Runner::start(dir, world.node(1).url(), &["r", "--wait", "25s", "--", "true"]);
        await_waiters(&world, 1);
        drop(second);
        await_waiters(&world, 0);
        std::fs::write(dir.join("go"), "").unwrap();
        first.end().ok();
    });
}

in_both_worlds!(
    the_second_waits_for_the_first,
    who_does_not_get_it_in_time_leaves_the_queue,
    whoever_is_told_to_stop_while_it_waits_leaves_the_queue,
);
