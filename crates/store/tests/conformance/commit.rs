//! One change set: what it does, and when it does nothing.

use bytes::Bytes;
use lockkeeper_store::limits::EVENTS_PER_SET_MAX;
use lockkeeper_store::{Facets, Record, RecordKey, Verdict};
use uuid::Uuid;

use crate::bench::{Bench, key, moment, set};

pub(crate) async fn a_first_version_makes_the_record(bench: &Bench) {
    let key = key("a");
    assert_eq!(bench.read(&key).await, None);
    let first = set(&key, 0).facets("open", "running").at(5);
    bench.must_commit(&first).await;
    let read = bench.read(&key).await.expect("a record");
    let expected = Record {
        key: key.clone(),
        version: 1,
        facets: Facets { primary: "open".into(), secondary: "running".into() },
        body: Bytes::from_static(b"body 1"),
        created_at: moment(5),
        updated_at: moment(5),
        life: read.life,
    };
    assert_eq!(read, expected);
    let events = bench.all_events(&key).await;
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].version, events[0].commit_id), (1, first.0.commit_id));
    assert_eq!(events[0].body, "event 1");
}

pub(crate) async fn later_versions_keep_when_it_was_created(bench: &Bench) {
    let key = key("a");
    bench.must_commit(&set(&key, 0).facets("open", "running").at(10)).await;
    bench.must_commit(&set(&key, 1).facets("open", "running").at(20)).await;
    let second = bench.read(&key).await.expect("a record");
    assert_eq!((second.created_at, second.updated_at, second.version), (moment(10), moment(20), 2));
    assert_eq!(second.body, "body 2");
    bench.must_commit(&set(&key, 2).facets("closed", "failed").at(15)).await;
    let third = bench.read(&key).await.expect("a record");
    assert_eq!(
        (third.created_at, third.updated_at),
        (moment(10), moment(15)),
        "a clock that went back is kept as it was"
    );
    assert_eq!(third.facets, Facets { primary: "closed".into(), secondary: "failed".into() });
}

