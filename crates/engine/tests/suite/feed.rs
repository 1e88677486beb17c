//! The feed, where something in it is wrong.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lockkeeper_engine::{FeedListener, FeedNews};
use lockkeeper_store::FeedFrom;
use serde_json::json;

use super::support::{House, event, name};

/// The next change: its instance, its version, and whether it can be read.
async fn next(listener: &mut FeedListener) -> (String, i64, bool) {
    let next = async {
        loop {
            match listener.next().await.unwrap() {
                FeedNews::Event(event) => return (event.key.id.to_string(), event.version, event.entry.is_ok()),
                FeedNews::Passed(_) => {}
                FeedNews::Gap(gap, _) => panic!("{gap:?}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), next).await.expect("the feed goes on")
}

/// Whoever listens already, and whoever reads from the beginning, is told of it and of all that follows.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_event_holds_nobody_up() {
    let house = House::new().await;
    house.store.garbled.store(2, Ordering::SeqCst);
    let mut early = house.engine.listen(FeedFrom::Oldest).await.unwrap().unwrap();
    house.start("a", json!({})).await;
    assert_eq!(next(&mut early).await, ("a".to_owned(), 1, true));
    for _ in 0..2 {
        assert_eq!(name(&house.engine.send(event("a", "note", "bob"), None).await), "applied");
    }
    house.start("b", json!({})).await;
    let mut late = house.engine.listen(FeedFrom::Oldest).await.unwrap().unwrap();
    assert_eq!(next(&mut late).await, ("a".to_owned(), 1, true));
    for listener in [&mut early, &mut late] {
        for expected in [("a", 2, false), ("a", 3, true), ("b", 1, true)] {
            let (id, version, is_whole) = next(listener).await;
            assert_eq!((id.as_str(), version, is_whole), expected);
        }
    }
}
