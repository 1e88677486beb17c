//! Several names at once.

use std::time::Duration;

use lockkeeper_locks::{Ask, Claim, LeaseId, Mode};

use crate::bench::{Bench, LONG, ask, ask_all};

pub(crate) async fn all_or_none(bench: &Bench) {
    let b = ask("bob", "b", LONG);
    bench.acquire(&b).await;
    let all = ask_all("ann", &["c", "a", "b"], LONG);
    assert_eq!(&*bench.held(&all).await.resource, "b");
    for free in ["a", "c"] {
        let other = ask("other", free, LONG);
        bench.acquire(&other).await;
        bench.release(&other).await;
    }
    let waiting = bench.queue(&all, LONG).await;
    bench.release(&b).await;
    let grant = waiting.granted().await;
    assert_eq!(grant.fences.len(), 3);
    for name in ["a", "b", "c"] {
        assert_eq!(&*bench.held(&ask("other", name, LONG)).await.owner, "ann");
    }
    bench.release(&all).await;
    bench.acquire(&ask_all("other", &["b", "a"], LONG)).await;
}

pub(crate) async fn opposite_orders_end(bench: &Bench) {
    const ROUNDS: usize = 25;
    let round = |names: &'static [&'static str]| {
        let service = bench.service.clone();
        tokio::spawn(async move {
            for n in 0..ROUNDS {
                // An owner is one flow of work: two that shared a name would look as if they waited for each other.
                let ask = ask_all(&format!("{}{n}", names.concat()), names, LONG);
                service.acquire(&ask, LONG).await.expect("no deadlock");
                service.release(ask.lease(), false).await.expect("an answer");
            }
        })
    };
    let tasks = [round(&["a", "b"]), round(&["b", "a"]), round(&["b", "c", "a"]), round(&["c"])];
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(30), task).await.expect("it ends").expect("no panic");
    }
}

pub(crate) async fn a_name_given_twice_is_asked_for_once(bench: &Bench) {
    let claims = [Mode::Shared, Mode::Exclusive, Mode::Shared].map(|mode| Claim { resource: "r".into(), mode });
    let twice = Ask::new(LeaseId::random(), "ann", "h", claims, LONG).expect("a good ask");
    assert_eq!(twice.claims().len(), 1);
    bench.acquire(&twice).await;
    bench.held(&crate::bench::ask_in(Mode::Shared, "bob", "r", LONG)).await;
    bench.release(&twice).await;
    bench.acquire(&ask("bob", "r", LONG)).await;
}

pub(crate) async fn one_call_renews_and_releases_all(bench: &Bench) {
    let all = ask_all("ann", &["a", "b", "c"], LONG);
    bench.acquire(&all).await;
    bench.service.renew(all.lease()).await.expect("all of it is held");
    // One of its names is taken, and with it the whole lease.
    bench.service.force_release("b").await.expect("an answer");
    assert!(bench.is_lost(&all).await);
    bench.acquire(&ask_all("bob", &["a", "b", "c"], LONG)).await;
}

pub(crate) async fn too_many_are_refused(bench: &Bench) {
    let claims = |n: usize| (0..n).map(|n| Claim { resource: format!("r{n}").into(), mode: Mode::Exclusive });
    let most = Ask::new(LeaseId::random(), "ann", "h", claims(100), LONG).expect("as many as there may be");
    bench.acquire(&most).await;
    bench.release(&most).await;
    assert!(Ask::new(LeaseId::random(), "ann", "h", claims(101), LONG).is_err());
    assert!(Ask::new(LeaseId::random(), "ann", "h", claims(0), LONG).is_err());
}
