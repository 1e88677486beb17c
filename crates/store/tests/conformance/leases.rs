//! Leases in the store's rows: the same answers as in memory, whatever is asked in whatever order. What the law says is
//! tested where it stands; here it is tested that the rows carry it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_store::lease::{
    Ask, Asked, Circle, Claim, Ended, Forced, HeldBy, LeaseAnswer, LeaseId, LeaseQuery, LeaseRequest, Memory, Mode,
    Renewed, ResourceView, circles, law,
};
use lockkeeper_store::{Store, Timestamp, Verdict};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::bench::{Bench, key, set};

/// Nothing lapses while a case is at work.
const LONG: Duration = Duration::from_secs(3_600);

/// Waited for, and long enough for what is to be done before on a busy machine.
const SHORT: Duration = Duration::from_millis(1_000);

fn seed() -> u64 {
    let seed = std::env::var("LOCKKEEPER_SEED").map_or(7070, |text| text.parse().expect("a number"));
    println!("seed: LOCKKEEPER_SEED={seed}");
    seed
}

fn ask_for(lease: LeaseId, owner: &str, claims: &[(&str, Mode)], ttl: Duration) -> Ask {
    let claims = claims.iter().map(|(resource, mode)| Claim { resource: (*resource).into(), mode: *mode });
    Ask::new(lease, owner, "host", claims, ttl).expect("a good ask")
}

fn ask(owner: &str, resource: &str, ttl: Duration) -> Ask {
    ask_for(LeaseId::random(), owner, &[(resource, Mode::Exclusive)], ttl)
}

async fn asked(store: &dyn Store, ask: &Ask, keep: Option<Duration>) -> Asked {
    let request = LeaseRequest::Ask { ask: ask.clone(), keep };
    match store.lease(request).await.expect("an answer") {
        LeaseAnswer::Asked(asked) => asked,
        other => panic!("{other:?}"),
    }
}

async fn granted(store: &dyn Store, ask: &Ask) -> Vec<i64> {
    match asked(store, ask, None).await {
        Asked::Granted { fences } => fences,
        other => panic!("{other:?}"),
    }
}

/// Draws requests of a few leases for a few names.
struct Draw {
    random: SmallRng,
    leases: Vec<LeaseId>,
}

impl Draw {
    fn new(seed: u64) -> Self {
        let leases = (0..7).map(|n| LeaseId::of_attempt("o", &n.to_string())).collect();
        Self { random: SmallRng::seed_from_u64(seed), leases }
    }

    fn lease(&mut self) -> (usize, LeaseId) {
        let place = self.random.random_range(0..self.leases.len());
        (place, self.leases[place])
    }

    /// What a lease asks for is mostly the same each time.
    fn ask(&mut self) -> Ask {
        let (place, lease) = self.lease();
        let of = if self.random.random_ratio(1, 20) { place + 1 } else { place };
        let modes = [Mode::Exclusive, Mode::Shared, Mode::Permits(2)];
        let claims: &[(&str, Mode)] = match of {
            0 => &[("a", Mode::Exclusive)],
            1 => &[("a", Mode::Exclusive), ("b", Mode::Exclusive)],
            2 => &[("b", Mode::Shared)],
            3 => &[("c", Mode::Permits(2)), ("a", Mode::Shared)],
            4 => &[("b", Mode::Shared), ("c", Mode::Permits(3))],
            5 => &[("c", Mode::Permits(2))],
            _ => &[("a", modes[2]), ("b", modes[1]), ("c", modes[0])],
        };
        ask_for(lease, &format!("owner {place}"), claims, LONG)
    }

    fn request(&mut self) -> LeaseRequest {
        match self.random.random_range(0..20) {
            0..8 => {
                let keep = self.random.random_bool(0.7).then_some(LONG);
                LeaseRequest::Ask { ask: self.ask(), keep }
            }
            8..11 => LeaseRequest::Renew { lease: self.lease().1 },
            11..17 => LeaseRequest::End { lease: self.lease().1, bar: false },
            17 => {
                // A barred name is used up: another takes its place.
                let (place, lease) = self.lease();
                self.leases[place] = LeaseId::of_attempt("again", &self.random.random::<u64>().to_string());
                LeaseRequest::End { lease, bar: true }
            }
            18 => LeaseRequest::Force { resource: ["a", "b", "c"][self.random.random_range(0..3)].into() },
            _ => {
                // A ticket of another wait: it does nothing.
                let (ticket, cycle) = (0, Arc::from(["x".to_owned(), "y".to_owned()]));
                LeaseRequest::Break { lease: self.lease().1, ticket, cycle }
            }
        }
    }
}

