//! The scripts answer what `lockkeeper_store::lease::law` answers in memory, whatever is asked at whatever time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use lockkeeper_locks::{Ask, Claim, HeldBy, Holder, LeaseId, LeaseQuery, Leases, Mode, Presence, RedisLocks};
use lockkeeper_store::Timestamp;
use lockkeeper_store::lease::{
    Asked, Ended, Forced, LeaseAnswer, LeaseRequest, Memory, Renewed, ResourceView, Woken, law,
};
use lockkeeper_testbed::Redis;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::bench::{LONG, ask_as, blocking, open, seed};

const STEPS: usize = 1_500;

/// Where the clocks start.
const START: i64 = 2_000_000_000_000;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Draws requests of a few leases for a few names.
struct Draw {
    random: SmallRng,
    leases: Vec<LeaseId>,
    /// Whether time passes.
    moving: bool,
}

impl Draw {
    fn new(seed: u64, moving: bool) -> Self {
        let leases = (0..8).map(|n| LeaseId::of_attempt("o", &n.to_string())).collect();
        Self { random: SmallRng::seed_from_u64(seed), leases, moving }
    }

    fn lease(&mut self) -> (usize, LeaseId) {
        let place = self.random.random_range(0..self.leases.len());
        (place, self.leases[place])
    }

    fn life(&mut self) -> Duration {
        if self.moving { Duration::from_millis(self.random.random_range(1..60)) } else { LONG }
    }

    /// What a lease asks for is mostly the same each time; always, where its place may have lapsed.
    fn ask(&mut self) -> Ask {
        let (place, lease) = self.lease();
        let other = !self.moving && self.random.random_ratio(1, 20);
        let claims: &[(&str, Mode)] = match if other { place + 1 } else { place } {
            0 => &[("a", Mode::Exclusive)],
            1 => &[("a", Mode::Exclusive), ("b", Mode::Exclusive)],
            2 => &[("b", Mode::Shared)],
            3 => &[("c", Mode::Permits(2)), ("a", Mode::Shared)],
            4 => &[("b", Mode::Shared), ("c", Mode::Permits(3))],
            5 => &[("c", Mode::Permits(2))],
            6 => &[("c", Mode::Permits(2)), ("b", Mode::Shared)],
            _ => &[("a", Mode::Permits(2)), ("b", Mode::Shared), ("c", Mode::Exclusive)],
        };
        let ttl = self.life();
        ask_as(lease, &format!("owner {place}"), claims, ttl)
    }

    fn request(&mut self) -> LeaseRequest {
        match self.random.random_range(0..20) {
            0..9 => {
                let keep = self.random.random_bool(0.7).then(|| self.life());
                LeaseRequest::Ask { ask: self.ask(), keep }
            }
            9..12 => LeaseRequest::Renew { lease: self.lease().1 },
            12..18 => LeaseRequest::End { lease: self.lease().1, bar: false },
            18 => {
                // A barred name is used up: another takes its place.
                let (place, lease) = self.lease();
                if self.random.random_bool(0.7) {
                    self.leases[place] = LeaseId::of_attempt("again", &self.random.random::<u64>().to_string());
                }
                LeaseRequest::End { lease, bar: true }
            }
            _ => LeaseRequest::Force { resource: NAMES[self.random.random_range(0..NAMES.len())].into() },
        }
    }

    /// How far the clocks move.
    fn pause(&mut self) -> i64 {
        if self.moving && self.random.random_bool(0.5) { self.random.random_range(1..25) } else { 0 }
    }
}

/// The fences that were seen, name by name, in the order in which they came.
#[derive(Default)]
struct Generations(HashMap<Arc<str>, Vec<i64>>);

impl Generations {
    /// How many fences of a name there were before this one.
    fn of(&mut self, resource: &Arc<str>, fence: i64) -> usize {
        let seen = self.0.entry(resource.clone()).or_default();
        seen.iter().position(|other| *other == fence).unwrap_or_else(|| {
            assert!(seen.last().is_none_or(|last| *last < fence), "fences of {resource} only grow");
            seen.push(fence);
            seen.len() - 1
        })
    }
}

