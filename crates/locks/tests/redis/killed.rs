//! The server is killed under load, again and again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_locks::{Acquire, LockService as _};
use lockkeeper_locks::{Clock as _, Locks, Moment, RedisLocks, SystemClock};
use lockkeeper_testbed::Redis;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::bench::{blocking, options, seed};

const NODES: u64 = 4;

const CLIENTS_OF_A_NODE: u64 = 8;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

const MAX_TTL: Duration = Duration::from_millis(600);

/// For how long somebody was sure to have a name.
#[derive(Clone, Copy, Debug)]
struct Hold {
    from: Moment,
    until: Moment,
    fence: i64,
}

type Holds = Arc<Mutex<BTreeMap<&'static str, Vec<Hold>>>>;

async fn client(locks: Locks, mut random: SmallRng, holds: Holds, stopped: Arc<AtomicBool>) {
    while !stopped.load(Ordering::SeqCst) {
        let name = NAMES[random.random_range(0..NAMES.len())];
        let ttl = Duration::from_millis(random.random_range(50..600));
        // While the server is away it is refused.
        let Ok(lease) = locks.acquire(name, Acquire::new().ttl(ttl).wait(Duration::from_secs(1))).await else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        let (from, fence) = (SystemClock.now(), lease.fence().expect("Redis has fences"));
        tokio::time::sleep(Duration::from_millis(random.random_range(0..20))).await;
        let until = lease.valid_until().min(SystemClock.now());
        holds.lock().expect("no panic").entry(name).or_default().push(Hold { from, until, fence });
        // Some are left to run out.
        if random.random_bool(0.9) {
            lease.release().await;
        } else {
            drop(lease);
        }
    }
}

fn never_two(name: &str, mut holds: Vec<Hold>) {
    holds.retain(|hold| hold.from < hold.until);
    holds.sort_by_key(|hold| hold.from);
    for pair in holds.windows(2) {
        assert!(pair[0].until <= pair[1].from, "two hold {name}: {pair:?}");
        assert!(pair[0].fence < pair[1].fence, "fences of {name} go back: {pair:?}");
    }
}

/// Never two at once by their own clocks, and fences grow: whether the server keeps all, the last second is lost, or
/// everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_two_holders_while_the_server_is_killed_under_load() {
    let mut server = blocking(|| Redis::start_with(&["--appendonly", "yes", "--appendfsync", "everysec"])).await;
    let (seed, holds, stopped) = (seed(), Holds::default(), Arc::new(AtomicBool::new(false)));
    let (mut services, mut tasks) = (Vec::new(), Vec::new());
    for node in 0..NODES {
        let options = options(&server.url()).with_max_ttl(MAX_TTL);
        let service = Arc::new(RedisLocks::open(options).await.expect("a server for locks"));
        let locks = Locks::new(service.clone());
        for n in 0..CLIENTS_OF_A_NODE {
            let random = SmallRng::seed_from_u64(seed ^ (node * CLIENTS_OF_A_NODE + n));
            tasks.push(tokio::spawn(client(locks.clone(), random, holds.clone(), stopped.clone())));
        }
        services.push(service);
    }
    for empty in [false, true, false, true] {
        // So much work is done between two deaths.
        let done = || holds.lock().expect("no panic").values().map(Vec::len).sum::<usize>();
        let before = done();
        crate::bench::until(|| async { (done() > before + 100).then_some(()) }).await;
        server = blocking(move || {
            server.kill();
            if empty {
                server.restart_empty()
            } else {
                server.restart()
            }
            server
        })
        .await;
    }
    crate::bench::until(|| async { services[0].ping().await.ok() }).await;
    stopped.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.expect("no panic");
    }
    let holds = std::mem::take(&mut *holds.lock().expect("no panic"));
    assert_eq!(holds.len(), NAMES.len());
    println!("{} holds", holds.values().map(Vec::len).sum::<usize>());
    for (name, holds) in holds {
        never_two(name, holds);
    }
}
