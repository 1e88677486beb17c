//! `lock ls` and `lock release --force`.

use serde_json::json;
use tokio::task::block_in_place;

use crate::runner::{Runner, await_file};
use crate::support::world::{World, in_both_worlds};

async fn what_is_held_is_listed_and_can_be_taken(world: World) {
    block_in_place(|| {
        let (dir, cli) = (world.store.dir(), world.cli(1));
        assert_eq!(cli.run(&["lock", "ls"]).ok(), "");
        let holder = Runner::script(dir, world.node(0).url(), &["r/1", "--ttl", "3s"], "touch held; sleep 1000");
        await_file(&dir.join("held"));
        let listed = cli.run(&["lock", "ls"]);
        let table: Vec<&str> = listed.ok().lines().collect();
        assert!(table[0].starts_with("LOCK") && table[0].ends_with("WAITERS"), "{table:?}");
        assert!(table[1].starts_with("r/1") && table[1].contains("exclusive") && table[1].ends_with('0'), "{table:?}");
        let listed = cli.run(&["lock", "ls", "-o", "json"]).json();
        let shown = &listed["items"][0]["holders"][0];
        assert_eq!(
            (&listed["items"][0]["resource"], &shown["mode"], &shown["ttl_ms"]),
            (&json!("r/1"), &json!("exclusive"), &json!(3000))
        );
        assert!(shown["owner"].as_str().unwrap().ends_with(&format!(":{}", holder.child.id())), "{shown}");
        let taken = cli.run(&["lock", "release", "r/1", "--force"]);
        assert!(taken.ok().starts_with("released: r/1 was held by "), "{taken:?}");
        let said = holder.end();
        assert!(said.failed(76).contains("lost: the lock r/1 was lost"), "{said:?}");
        assert_eq!(cli.run(&["lock", "release", "r/1", "--force"]).ok(), "r/1 was not held");
        assert_eq!(cli.run(&["lock", "ls", "-o", "json"]).json()["items"], json!([]));
    });
}

in_both_worlds!(what_is_held_is_listed_and_can_be_taken);
