//! Time that jumps: a process that stood still, a machine that was suspended.

use std::time::Duration;

use lockkeeper_locks::{Acquire, Clock as _, LossCause, Released, SystemClock};

use crate::bench::Bench;

const TTL: Duration = Duration::from_secs(30);

#[tokio::test]
async fn whoever_stood_still_knows_at_once() {
    let bench = Bench::new();
    let lease = bench.locks.acquire("r", Acquire::new().ttl(TTL)).await.expect("free");
    let fence = lease.fence();
    // Nothing of this process runs meanwhile.
    bench.clock.advance(TTL * 2);
    assert!(!lease.is_held() && lease.remaining().is_zero());
    let begun = lease.run(|_| async { panic!("work begins after the loss") }).await;
    assert_eq!(begun.expect_err("lost").cause, LossCause::Expired);
    let next = bench.locks.acquire("r", Acquire::new()).await.expect("it has expired");
    assert!(next.fence() > fence);
    bench.settle().await;
    assert_eq!(lease.release().await, Released::AlreadyLost);
    assert!(next.is_held(), "what the first gave back was its own");
}

#[tokio::test]
async fn whoever_stood_still_for_less_goes_on() {
    let bench = Bench::new();
    let lease = bench.locks.acquire("r", Acquire::new().ttl(TTL)).await.expect("free");
    bench.clock.advance(TTL * 9 / 10);
    bench.settle().await;
    assert!(lease.remaining() > TTL * 9 / 10, "renewed: {:?}", lease.remaining());
    assert_eq!(lease.release().await, Released::Released);
}

#[tokio::test]
async fn the_validity_counts_from_before_the_request() {
    let bench = Bench::new();
    let first = bench.locks.acquire("r", Acquire::new().ttl(TTL)).await.expect("free");
    let locks = bench.locks.clone();
    let waiting =
        tokio::spawn(async move { locks.acquire("r", Acquire::new().ttl(TTL).wait(Duration::from_secs(3_600))).await });
    // The wait is much longer than the lease will live.
    bench.pass(Duration::from_secs(300)).await;
    let before = bench.now();
    first.release().await;
    bench.settle().await;
    let lease = waiting.await.expect("no panic").expect("its turn");
    assert!(lease.valid_until() <= before + TTL, "not from later than the ask");
    assert!(lease.remaining() > TTL / 3, "and not from when the wait began: {:?}", lease.remaining());
    bench.pass(TTL / 3).await;
    assert!(lease.remaining() > TTL / 2, "it is renewed soon: {:?}", lease.remaining());
}

#[tokio::test]
async fn the_longest_hold_counts_from_the_grant() {
    let bench = Bench::new();
    let first = bench.locks.acquire("r", Acquire::new().ttl(TTL)).await.expect("free");
    let locks = bench.locks.clone();
    let plan = Acquire::new().ttl(TTL).wait(TTL).max_hold(TTL / 20);
    let waiting = tokio::spawn(async move { locks.acquire("r", plan).await });
    // Longer than it may be held, and not so long that it asks again.
    bench.pass(TTL / 10).await;
    first.release().await;
    bench.settle().await;
    let lease = waiting.await.expect("no panic").expect("its turn");
    assert!(lease.is_held() && lease.remaining() > TTL / 40, "{:?}", lease.remaining());
}

#[tokio::test]
async fn it_is_told_that_it_is_lost_when_it_is() {
    let bench = Bench::new();
    let lease = bench.locks.acquire("r", Acquire::new().ttl(TTL).max_hold(TTL / 2)).await.expect("free");
    let valid_until = lease.valid_until();
    let lost = tokio::spawn(async move { lease.lost().await });
    bench.clock.advance(valid_until.since(bench.now()) - Duration::from_millis(1));
    bench.settle().await;
    assert!(!lost.is_finished());
    bench.clock.advance(Duration::from_millis(1));
    bench.settle().await;
    assert_eq!(lost.await.expect("no panic").cause, LossCause::MaxHold);
}

#[tokio::test]
async fn the_machines_clock_runs_and_wakes() {
    let clock = SystemClock;
    let (now, begun) = (clock.now(), std::time::Instant::now());
    clock.sleep_until(now + Duration::from_millis(20)).await;
    assert!(begun.elapsed() >= Duration::from_millis(20) && clock.now() >= now + Duration::from_millis(20));
    // What is past is not waited for.
    clock.sleep_until(now).await;
}
