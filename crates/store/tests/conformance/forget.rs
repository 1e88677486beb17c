//! Forgetting what was.

use bytes::Bytes;
use lockkeeper_store::{Facets, FeedFrom, FeedGap, Forget, Forgotten, OnLocked, RecordKey, Verdict};

use crate::bench::{Bench, key, moment, set};

fn forget(key: &RecordKey, version: i64, upto: i64) -> Forget {
    Forget { key: key.clone(), version, upto, replace: None }
}

async fn versions(bench: &Bench, key: &RecordKey) -> Vec<i64> {
    bench.all_events(key).await.iter().map(|event| event.version).collect()
}

/// Asks until it is this one's turn: on a database others may be forgetting.
async fn done(bench: &Bench, what: &Forget, limit: usize) -> Forgotten {
    loop {
        match bench.store.forget(what, limit).await.expect("an answer") {
            Forgotten::Busy => tokio::task::yield_now().await,
            told => return told,
        }
    }
}

pub(crate) async fn the_oldest_events_go_first(bench: &Bench) {
    let (old, other) = (key("old"), key("other"));
    bench.must_commit(&set(&old, 0).events(vec!["x"; 10])).await;
    bench.must_commit(&set(&other, 0)).await;
    assert_eq!(done(bench, &forget(&old, 10, 7), 4).await, Forgotten::Events { events: 4, whole: false });
    assert_eq!(versions(bench, &old).await, [5, 6, 7, 8, 9, 10]);
    assert_eq!(done(bench, &forget(&old, 10, 7), 4).await, Forgotten::Events { events: 3, whole: true });
    assert_eq!(versions(bench, &old).await, [8, 9, 10]);
    assert_eq!(done(bench, &forget(&old, 10, 7), 4).await, Forgotten::Events { events: 0, whole: true });
    assert_eq!(versions(bench, &other).await, [1]);
    assert_eq!(bench.version(&old).await, 10);
}

pub(crate) async fn a_version_goes_on_where_it_was(bench: &Bench) {
    let key = key("a");
    bench.must_commit(&set(&key, 0).events(["1", "2", "3"]).facets("state", "closed").body("long")).await;
    let facets = Facets { primary: String::new(), secondary: "gone".to_owned() };
    let what = Forget { replace: Some((facets.clone(), Bytes::from("short"))), ..forget(&key, 3, 3) };
    assert_eq!(done(bench, &what, 2).await, Forgotten::Events { events: 2, whole: false });
    assert_eq!(bench.read(&key).await.expect("a record").body, "long", "not before all is gone");
    assert_eq!(done(bench, &what, 2).await, Forgotten::Events { events: 1, whole: true });
    let record = bench.read(&key).await.expect("a record");
    assert_eq!((record.version, record.facets, &record.body[..]), (3, facets, &b"short"[..]));
    assert_eq!(versions(bench, &key).await, [0_i64; 0]);
    assert!(matches!(bench.commit(&set(&key, 0)).await, Verdict::Lost(Some(_))), "it is not begun again");
    bench.must_commit(&set(&key, 3)).await;
    assert_eq!(versions(bench, &key).await, [4]);
}

pub(crate) async fn what_has_changed_is_left_alone(bench: &Bench) {
    let key = key("a");
    bench.must_commit(&set(&key, 0).events(["1", "2"])).await;
    let what = Forget { replace: Some((Facets::default(), Bytes::new())), ..forget(&key, 1, 1) };
    assert_eq!(done(bench, &what, 10).await, Forgotten::Changed);
    assert_eq!(done(bench, &forget(&RecordKey::new("things", "nobody"), 1, 1), 10).await, Forgotten::Changed);
    assert_eq!(versions(bench, &key).await, [1, 2]);
}

/// Two who forget the same: one of them has done it.
pub(crate) async fn what_was_replaced_is_not_replaced_again(bench: &Bench) {
    const IDS: usize = 20;
    let facets = Facets { primary: String::new(), secondary: "gone".to_owned() };
    let mut replaced = 0;
    for n in 0..IDS {
        let key = key(&format!("a{n}"));
        bench.must_commit(&set(&key, 0).events(["1", "2", "3"]).facets("state", "closed").body("long")).await;
        let what = Forget { replace: Some((facets.clone(), Bytes::from("short"))), ..forget(&key, 3, 3) };
        let (one, two) = tokio::join!(done(bench, &what, 2), done(bench, &what, 2));
        let last = [done(bench, &what, 2).await, done(bench, &what, 2).await];
        for told in [one, two, last[0], last[1]] {
            replaced += usize::from(matches!(told, Forgotten::Events { whole: true, .. }));
        }
        assert_eq!((last[1], versions(bench, &key).await), (Forgotten::Changed, vec![]));
    }
    assert_eq!(replaced, IDS);
}

/// A record that never rests has the longest past: it need not be at a certain version, nor is it waited for.
pub(crate) async fn the_past_of_what_changes_can_be_forgotten(bench: &Bench) {
    let key = key("a");
    bench.must_commit(&set(&key, 0).events(["1", "2"])).await;
    bench.must_commit(&set(&key, 2).events(["3", "4"])).await;
    assert_eq!(done(bench, &forget(&key, 2, 1), 10).await, Forgotten::Events { events: 1, whole: true });
    let locked = bench.store.lock(&key, &[], moment(0), OnLocked::GiveUp).await.expect("locked");
    assert_eq!(done(bench, &forget(&key, 2, 2), 10).await, Forgotten::Events { events: 1, whole: true });
    drop(locked);
    assert_eq!(done(bench, &forget(&key, 5, 3), 10).await, Forgotten::Changed, "it is not there yet");
    assert_eq!(versions(bench, &key).await, [3, 4]);
    assert_eq!(bench.version(&key).await, 4);
}

/// Whoever has passed what is forgotten misses nothing; whoever has not is told; and what comes after is never taken for
/// what was there before.
pub(crate) async fn the_feed_tells_of_it(bench: &Bench) {
    let (a, b) = (key("a"), key("b"));
    let settled = async |from: FeedFrom| loop {
        let page = bench.store.feed(from, 100).await.expect("an answer");
        if !page.held_back {
            return page;
        }
        tokio::task::yield_now().await;
    };
    bench.must_commit(&set(&b, 0)).await;
    let behind = settled(FeedFrom::Oldest).await.next;
    bench.must_commit(&set(&a, 0).events(["1", "2", "3"])).await;
    let passed = settled(FeedFrom::Oldest).await.next;
    // The last events that there are.
    assert_eq!(done(bench, &forget(&a, 3, 3), 100).await, Forgotten::Events { events: 3, whole: true });
    bench.must_commit(&set(&b, 1)).await;
    let page = settled(FeedFrom::After(passed)).await;
    let told: Vec<(&str, i64)> = page.items.iter().map(|item| (&*item.key.id, item.event.version)).collect();
    assert_eq!((page.gap, told), (None, vec![("b", 2)]));
    let page = settled(FeedFrom::After(behind)).await;
    assert_eq!((page.gap, page.items.len()), (Some(FeedGap::Purged), 1));
    let again = settled(FeedFrom::After(page.next)).await;
    assert_eq!((again.gap, again.items.len()), (None, 0), "it is told once");
    let all = settled(FeedFrom::Oldest).await;
    assert_eq!((all.gap, all.items.len()), (None, 2));
}
