//! Reading the events of all records.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockkeeper_store::limits::PAGE_BYTES_MAX;
use lockkeeper_store::{FeedCursor, FeedFrom, FeedGap, FeedPage, OnLocked, RecordKey, Verdict};

use crate::bench::{Bench, key, moment, set};

/// How long a page may be held back by a commit under way.
const LONG: std::time::Duration = std::time::Duration::from_secs(60);

/// One page, once nothing is held back.
async fn settled(bench: &Bench, from: FeedFrom, limit: usize) -> FeedPage {
    let begun = std::time::Instant::now();
    loop {
        let page = bench.store.feed(from, limit).await.expect("an answer");
        if !page.held_back || page.more {
            return page;
        }
        assert!(begun.elapsed() < LONG, "the feed is held back");
        tokio::task::yield_now().await;
    }
}

/// Everything from a place on.
async fn all(bench: &Bench, mut from: FeedFrom, limit: usize) -> Vec<(String, i64)> {
    let mut seen = Vec::new();
    loop {
        let page = settled(bench, from, limit).await;
        assert_eq!(page.gap, None);
        assert!(page.items.len() <= limit);
        seen.extend(page.items.iter().map(|item| (item.key.to_string(), item.event.version)));
        from = FeedFrom::After(page.next);
        if !page.more {
            return seen;
        }
    }
}

pub(crate) async fn all_events_come_in_pages(bench: &Bench) {
    assert_eq!(all(bench, FeedFrom::Oldest, 10).await, []);
    bench.must_commit(&set(&key("a"), 0).events(["1", "2", "3"])).await;
    bench.must_commit(&set(&RecordKey::new("others", "a"), 0)).await;
    bench.must_commit(&set(&key("a"), 3)).await;
    bench.commit_all(&[set(&key("b"), 0), set(&key("c"), 0)]).await;
    assert!(matches!(bench.commit(&set(&key("c"), 0)).await, Verdict::Lost(_)));
    let expected = [
        ("things/a", 1),
        ("things/a", 2),
        ("things/a", 3),
        ("others/a", 1),
        ("things/a", 4),
        ("things/b", 1),
        ("things/c", 1),
    ]
    .map(|(key, version)| (key.to_owned(), version));
    for limit in [1, 2, 3, 7, 100] {
        assert_eq!(all(bench, FeedFrom::Oldest, limit).await, expected, "pages of {limit}");
    }
    let page = settled(bench, FeedFrom::Oldest, 2).await;
    assert!(page.more);
    assert_eq!(page.items[1].event.body, "2");
    assert_eq!(page.items[1].cursor, page.next);
    assert_eq!(all(bench, FeedFrom::After(page.items[0].cursor), 100).await, expected[1..]);
}

