//! Lists: orders, filters, pages.

use lockkeeper_store::limits::{PAGE_BYTES_MAX, PAGE_MAX, SCAN_MAX, SETS_PER_COMMIT_MAX};
use lockkeeper_store::{AllVerdict, ListOrder, ListQuery, ReadError, RecordKey};

use crate::bench::{Bench, Set, key, query, set};

async fn fill(bench: &Bench, ids: &[&str]) {
    for id in ids {
        bench.must_commit(&set(&key(id), 0)).await;
    }
}

/// Makes many records quickly; `name` gives each its id and first facet.
async fn fill_many(bench: &Bench, count: usize, name: impl Fn(usize) -> (String, &'static str)) {
    for start in (0..count).step_by(SETS_PER_COMMIT_MAX) {
        let end = count.min(start + SETS_PER_COMMIT_MAX);
        let sets: Vec<Set> = (start..end)
            .map(|n| {
                let (id, facet) = name(n);
                set(&key(&id), 0).facets(facet, "")
            })
            .collect();
        assert_eq!(bench.commit_all(&sets).await, AllVerdict::Committed);
    }
}

pub(crate) async fn ids_run_byte_by_byte(bench: &Bench) {
    fill(bench, &["b", "B", "a", "ä", "a b", "aa", "10", "9", "😀", "Z"]).await;
    bench.must_commit(&set(&RecordKey::new("elsewhere", "a"), 0)).await;
    let (ids, _) = bench.all_ids(&ListQuery { limit: 3, ..query(ListOrder::Id) }).await;
    assert_eq!(ids, ["10", "9", "B", "Z", "a", "a b", "aa", "b", "ä", "😀"]);
    let (whole, pages) = bench.all_ids(&query(ListOrder::Id)).await;
    assert_eq!((whole, pages), (ids, 1));
}

pub(crate) async fn the_newest_comes_first(bench: &Bench) {
    for (n, id) in ["m", "a", "z", "b", "y"].iter().enumerate() {
        bench.must_commit(&set(&key(id), 0).at(n as i64)).await;
    }
    bench.must_commit(&set(&key("a"), 1).at(100)).await;
    let (ids, _) = bench.all_ids(&ListQuery { limit: 2, ..query(ListOrder::Newest) }).await;
    assert_eq!(ids, ["y", "b", "z", "a", "m"], "by creation, whatever changed since");
}

pub(crate) async fn facets_filter(bench: &Bench) {
    for (id, primary, secondary) in [
        ("a", "open", "running"),
        ("b", "open", "failed"),
        ("c", "Open", "running"),
        ("d", "closed", "failed"),
        ("e", "open", "running"),
    ] {
        bench.must_commit(&set(&key(id), 0).facets(primary, secondary)).await;
    }
    for order in [ListOrder::Id, ListOrder::Newest] {
        let ids = async |primary: Option<&str>, secondary: Option<&str>| {
            let (primary, secondary) = (primary.map(str::to_owned), secondary.map(str::to_owned));
            let (mut ids, _) = bench.all_ids(&ListQuery { primary, secondary, limit: 1, ..query(order) }).await;
            if order == ListOrder::Newest {
                ids.reverse();
            }
            ids
        };
        assert_eq!(ids(Some("open"), None).await, ["a", "b", "e"], "{order:?}");
        assert_eq!(ids(None, Some("running")).await, ["a", "c", "e"], "{order:?}");
        assert_eq!(ids(Some("open"), Some("running")).await, ["a", "e"], "{order:?}");
        assert_eq!(ids(Some("none"), None).await, [""; 0], "{order:?}");
        assert_eq!(ids(Some(""), None).await, [""; 0], "{order:?}");
    }
    // A record that moves is found where it is now, and only there.
    bench.must_commit(&set(&key("a"), 1).facets("closed", "running")).await;
    let closed = ListQuery { primary: Some("closed".into()), ..query(ListOrder::Newest) };
    assert_eq!(bench.all_ids(&closed).await.0, ["d", "a"]);
    let open = ListQuery { primary: Some("open".into()), ..query(ListOrder::Newest) };
    assert_eq!(bench.all_ids(&open).await.0, ["e", "b"]);
}

pub(crate) async fn what_has_an_unwanted_facet_takes_no_room(bench: &Bench) {
    const GONE: usize = 300;
    for n in 0..3 {
        bench.must_commit(&set(&key(&format!("old{n}")), 0).facets("open", "kept")).await;
    }
    let gone: Vec<Set> = (0..GONE).map(|n| set(&key(&format!("gone{n:03}")), 0).facets("open", "gone")).collect();
    for sets in gone.chunks(SETS_PER_COMMIT_MAX) {
        assert_eq!(bench.commit_all(sets).await, AllVerdict::Committed);
    }
    for n in 0..2 {
        bench.must_commit(&set(&key(&format!("new{n}")), 0).facets("open", "kept")).await;
    }
    let expected = ["new1", "new0", "old2", "old1", "old0"];
    for (primary, secondary, contains) in [(None, None, None), (Some("open"), None, None), (None, None, Some("w"))] {
        let [primary, secondary, contains] =
            [primary, secondary, contains].map(|text: Option<&str>| text.map(str::to_owned));
        let without = ListQuery {
            primary,
            secondary,
            contains,
            without_secondary: Some("gone".to_owned()),
            ..query(ListOrder::Newest)
        };
        let expected = if without.contains.is_some() { &expected[..2] } else { &expected[..] };
        for limit in [1, 2, 3, 4, 5, 50] {
            let (ids, pages) = bench.all_ids(&ListQuery { limit, ..without.clone() }).await;
            assert_eq!(ids, expected);
            // Each page is full, but for the last: that more match is not known before they are looked for.
            assert!(pages <= expected.len() / limit + 1, "{pages} pages of {limit}");
        }
    }
    let by_id = ListQuery { without_secondary: Some("gone".to_owned()), limit: 3, ..query(ListOrder::Id) };
    assert_eq!(bench.all_ids(&by_id).await, (["new0", "new1", "old0", "old1", "old2"].map(str::to_owned).to_vec(), 2));
}

pub(crate) async fn a_part_of_an_id_is_found(bench: &Bench) {
    fill(bench, &["order-1", "Order-2", "reorder", "sold"]).await;
    for order in [ListOrder::Id, ListOrder::Newest] {
        let (mut ids, _) = bench.all_ids(&ListQuery { contains: Some("order".into()), ..query(order) }).await;
        ids.sort();
        assert_eq!(ids, ["order-1", "reorder"], "{order:?}");
    }
}

pub(crate) async fn pages_stay_put_while_records_come(bench: &Bench) {
    fill_many(bench, 30, |n| (format!("k{n:02}"), "")).await;
    for order in [ListOrder::Id, ListOrder::Newest] {
        let mut query = ListQuery { limit: 7, ..query(order) };
        let mut ids: Vec<String> = Vec::new();
        loop {
            let page = bench.store.list(&query).await.expect("an answer");
            ids.extend(page.records.iter().map(|record| record.key.id.to_string()));
            let Some(next) = page.next else { break };
            query.cursor = Some(next);
            // Before and after the place where the next page begins; and a change of a record that is still to come.
            let n = ids.len();
            bench.must_commit(&set(&key(&format!("{order:?}-{n}")), 0)).await;
            let changed = key("k15");
            let version = bench.version(&changed).await;
            bench.must_commit(&set(&changed, version)).await;
        }
        ids.retain(|id| id.starts_with('k'));
        let mut expected: Vec<String> = (0..30).map(|n| format!("k{n:02}")).collect();
        if order == ListOrder::Newest {
            expected.reverse();
        }
        assert_eq!(ids, expected, "{order:?}: each once, none left out");
    }
}

pub(crate) async fn a_full_last_page_has_no_next(bench: &Bench) {
    fill(bench, &["a", "b", "c", "d"]).await;
    for order in [ListOrder::Id, ListOrder::Newest] {
        assert_eq!(bench.all_ids(&ListQuery { limit: 2, ..query(order) }).await.1, 2, "{order:?}");
        assert_eq!(bench.all_ids(&ListQuery { limit: 4, ..query(order) }).await.1, 1, "{order:?}");
        let empty = ListQuery { space: "empty".into(), ..query(order) };
        assert_eq!(bench.all_ids(&empty).await, (Vec::new(), 1), "{order:?}");
    }
}

pub(crate) async fn a_search_ends_early_and_goes_on(bench: &Bench) {
    let count = SCAN_MAX + 500;
    fill_many(bench, count, |n| (format!("k{n:06}"), if n % 4000 == 10 { "rare" } else { "common" })).await;
    let wanted: Vec<String> = (0..count).filter(|n| n % 4000 == 10).map(|n| format!("k{n:06}")).collect();
    let by_id = ListQuery { primary: Some("rare".into()), ..query(ListOrder::Id) };
    let first = bench.store.list(&by_id).await.expect("an answer");
    assert!(first.next.is_some() && first.records.len() <= wanted.len(), "short, and more to come");
    assert_eq!(bench.all_ids(&by_id).await.0, wanted);
    for order in [ListOrder::Id, ListOrder::Newest] {
        let search = ListQuery { contains: Some("k000010".into()), ..query(order) };
        let (ids, pages) = bench.all_ids(&search).await;
        assert_eq!(ids, ["k000010"], "{order:?}");
        assert_eq!(pages, 2, "{order:?}");
    }
}

pub(crate) async fn strange_cursors_are_refused(bench: &Bench) {
    fill(bench, &["a", "b"]).await;
    let cursor_of = async |order| {
        let page = bench.store.list(&ListQuery { limit: 1, ..query(order) }).await.expect("an answer");
        page.next.expect("a second page")
    };
    let (of_ids, of_newest) = (cursor_of(ListOrder::Id).await, cursor_of(ListOrder::Newest).await);
    for (order, cursor) in [
        (ListOrder::Id, of_newest),
        (ListOrder::Newest, of_ids),
        (ListOrder::Id, String::new()),
        (ListOrder::Newest, "' OR 1=1 --".to_owned()),
    ] {
        let strange = ListQuery { cursor: Some(cursor.clone()), ..query(order) };
        assert_eq!(bench.store.list(&strange).await, Err(ReadError::BadCursor(cursor)), "{order:?}");
    }
}

pub(crate) async fn limits_are_kept_in_bounds(bench: &Bench) {
    fill_many(bench, PAGE_MAX + 1, |n| (format!("k{n}"), "")).await;
    for order in [ListOrder::Id, ListOrder::Newest] {
        let length = async |limit| {
            let page = bench.store.list(&ListQuery { limit, ..query(order) }).await.expect("an answer");
            (page.records.len(), page.next.is_some())
        };
        assert_eq!(length(0).await, (1, true));
        assert_eq!(length(usize::MAX).await, (PAGE_MAX, true));
    }
}

pub(crate) async fn large_records_end_a_page_early(bench: &Bench) {
    const BYTES: usize = 1024 * 1024;
    for n in 0..18 {
        bench.must_commit(&set(&key(&format!("k{n:02}")), 0).body(vec![b'x'; BYTES])).await;
    }
    let page = bench.store.list(&query(ListOrder::Id)).await.expect("an answer");
    assert_eq!(page.records.len(), PAGE_BYTES_MAX / BYTES);
    let (ids, _) = bench.all_ids(&query(ListOrder::Id)).await;
    assert_eq!(ids, (0..18).map(|n| format!("k{n:02}")).collect::<Vec<_>>());
}
