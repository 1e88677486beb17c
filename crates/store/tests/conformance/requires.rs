//! Other records that must be as they were.

use lockkeeper_store::{Requirement, Verdict};

use crate::bench::{Bench, key, set};

pub(crate) async fn a_requirement_holds(bench: &Bench) {
    bench.must_commit(&set(&key("rule"), 0).events(["x", "y"])).await;
    bench.must_commit(&set(&key("a"), 0).requires(&key("rule"), 2)).await;
    // Its own record may be named too: its state before.
    bench.must_commit(&set(&key("a"), 1).requires(&key("a"), 1).requires(&key("rule"), 2)).await;
}

pub(crate) async fn a_requirement_fails(bench: &Bench) {
    bench.must_commit(&set(&key("rule"), 0).events(["x", "y"])).await;
    for wrong in [0, 1, 3] {
        let requirement = Requirement { key: key("rule"), version: wrong };
        let refused = set(&key("a"), 0).requires(&key("rule"), wrong).key("k", 1000);
        assert_eq!(bench.commit(&refused).await, Verdict::Unmet { requirement, actual: 2 });
    }
    let requirement = Requirement { key: key("none"), version: 1 };
    let refused = set(&key("a"), 0).requires(&key("rule"), 2).requires(&key("none"), 1);
    assert_eq!(bench.commit(&refused).await, Verdict::Unmet { requirement, actual: 0 });
    assert_eq!(bench.read(&key("a")).await, None);
    bench.must_commit(&set(&key("a"), 0).key("k", 1000)).await;
}

pub(crate) async fn a_record_must_not_exist(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0).requires(&key("stop"), 0)).await;
    bench.must_commit(&set(&key("stop"), 0)).await;
    match bench.commit(&set(&key("a"), 1).requires(&key("stop"), 0)).await {
        Verdict::Unmet { actual: 1, .. } => {}
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn keys_then_version_then_requirements(bench: &Bench) {
    bench.must_commit(&set(&key("a"), 0).key("k", 1000)).await;
    let wrong_in_all = set(&key("a"), 9).key("k", 1000).requires(&key("none"), 1);
    assert!(matches!(bench.commit(&wrong_in_all).await, Verdict::KeysTaken(_)));
    let wrong_in_two = set(&key("a"), 9).requires(&key("none"), 1);
    assert!(matches!(bench.commit(&wrong_in_two).await, Verdict::Lost(Some(_))));
    let wrong_in_one = set(&key("a"), 1).requires(&key("none"), 1);
    assert!(matches!(bench.commit(&wrong_in_one).await, Verdict::Unmet { actual: 0, .. }));
}
