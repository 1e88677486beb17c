//! Waiting for a lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockkeeper_locks::{AcquireError, place_kept};

use crate::bench::{Bench, LONG, NOW, SHORT, ask, fence};

pub(crate) async fn who_came_first_goes_first(bench: &Bench) {
    let holder = ask("holder", "r", LONG);
    bench.acquire(&holder).await;
    let mut queue = Vec::new();
    for owner in ["a", "b", "c", "d", "e"] {
        let ask = ask(owner, "r", LONG);
        let waiting = bench.queue(&ask, LONG).await;
        queue.push((ask, waiting));
    }
    let mut before = holder;
    let mut last = 0;
    for (place, (ask, waiting)) in queue.into_iter().enumerate() {
        assert!(!waiting.is_over(), "number {place} goes before its turn");
        bench.release(&before).await;
        let fence = fence(&waiting.granted().await);
        assert!(fence > last);
        (before, last) = (ask, fence);
    }
}

pub(crate) async fn whoever_does_not_wait_passes_nobody(bench: &Bench) {
    let (holder, first) = (ask("holder", "r", LONG), ask("first", "r", LONG));
    bench.acquire(&holder).await;
    let waiting = bench.queue(&first, LONG).await;
    bench.release(&holder).await;
    // Free, or the first's by now: in neither case anybody else's.
    let held_by = bench.held(&ask("hasty", "r", LONG)).await;
    assert_eq!(&*held_by.owner, "first");
    waiting.granted().await;
}

pub(crate) async fn a_wait_ends_and_keeps_its_place(bench: &Bench) {
    let (holder, patient) = (ask("holder", "r", LONG), ask("patient", "r", LONG));
    bench.acquire(&holder).await;
    let begun = Instant::now();
    match bench.service.acquire(&patient, SHORT).await {
        Err(AcquireError::LockTimeout { waited, held_by }) => {
            assert!(waited >= SHORT && begun.elapsed() >= SHORT, "{waited:?}");
            assert_eq!(&*held_by.owner, "holder");
        }
        other => panic!("{other:?}"),
    }
    assert!(place_kept(LONG) > Duration::from_secs(5));
    bench.release(&holder).await;
    let held_by = bench.held(&ask("hasty", "r", LONG)).await;
    // It may have been granted what it waited for.
    assert_eq!(&*held_by.owner, "patient");
    bench.service.acquire(&patient, SHORT).await.expect("its place was kept");
}

pub(crate) async fn a_place_that_is_given_up_is_passed(bench: &Bench) {
    let (holder, first, second) = (ask("holder", "r", LONG), ask("first", "r", LONG), ask("second", "r", LONG));
    bench.acquire(&holder).await;
    let (one, two) = (bench.queue(&first, LONG).await, bench.queue(&second, LONG).await);
    one.abort().await;
    bench.service.release(first.lease(), true).await.expect("an answer");
    bench.release(&holder).await;
    two.granted().await;
}

pub(crate) async fn a_place_whose_owner_died_is_passed(bench: &Bench) {
    let (holder, first, second) = (ask("holder", "r", LONG), ask("first", "r", SHORT), ask("second", "r", SHORT));
    bench.acquire(&holder).await;
    let (one, two) = (bench.queue(&first, LONG).await, bench.queue(&second, LONG).await);
    // Nothing is given back, as if its process had been killed.
    one.abort().await;
    bench.release(&holder).await;
    two.granted().await;
}

pub(crate) async fn a_lapsed_holder_is_followed(bench: &Bench) {
    let (holder, waiter) = (ask("holder", "r", SHORT), ask("waiter", "r", LONG));
    bench.acquire(&holder).await;
    let begun = Instant::now();
    let waiting = bench.queue(&waiter, LONG).await;
    waiting.granted().await;
    // Nobody has released anything: it is seen by the clock, not by asking from time to time.
    assert!(begun.elapsed() < SHORT + Duration::from_secs(3), "after {:?}", begun.elapsed());
}

pub(crate) async fn a_dropped_wait_gets_nothing(bench: &Bench) {
    let (holder, fickle) = (ask("holder", "r", LONG), ask("fickle", "r", LONG));
    bench.acquire(&holder).await;
    bench.queue(&fickle, LONG).await.abort().await;
    bench.service.release(fickle.lease(), true).await.expect("an answer");
    assert_eq!(bench.waiters("r").await, 0);
    bench.release(&holder).await;
    assert!(bench.is_lost(&fickle).await);
    bench.acquire(&ask("next", "r", LONG)).await;
}

pub(crate) async fn many_wait_and_each_gets_it_once(bench: &Bench) {
    const WAITERS: usize = 40;
    let holder = ask("holder", "r", LONG);
    let first = fence(&bench.acquire(&holder).await);
    let inside = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for n in 0..WAITERS {
        let (service, inside, ask) = (bench.service.clone(), inside.clone(), ask(&format!("o{n}"), "r", LONG));
        tasks.push(tokio::spawn(async move {
            let grant = service.acquire(&ask, LONG).await.expect("its turn comes");
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            service.release(ask.lease(), false).await.expect("an answer");
            fence(&grant)
        }));
    }
    bench.until(|| async { bench.waiters("r").await == WAITERS as u64 }).await;
    bench.release(&holder).await;
    let mut fences = vec![first];
    for task in tasks {
        fences.push(task.await.expect("no panic"));
    }
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), WAITERS + 1, "each has a fence of its own");
    assert!(bench.service.acquire(&ask("last", "r", LONG), NOW).await.is_ok());
}
