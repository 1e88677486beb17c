//! The database loads a part of the rows for each change. What comes of it is what comes of all of them: random requests
//! are told the same as by a table in memory, and wake the same. A failure names its seed.

use std::collections::BTreeSet;
use std::time::Duration;

use lockkeeper_store::lease::{
    Ask, Asked, Claim, Ended, HeldBy, LeaseAnswer, LeaseId, LeaseQuery, LeaseRequest, Memory, Mode, Renewed, law,
};
use lockkeeper_store::{PostgresStore, Store, Timestamp};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::lockers::{acquire, ask, release};
use crate::tools::{LONG, database, open};

const NAMES: [&str; 3] = ["a", "b", "c"];
/// So many that queues get longer than what is loaded of them.
const ASKS: usize = 200;

/// First all ask, then this happens.
const STEPS: usize = 250;

/// No time passes: nothing expires, and nothing lapses.
const FOREVER: Duration = Duration::from_secs(24 * 60 * 60);

fn draw_ask(random: &mut SmallRng) -> Ask {
    let lease = LeaseId::of_attempt("", &random.random::<u64>().to_string());
    let (names, first) = (random.random_range(1..=2), random.random_range(0..NAMES.len()));
    let claims: Vec<Claim> = (0..names)
        .map(|n| {
            let mode = match random.random_range(0..6) {
                0 => Mode::Shared,
                1 => Mode::Permits(random.random_range(2..4)),
                _ => Mode::Exclusive,
            };
            Claim { resource: NAMES[(first + n) % NAMES.len()].into(), mode }
        })
        .collect();
    Ask::new(lease, &format!("owner {lease}"), "host", claims, FOREVER).expect("a good ask")
}

fn draw_request(random: &mut SmallRng, asks: &mut [Ask]) -> LeaseRequest {
    let place = random.random_range(0..asks.len());
    let ask = asks[place].clone();
    match random.random_range(0..32) {
        0..22 => LeaseRequest::Ask { ask, keep: random.random_bool(0.95).then_some(FOREVER) },
        22..25 => LeaseRequest::Renew { lease: ask.lease() },
        25..30 => {
            if random.random_bool(0.7) {
                // Whoever asks next is somebody else.
                asks[place] = draw_ask(random);
            }
            LeaseRequest::End { lease: ask.lease(), bar: random.random_bool(0.3) }
        }
        30 => LeaseRequest::Break { lease: ask.lease(), ticket: 0, cycle: ["x".to_owned(), "y\0".to_owned()].into() },
        _ => LeaseRequest::Force { resource: NAMES[random.random_range(0..NAMES.len())].into() },
    }
}

/// An answer without its times, and with fences as they are above `base`.
fn told(answer: &LeaseAnswer, base: i64) -> String {
    let by = |by: &HeldBy| format!("{} {} {}", by.resource, by.owner, by.holds);
    match answer {
        LeaseAnswer::Asked(Asked::Granted { fences }) => {
            format!("{:?}", fences.iter().map(|fence| fence - base).collect::<Vec<_>>())
        }
        LeaseAnswer::Asked(Asked::Waiting { held_by, look_again, .. }) => {
            format!("waiting {} {}", by(held_by), look_again.is_some())
        }
        LeaseAnswer::Asked(Asked::Held(held_by)) => format!("held {}", by(held_by)),
        LeaseAnswer::Renewed(Renewed::Lost { .. }) => "lost".to_owned(),
        LeaseAnswer::Ended(Ended::AlreadyLost { .. }) => "already lost".to_owned(),
        LeaseAnswer::Forced(forced) => {
            let owners: BTreeSet<_> = forced.holders.iter().map(|holder| holder.owner.clone()).collect();
            format!("{owners:?}")
        }
        other => format!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_the_rows_is_as_good_as_all() {
    let seed = std::env::var("LOCKKEEPER_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().expect("a seed"));
    let database = database().await;
    let store = open(&database.url()).await;
    // The first fence of a name is the floor.
    let first = ask("first", "first", LONG);
    let floor = acquire(&store, &first).await;
    release(&store, first.lease()).await;
    run(&store, floor, seed).await;
}

async fn run(store: &PostgresStore, floor: i64, seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut memory = Memory::new(Timestamp::default(), 1, false);
    let mut asks: Vec<Ask> = (0..ASKS).map(|_| draw_ask(&mut random)).collect();
    let (mut news, mut longest) = (store.woken(), 0);
    for step in 0..ASKS + STEPS {
        let request = match asks.get(step) {
            Some(ask) => LeaseRequest::Ask { ask: ask.clone(), keep: Some(FOREVER) },
            None => draw_request(&mut random, &mut asks),
        };
        let Ok(expected) = law::apply(&mut memory, &request);
        let answer = store.lease(request.clone()).await.expect("an answer");
        let at = format!("LOCKKEEPER_SEED={seed}, step {step}: {request:?}");
        assert_eq!(told(&answer, floor), told(&expected.answer, 1), "{at}");
        let page = memory.list(&LeaseQuery { after: None, limit: 100 });
        longest = longest.max(page.resources.iter().map(|view| view.waiters).max().unwrap_or(0));
        let mut woken = BTreeSet::new();
        while let Ok(lease) = news.try_recv() {
            assert!(woken.insert(lease), "{at}: told twice");
        }
        assert_eq!(woken, expected.woken.iter().map(|woken| woken.lease).collect(), "{at}");
    }
    assert!(longest > 65, "LOCKKEEPER_SEED={seed}: the longest queue had {longest}");
}
