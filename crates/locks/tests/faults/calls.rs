//! Calls that are lost or late.

use std::time::Duration;

use lockkeeper_locks::{Acquire, AcquireError, LossCause, Released};

use crate::bench::{Bench, Fault, Kind};

const TTL: Duration = Duration::from_secs(30);

fn how() -> Acquire {
    Acquire::new().ttl(TTL)
}

#[tokio::test]
async fn a_grant_that_takes_longer_than_its_life_is_no_grant() {
    let bench = Bench::new();
    bench.service.next(Kind::Acquire, Fault::AnswerHeld);
    let locks = bench.locks.clone();
    let acquire = tokio::spawn(async move { locks.acquire("r", Acquire::new().ttl(Duration::from_secs(3))).await });
    bench.settle().await;
    assert_eq!(bench.holders("r").await, 1, "it was granted, and nobody knows");
    bench.pass(Duration::from_secs(4)).await;
    bench.service.let_go();
    let refused = acquire.await.expect("no panic").expect_err("too late");
    assert!(matches!(refused, AcquireError::Unavailable(_)), "{refused}");
    bench.locks.settled().await;
    assert_eq!(bench.holders("r").await, 0);
}

#[tokio::test]
async fn a_dropped_acquire_is_handed_back_though_its_answer_never_comes() {
    for fault in [Fault::AnswerHeld, Fault::CallHeld] {
        let bench = Bench::new();
        bench.service.next(Kind::Acquire, fault);
        let locks = bench.locks.clone();
        let acquire = tokio::spawn(async move { locks.acquire("r", how()).await });
        bench.settle().await;
        acquire.abort();
        bench.settle().await;
        assert_eq!(bench.holders("r").await, 0, "no time has passed");
        assert_eq!(bench.locks.kept(), 0);
        bench.locks.acquire("r", how()).await.expect("free");
    }
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again() {
    let bench = Bench::new();
    bench.service.next(Kind::Acquire, Fault::AnswerLost);
    bench.service.next(Kind::Acquire, Fault::NotSent);
    let locks = bench.locks.clone();
    let acquire = tokio::spawn(async move { locks.acquire("r", how().wait(Duration::from_secs(5))).await });
    bench.pass(Duration::from_secs(1)).await;
    let lease = acquire.await.expect("no panic").expect("granted again");
    assert_eq!(bench.service.calls(Kind::Acquire), 3);
    assert_eq!(lease.release().await, Released::Released);
    assert_eq!(bench.holders("r").await, 0);
}

#[tokio::test]
async fn whoever_does_not_wait_leaves_nothing_behind_a_lost_answer() {
    let bench = Bench::new();
    bench.service.next(Kind::Acquire, Fault::AnswerLost);
    let refused = bench.locks.acquire("r", how()).await.expect_err("nobody knows");
    assert!(matches!(refused, AcquireError::Unavailable(_)), "{refused}");
    bench.locks.settled().await;
    assert_eq!(bench.holders("r").await, 0);
}

#[tokio::test]
async fn a_silent_service_is_given_up() {
    let bench = Bench::new();
    bench.service.always(Some((Kind::Acquire, Fault::CallHeld)));
    let locks = bench.locks.clone();
    let acquire = tokio::spawn(async move { locks.acquire("r", how().wait(Duration::from_secs(2))).await });
    bench.pass(Duration::from_secs(10)).await;
    assert!(acquire.is_finished(), "its own deadline ends it");
    let refused = acquire.await.expect("no panic").expect_err("nobody answers");
    assert!(matches!(refused, AcquireError::Unavailable(_)), "{refused}");
    bench.locks.settled().await;
}

#[tokio::test]
async fn a_release_whose_answer_is_lost_is_a_release_and_leaves_the_next_lease_alone() {
    let bench = Bench::new();
    let lease = bench.locks.acquire("r", how()).await.expect("free");
    bench.service.next(Kind::Release, Fault::AnswerLost);
    let release = tokio::spawn(lease.release());
    bench.settle().await;
    let next = bench.locks.acquire("r", how()).await.expect("it was released");
    bench.pass(Duration::from_secs(1)).await;
    assert_eq!(release.await.expect("no panic"), Released::Released);
    assert_eq!((bench.service.calls(Kind::Release), bench.holders("r").await), (2, 1));
    assert!(next.is_held());
    assert_eq!(bench.locks.lost(), 0);
    assert_eq!(next.release().await, Released::Released);
}

#[tokio::test]
async fn a_cancelled_release_goes_on() {
    let bench = Bench::new();
    let lease = bench.locks.acquire("r", how()).await.expect("free");
    bench.service.next(Kind::Release, Fault::CallHeld);
    let release = tokio::spawn(lease.release());
    bench.settle().await;
    release.abort();
    bench.settle().await;
    assert_eq!(bench.holders("r").await, 1);
    bench.service.let_go();
    bench.settle().await;
    assert_eq!(bench.holders("r").await, 0);
}

#[tokio::test]
async fn a_release_that_nobody_confirms_is_called_so_and_goes_on_until_the_lease_has_expired() {
    let bench = Bench::new();
    let lease = bench.locks.acquire("r", how()).await.expect("free");
    bench.service.always(Some((Kind::Release, Fault::NotSent)));
    let release = tokio::spawn(lease.release());
    bench.settle().await;
    bench.pass(Duration::from_secs(8)).await;
    assert_eq!(release.await.expect("no panic"), Released::Unconfirmed);
    assert!(bench.service.calls(Kind::Release) > 3);
    bench.service.always(None);
    bench.pass(Duration::from_secs(3)).await;
    assert_eq!((bench.holders("r").await, bench.locks.kept()), (0, 0));
}

#[tokio::test]
async fn no_renewal_after_a_release() {
    let bench = Bench::new();
    let lease = bench.locks.acquire("r", how()).await.expect("free");
    bench.service.next(Kind::Renew, Fault::CallHeld);
    bench.pass(TTL / 2).await;
    assert_eq!(bench.service.calls(Kind::Renew), 1, "it is under way");
    assert_eq!(lease.release().await, Released::Released);
    bench.service.let_go();
    bench.pass(TTL * 2).await;
    assert_eq!((bench.service.calls(Kind::Renew), bench.locks.lost()), (1, 0));
    assert_eq!((bench.holders("r").await, bench.locks.kept()), (0, 0));
}

#[tokio::test]
async fn a_holder_that_is_cut_off_is_lost_before_another_can_have_it() {
    let bench = Bench::new();
    let lease = bench.locks.acquire("r", how()).await.expect("free");
    bench.service.always(Some((Kind::Renew, Fault::NotSent)));
    bench.service.next(Kind::Release, Fault::CallHeld);
    while lease.is_held() {
        assert_eq!(bench.holders("r").await, 1, "held here, and not there: {:?}", lease.remaining());
        bench.pass(Duration::from_millis(100)).await;
    }
    assert_eq!(lease.lost().await.cause, LossCause::Expired);
    let tried = bench.service.calls(Kind::Renew);
    assert!((5..200).contains(&tried), "renewals are tried again, and not without pause: {tried}");
    bench.pass(Duration::from_secs(1)).await;
    let next = bench.locks.acquire("r", how()).await.expect("it has expired");
    bench.service.always(None);
    bench.pass(TTL).await;
    assert_eq!(bench.service.calls(Kind::Renew), tried + 2, "only the next one renews");
    assert!(next.is_held());
    assert_eq!(lease.release().await, Released::AlreadyLost);
}

#[tokio::test]
async fn short_silences_cost_nothing() {
    let bench = Bench::new();
    let lease = bench.locks.acquire("r", how()).await.expect("free");
    for _ in 0..10 {
        bench.service.next(Kind::Renew, Fault::NotSent);
        bench.service.next(Kind::Renew, Fault::AnswerLost);
        bench.pass(TTL / 2).await;
        assert!(lease.is_held());
    }
    assert_eq!(lease.release().await, Released::Released);
}

#[tokio::test]
async fn a_wait_outlives_a_restart_of_the_service() {
    let bench = Bench::new();
    let first = bench.locks.acquire("r", how()).await.expect("free");
    bench.service.always(Some((Kind::Acquire, Fault::NotSent)));
    let locks = bench.locks.clone();
    let waiting = tokio::spawn(async move { locks.acquire("r", how().wait(Duration::from_secs(60))).await });
    bench.pass(Duration::from_secs(10)).await;
    bench.service.always(None);
    bench.pass(Duration::from_secs(3)).await;
    assert_eq!(bench.waiters("r").await, 1);
    first.release().await;
    bench.settle().await;
    let lease = waiting.await.expect("no panic").expect("its turn");
    lease.release().await;
}

#[tokio::test]
async fn a_wait_that_ends_leaves_the_queue() {
    let bench = Bench::new();
    let holder = bench.locks.acquire("r", how()).await.expect("free");
    let locks = bench.locks.clone();
    let waiting = tokio::spawn(async move { locks.acquire("r", how().wait(Duration::from_secs(25))).await });
    bench.pass(Duration::from_secs(24)).await;
    assert_eq!(bench.waiters("r").await, 1);
    bench.pass(Duration::from_secs(2)).await;
    let refused = waiting.await.expect("no panic").expect_err("still held");
    let AcquireError::LockTimeout { waited, .. } = refused else { panic!("{refused}") };
    assert!(waited >= Duration::from_secs(25), "all of the wait: {waited:?}");
    assert_eq!(bench.waiters("r").await, 0);
    assert!(holder.is_held());
}
