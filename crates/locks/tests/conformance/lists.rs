//! What is told of names.

use lockkeeper_locks::{LeaseQuery, Mode};

use crate::bench::{Bench, LONG, SHORT, ask, ask_in, fence};

async fn names(bench: &Bench, limit: usize) -> Vec<String> {
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = bench.service.list(&LeaseQuery { after, limit }).await.expect("a page");
        assert!(page.resources.len() <= limit);
        names.extend(page.resources.iter().map(|view| view.resource.to_string()));
        after = page.next;
        if after.is_none() {
            return names;
        }
    }
}

pub(crate) async fn who_holds_and_how_many_wait(bench: &Bench) {
    let (ann, bob) = (ask_in(Mode::Permits(2), "ann", "r", LONG), ask_in(Mode::Permits(2), "bob", "r", LONG));
    let grant = bench.acquire(&ann).await;
    bench.acquire(&bob).await;
    let _waiting = [bench.queue(&ask("c", "r", LONG), LONG).await, bench.queue(&ask("d", "r", LONG), LONG).await];
    let page = bench.service.list(&LeaseQuery { after: None, limit: 10 }).await.expect("a page");
    let [view] = &page.resources[..] else { panic!("{page:?}") };
    assert_eq!((&*view.resource, view.waiters), ("r", 2));
    let mut owners: Vec<&str> = view.holders.iter().map(|holder| &*holder.owner).collect();
    owners.sort_unstable();
    assert_eq!(owners, ["ann", "bob"]);
    for holder in &view.holders {
        assert_eq!((holder.mode, holder.fence, &*holder.host), (Mode::Permits(2), Some(fence(&grant)), "host-1"));
        let left = (holder.expires - page.now).to_std().expect("it is held");
        assert!(left <= LONG + std::time::Duration::from_millis(1) && left > LONG / 2, "{left:?}");
    }
}

pub(crate) async fn pages_run_byte_by_byte(bench: &Bench) {
    let mut expected: Vec<String> =
        ["b", "a", "ab", "B", "ä", "z", "~", "日", "a b"].map(str::to_owned).into_iter().collect();
    for name in &expected {
        bench.acquire(&ask("ann", name, LONG)).await;
    }
    expected.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    for limit in [1, 2, 4, 9, 100] {
        assert_eq!(names(bench, limit).await, expected, "pages of {limit}");
    }
}

pub(crate) async fn what_is_free_is_not_told(bench: &Bench) {
    let (released, lapsed, held) =
        (ask("ann", "released", LONG), ask("ann", "lapsed", SHORT), ask("ann", "held", LONG));
    for ask in [&released, &lapsed, &held] {
        bench.acquire(ask).await;
    }
    bench.release(&released).await;
    bench.until(|| async { names(bench, 10).await == ["held"] }).await;
}
