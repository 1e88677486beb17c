//! Leases in somebody's hands.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockkeeper_locks::{Acquire, AcquireError, LossCause, Released};

use crate::bench::{BRISK, Bench, LONG, SHORT, ask};

/// What is handed back is there within a second, and not only after its time to live.
const AT_ONCE: Duration = Duration::from_secs(1);

pub(crate) async fn it_is_renewed_while_it_is_held(bench: &Bench) {
    let lease = bench.locks.acquire("r", Acquire::new().ttl(BRISK)).await.expect("free");
    let first = lease.valid_until();
    for _ in 0..3 {
        let renewed = lease.renewed().await.expect("it is renewed");
        assert!(renewed > first);
    }
    assert!(lease.is_held() && lease.remaining() <= BRISK);
    let refused = bench.locks.acquire("r", Acquire::new()).await;
    assert!(matches!(refused, Err(AcquireError::Held(_))), "{refused:?}");
    assert_eq!(lease.release().await, Released::Released);
    let next = bench.locks.acquire("r", Acquire::new()).await.expect("free again");
    assert_eq!(next.release().await, Released::Released);
}

pub(crate) async fn dropping_it_gives_it_back(bench: &Bench) {
    let lease = bench.locks.acquire("r", Acquire::new().ttl(LONG)).await.expect("free");
    let fence = lease.fence();
    drop(lease);
    let begun = Instant::now();
    let next = bench.locks.acquire("r", Acquire::new().wait(LONG)).await.expect("given back");
    assert!(begun.elapsed() < AT_ONCE, "after {:?}", begun.elapsed());
    assert!(next.fence() > fence);
    assert_eq!(bench.locks.dropped(), 1);
}

pub(crate) async fn a_dropped_acquire_is_handed_back_at_once(bench: &Bench) {
    for micros in [0, 1, 50, 200, 1_000, 3_000] {
        let acquire = bench.locks.acquire("r", Acquire::new().ttl(LONG).wait(LONG));
        let lease = tokio::time::timeout(Duration::from_micros(micros), acquire).await;
        drop(lease);
        let begun = Instant::now();
        let next = bench.locks.acquire("r", Acquire::new().wait(LONG)).await.expect("given back");
        assert!(begun.elapsed() < AT_ONCE, "after {:?}, dropped after {micros} us", begun.elapsed());
        next.release().await;
    }
    // One that waits leaves its place.
    let holder = bench.locks.acquire("r", Acquire::new().ttl(LONG)).await.expect("free");
    let waiting = bench.locks.acquire("r", Acquire::new().ttl(LONG).wait(LONG));
    assert!(tokio::time::timeout(SHORT, waiting).await.is_err());
    bench.until(|| async { bench.waiters("r").await == 0 }).await;
    assert_eq!(holder.release().await, Released::Released);
}

pub(crate) async fn work_ends_when_it_is_lost(bench: &Bench) {
    let lease = bench.locks.acquire("r", Acquire::new().ttl(BRISK)).await.expect("free");
    assert_eq!(lease.run(|lease| async move { lease.fence().is_some() }).await, Ok(true));
    let work = lease.run(|_| std::future::pending::<()>());
    let (worked, taken) = tokio::join!(work, bench.service.force_release("r"));
    assert_eq!(worked.expect_err("the work does not end by itself").cause, LossCause::Taken);
    assert_eq!(taken.expect("an answer").len(), 1);
    assert_eq!(lease.lost().await.cause, LossCause::Taken);
    assert_eq!((lease.is_held(), lease.remaining()), (false, Duration::ZERO));
    assert!(lease.run(|_| async {}).await.is_err(), "not begun");
    assert_eq!(lease.release().await, Released::AlreadyLost);
    assert_eq!(bench.locks.lost(), 1);
}

pub(crate) async fn a_released_lease_stays_released(bench: &Bench) {
    for _ in 0..4 {
        let lease = bench.locks.acquire("r", Acquire::new().ttl(BRISK)).await.expect("free");
        // Around the renewal, after a third of its life.
        tokio::time::sleep(BRISK / 3).await;
        assert_eq!(lease.release().await, Released::Released);
    }
    bench.locks.settled().await;
    assert_eq!((bench.locks.lost(), bench.locks.dropped()), (0, 0));
    bench.acquire(&ask("next", "r", LONG)).await;
}

pub(crate) async fn no_longer_than_it_may_be_held(bench: &Bench) {
    let most = BRISK * 3 / 2;
    let begun = Instant::now();
    let lease = bench.locks.acquire("r", Acquire::new().ttl(BRISK).max_hold(most)).await.expect("free");
    assert_eq!(lease.lost().await.cause, LossCause::MaxHold);
    assert!(begun.elapsed() >= most - BRISK / 10 && begun.elapsed() < most + AT_ONCE, "after {:?}", begun.elapsed());
    let next = bench.locks.acquire("r", Acquire::new().wait(LONG)).await.expect("given back");
    next.release().await;
}

pub(crate) async fn whoever_waits_gets_it_at_the_release(bench: &Bench) {
    let first = bench.locks.acquire("r", Acquire::new().ttl(LONG)).await.expect("free");
    let locks = bench.locks.clone();
    let waiting = tokio::spawn(async move { locks.acquire("r", Acquire::new().ttl(LONG).wait(LONG)).await });
    bench.until(|| async { bench.waiters("r").await == 1 }).await;
    let begun = Instant::now();
    assert_eq!(first.release().await, Released::Released);
    let second = waiting.await.expect("no panic").expect("its turn");
    assert!(begun.elapsed() < AT_ONCE, "after {:?}", begun.elapsed());
    let refused = bench.locks.acquire("r", Acquire::new().wait(SHORT)).await;
    assert!(matches!(refused, Err(AcquireError::LockTimeout { .. })), "{refused:?}");
    bench.until(|| async { bench.waiters("r").await == 0 }).await;
    second.release().await;
}

pub(crate) async fn many_take_turns_and_never_two_at_once(bench: &Bench) {
    let names = ["a", "b", "c"];
    let inside: Arc<[AtomicU64; 3]> = Arc::default();
    let last: Arc<[AtomicI64; 3]> = Arc::default();
    let mut tasks = Vec::new();
    for n in 0..12 {
        let (locks, inside, last) = (bench.locks.clone(), inside.clone(), last.clone());
        tasks.push(tokio::spawn(async move {
            for round in 0..8 {
                let at = (n + round) % names.len();
                let lease = locks.acquire(names[at], Acquire::new().ttl(LONG).wait(LONG)).await.expect("its turn");
                assert_eq!(inside[at].fetch_add(1, Ordering::SeqCst), 0, "alone");
                let fence = lease.fence().expect("the service has fences");
                assert!(last[at].swap(fence, Ordering::SeqCst) < fence, "fences grow");
                tokio::task::yield_now().await;
                inside[at].fetch_sub(1, Ordering::SeqCst);
                assert_eq!(lease.release().await, Released::Released);
            }
        }));
    }
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(60), task).await.expect("it ends").expect("no panic");
    }
}