/// The fences that were seen, name by name, in the order in which they came.
#[derive(Default)]
struct Generations(HashMap<Arc<str>, Vec<i64>>);

impl Generations {
    /// How many fences of a name there were before this one.
    fn of(&mut self, claim: &Claim, fence: i64) -> usize {
        let seen = self.0.entry(claim.resource.clone()).or_default();
        seen.iter().position(|other| *other == fence).unwrap_or_else(|| {
            assert!(seen.last().is_none_or(|last| *last < fence), "fences of {} only grow", claim.resource);
            seen.push(fence);
            seen.len() - 1
        })
    }
}

/// An answer without what the time and the floor decide.
fn plain(request: &LeaseRequest, answer: &LeaseAnswer, seen: &mut Generations) -> String {
    let who = |held_by: &HeldBy| format!("{} {} {}", held_by.resource, held_by.owner, held_by.holds);
    match answer {
        LeaseAnswer::Asked(Asked::Granted { fences }) => {
            let LeaseRequest::Ask { ask, .. } = request else { panic!("{request:?} is granted") };
            let generations = ask.claims().iter().zip(fences).map(|(claim, fence)| seen.of(claim, *fence));
            format!("granted {:?}", generations.collect::<Vec<_>>())
        }
        LeaseAnswer::Asked(Asked::Waiting { held_by, look_again, .. }) => {
            format!("waiting {} {}", who(held_by), look_again.is_some())
        }
        LeaseAnswer::Asked(Asked::Held(held_by)) => format!("held {}", who(held_by)),
        LeaseAnswer::Asked(other) => format!("{other:?}"),
        LeaseAnswer::Renewed(Renewed::Lost { .. }) => "lost".to_owned(),
        LeaseAnswer::Renewed(renewed) => format!("{renewed:?}"),
        LeaseAnswer::Ended(Ended::AlreadyLost { .. }) => "already lost".to_owned(),
        LeaseAnswer::Ended(ended) => format!("{ended:?}"),
        LeaseAnswer::Forced(Forced { holders }) => {
            format!("forced {:?}", holders.iter().map(|holder| (holder.lease, holder.mode)).collect::<Vec<_>>())
        }
        LeaseAnswer::Broken(waited) => format!("broken {waited}"),
    }
}

pub(crate) async fn rows_answer_as_memory_does(bench: &Bench) {
    let seed = seed();
    let (mut draw, mut memory) = (Draw::new(seed), Memory::new(Timestamp::default(), 1, false));
    let mut woken = bench.store.woken();
    let (mut ours, mut theirs) = (Generations::default(), Generations::default());
    for step in 0..600 {
        let request = draw.request();
        let Ok(expected) = law::apply(&mut memory, &request);
        let found = bench.store.lease(request.clone()).await.expect("an answer");
        let expected_text = plain(&request, &expected.answer, &mut theirs);
        assert_eq!(plain(&request, &found, &mut ours), expected_text, "step {step}: {request:?}");
        let mut told = Vec::new();
        while let Ok(lease) = woken.try_recv() {
            told.push(lease);
        }
        let expected: Vec<_> = expected.woken.into_iter().map(|woken| woken.lease).collect();
        assert_eq!(told, expected, "step {step}: {request:?}");
    }
    let listed = bench.store.leases(&LeaseQuery { after: None, limit: 100 }).await.expect("a page").resources;
    let expected = memory.list(&LeaseQuery { after: None, limit: 100 }).resources;
    let shape = |views: &[ResourceView]| {
        let holders = |view: &ResourceView| view.holders.iter().map(|holder| holder.lease).collect::<Vec<_>>();
        views.iter().map(|view| (view.resource.to_string(), holders(view), view.waiters)).collect::<Vec<_>>()
    };
    assert_eq!(shape(&listed), shape(&expected));
}

pub(crate) async fn a_lease_lasts_by_the_stores_clock(bench: &Bench) {
    let store = &*bench.store;
    let (ann, bob) = (ask("ann", "r", SHORT), ask("bob", "r", LONG));
    let first = granted(store, &ann).await;
    let Asked::Waiting { look_again: Some(look_again), .. } = asked(store, &bob, Some(LONG)).await else {
        panic!("free before its time");
    };
    assert!(look_again <= SHORT + Duration::from_millis(1));
    tokio::time::sleep(look_again + Duration::from_millis(2)).await;
    let second = granted(store, &bob).await;
    assert!(second[0] > first[0]);
    let renewed = store.lease(LeaseRequest::Renew { lease: ann.lease() }).await.expect("an answer");
    assert!(matches!(renewed, LeaseAnswer::Renewed(Renewed::Lost { .. })), "{renewed:?}");
}

