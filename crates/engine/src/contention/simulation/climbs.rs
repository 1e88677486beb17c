//! The third rung on simulated loads: what leads to it, and that nothing flaps between it and the row lock.

use rand::RngExt;

use super::load::{Load, OnOff, Steady};
use super::{random, runs, seed};
use crate::contention::now::Tick;
use crate::contention::slot::Slot;
use crate::contention::switch::Rung;
use crate::contention::tests::{CONTENDED, QUIET};
use crate::contention::threshold::Threshold;
use crate::contention::{Try, slot::Change};

/// How a key of a definition with a lock did.
#[derive(Debug, Default)]
struct Climb {
    /// Share of the time under the lease, from when it first was.
    leased_after: f64,
    /// Rungs that it went to, and when.
    switches: Vec<(Rung, f64)>,
}

impl Climb {
    fn times(&self, rung: Rung) -> usize {
        self.switches.iter().filter(|(to, _)| *to == rung).count()
    }
}

/// Lets a key meet `rate` tries a second for so many seconds.
fn climb(load: &mut impl Load, rate: f64, seconds: f64, seed: u64, number: u64) -> Climb {
    let (mut slot, mut random) = (Slot::default(), random(seed, number));
    let (threshold, mut climb, mut now) = (Threshold::new(0.05), Climb::default(), 0.0);
    loop {
        now -= (1.0 - random.random::<f64>()).ln() / rate;
        if now >= seconds {
            break;
        }
        let attempt = Try { may_lease: true, ..if load.contended(now, &mut random) { CONTENDED } else { QUIET } };
        let changes = slot.report(threshold, 0, &attempt, Tick::at_seconds(now));
        climb.switches.extend(changes.into_iter().flatten().map(|Change { to, at, .. }| (to, at.seconds())));
    }
    let ends = climb.switches.iter().skip(1).map(|(_, at)| *at).chain([seconds]);
    let stays = climb.switches.iter().zip(ends).filter(|((rung, _), _)| *rung == Rung::Lease);
    let leased: f64 = stays.map(|((_, from), until)| until - from).sum();
    let first = climb.switches.iter().find(|(rung, _)| *rung == Rung::Lease).map(|(_, at)| *at);
    climb.leased_after = first.map_or(0.0, |first| leased / (seconds - first));
    climb
}

/// Ten minutes: at 20 % and less of waits for the row no lease, at 50 % and more one that stays; in between few switches.
#[test]
fn shares_of_waits() {
    let seed = seed();
    println!("| waited | tries/s | runs | leased | of the time after | switches, most |");
    println!("|---|---|---|---|---|---|");
    for percent in [2.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0] {
        for (rate, count) in [(1.0, 20), (10.0, 10), (100.0, 1)] {
            let all: Vec<Climb> = (0..runs(count))
                .map(|number| climb(&mut Steady(percent / 100.0), rate, 600.0, seed, 200_000 + number))
                .collect();
            let leased = all.iter().filter(|climb| climb.times(Rung::Lease) > 0).count();
            let after = all.iter().map(|climb| climb.leased_after).sum::<f64>() / leased.max(1) as f64;
            let most = all.iter().map(|climb| climb.switches.len()).max().unwrap_or(0);
            let count = all.len();
            println!("| {percent} % | {rate} | {count} | {leased} | {:.0} % | {most} |", 100.0 * after);
            let cell = format!("{percent} % at {rate}/s");
            assert!(percent > 20.0 || leased == 0, "leased at {cell}: {all:?}");
            assert!(most <= 4, "flaps at {cell}: {all:?}");
            if percent >= 50.0 && rate >= 10.0 {
                assert_eq!(leased, count, "never found at {cell}");
                assert!(all.iter().all(|climb| climb.times(Rung::Lease) == 1), "came down at {cell}: {all:?}");
            }
        }
    }
}

/// Contention that comes and goes: the dwell bounds it, as it does between the first two rungs.
#[test]
fn on_and_off_does_not_flap_on_three_rungs() {
    let seed = seed();
    for period in [10.0, 60.0, 300.0, 600.0] {
        for (share, rate) in [(0.6, 5.0), (1.0, 10.0)] {
            let mut load = OnOff::new(share, period / 2.0, period / 2.0, true);
            let climb = climb(&mut load, rate, 3_600.0, seed, 210_000);
            let cell = format!("{share} on, period {period} s");
            println!("{cell}: {} switches in an hour, {} to the lease", climb.switches.len(), climb.times(Rung::Lease));
            assert!(climb.switches.len() <= 48, "{cell}: {climb:?}");
        }
    }
}
