//! Closed-loop clients: each sends its next command when the last is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use crate::bench::row::Row;
use crate::bench::target::Target;
use crate::failure::Failure;

/// How hard, how wide and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) clients: u32,
    pub(crate) keys: u32,
    pub(crate) duration: Duration,
}

/// Time to fill caches and open connections before anything counts.
const WARM_UP: Duration = Duration::from_secs(1);

/// Latencies in microseconds, to three digits.
pub(crate) struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        const DIGITS: u8 = 3;
        const LONGEST_MICROS: u64 = 60_000_000;
        let histogram = Histogram::new_with_bounds(1, LONGEST_MICROS, DIGITS);
        Self(histogram.unwrap_or_else(|_| unreachable!("the bounds are constants that are in order")))
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(crate) fn mean_ms(&self) -> f64 {
        self.0.mean() / 1e3
    }

    pub(crate) fn percentile_ms(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1e3
    }
}

/// Processor time of this process so far.
pub(crate) struct Cpu(Option<Duration>);

impl Cpu {
    pub(crate) fn now() -> Self {
        Self(processor_time())
    }

    /// The share of all cores used since, over `wall`.
    pub(crate) fn share(&self, wall: Duration) -> Option<f64> {
        let used = processor_time()?.checked_sub(self.0?)?;
        let cores = std::thread::available_parallelism().ok()?.get() as f64;
        Some(used.as_secs_f64() / wall.as_secs_f64() / cores)
    }
}

/// User and system time of this process, from Linux's /proc (proc_pid_stat(5): fields 14 and 15, in clock ticks, which
/// are 1/100 s on every Linux platform that Rust supports).
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in parentheses, and may hold anything.
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 10))
}

/// Runs the load on a target.
pub(crate) async fn measure(name: &str, target: Arc<dyn Target>, load: &Load) -> Result<Row, Failure> {
    drive(&target, load, WARM_UP).await?;
    let before = target.versions().await?;
    let moves_before = target.moves();
    let cpu = Cpu::now();
    let start = Instant::now();
    let (latencies, failed) = drive(&target, load, load.duration).await?;
    let wall = start.elapsed();
    let cpu = cpu.share(wall);
    let lost = lost(&*target, before, latencies.count()).await?;
    let moves: Vec<u64> = target.moves().iter().zip(moves_before).map(|(after, before)| after - before).collect();
    Ok(Row::measured(name, &latencies, failed, wall, cpu, lost).with_nodes(&moves))
}

async fn drive(target: &Arc<dyn Target>, load: &Load, duration: Duration) -> Result<(Latencies, u64), Failure> {
    let stop = Instant::now() + duration;
    let next_key = Arc::new(AtomicU32::new(0));
    let mut clients = JoinSet::new();
    for client in 0..load.clients {
        let (target, next_key, keys) = (target.clone(), next_key.clone(), load.keys);
        clients.spawn(async move {
            let (mut latencies, mut failed) = (Latencies::default(), 0u64);
            while Instant::now() < stop {
                let key = next_key.fetch_add(1, Ordering::Relaxed) % keys;
                let begun = Instant::now();
                if target.step(client, key).await {
                    latencies.record(begun.elapsed());
                } else {
                    failed += 1;
                }
            }
            (latencies, failed)
        });
    }
    let (mut all, mut failures) = (Latencies::default(), 0);
    while let Some(client) = clients.join_next().await {
        let (latencies, failed) = client.map_err(Failure::failed)?;
        all.0.add(&latencies.0).map_err(Failure::failed)?;
        failures += failed;
    }
    Ok((all, failures))
}

/// The moves that a target acknowledged against those that it holds.
async fn lost(target: &dyn Target, before: i64, acknowledged: u64) -> Result<i64, Failure> {
    let stored = target.versions().await? - before;
    Ok(i64::try_from(acknowledged).unwrap_or(i64::MAX) - stored)
}
