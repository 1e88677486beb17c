//! Owners that wait for each other; for services that look for them.

use std::time::Duration;

use lockkeeper_locks::AcquireError;

use crate::bench::{Bench, LONG, SHORT, ask};

pub(crate) async fn the_youngest_of_a_circle_hears_of_it(bench: &Bench) {
    let owners = ["ann", "bob", "cid"];
    let names = ["a", "b", "c"];
    for (owner, name) in owners.iter().zip(names) {
        bench.acquire(&ask(owner, name, LONG)).await;
    }
    let mut waits = Vec::new();
    for (n, owner) in owners.iter().enumerate() {
        waits.push(bench.queue(&ask(owner, names[(n + 1) % 3], LONG), LONG).await);
    }
    let youngest = waits.pop().expect("three wait");
    let Err(AcquireError::Deadlock { cycle }) = youngest.result().await else { panic!("no deadlock is told") };
    let at = cycle.iter().position(|owner| owner == "ann").expect("ann is in it");
    let from_ann: Vec<&str> = cycle.iter().cycle().skip(at).take(3).map(String::as_str).collect();
    assert_eq!(from_ann, owners, "each waits for the next");
    // The others wait on, and get it once there is room.
    tokio::time::sleep(SHORT).await;
    assert!(waits.iter().all(|wait| !wait.is_over()));
    bench.service.force_release("c").await.expect("an answer");
    waits.pop().expect("bob waits for c").granted().await;
}

pub(crate) async fn queues_are_ways_too(bench: &Bench) {
    // bob holds b; ann holds a and waits for b; bob waits for c behind dan, who waits for a.
    for (owner, name) in [("bob", "b"), ("ann", "a"), ("eve", "c")] {
        bench.acquire(&ask(owner, name, LONG)).await;
    }
    let _ann = bench.queue(&ask("ann", "b", LONG), LONG).await;
    let dan = bench.queue(&crate::bench::ask_all("dan", &["a", "c"], LONG), LONG).await;
    let bob = bench.queue(&ask("bob", "c", LONG), LONG).await;
    let Err(AcquireError::Deadlock { cycle }) = bob.result().await else { panic!("no deadlock is told") };
    assert_eq!(cycle.len(), 3, "{cycle:?}");
    assert!(!dan.is_over());
}

pub(crate) async fn who_only_waits_long_is_left_alone(bench: &Bench) {
    let holder = ask("ann", "r", LONG);
    bench.acquire(&holder).await;
    // The same owner again: another flow of its work, which will end.
    let again = bench.queue(&ask("ann", "r", LONG), LONG).await;
    let other = bench.queue(&ask("bob", "r", LONG), LONG).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!again.is_over() && !other.is_over());
    bench.release(&holder).await;
    again.granted().await;
}
