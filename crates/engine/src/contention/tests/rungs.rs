//! When keys change their rung.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::contention::Reason;
use crate::contention::simulation::seed;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;

#[test]
fn an_unknown_key_is_optimistic() {
    assert_eq!(Contention::new().rung(&1_u64, at(0)), Rung::Optimistic);
}

#[test]
fn sustained_contention_leads_up_with_its_numbers() {
    let contention = Contention::new();
    let mut switches = Vec::new();
    for number in 0..1_000 {
        let attempt = if number % 5 == 0 { CONTENDED } else { QUIET };
        switches.extend(contention.report(&1, THRESHOLD, &attempt, at(number * 100)));
    }
    let [up] = &switches[..] else { panic!("{switches:?}") };
    assert_eq!((up.key, up.from, up.to, up.reason), (1, Rung::Optimistic, Rung::RowLock, Reason::Score));
    // 0.2 - 0.04 for each try: 16 after about 100.
    assert!((90.0..=101.0).contains(&up.tries) && (18.0..=21.0).contains(&up.contended), "{up:?}");
    assert!((up.score - up.contended / up.tries).abs() < 1e-3 && up.score > THRESHOLD, "{up:?}");
    assert_eq!((up.dwell, up.escalate_above), (Duration::from_secs(30), THRESHOLD));
    assert_eq!(contention.rung(&1, at(1_000 * 100)), Rung::RowLock);
    assert_eq!(contention.rung(&2, at(1_000 * 100)), Rung::Optimistic);
}

#[test]
fn exhaustion_leads_up_at_once() {
    let contention = Contention::new();
    let switches = contention.report(&1, THRESHOLD, &EXHAUSTED, at(5));
    let [up] = &switches[..] else { panic!("{switches:?}") };
    assert_eq!((up.reason, up.at, up.tries, up.contended), (Reason::Exhausted, wall(5), 1.0, 1.0));
    // On the row lock it is no news.
    assert!(contention.report(&1, THRESHOLD, &EXHAUSTED, at(6)).is_empty());
    assert_eq!(contention.rung(&1, at(7)), Rung::RowLock);
}

/// Commands with another strategy on the same key: what they meet is counted, and decides nothing.
#[test]
fn tries_without_a_threshold_say_nothing() {
    let (mixed, alone) = (Contention::new(), Contention::new());
    for number in 0..2_000 {
        let attempt = if number % 10 == 0 { CONTENDED } else { QUIET };
        let switches = alone.report(&1, THRESHOLD, &attempt, at(number * 100));
        assert_eq!(mixed.report(&1, THRESHOLD, &attempt, at(number * 100)), switches);
        if mixed.rung(&1, at(number * 100)) == Rung::Optimistic {
            assert_eq!(mixed.report(&1, 1.0, &QUIET, at(number * 100)), []);
        }
    }
    assert_eq!(mixed.rung(&1, at(200_000)), Rung::RowLock);
    // Who exhausts its tries goes up also without a threshold, and comes down as others do.
    let up = mixed.report(&2, 1.0, &EXHAUSTED, at(0));
    assert_eq!(up[0].to_string(), "up to the row lock for at least 30 s, as a command had used up its tries");
    let busy = (1..600).map(|number| if number % 10 == 0 { CONTENDED } else { QUIET });
    assert!(busy.zip(1..).all(|(attempt, number)| mixed.report(&2, 1.0, &attempt, at(number * 100)).is_empty()));
}

#[test]
fn a_single_burst_does_not_lead_up() {
    let contention = Contention::new();
    repeat(&contention, 1, QUIET, (0, MINUTE, 100));
    assert!(repeat(&contention, 1, CONTENDED, (MINUTE, MINUTE + 16, 1)).is_empty());
    // Nor is it remembered: another follows after as much quiet as it allows for.
    repeat(&contention, 1, QUIET, (MINUTE + 16, 2 * MINUTE, 100));
    assert!(repeat(&contention, 1, CONTENDED, (2 * MINUTE, 2 * MINUTE + 16, 1)).is_empty());

    // Of a key with a thousand tries a second, half a second of nothing else.
    repeat(&contention, 2, QUIET, (0, MINUTE, 1));
    assert!(repeat(&contention, 2, CONTENDED, (MINUTE, MINUTE + 500, 1)).is_empty());
    assert!(!repeat(&contention, 2, CONTENDED, (MINUTE + 500, MINUTE + 1_500, 1)).is_empty());
}

#[test]
fn a_quiet_key_comes_down_after_its_dwell() {
    let contention = Contention::new();
    contention.report(&1, THRESHOLD, &EXHAUSTED, at(0));
    let down = repeat(&contention, 1, QUIET, (50, MINUTE, 50));
    assert_eq!(brief(&down), [(Rung::Optimistic, 30 * SECOND)]);
    assert_eq!(down[0].reason, Reason::Quiet);
    assert_eq!((down[0].score, down[0].contended), (0.0, 0.0));
}

