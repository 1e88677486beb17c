//! What is told of a key.

use serde_json::json;

use super::*;
use crate::contention::stories::{STORIES_MAX, SWITCHES_MAX};

const MINUTE: u64 = 60_000;

#[test]
fn an_explanation_as_json() {
    let contention = Contention::new();
    let attempt = Try {
        lock_wait: Some(Duration::from_millis(12)),
        queue_wait: Duration::from_micros(2_500),
        round_trip: Duration::from_millis(3),
        commands: 40,
        ..EXHAUSTED
    };
    contention.report(&1, THRESHOLD, &attempt, at(0));
    let told = serde_json::to_value(contention.explain(&1, at(10_000))).unwrap();
    let expected = json!({
        "rung": "row_lock",
        "since": "2024-10-04T00:00:00Z",
        "reason": "exhausted",
        "score": 1.0,
        "tries": 0.717,
        "contended": 0.717,
        "escalate_above": 0.05,
        "evidence": 0.0,
        "evidence_for": null,
        "waits": {
            "lock_wait": {"mean_ms": 12.0, "max_ms": 8.598},
            "queue_wait": {"mean_ms": 2.5, "max_ms": 1.791},
            "round_trip": {"mean_ms": 3.0, "max_ms": 2.15},
            "commands_per_try": 40.0,
        },
        "dwell_left_ms": 20_000,
        "may_come_down_in_ms": 290_000,
        "shared_slot": false,
        "switches": [{
            "from": "optimistic",
            "to": "row_lock",
            "at": "2024-10-04T00:00:00Z",
            "score": 1.0,
            "tries": 1.0,
            "contended": 1.0,
            "escalate_above": 0.05,
            "reason": "exhausted",
            "dwell_ms": 30_000,
        }],
    });
    assert_eq!(told, expected);
}

#[test]
fn nothing_is_known_of_a_key_without_tries() {
    let told = Contention::new().explain(&1_u64, at(0));
    assert_eq!((told.rung, told.since, told.reason, told.waits), (Rung::Optimistic, None, None, None));
    assert_eq!((told.escalate_above, told.score, told.shared_slot), (None, 0.0, false));
    assert_eq!((told.dwell_left_ms, told.may_come_down_in_ms), (None, None));
}

#[test]
fn says_when_it_may_come_down() {
    let contention = Contention::new();
    contention.report(&1, THRESHOLD, &EXHAUSTED, at(0));
    repeat(&contention, 1, CONTENDED, (100, MINUTE, 100));
    // 400 quiet tries at ten a second; the rate is known as well as half a minute shows it.
    let told = contention.explain(&1, at(MINUTE));
    let foretold = told.may_come_down_in_ms.unwrap();
    assert_eq!(told.dwell_left_ms, Some(0));
    assert!((40_000..48_000).contains(&foretold), "{foretold}");
    let down = repeat(&contention, 1, QUIET, (MINUTE, 3 * MINUTE, 100));
    assert!((39_000..41_000).contains(&(millis_of(down[0].at) - MINUTE)), "{down:?}");
    // Of an idle one the rate fades, and five minutes remain.
    contention.report(&2, THRESHOLD, &EXHAUSTED, at(0));
    assert_eq!(contention.explain(&2, at(2 * MINUTE)).may_come_down_in_ms, Some(3 * MINUTE));
}

#[test]
fn a_story_reads_well() {
    let contention = Contention::new();
    let mut all = Vec::new();
    for number in 0..3_000 {
        let attempt = if number % 8 == 0 && number < 800 { CONTENDED } else { QUIET };
        all.extend(contention.report(&1, THRESHOLD, &attempt, at(number * 100)));
    }
    all.extend(contention.report(&1, THRESHOLD, &EXHAUSTED, at(300_000)));
    let text: Vec<_> = all.iter().map(ToString::to_string).collect();
    assert_eq!(
        text,
        [
            "up to the row lock for at least 30 s: 24 of 185 tries contended (13.0 %), escalate_above is 5 %",
            "down to optimistic commits after a dwell of 30 s, as it is quiet: 0 of 401 tries contended (0.0 %)",
            "up to the row lock for at least 60 s, as a command had used up its tries: 1 of 1 tries contended (100.0 %)",
        ]
    );
    assert_eq!(contention.explain(&1, at(300_000)).switches, all);
}

#[test]
fn the_last_switches_are_remembered() {
    let contention = Contention::new();
    let mut all = Vec::new();
    for number in 0..20 {
        all.extend(contention.report(&1, THRESHOLD, &EXHAUSTED, at(number * 20 * MINUTE)));
    }
    // The last going down is told before anybody reported it.
    let told = contention.explain(&1, at(20 * 20 * MINUTE)).switches;
    assert_eq!(told.len(), SWITCHES_MAX + 1);
    assert_eq!(told[..SWITCHES_MAX], all[all.len() - SWITCHES_MAX..]);
    assert_eq!(told[SWITCHES_MAX].to, Rung::Optimistic);
}

#[test]
fn the_oldest_stories_are_forgotten() {
    let contention = Contention::new();
    let keys = STORIES_MAX as u64 + 1_000;
    for key in 1..=keys {
        contention.report(&key, THRESHOLD, &EXHAUSTED, at(key));
        contention.report(&0, THRESHOLD, &QUIET, at(key));
    }
    let told = |key: u64| contention.explain(&key, at(keys)).switches.len();
    assert_eq!(told(keys), 1);
    assert_eq!(told(1), 0);
    let remembered = (1..=keys).filter(|key| told(*key) > 0).count();
    assert!((STORIES_MAX * 9 / 10..=STORIES_MAX).contains(&remembered), "{remembered}");
    // The rung is not forgotten with the story.
    assert_eq!(contention.rung(&1, at(keys)), Rung::RowLock);
    assert!(contention.explain(&1, at(keys)).since.is_some());
}
