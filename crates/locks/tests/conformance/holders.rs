//! Having a lease.

use std::time::Duration;

use lockkeeper_locks::{AcquireError, Ask, Clock as _, LeaseId, Release, RenewError, SystemClock, usable};

use crate::bench::{BRISK, Bench, LONG, SHORT, ask, fence};

pub(crate) async fn one_holds_it_and_others_hear_who(bench: &Bench) {
    let (ann, bob) = (ask("ann", "r", LONG), ask("bob", "r", LONG));
    bench.acquire(&ann).await;
    let held_by = bench.held(&bob).await;
    assert_eq!((&*held_by.resource, &*held_by.owner, &*held_by.host, held_by.holds), ("r", "ann", "host-1", true));
    let age = chrono::Utc::now() - held_by.since;
    assert!(age.num_seconds().abs() < 30, "since when: {age}");
    bench.acquire(&ask("bob", "another", LONG)).await;
    bench.release(&ann).await;
    bench.acquire(&bob).await;
}

pub(crate) async fn asked_again_it_is_granted_again(bench: &Bench) {
    let ann = ask("ann", "r", LONG);
    let first = bench.acquire(&ann).await;
    let again = bench.acquire(&ann).await;
    assert_eq!(again.fences, first.fences);
    assert!(again.asked >= first.asked);
    assert_eq!(bench.held(&ask("bob", "r", LONG)).await.owner, *ann.owner());
    bench.release(&ann).await;
    bench.acquire(&ask("bob", "r", LONG)).await;
}

pub(crate) async fn a_renewal_moves_the_end(bench: &Bench) {
    let ann = ask("ann", "r", BRISK);
    let mut valid_until = bench.acquire(&ann).await.valid_until();
    let clock = SystemClock;
    for _ in 0..5 {
        clock.sleep_until(clock.now() + BRISK / 4).await;
        let before = clock.now();
        let renewal = bench.service.renew(ann.lease()).await.expect("it is held");
        assert!(renewal.asked >= before && renewal.usable == usable(BRISK));
        assert!(renewal.valid_until() > valid_until);
        valid_until = renewal.valid_until();
    }
    assert_eq!(&*bench.held(&ask("bob", "r", LONG)).await.owner, "ann");
}

pub(crate) async fn a_lapsed_lease_is_lost_and_never_made_anew(bench: &Bench) {
    let (ann, bob) = (ask("ann", "r", SHORT), ask("bob", "r", LONG));
    bench.acquire(&ann).await;
    bench.until(|| async { bench.try_acquire(&bob).await.is_ok() }).await;
    assert!(bench.is_lost(&ann).await);
    bench.release(&bob).await;
    assert!(bench.is_lost(&ann).await, "free again, and still not ann's");
    bench.acquire(&ask("cid", "r", LONG)).await;
}

pub(crate) async fn an_unknown_lease_is_neither_renewed_nor_released(bench: &Bench) {
    let nobody = LeaseId::random();
    assert_eq!(bench.service.renew(nobody).await, Err(RenewError::Lost { since: None }));
    assert_eq!(bench.service.release(nobody, false).await, Ok(Release::AlreadyLost { since: None }));
}

pub(crate) async fn the_shortest_and_the_longest_life(bench: &Bench) {
    let (day, moment) = (Duration::from_secs(24 * 60 * 60), Duration::from_millis(1));
    let short = ask("ann", "short", moment);
    let grant = bench.acquire(&short).await;
    assert!(grant.usable <= moment && grant.usable > moment / 2);
    bench.until(|| async { bench.try_acquire(&ask("bob", "short", LONG)).await.is_ok() }).await;
    match bench.try_acquire(&ask("ann", "long", day)).await {
        Ok(grant) => assert!(grant.usable > day - day / 50),
        // A service that bounds lives by something shorter says so.
        Err(AcquireError::Unsupported(why)) => assert!(why.contains("at most"), "{why}"),
        Err(other) => panic!("{other}"),
    }
    for ttl in [Duration::ZERO, Duration::from_micros(400), day + moment] {
        let claims = ask("ann", "r", LONG).claims().to_vec();
        assert!(Ask::new(LeaseId::random(), "ann", "h", claims, ttl).is_err(), "{ttl:?}");
    }
}

pub(crate) async fn one_name_for_two_asks_is_refused(bench: &Bench) {
    let lease = LeaseId::random();
    let with = |resource| {
        let claims = ask("ann", resource, LONG).claims().to_vec();
        Ask::new(lease, "ann", "h", claims, LONG).expect("a good ask")
    };
    let first = fence(&bench.acquire(&with("r")).await);
    assert_eq!(bench.try_acquire(&with("other")).await, Err(AcquireError::Reused { ended: false }));
    assert_eq!(fence(&bench.acquire(&with("r")).await), first);
}

pub(crate) async fn it_says_where_it_is(bench: &Bench) {
    assert!(!bench.service.describe().is_empty());
    bench.service.ping().await.expect("it is there");
}
