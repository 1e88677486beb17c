//! Fencing tokens.

use lockkeeper_locks::{LeaseQuery, Mode};

use crate::bench::{Bench, LONG, SHORT, ask, ask_all, ask_in, fence};

pub(crate) async fn they_grow_with_each_holder(bench: &Bench) {
    let mut last = 0;
    for round in 0..30 {
        let ask = ask("ann", "r", if round % 10 == 9 { SHORT } else { LONG });
        let grant = bench.service.acquire(&ask, LONG).await.expect("free, or lapsed");
        assert!(fence(&grant) > last);
        last = fence(&grant);
        if round % 10 != 9 {
            bench.release(&ask).await;
        }
    }
}

pub(crate) async fn whoever_shares_has_the_same(bench: &Bench) {
    let permits: Vec<_> = (0..3).map(|n| ask_in(Mode::Permits(3), &format!("p{n}"), "r", LONG)).collect();
    let mut fences = Vec::new();
    for permit in &permits {
        fences.push(fence(&bench.acquire(permit).await));
    }
    // Whoever comes and goes beside others is of their generation; the next one alone is of another.
    bench.release(&permits[0]).await;
    fences.push(fence(&bench.acquire(&permits[0]).await));
    fences.dedup();
    assert_eq!(fences.len(), 1);
    for permit in &permits {
        bench.release(permit).await;
    }
    assert!(fence(&bench.acquire(&ask("alone", "r", LONG)).await) > fences[0]);
}

pub(crate) async fn each_name_has_its_own(bench: &Bench) {
    let a = ask("ann", "a", LONG);
    let mut last = 0;
    for _ in 0..3 {
        last = fence(&bench.acquire(&a_new(&a)).await);
        bench.service.force_release("a").await.expect("an answer");
    }
    let both = bench.acquire(&ask_all("ann", &["b", "a"], LONG)).await;
    assert_eq!(both.fences.len(), 2);
    assert!(both.fences[0] > Some(last), "a was held before: {:?} after {last}", both.fences);
    let page = bench.service.list(&LeaseQuery { after: None, limit: 10 }).await.expect("a page");
    let told: Vec<_> = page.resources.iter().map(|view| (&*view.resource, view.holders[0].fence)).collect();
    assert_eq!(told, [("a", both.fences[0]), ("b", both.fences[1])], "in the order of the names");
}

fn a_new(like: &lockkeeper_locks::Ask) -> lockkeeper_locks::Ask {
    ask(like.owner(), &like.claims()[0].resource, like.ttl())
}

pub(crate) async fn they_are_exact_numbers(bench: &Bench) {
    let fence = fence(&bench.acquire(&ask("ann", "r", LONG)).await);
    assert!(fence > 0 && fence < 1 << 53);
    // The floor is the second in which the service met its server, or somewhat earlier; a minute later, where it cannot
    // be told whether somebody met it before.
    let age = chrono::Utc::now().timestamp() - (fence >> 20);
    assert!((-61..3_600).contains(&age), "a floor of {age} s ago");
}