pub(crate) async fn one_commit_may_bring_many_versions(bench: &Bench) {
    let key = key("a");
    bench.must_commit(&set(&key, 0).events(["one", "two", "three"])).await;
    let second = set(&key, 3).events(["four", "five"]);
    bench.must_commit(&second).await;
    assert_eq!(bench.version(&key).await, 5);
    let events = bench.all_events(&key).await;
    let bodies: Vec<&[u8]> = events.iter().map(|event| &event.body[..]).collect();
    assert_eq!(bodies, [&b"one"[..], b"two", b"three", b"four", b"five"]);
    assert_eq!(events.iter().map(|event| event.version).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert!(events[3..].iter().all(|event| event.commit_id == second.0.commit_id));
}

pub(crate) async fn another_version_is_lost_and_shown(bench: &Bench) {
    let key = key("a");
    assert_eq!(bench.commit(&set(&key, 3)).await, Verdict::Lost(None));
    bench.must_commit(&set(&key, 0).events(["one", "two"])).await;
    let current = bench.read(&key).await;
    assert!(current.is_some());
    for stale in [0, 1, 3, i64::MAX - 1] {
        assert_eq!(bench.commit(&set(&key, stale)).await, Verdict::Lost(current.clone()), "{stale}");
    }
}

pub(crate) async fn a_lost_commit_leaves_nothing(bench: &Bench) {
    let key = key("a");
    bench.must_commit(&set(&key, 0)).await;
    let before = (bench.read(&key).await, bench.all_events(&key).await);
    let lost = set(&key, 0).events(["x", "y"]).key("k", 1000).facets("other", "other");
    assert!(matches!(bench.commit(&lost).await, Verdict::Lost(Some(_))));
    assert_eq!((bench.read(&key).await, bench.all_events(&key).await), before);
    assert_eq!(bench.store.committed(&key, 0, lost.0.commit_id).await, Ok(false));
    let confirmed = bench.store.confirm(&key, &["k".to_owned()], moment(0)).await.expect("an answer");
    assert_eq!((confirmed.version, confirmed.keys), (1, Vec::new()));
}

pub(crate) async fn spaces_never_meet(bench: &Bench) {
    let (here, there) = (RecordKey::new("here", "a"), RecordKey::new("there", "a"));
    bench.must_commit(&set(&here, 0).events(["x", "y"])).await;
    assert_eq!(bench.read(&there).await, None);
    bench.must_commit(&set(&there, 0)).await;
    assert_eq!((bench.version(&here).await, bench.version(&there).await), (2, 1));
    // The pair is the name, not its spelling: "a" + "b/c" and "a/b" + "c" are two.
    bench.must_commit(&set(&RecordKey::new("a", "b/c"), 0)).await;
    bench.must_commit(&set(&RecordKey::new("a/b", "c"), 0)).await;
}

pub(crate) async fn times_are_whole_milliseconds(bench: &Bench) {
    let key = key("a");
    let mut first = set(&key, 0);
    first.0.at = moment(7) + chrono::TimeDelta::nanoseconds(999_999);
    bench.must_commit(&first).await;
    assert_eq!(bench.read(&key).await.map(|record| record.created_at), Some(moment(7)));
    let mut second = set(&key, 1);
    second.0.at = chrono::DateTime::from_timestamp_millis(-1).expect("a moment before 1970");
    bench.must_commit(&second).await;
    assert_eq!(bench.read(&key).await.map(|record| record.updated_at), Some(second.0.at));
}

pub(crate) async fn a_commit_is_found_by_its_id(bench: &Bench) {
    let (key, other) = (key("a"), key("b"));
    let (first, second, third) = (set(&key, 0), set(&key, 1).events(["x", "y", "z"]), set(&key, 4));
    for set in [&first, &second, &third] {
        bench.must_commit(set).await;
    }
    bench.must_commit(&set(&other, 0)).await;
    let committed = async |key, after, id| bench.store.committed(key, after, id).await.expect("an answer");
    assert!(committed(&key, 0, first.0.commit_id).await);
    assert!(committed(&key, 1, second.0.commit_id).await);
    assert!(committed(&key, 4, third.0.commit_id).await);
    assert!(!committed(&key, 5, third.0.commit_id).await, "nothing is there yet");
    assert!(!committed(&key, 1, third.0.commit_id).await, "it took place, but not there");
    assert!(!committed(&key, 0, Uuid::new_v4()).await);
    assert!(!committed(&key, i64::MAX, first.0.commit_id).await);
    assert!(!committed(&other, 0, first.0.commit_id).await, "an id belongs to its record");
    assert!(!committed(&RecordKey::new("things", "none"), 0, first.0.commit_id).await);
}

pub(crate) async fn a_commit_is_found_however_much_came_since(bench: &Bench) {
    let key = key("a");
    let first = set(&key, 0).events(["one", "two"]);
    bench.must_commit(&first).await;
    // More than any backend would read through.
    let mut version = 2;
    for _ in 0..33 {
        bench.must_commit(&set(&key, version).events(vec!["later"; EVENTS_PER_SET_MAX])).await;
        version += EVENTS_PER_SET_MAX as i64;
    }
    assert_eq!(bench.store.committed(&key, 0, first.0.commit_id).await, Ok(true));
    assert_eq!(bench.store.committed(&key, 0, Uuid::new_v4()).await, Ok(false));
}

/// M12.
pub(crate) async fn versions_pass_every_narrow_integer(bench: &Bench) {
    for (id, before) in [("i32", i64::from(i32::MAX) - 1), ("u32", i64::from(u32::MAX) - 1), ("f64", 1 << 53)] {
        let key = key(id);
        bench.must_commit(&set(&key, 0)).await;
        bench.back_door.renumber(&key, before);
        let next = set(&key, before).events(["x", "y", "z"]).key_at("k", 1000, before + 3);
        bench.must_commit(&next).await;
        assert_eq!(bench.version(&key).await, before + 3, "{id}");
        let versions: Vec<i64> = bench.all_events(&key).await.iter().map(|event| event.version).collect();
        assert_eq!(versions, [before, before + 1, before + 2, before + 3], "{id}");
        assert_eq!(bench.store.committed(&key, before, next.0.commit_id).await, Ok(true), "{id}");
        let confirmed = bench.store.confirm(&key, &["k".to_owned()], moment(0)).await.expect("an answer");
        assert_eq!((confirmed.version, confirmed.keys[0].version), (before + 3, before + 3), "{id}");
    }
    let last = key("i64");
    bench.must_commit(&set(&last, 0)).await;
    bench.back_door.renumber(&last, i64::MAX - 1);
    bench.must_commit(&set(&last, i64::MAX - 1)).await;
    assert!(matches!(bench.commit(&set(&last, i64::MAX)).await, Verdict::Rejected { event: None, .. }));
    assert_eq!(bench.version(&last).await, i64::MAX);
}

pub(crate) async fn it_says_where_it_is(bench: &Bench) {
    assert!(bench.store.describe().contains("://"), "{}", bench.store.describe());
    assert_eq!(bench.store.ping().await, Ok(()));
}