/// Writers of all kinds, and a reader who follows: whatever was committed comes once, each record's versions in order.
pub(crate) async fn nothing_is_skipped_while_writers_commit(bench: &Bench) {
    const WRITERS: i64 = 8;
    const COMMITS: i64 = 40;
    let done = Arc::new(AtomicBool::new(false));
    let writers = (0..WRITERS).map(|writer| {
        let store = bench.store.clone();
        tokio::spawn(async move {
            for n in 0..COMMITS {
                let own = key(&format!("w{writer}"));
                let set = set(&own, n).0;
                match (writer % 4, n) {
                    (2, 1..) => {
                        let locked = store.lock(&own, &[], moment(0), OnLocked::Wait(LONG)).await.expect("the lock");
                        assert_eq!(locked.hold.commit(set).await, Ok(Verdict::Committed));
                    }
                    (3, _) => {
                        let second = crate::bench::set(&key(&format!("second{writer}")), n).0;
                        let verdict = store.commit_all(vec![set, second]).await.expect("a verdict");
                        assert_eq!(verdict, lockkeeper_store::AllVerdict::Committed);
                    }
                    _ => assert_eq!(store.commit(set).await, Ok(Verdict::Committed)),
                }
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let reader = {
        let (store, done) = (bench.store.clone(), done.clone());
        tokio::spawn(async move {
            let mut seen: HashMap<String, i64> = HashMap::new();
            let mut from = FeedFrom::Oldest;
            loop {
                let was_done = done.load(Ordering::SeqCst);
                let page = store.feed(from, 7).await.expect("an answer");
                for item in &page.items {
                    let last = seen.entry(item.key.to_string()).or_default();
                    assert_eq!(item.event.version, *last + 1, "{}", item.key);
                    *last += 1;
                }
                from = FeedFrom::After(page.next);
                if was_done && !page.more && !page.held_back {
                    return seen;
                }
                tokio::task::yield_now().await;
            }
        })
    };
    for writer in writers {
        writer.await.expect("a writer");
    }
    done.store(true, Ordering::SeqCst);
    let seen = reader.await.expect("the reader");
    assert_eq!(seen.len() as i64, WRITERS + WRITERS / 4);
    assert!(seen.values().all(|last| *last == COMMITS), "{seen:?}");
}

pub(crate) async fn a_cursor_outlives_its_page(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0)).await;
    let page = settled(bench, FeedFrom::Oldest, 10).await;
    let cursor: FeedCursor = page.next.to_string().parse().expect("a cursor");
    assert_eq!(cursor, page.next);
    assert_eq!(all(bench, FeedFrom::After(cursor), 10).await, []);
    bench.must_commit(&set(&key("b"), 0)).await;
    bench.must_commit(&set(&key("a"), 1)).await;
    let news = [("things/b".to_owned(), 1), ("things/a".to_owned(), 2)];
    assert_eq!(all(bench, FeedFrom::After(cursor), 10).await, news);
    assert_eq!(all(bench, FeedFrom::After(page.items[0].cursor), 10).await, news);
}

pub(crate) async fn it_can_begin_at_the_end(bench: &Bench) {
    let begin = settled(bench, FeedFrom::Now, 10).await.next;
    bench.must_commit(&set(&key("a"), 0)).await;
    let page = settled(bench, FeedFrom::Now, 10).await;
    assert_eq!((page.items.len(), page.more), (0, false));
    bench.must_commit(&set(&key("a"), 1)).await;
    assert_eq!(all(bench, FeedFrom::After(page.next), 10).await, [("things/a".to_owned(), 2)]);
    assert_eq!(all(bench, FeedFrom::After(begin), 10).await.len(), 2);
}

pub(crate) async fn foreign_cursors_are_told(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0)).await;
    let end = settled(bench, FeedFrom::Now, 10).await.next.to_string();
    let (life, place) = end.split_once('-').expect("a cursor");
    let life: i64 = life.parse().expect("a life");
    let mut numbers = place.split('-');
    let (purges, commit) = (numbers.next().expect("purges"), numbers.next().expect("a commit"));
    let ahead = commit.parse::<i64>().expect("a number") + 1_000_000;
    for foreign in [format!("{}-{place}", life + 1), format!("{life}-{purges}-{ahead}-0-0")] {
        let cursor: FeedCursor = foreign.parse().expect("a cursor");
        let page = bench.store.feed(FeedFrom::After(cursor), 10).await.expect("an answer");
        assert_eq!((page.gap, page.items.len(), page.next), (Some(FeedGap::AnotherLife), 0, cursor), "{foreign}");
    }
}

pub(crate) async fn large_events_end_a_page_early(bench: &Bench) {
    const BYTES: usize = 1024 * 1024;
    for n in 0..3 {
        bench.must_commit(&set(&key("a"), n * 2).events(vec![vec![b'x'; BYTES]; 2])).await;
    }
    let page = settled(bench, FeedFrom::Oldest, 100).await;
    assert_eq!((page.items.len(), page.more), (PAGE_BYTES_MAX / BYTES, true));
    assert_eq!(all(bench, FeedFrom::Oldest, 100).await.len(), 6);
}
