//! M14: names are bytes.

use lockkeeper_store::{ListOrder, ListQuery, Verdict};

use crate::bench::{Bench, key, moment, query, set};

/// Pairs that some database, somewhere, takes for one name.
const NAMES: &[&str] = &[
    "a",
    "A",
    "a ",
    " a",
    "a\t",
    "a\n",
    "a/b",
    "a//b",
    "a%2Fb",
    "a::b",
    "a:b",
    "a%",
    "a_",
    "a*",
    "a'",
    "a\"",
    "a\\",
    "a;--",
    "\u{e9}",
    "e\u{301}",
    "\u{fc}",
    "u\u{308}",
    "ß",
    "ss",
    "ﬁ",
    "fi",
    "I",
    "i",
    "ı",
    "İ",
    "😀",
    "👩‍👩‍👧",
    "👩",
    "\u{200b}",
    "\u{feff}a",
    "1",
    "01",
    "1.0",
    "1e0",
    "null",
    "NULL",
    ".",
    "..",
    "x'61'",
];

pub(crate) async fn every_name_is_its_own_record(bench: &Bench) {
    for name in NAMES {
        bench.must_commit(&set(&key(name), 0).body(name.as_bytes())).await;
    }
    for name in NAMES {
        let record = bench.read(&key(name)).await.expect("a record");
        assert_eq!((&*record.key.id, &record.body[..]), (*name, name.as_bytes()));
        assert_eq!(record.version, 1, "{name:?}");
    }
    let mut sorted: Vec<&str> = NAMES.to_vec();
    sorted.sort_unstable_by_key(|name| name.as_bytes());
    let (ids, _) = bench.all_ids(&ListQuery { limit: 4, ..query(ListOrder::Id) }).await;
    assert_eq!(ids, sorted);
}

pub(crate) async fn every_key_is_its_own(bench: &Bench) {
    let key = key("a");
    for (version, name) in (0..).zip(NAMES) {
        bench.must_commit(&set(&key, version).key(name, 1000)).await;
    }
    let names: Vec<String> = NAMES.iter().map(|&name| name.to_owned()).collect();
    let confirmed = bench.store.confirm(&key, &names, moment(0)).await.expect("an answer");
    let found: Vec<&str> = confirmed.keys.iter().map(|key| key.key.as_str()).collect();
    assert_eq!(found, NAMES);
    match bench.commit(&set(&key, confirmed.version).key("e\u{301}", 1000)).await {
        Verdict::KeysTaken(keys) => assert_eq!(keys[0].key, "e\u{301}"),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn facets_and_parts_are_literal(bench: &Bench) {
    for name in NAMES {
        bench.must_commit(&set(&key(name), 0).facets(name, "")).await;
    }
    for name in NAMES {
        let exact = ListQuery { primary: Some((*name).to_owned()), ..query(ListOrder::Newest) };
        assert_eq!(bench.all_ids(&exact).await.0, [*name]);
        let part = ListQuery { contains: Some((*name).to_owned()), ..query(ListOrder::Id) };
        let mut expected: Vec<&str> = NAMES.iter().copied().filter(|other| other.contains(name)).collect();
        expected.sort_unstable_by_key(|name| name.as_bytes());
        assert_eq!(bench.all_ids(&part).await.0, expected, "{name:?}");
    }
}
