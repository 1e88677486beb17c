//! `--at-least` and `--at-most`.

use std::time::{Duration, Instant};

use tokio::task::block_in_place;

use crate::runner::{Runner, await_file};
use crate::support::world::{World, in_both_worlds};

async fn at_least_keeps_the_lock_after_the_command(world: World) {
    block_in_place(|| {
        let dir = world.store.dir();
        let begin = Instant::now();
        let first = Runner::script(dir, world.node(0).url(), &["r", "--at-least", "3s"], "touch done; exit 3");
        await_file(&dir.join("done"));
        // A machine whose clock is behind starts the same job.
        let second = Runner::start(dir, world.node(1).url(), &["r", "--nowait", "--", "true"]);
        second.end().failed(75);
        assert_eq!(first.end().code, Some(3), "the command's own code");
        assert!(begin.elapsed() >= Duration::from_secs(3), "{:?}", begin.elapsed());
        Runner::start(dir, world.node(1).url(), &["r", "--nowait", "--", "true"]).end().ok();
    });
}

async fn at_most_ends_the_command(world: World) {
    block_in_place(|| {
        let dir = world.store.dir();
        let at_most = ["r", "--at-most", "300ms"];
        let slow = Runner::script(dir, world.node(0).url(), &at_most, "sleep 1000 | sleep 1000");
        assert_eq!(slow.end().code, Some(124));
        let quick = Runner::script(dir, world.node(0).url(), &["r", "--at-most", "25s"], "exit 2");
        assert_eq!(quick.end().code, Some(2));
        Runner::start(dir, world.node(1).url(), &["r", "--nowait", "--", "true"]).end().ok();
    });
}

in_both_worlds!(at_least_keeps_the_lock_after_the_command, at_most_ends_the_command);