/// An answer without what may differ: fences are told by generation; and since when something that has lapsed is lost
/// depends on how long its rows are kept.
fn plain(request: &LeaseRequest, answer: &LeaseAnswer, seen: &mut Generations, moving: bool) -> String {
    match (answer, request) {
        (LeaseAnswer::Asked(Asked::Granted { fences }), LeaseRequest::Ask { ask, .. }) => {
            let of = |(claim, fence): (&Claim, &i64)| seen.of(&claim.resource, *fence);
            format!("granted {:?}", ask.claims().iter().zip(fences).map(of).collect::<Vec<_>>())
        }
        (LeaseAnswer::Forced(Forced { holders }), LeaseRequest::Force { resource }) => {
            format!("forced {:?}", holders.iter().map(|holder| told(resource, holder, seen)).collect::<Vec<_>>())
        }
        (LeaseAnswer::Renewed(Renewed::Lost { .. }), _) => "lost".to_owned(),
        (LeaseAnswer::Ended(Ended::AlreadyLost { .. }), _) => "already lost".to_owned(),
        (LeaseAnswer::Ended(Ended::Left), _) if moving => "already lost".to_owned(),
        (LeaseAnswer::Asked(Asked::Held(held_by)), _) => format!("held {}", in_the_way(held_by)),
        (LeaseAnswer::Asked(Asked::Waiting { held_by, look_again, .. }), _) => {
            format!("waiting {} {look_again:?}", in_the_way(held_by))
        }
        (answer, _) => format!("{answer:?}"),
    }
}

/// Which of several holders is told does not matter.
fn in_the_way(held_by: &HeldBy) -> String {
    if held_by.holds { format!("{} is held", held_by.resource) } else { format!("{held_by:?}") }
}

fn told(resource: &Arc<str>, holder: &Holder, seen: &mut Generations) -> String {
    let generation = seen.of(resource, holder.fence.expect("there are fences"));
    format!("{:?} in generation {generation}", Holder { fence: None, ..holder.clone() })
}

fn told_all(views: &[ResourceView], seen: &mut Generations) -> Vec<(String, Vec<String>, u64)> {
    let holders = |view: &ResourceView, seen: &mut Generations| {
        view.holders.iter().map(|holder| told(&view.resource, holder, seen)).collect()
    };
    views.iter().map(|view| (view.resource.to_string(), holders(view, seen), view.waiters)).collect()
}

/// Those who were told something since the last time, and how many fences they were given.
fn woken(present: &mut HashMap<LeaseId, Presence<'_>>) -> Vec<(LeaseId, usize)> {
    let told = present.iter_mut().filter_map(|(lease, presence)| {
        let granted = presence.woken().now_or_never()?;
        Some((*lease, granted.map_or(0, |granted| granted.fences.len())))
    });
    let mut told: Vec<_> = told.collect();
    told.sort_unstable();
    told
}

async fn as_in_memory(moving: bool) {
    let server = blocking(Redis::start_with_clock).await;
    server.set_clock(START);
    let service = open(&server.url()).await;
    let redis = service.leases();
    let at = |millis| Timestamp::from_timestamp_millis(millis).expect("a time");
    let (mut draw, mut memory, mut now) =
        (Draw::new(seed(), moving), Memory::new(at(START), 1, false).granting_ahead(), START);
    let (mut ours, mut theirs) = (Generations::default(), Generations::default());
    let (mut present, mut told) = (HashMap::new(), HashSet::new());
    for step in 0..STEPS {
        for lease in &draw.leases {
            present.entry(*lease).or_insert_with(|| redis.waiters().enter(*lease));
        }
        let request = draw.request();
        let before = memory.clone();
        let Ok(expected) = law::apply(&mut memory, &request);
        let found = redis.change(request.clone()).await.expect("an answer");
        let expected_text = plain(&request, &expected.answer, &mut theirs, moving);
        assert_eq!(plain(&request, &found, &mut ours, moving), expected_text, "step {step}: {request:?}");
        is_there(&found, [&before, &memory]);
        // News come on the same connection: those of before are here with the answer to the next question.
        let page = redis.page(&LeaseQuery { after: None, limit: 100 }).await.expect("a page");
        let listed = memory.list(&LeaseQuery { after: None, limit: 100 });
        assert_eq!(page.now, listed.now);
        assert_eq!(
            told_all(&page.resources, &mut ours),
            told_all(&listed.resources, &mut theirs),
            "step {step}: {request:?}"
        );
        let found = woken(&mut present);
        if moving {
            // What has lapsed may be taken away in another turn than in memory; then its waiter is told in that one. But
            // whoever is to ask has been told since it last asked.
            told.extend(found);
            let mut expected = expected.woken.iter().map(|woken| woken.lease).filter(|lease| !asks(&request, *lease));
            assert!(expected.all(|lease| told.iter().any(|(told, _)| *told == lease)), "step {step}: {request:?}");
            told.retain(|(lease, _)| !asks(&request, *lease));
        } else {
            let count = |woken: &Woken| woken.granted.as_ref().map_or(0, |granted| granted.fences.len());
            let mut expected: Vec<_> = expected.woken.iter().map(|woken| (woken.lease, count(woken))).collect();
            expected.sort_unstable();
            assert_eq!(found, expected, "step {step}: {request:?}");
        }
        now += draw.pause();
        server.set_clock(now);
        memory.set_now(at(now));
    }
    drop(present);
    leaves_nothing(&server, &service, now).await;
}

