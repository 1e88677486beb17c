//! Giving a lease back, or having it taken.

use lockkeeper_locks::{AcquireError, Release, RenewError};

use crate::bench::{Bench, LONG, SHORT, ask, fence};

pub(crate) async fn a_release_frees_it_and_is_answered_again(bench: &Bench) {
    let ann = ask("ann", "r", LONG);
    bench.acquire(&ann).await;
    bench.release(&ann).await;
    // The first answer may have been lost: the same again, though somebody else has the name by now.
    bench.acquire(&ask("bob", "r", LONG)).await;
    bench.release(&ann).await;
    assert!(bench.is_lost(&ann).await);
    assert_eq!(&*bench.held(&ask("cid", "r", LONG)).await.owner, "bob");
}

pub(crate) async fn an_old_release_does_not_touch_a_newer_lease(bench: &Bench) {
    let (first, second) = (ask("ann", "r", LONG), ask("ann", "r", LONG));
    bench.acquire(&first).await;
    bench.release(&first).await;
    bench.acquire(&second).await;
    bench.service.release(first.lease(), true).await.expect("an answer");
    assert!(!bench.is_lost(&second).await);
    bench.release(&second).await;
}

pub(crate) async fn a_lapsed_lease_is_released_as_lost(bench: &Bench) {
    let ann = ask("ann", "r", SHORT);
    bench.acquire(&ann).await;
    bench.until(|| async { bench.try_acquire(&ask("bob", "r", SHORT)).await.is_ok() }).await;
    let release = bench.service.release(ann.lease(), false).await;
    assert!(matches!(release, Ok(Release::AlreadyLost { .. })), "{release:?}");
}

pub(crate) async fn an_ended_attempt_gets_nothing(bench: &Bench) {
    let (held, never) = (ask("ann", "r", LONG), ask("ann", "r", LONG));
    // Ended before it arrives, and after it was granted.
    bench.service.release(never.lease(), true).await.expect("an answer");
    bench.acquire(&held).await;
    bench.service.release(held.lease(), true).await.expect("an answer");
    for late in [&never, &held] {
        assert_eq!(bench.try_acquire(late).await, Err(AcquireError::Reused { ended: true }));
        assert_eq!(bench.service.acquire(late, SHORT).await, Err(AcquireError::Reused { ended: true }));
    }
    bench.acquire(&ask("bob", "r", LONG)).await;
}

pub(crate) async fn a_forced_release_takes_it_and_the_next_one_gets_it(bench: &Bench) {
    let (ann, bob) = (ask("ann", "r", LONG), ask("bob", "r", LONG));
    let first = fence(&bench.acquire(&ann).await);
    let waiting = bench.queue(&bob, LONG).await;
    let taken = bench.service.force_release("r").await.expect("an answer");
    assert_eq!(taken.len(), 1);
    assert_eq!((&*taken[0].owner, taken[0].fence), ("ann", Some(first)));
    assert!(fence(&waiting.granted().await) > first);
    assert_eq!(bench.service.renew(ann.lease()).await, Err(RenewError::Lost { since: None }));
    assert_eq!(bench.service.force_release("nothing").await, Ok(Vec::new()));
}

pub(crate) async fn after_close_all_is_unavailable(bench: &Bench) {
    let (ann, bob) = (ask("ann", "r", LONG), ask("bob", "r", LONG));
    bench.acquire(&ann).await;
    let waiting = bench.queue(&bob, LONG).await;
    bench.service.close().await;
    assert!(matches!(waiting.result().await, Err(AcquireError::Unavailable(_))));
    assert!(matches!(bench.try_acquire(&bob).await, Err(AcquireError::Unavailable(_))));
    assert!(matches!(bench.service.renew(ann.lease()).await, Err(RenewError::Unavailable(_))));
    assert!(bench.service.release(ann.lease(), false).await.is_err());
}
