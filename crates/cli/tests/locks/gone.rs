//! `lock run` itself is killed or stopped (L17): its command is gone before the next one has the lock.

use tokio::task::block_in_place;

use crate::overlap::{holder, successor};
use crate::support::world::{World, in_both_worlds};

async fn killed(world: World) {
    block_in_place(|| {
        let dir = world.store.dir();
        let mut holder = holder(dir, world.node(0).url());
        holder.child.kill().unwrap();
        successor(dir, world.node(1).url());
        holder.mark.assert_gone();
    });
}

async fn stopped(world: World) {
    block_in_place(|| {
        let dir = world.store.dir();
        let holder = holder(dir, world.node(0).url());
        holder.signal("STOP");
        successor(dir, world.node(1).url());
        holder.signal("CONT");
        let said = holder.end();
        assert!(said.failed(76).contains("lost: the lock r was lost"), "{said:?}");
    });
}

in_both_worlds!(killed, stopped);