/// Whoever is told to be in the way held the name before, or has been granted it in the same turn.
fn is_there(answer: &LeaseAnswer, tables: [&Memory; 2]) {
    let LeaseAnswer::Asked(Asked::Held(held_by) | Asked::Waiting { held_by, .. }) = answer else { return };
    let query = LeaseQuery { after: None, limit: 100 };
    let listed: Vec<_> = tables.iter().flat_map(|memory| memory.list(&query).resources).collect();
    let holders = listed.iter().filter(|view| view.resource == held_by.resource).flat_map(|view| &view.holders);
    let mut told = holders.map(|holder| (&holder.owner, &holder.host, holder.since));
    let is_held = told.any(|told| told == (&held_by.owner, &held_by.host, held_by.since));
    assert!(is_held || !held_by.holds, "{held_by:?}, and the holders are {listed:?}");
}

fn asks(request: &LeaseRequest, lease: LeaseId) -> bool {
    matches!(request, LeaseRequest::Ask { ask, .. } if ask.lease() == lease)
}

/// All has an expiry but the one key that knows the life of the server; and names that nobody uses are not kept.
async fn leaves_nothing(server: &Redis, service: &RedisLocks, now: i64) {
    let keys = server.command(&["KEYS", "*"]).texts().expect("a list");
    assert!(keys.iter().all(|key| key.starts_with("lockkeeper:{locks}:")), "{keys:?}");
    for key in keys.iter().filter(|key| *key != "lockkeeper:{locks}:life") {
        let left = server.command(&["PTTL", key]).int().expect("a number");
        assert!(left > 0 || left == -2, "{key} has no expiry: {left}");
    }
    server.set_clock(now + 3_600_000);
    let last = ask_as(LeaseId::random(), "last", &[("z", Mode::Exclusive)], LONG);
    for request in
        [LeaseRequest::Ask { ask: last.clone(), keep: None }, LeaseRequest::End { lease: last.lease(), bar: false }]
    {
        service.leases().change(request).await.expect("an answer");
    }
    // Expired keys go when they are looked at.
    let left = keys.iter().filter(|key| server.command(&["EXISTS", key]).int() == Some(1));
    assert_eq!(left.collect::<Vec<_>>(), ["lockkeeper:{locks}:life"]);
    let names = server.command(&["ZCARD", "lockkeeper:{locks}:names"]).int();
    assert_eq!(names, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_answer_as_the_law_does() {
    as_in_memory(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_answer_as_the_law_does_while_time_passes() {
    as_in_memory(true).await;
}

/// Who is in the way is told of the row that is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_is_told_with_its_own_time() {
    let server = blocking(Redis::start_with_clock).await;
    server.set_clock(START);
    let service = open(&server.url()).await;
    let ask = |owner: &str| ask_as(LeaseId::random(), owner, &[("r", Mode::Exclusive)], LONG);
    let change = |ask: Ask| service.leases().change(LeaseRequest::Ask { ask, keep: None });
    change(ask("ann")).await.expect("an answer");
    server.set_clock(START + 5_000);
    let held_by = HeldBy {
        resource: "r".into(),
        owner: "ann".into(),
        host: "host".into(),
        since: Timestamp::from_timestamp_millis(START).expect("a time"),
        holds: true,
    };
    assert_eq!(change(ask("bob")).await, Ok(LeaseAnswer::Asked(Asked::Held(held_by))));
}
