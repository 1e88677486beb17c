//! Clients that all want one lock, of rslock or of Lockkeeper: `hand-off rslock|lockkeeper URL CLIENTS SECONDS [NODES]`.
//! Prints one JSON line.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockkeeper_locks::{Ask, Claim, LeaseId, LockService as _, Mode, RedisLocks, RedisOptions};
use rslock::LockManager;

const TTL: Duration = Duration::from_secs(30);

/// How long each holder has it.
const HOLD: Duration = Duration::from_millis(1);

/// What a client does before it wants the lock again: otherwise the one that has just had it takes it back before any
/// other that polls looks again, and nothing is handed to anybody.
const THINK: Duration = Duration::from_millis(5);

type Failure = Box<dyn Error + Send + Sync>;

/// What the clients share.
struct Run {
    stop: Instant,
    released: Mutex<Option<Instant>>,
    latencies: Mutex<Vec<Duration>>,
}

impl Run {
    fn goes_on(&self) -> bool {
        Instant::now() < self.stop
    }

    /// Called by whoever has just got it.
    async fn hold(&self) {
        if let Some(released) = self.released.lock().expect("no panic").take() {
            self.latencies.lock().expect("no panic").push(released.elapsed());
        }
        tokio::time::sleep(HOLD).await;
        *self.released.lock().expect("no panic") = Some(Instant::now());
    }
}

async fn rslock(run: Arc<Run>, url: String) -> Result<(), Failure> {
    let manager = LockManager::new(vec![url]);
    while run.goes_on() {
        let lock = manager.acquire_no_guard(b"peer/rslock", TTL).await?;
        run.hold().await;
        manager.unlock(&lock).await;
        tokio::time::sleep(THINK).await;
    }
    Ok(())
}

async fn lockkeeper(run: Arc<Run>, service: Arc<RedisLocks>, owner: String) -> Result<(), Failure> {
    while run.goes_on() {
        let claim = Claim { resource: "peer/lockkeeper".into(), mode: Mode::Exclusive };
        let ask = Ask::new(LeaseId::random(), &owner, "bench", [claim], TTL)?;
        service.acquire(&ask, TTL).await?;
        run.hold().await;
        service.release(ask.lease(), false).await?;
        tokio::time::sleep(THINK).await;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [peer, url, clients, seconds, rest @ ..] = &words[..] else {
        return Err("usage: hand-off rslock|lockkeeper URL CLIENTS SECONDS [NODES]".into());
    };
    let (clients, seconds) = (clients.parse::<usize>()?, seconds.parse()?);
    let nodes: usize = rest.first().map_or(Ok(1), |nodes| nodes.parse())?;
    let mut services = Vec::new();
    if peer == "lockkeeper" {
        for _ in 0..nodes.max(1) {
            services.push(Arc::new(RedisLocks::open(RedisOptions::parse(url)?).await?));
        }
    }
    let begun = Instant::now();
    let stop = begun + Duration::from_secs(seconds);
    let run = Arc::new(Run { stop, released: Mutex::default(), latencies: Mutex::default() });
    let mut tasks = Vec::new();
    for client in 0..clients {
        tasks.push(match services.get(client % nodes.max(1)) {
            Some(service) => tokio::spawn(lockkeeper(run.clone(), service.clone(), format!("client {client}"))),
            None => tokio::spawn(rslock(run.clone(), url.clone())),
        });
    }
    for task in tasks {
        task.await??;
    }
    report(peer, clients, nodes, begun.elapsed(), std::mem::take(&mut *run.latencies.lock().expect("no panic")));
    Ok(())
}

fn report(peer: &str, clients: usize, nodes: usize, wall: Duration, mut latencies: Vec<Duration>) {
    latencies.sort_unstable();
    let last = latencies.len().saturating_sub(1);
    let at = |percent: usize| latencies.get(last * percent / 100).map_or(0.0, |latency| latency.as_secs_f64() * 1e3);
    println!(
        "{{\"peer\": \"{peer}\", \"clients\": {clients}, \"nodes\": {nodes}, \"hand_offs_per_s\": {:.1}, \
         \"p50_ms\": {:.3}, \"p99_ms\": {:.3}, \"max_ms\": {:.3}}}",
        latencies.len() as f64 / wall.as_secs_f64(),
        at(50),
        at(99),
        at(100),
    );
}
