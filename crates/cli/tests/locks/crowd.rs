//! Many at once: one has it.

use tokio::task::block_in_place;

use crate::runner::{Runner, poll};
use crate::support::world::{World, in_both_worlds};

const CROWD: usize = 50;

async fn of_fifty_at_once_one_runs(world: World) {
    block_in_place(|| {
        let dir = world.store.dir();
        let script = "echo ran >>ran; while [ ! -e go ]; do sleep 0.01; done";
        let start =
            |number: usize| Runner::script(dir, world.node(number).url(), &["nightly report", "--nowait"], script);
        let mut all: Vec<Runner> = (0..CROWD).map(start).collect();
        poll("the others to leave", || {
            let left = all.iter_mut().filter_map(|one| one.ended().then_some(())).count();
            (left == CROWD - 1).then_some(())
        });
        std::fs::write(dir.join("go"), "").unwrap();
        let holder = all.iter_mut().position(|one| !one.ended()).unwrap();
        for (number, one) in all.into_iter().enumerate() {
            let said = one.end();
            if number == holder {
                said.ok();
            } else {
                let told = said.failed(75);
                assert!(told.contains("held (LK0011): nightly report is held by "), "{told}");
                assert!(told.contains(" on ") && told.contains(" since 20"), "host and time: {told}");
            }
        }
        assert_eq!(std::fs::read_to_string(dir.join("ran")).unwrap(), "ran\n");
    });
}

in_both_worlds!(of_fifty_at_once_one_runs);
