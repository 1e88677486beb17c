//! M13: the sizes that are allowed, and how the rest is refused.

use lockkeeper_store::limits::{
    BODY_BYTES_MAX, EVENT_BYTES_MAX, EVENTS_PER_SET_MAX, KEYS_PER_SET_MAX, REQUIREMENTS_PER_SET_MAX, SET_BYTES_MAX,
    TEXT_BYTES_MAX,
};
use lockkeeper_store::{AllVerdict, RecordKey, Verdict};

use crate::bench::{Bench, Set, key, set};

pub(crate) async fn the_largest_allowed_is_taken(bench: &Bench) {
    let long = "ö".repeat(TEXT_BYTES_MAX / 2);
    let key = RecordKey::new(&long, &long);
    let mut first = set(&key, 0).body(vec![1; BODY_BYTES_MAX]).events([vec![2; EVENT_BYTES_MAX]]).facets(&long, &long);
    first = first.key(&long, 1000);
    first.0.keys[0].outcome = vec![3; EVENT_BYTES_MAX].into();
    bench.must_commit(&first).await;
    let record = bench.read(&key).await.expect("a record");
    assert_eq!(record.body.len(), BODY_BYTES_MAX);
    assert_eq!((&record.key, &record.facets.primary, &record.facets.secondary), (&key, &long, &long));
    assert_eq!(bench.all_events(&key).await[0].body.len(), EVENT_BYTES_MAX);
    let mut second = set(&key, 1).events(vec!["x"; EVENTS_PER_SET_MAX]);
    for n in 0..KEYS_PER_SET_MAX {
        second = second.key_at(&format!("k{n}"), 1000, 2 + n as i64);
    }
    for n in 0..REQUIREMENTS_PER_SET_MAX {
        second = second.requires(&RecordKey::new("none", &format!("{n}")), 0);
    }
    bench.must_commit(&second).await;
    assert_eq!(bench.version(&key).await, 1 + EVENTS_PER_SET_MAX as i64);
}

pub(crate) async fn what_is_too_large_names_the_event(bench: &Bench) {
    let key = key("a");
    let good = || set(&key, 0).events(["x", "y", "z"]);
    let large = |length| String::from_utf8(vec![b'x'; length]).expect("a text");
    let mut event = good();
    event.0.events[1] = large(EVENT_BYTES_MAX + 1).into();
    refused(bench, &event, Some(1)).await;
    let mut outcome = good().key_at("k", 1000, 3);
    outcome.0.keys[0].outcome = large(EVENT_BYTES_MAX + 1).into();
    refused(bench, &outcome, Some(2)).await;
    refused(bench, &good().key_at(&large(TEXT_BYTES_MAX + 1), 1000, 2), Some(1)).await;
    refused(bench, &good().body(large(BODY_BYTES_MAX + 1)), None).await;
    refused(bench, &good().facets(&large(TEXT_BYTES_MAX + 1), ""), None).await;
    refused(bench, &good().facets("", &large(TEXT_BYTES_MAX + 1)), None).await;
    refused(bench, &set(&RecordKey::new("s", &large(TEXT_BYTES_MAX + 1)), 0), None).await;
    refused(bench, &set(&RecordKey::new(&large(TEXT_BYTES_MAX + 1), "a"), 0), None).await;
    let fit = SET_BYTES_MAX / EVENT_BYTES_MAX;
    let total = good().events(vec![large(EVENT_BYTES_MAX); fit + 1]);
    refused(bench, &total, Some(fit)).await;
    refused(bench, &good().events(vec!["x"; EVENTS_PER_SET_MAX + 1]), Some(EVENTS_PER_SET_MAX)).await;
    assert_eq!(bench.read(&key).await, None);
}

pub(crate) async fn a_set_must_make_sense(bench: &Bench) {
    let key = key("a");
    refused(bench, &set(&key, 0).events([""; 0]), None).await;
    refused(bench, &set(&key, -1), None).await;
    refused(bench, &set(&key, i64::MAX), None).await;
    refused(bench, &set(&key, 4).key_at("k", 1000, 4), None).await;
    refused(bench, &set(&key, 4).key_at("k", 1000, 6), None).await;
    refused(bench, &set(&key, 0).events(["x", "y"]).key("k", 1000).key_at("k", 1000, 2), Some(1)).await;
    refused(bench, &set(&RecordKey::new("things", ""), 0), None).await;
    refused(bench, &set(&RecordKey::new("", "a"), 0), None).await;
    refused(bench, &set(&RecordKey::new("things", "a\0b"), 0), None).await;
    refused(bench, &set(&key, 0).facets("a\0", ""), None).await;
    refused(bench, &set(&key, 0).key("k\0", 1000), Some(0)).await;
    let mut demanding = set(&key, 0);
    for _ in 0..=REQUIREMENTS_PER_SET_MAX {
        demanding = demanding.requires(&key, 0);
    }
    refused(bench, &demanding, None).await;
    // The same door for commits of several.
    match bench.commit_all(&[set(&key, 0), set(&RecordKey::new("things", "b"), -1)]).await {
        AllVerdict::Failed { index: 1, verdict: Verdict::Rejected { .. } } => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.read(&key).await, None);
}

pub(crate) async fn the_record_stays_usable(bench: &Bench) {
    let key = key("a");
    bench.must_commit(&set(&key, 0)).await;
    refused(bench, &set(&key, 1).body(vec![0; BODY_BYTES_MAX + 1]), None).await;
    bench.must_commit(&set(&key, 1)).await;
    assert_eq!(bench.version(&key).await, 2);
}

async fn refused(bench: &Bench, set: &Set, at: Option<usize>) {
    match bench.commit(set).await {
        Verdict::Rejected { event, reason } => assert_eq!((event, reason.is_empty()), (at, false), "{reason}"),
        other => panic!("{other:?}"),
    }
}