#[test]
fn an_idle_key_comes_down_though_nobody_asks() {
    let contention = Contention::new();
    contention.report(&1, THRESHOLD, &EXHAUSTED, at(0));
    repeat(&contention, 1, CONTENDED, (100, 20 * SECOND, 100));
    let contended_last = 20 * SECOND - 100;
    let down = contended_last + 5 * MINUTE;
    assert_eq!(contention.rung(&1, at(down - 100)), Rung::RowLock);
    assert_eq!(contention.rung(&1, at(down)), Rung::Optimistic);
    // A week later it is told with the time at which it came down, and the next try counts for the rung since.
    let week = 7 * 24 * 60 * MINUTE;
    assert_eq!(contention.explain(&1, at(week)).since, Some(wall(down)));
    assert_eq!(brief(&contention.report(&1, THRESHOLD, &QUIET, at(week))), [(Rung::Optimistic, down)]);
    assert!(contention.report(&1, THRESHOLD, &QUIET, at(week + 1)).is_empty());
}

#[test]
fn one_report_may_tell_two_switches() {
    let contention = Contention::new();
    contention.report(&1, THRESHOLD, &EXHAUSTED, at(0));
    let switches = contention.report(&1, THRESHOLD, &EXHAUSTED, at(7 * MINUTE));
    assert_eq!(brief(&switches), [(Rung::Optimistic, 5 * MINUTE), (Rung::RowLock, 7 * MINUTE)]);
    assert_eq!(switches[1].dwell, Duration::from_secs(60));
}

#[test]
fn going_up_again_soon_doubles_the_dwell_up_to_ten_minutes() {
    let contention = Contention::new();
    let (mut now, mut dwells) = (0, Vec::new());
    for _ in 0..8 {
        let up = contention.report(&1, THRESHOLD, &EXHAUSTED, at(now));
        dwells.push(up[0].dwell.as_secs());
        let dwell = up[0].dwell.as_secs() * SECOND;
        let down = repeat(&contention, 1, QUIET, (now + 50, now + dwell + 50, 50));
        assert_eq!(brief(&down), [(Rung::Optimistic, now + dwell)]);
        // The last moment that is soon.
        now += dwell + 5 * MINUTE;
    }
    assert_eq!(dwells, [30, 60, 120, 240, 480, 600, 600, 600]);
    contention.report(&1, THRESHOLD, &EXHAUSTED, at(now));
    let later = now + 10 * MINUTE + 5 * MINUTE + 100;
    let switches = contention.report(&1, THRESHOLD, &EXHAUSTED, at(later));
    assert_eq!(switches[1].dwell.as_secs(), 30);
}

/// A key with a command a minute learns from tries, not from minutes; and is never held for long.
#[test]
fn a_slow_key() {
    let contention = Contention::new();
    let minute = usize::try_from(MINUTE).unwrap();
    let up = repeat(&contention, 1, CONTENDED, (0, 60 * MINUTE, minute));
    assert_eq!(brief(&up), [(Rung::RowLock, 16 * MINUTE)]);
    let down = repeat(&contention, 1, QUIET, (60 * MINUTE, 120 * MINUTE, minute));
    assert_eq!(brief(&down), [(Rung::Optimistic, 64 * MINUTE)]);
    // Every ten minutes: each is of another day.
    assert!(repeat(&contention, 2, CONTENDED, (0, 24 * 60 * MINUTE, 10 * minute)).is_empty());
}

/// Asking at any time changes nothing, and what is answered agrees with the switches that are told later.
#[test]
fn asking_often_or_never_is_the_same() {
    let seed = seed();
    for number in 0..8 {
        let mut random = SmallRng::seed_from_u64(seed + number);
        let (asked, left_alone) = (Contention::new(), Contention::new());
        let (mut now, mut told, mut heard) = (0, Vec::new(), Vec::new());
        for _ in 0..30 {
            let (share, gap) =
                ([0.0, 0.02, 0.3, 1.0][random.random_range(0..4)], [50, 400, 3_000][random.random_range(0..3)]);
            for _ in 0..random.random_range(1..100) {
                let next = now + random.random_range(1..2 * gap);
                ask(&asked, now, next, &mut heard);
                now = next;
                let contended = random.random_bool(share);
                let attempt = Try { contended, exhausted: contended && random.random_bool(0.02), ..QUIET };
                told.extend(asked.report(&1, THRESHOLD, &attempt, at(now)));
                heard.push((now, asked.rung(&1, at(now))));
                let same = left_alone.report(&1, THRESHOLD, &attempt, at(now));
                assert_eq!(told[told.len() - same.len()..], same);
            }
            now += [0, 0, 200 * SECOND, 900 * SECOND][random.random_range(0..4)];
        }
        told.extend(asked.report(&1, THRESHOLD, &QUIET, at(now)));
        for (moment, rung) in heard {
            let last = told.iter().rev().find(|switch| millis_of(switch.at) <= moment);
            assert_eq!(
                last.map_or(Rung::Optimistic, |last| last.to),
                rung,
                "{moment}, LOCKKEEPER_SEED={}",
                seed + number
            );
        }
    }
}

/// Asks about a key from one report to the next.
fn ask(contention: &Contention<u64>, from: u64, to: u64, heard: &mut Vec<(u64, Rung)>) {
    for moment in (from..to).step_by(700) {
        heard.push((moment, contention.rung(&1, at(moment))));
        assert_eq!(contention.explain(&1, at(moment)).rung, heard.last().unwrap().1);
    }
}