pub(crate) async fn a_place_lapses_by_the_stores_clock(bench: &Bench) {
    let store = &*bench.store;
    let (ann, bob, cid) = (ask("ann", "r", LONG), ask("bob", "r", LONG), ask("cid", "r", LONG));
    granted(store, &ann).await;
    assert!(matches!(asked(store, &bob, Some(SHORT)).await, Asked::Waiting { .. }));
    assert!(matches!(asked(store, &cid, Some(LONG)).await, Asked::Waiting { .. }));
    tokio::time::sleep(SHORT + Duration::from_millis(5)).await;
    let mut woken = store.woken();
    store.lease(LeaseRequest::End { lease: ann.lease(), bar: false }).await.expect("an answer");
    assert_eq!(woken.recv().await, Ok(cid.lease()), "bob's place has lapsed");
    granted(store, &cid).await;
}

pub(crate) async fn a_grant_raises_the_fence_that_commits_are_held_to(bench: &Bench) {
    let store = &*bench.store;
    let first = granted(store, &ask("ann", "r", SHORT)).await[0];
    tokio::time::sleep(SHORT + Duration::from_millis(5)).await;
    let second = granted(store, &ask("bob", "r", LONG)).await[0];
    let late = bench.commit(&set(&key("late"), 0).events(["1"]).fence("r", first)).await;
    assert_eq!(late, Verdict::Fenced { resource: "r".into(), fence: first, last: second });
    bench.must_commit(&set(&key("timely"), 0).events(["1"]).fence("r", second)).await;
}

pub(crate) async fn circles_are_seen(bench: &Bench) {
    let store = &*bench.store;
    let (a1, b1) = (ask("ann", "r1", LONG), ask("bob", "r2", LONG));
    let (a2, b2) = (ask("ann", "r2", LONG), ask("bob", "r1", LONG));
    granted(store, &a1).await;
    granted(store, &b1).await;
    assert!(matches!(asked(store, &a2, Some(LONG)).await, Asked::Waiting { .. }));
    assert!(circles(&store.lease_edges().await.expect("edges")).is_empty());
    assert!(matches!(asked(store, &b2, Some(LONG)).await, Asked::Waiting { .. }));
    let found = circles(&store.lease_edges().await.expect("edges"));
    let [Circle { victim, ticket, owners }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(*victim, b2.lease(), "the youngest");
    let request = |ticket| LeaseRequest::Break { lease: *victim, ticket, cycle: owners.clone() };
    assert_eq!(store.lease(request(ticket - 1)).await, Ok(LeaseAnswer::Broken(false)), "another wait of the same name");
    assert_eq!(store.lease(request(*ticket)).await, Ok(LeaseAnswer::Broken(true)));
    assert_eq!(asked(store, &b2, Some(LONG)).await, Asked::Deadlock { cycle: owners.clone() });
    assert!(circles(&store.lease_edges().await.expect("edges")).is_empty());
}

pub(crate) async fn only_so_many_may_hold(bench: &Bench) {
    let store = &*bench.store;
    for n in 0..5 {
        let shared = ask_for(LeaseId::random(), &format!("o{n}"), &[("r", Mode::Shared)], LONG);
        granted(store, &shared).await;
    }
    let permit = ask_for(LeaseId::random(), "p", &[("r", Mode::Permits(5))], LONG);
    assert!(matches!(asked(store, &permit, None).await, Asked::Held(_)));
    let permit = ask_for(LeaseId::random(), "p", &[("r", Mode::Permits(6))], LONG);
    granted(store, &permit).await;
}

pub(crate) async fn many_at_once_are_served_one_by_one(bench: &Bench) {
    let asks: Vec<Ask> = (0..60).map(|n| ask(&format!("o{n}"), if n % 3 == 0 { "x" } else { "y" }, LONG)).collect();
    let results = futures_util::future::join_all(asks.iter().map(|ask| asked(&*bench.store, ask, Some(LONG)))).await;
    let granted = results.iter().filter(|asked| matches!(asked, Asked::Granted { .. })).count();
    assert_eq!(granted, 2, "one of each name");
    let waiting = results.iter().filter(|asked| matches!(asked, Asked::Waiting { .. })).count();
    assert_eq!(waiting, 58);
    let listed = bench.store.leases(&LeaseQuery { after: None, limit: 100 }).await.expect("a page").resources;
    assert_eq!(listed.iter().map(|view| view.waiters).collect::<Vec<_>>(), [19, 39]);
}
