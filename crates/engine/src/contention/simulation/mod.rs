//! What the rule promises, on simulated loads: tries at random times, each contended by chance.
//!
//! The random numbers come from `LOCKKEEPER_SEED`, else always the same; `LOCKKEEPER_RUNS=100` makes 100 times as many
//! runs, for a night. `cargo test -p lockkeeper-engine shares_and_rates -- --no-capture` prints the table.

mod climbs;
mod load;
mod promises;
mod rules;

use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::SmallRng;

use load::Load;
use rules::Rule;

/// How a rule did on a load.
#[derive(Debug, Default)]
struct Run {
    /// Share of the time on the row lock.
    up: f64,
    /// The same from when it first went up.
    up_after: f64,
    /// Times of the switches, in seconds: up, down, and so on.
    switches: Vec<f64>,
    /// Tries before the one that first led up.
    tries_to_up: u32,
}

impl Run {
    fn first_up(&self) -> Option<f64> {
        self.switches.first().copied()
    }
}

/// Lets a rule meet `rate` tries a second for so many seconds.
fn run(rule: &mut impl Rule, load: &mut impl Load, rate: f64, seconds: f64, random: &mut SmallRng) -> Run {
    let (mut run, mut now) = (Run::default(), 0.0);
    loop {
        // Exponential gaps: tries come independently of each other.
        now -= (1.0 - random.random::<f64>()).ln() / rate;
        if now >= seconds {
            break;
        }
        let contended = load.contended(now, random);
        rule.report(contended, now, &mut run.switches);
        run.tries_to_up += u32::from(run.switches.is_empty());
    }
    let mut ends = run.switches.clone();
    if ends.len() % 2 == 1 {
        ends.push(seconds);
    }
    let up_for = ends.chunks(2).fold(0.0, |sum, stay| sum + stay[1] - stay[0]);
    run.up = up_for / seconds;
    run.up_after = run.first_up().map_or(0.0, |first| up_for / (seconds - first));
    run
}

/// The generator of one run; `number` tells the runs of a test apart.
fn random(seed: u64, number: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(number))
}

/// The seed, printed so that a failure can be had again.
pub(super) fn seed() -> u64 {
    let seed = setting("LOCKKEEPER_SEED", 7070);
    println!("seed: LOCKKEEPER_SEED={seed}");
    seed
}

/// `count` runs, or as many times that as is asked for.
fn runs(count: u64) -> u64 {
    count * setting("LOCKKEEPER_RUNS", 1)
}

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")),
        Err(_) => default,
    }
}
