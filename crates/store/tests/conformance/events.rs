//! Reading a record's events.

use lockkeeper_store::limits::{EVENTS_PER_SET_MAX, PAGE_BYTES_MAX, PAGE_MAX};

use crate::bench::{Bench, key, set};

pub(crate) async fn they_come_in_pages_without_gaps(bench: &Bench) {
    let key = key("a");
    for n in 0..25 {
        bench.must_commit(&set(&key, n)).await;
    }
    let page = async |after, limit| {
        let events = bench.store.events(&key, after, limit).await.expect("an answer");
        events.iter().map(|event| event.version).collect::<Vec<_>>()
    };
    assert_eq!(page(0, 10).await, (1..=10).collect::<Vec<_>>());
    assert_eq!(page(10, 10).await, (11..=20).collect::<Vec<_>>());
    assert_eq!(page(20, 10).await, (21..=25).collect::<Vec<_>>());
    assert!(page(25, 10).await.is_empty());
    assert!(page(i64::MAX, 10).await.is_empty());
    assert_eq!(page(-5, 2).await, [1, 2]);
    let bodies: Vec<String> =
        bench.all_events(&key).await.iter().map(|e| String::from_utf8_lossy(&e.body).into()).collect();
    assert_eq!(bodies, (1..=25).map(|n| format!("event {n}")).collect::<Vec<_>>());
}

pub(crate) async fn an_unknown_record_has_none(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0)).await;
    assert_eq!(bench.store.events(&key("A"), 0, 10).await, Ok(Vec::new()));
}

pub(crate) async fn limits_are_kept_in_bounds(bench: &Bench) {
    let key = key("a");
    for n in 0..5 {
        bench.must_commit(&set(&key, n * EVENTS_PER_SET_MAX as i64).events(vec!["x"; EVENTS_PER_SET_MAX])).await;
    }
    let length = async |limit| bench.store.events(&key, 0, limit).await.expect("an answer").len();
    assert_eq!(length(0).await, 1);
    assert_eq!(length(PAGE_MAX).await, PAGE_MAX);
    assert_eq!(length(usize::MAX).await, PAGE_MAX);
}

pub(crate) async fn large_events_end_a_page_early(bench: &Bench) {
    const BYTES: usize = 1024 * 1024;
    let key = key("a");
    for n in 0..5 {
        bench.must_commit(&set(&key, n * 4).events(vec![vec![b'x'; BYTES]; 4])).await;
    }
    let first = bench.store.events(&key, 0, 100).await.expect("an answer");
    assert_eq!(first.len(), PAGE_BYTES_MAX / BYTES);
    let versions: Vec<i64> = bench.all_events(&key).await.iter().map(|event| event.version).collect();
    assert_eq!(versions, (1..=20).collect::<Vec<_>>());
}
