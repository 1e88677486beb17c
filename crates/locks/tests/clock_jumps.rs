//! The clock that leases on a store expire by is set: forward by an hour, and back again.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use lockkeeper_locks::{
    AcquireError, Ask, Claim, Durable, Grant, LeaseId, LockService, Mode, Release, RenewError, ServiceOptions,
};
use lockkeeper_store::{
    Alarm, ChangeSet, Facets, Fence, RecordKey, SqliteOptions, SqliteStore, Store, StoreClock, Timestamp, Verdict,
};

const HOUR_MS: i64 = 60 * 60 * 1_000;
const LONG: Duration = Duration::from_secs(60);

/// A store whose clock stands where the test sets it.
struct World {
    store: Arc<SqliteStore>,
    service: Durable,
    now_ms: Arc<AtomicI64>,
    _folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let now_ms = Arc::new(AtomicI64::new(1_800_000_000_000));
        let told = now_ms.clone();
        let clock = StoreClock::new(move || {
            Timestamp::from_timestamp_millis(told.load(Ordering::SeqCst)).expect("a time that there is")
        });
        let options = SqliteOptions { clock, ..SqliteOptions::default() };
        let store = Arc::new(SqliteStore::open(&folder.path().join("store.db"), options).expect("a store"));
        let service = Durable::open(store.clone(), ServiceOptions::default());
        Self { store, service, now_ms, _folder: folder }
    }

    fn jump(&self, by_ms: i64) {
        self.now_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    async fn acquire(&self, ask: &Ask) -> Grant {
        self.service.acquire(ask, Duration::ZERO).await.expect("it is free")
    }

    async fn write(&self, id: &str, fence: i64) -> Verdict {
        let set = ChangeSet {
            key: RecordKey { space: "s".into(), id: id.into() },
            commit_id: *LeaseId::random().as_uuid(),
            expected_version: 0,
            facets: Facets::default(),
            body: Vec::<u8>::new().into(),
            events: vec![Vec::<u8>::new().into()],
            keys: Vec::new(),
            requires: Vec::new(),
            fences: vec![Fence { resource: "a".into(), fence }],
            alarm: Alarm::Keep,
            at: Timestamp::default(),
            life: None,
        };
        self.store.commit(set).await.expect("a verdict")
    }
}

fn ask(owner: &str, names: &[&str]) -> Ask {
    let claims = names.iter().map(|name| Claim { resource: (*name).into(), mode: Mode::Exclusive });
    Ask::new(LeaseId::random(), owner, "host", claims, LONG).expect("a good ask")
}

#[tokio::test]
async fn a_jump_forward_ends_leases_and_fences_hold() {
    let world = World::new();
    let (ann, bob) = (ask("ann", &["a"]), ask("bob", &["a"]));
    let early = world.acquire(&ann).await.fences[0].expect("a fence");
    world.jump(HOUR_MS);
    let late = world.acquire(&bob).await.fences[0].expect("a fence");
    // Ann believes in her lease until she asks; what she writes meanwhile is refused.
    let verdict = world.write("by ann", early).await;
    assert_eq!(verdict, Verdict::Fenced { resource: "a".into(), fence: early, last: late });
    assert!(matches!(world.service.renew(ann.lease()).await, Err(RenewError::Lost { .. })));
    assert_eq!(world.write("by bob", late).await, Verdict::Committed);
}

#[tokio::test]
async fn a_jump_back_gives_nobody_back_what_another_has() {
    let world = World::new();
    let (ann, bob) = (ask("ann", &["a", "b"]), ask("bob", &["a"]));
    world.acquire(&ann).await;
    world.jump(HOUR_MS);
    // Only the row of `a` is swept.
    world.acquire(&bob).await;
    world.jump(-HOUR_MS);
    assert!(matches!(world.service.renew(ann.lease()).await, Err(RenewError::Lost { .. })));
    let again = world.service.acquire(&ann, Duration::ZERO).await;
    assert!(matches!(again, Err(AcquireError::Held(_))), "bob has a: {again:?}");
    world.acquire(&ask("cid", &["b"])).await;
    assert_eq!(world.service.release(bob.lease(), false).await, Ok(Release::Released));
}

#[tokio::test]
async fn a_jump_back_lengthens_leases_and_shortens_none() {
    let world = World::new();
    let ann = ask("ann", &["a"]);
    world.acquire(&ann).await;
    world.jump(-HOUR_MS);
    let refused = world.service.acquire(&ask("bob", &["a"]), Duration::ZERO).await;
    assert!(matches!(refused, Err(AcquireError::Held(_))), "{refused:?}");
    world.service.renew(ann.lease()).await.expect("still held");
    // The renewal has brought it back to what it should be.
    world.jump(i64::try_from(LONG.as_millis()).expect("short") + 2);
    world.acquire(&ask("bob", &["a"])).await;
}
