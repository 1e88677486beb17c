//! Warnings of keys that serialise their workflow.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::{Now, at};
use crate::contention::hot_key::HotKeys;
use crate::contention::simulation::seed;
use crate::contention::warning::Warning;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;

/// Ten batches a second: `share` of them of `hot`, of whose commands so many waited, the others of a thousand keys.
fn flow(keys: &HotKeys, hot: &str, share: f64, waited: u32, span: (u64, u64)) -> Vec<(u64, Warning)> {
    let mut random = SmallRng::seed_from_u64(seed());
    let mut warnings = Vec::new();
    for now in (span.0..span.1).step_by(100) {
        let warning = if random.random_bool(share) {
            keys.observe("purchase", &hot, 4, waited, at(now))
        } else {
            let other = format!("purchase/{}", random.random_range(0..1_000));
            keys.observe("purchase", &other, 4, waited, at(now))
        };
        warnings.extend(warning.map(|warning| (now, warning)));
    }
    warnings
}

#[test]
fn warns_of_a_key_with_most_of_the_commands() {
    let keys = HotKeys::new();
    let warnings = flow(&keys, "purchase/1", 0.8, 3, (0, 5 * MINUTE));
    let [(when, warning)] = &warnings[..] else { panic!("{warnings:?}") };
    assert!((30 * SECOND..40 * SECOND).contains(when), "{when}");
    assert_eq!((&*warning.workflow, &*warning.key), ("purchase", "purchase/1"));
    assert!((0.7..0.9).contains(&warning.share) && warning.waited == 0.75, "{warning:?}");
    assert!((25.0..40.0).contains(&warning.commands_per_second), "{warning:?}");
    let shown = keys.warning("purchase", at(5 * MINUTE)).unwrap();
    assert!((0.7..0.9).contains(&shown.share) && shown.at > warning.at, "{shown:?}");
    assert_eq!(keys.warning("orders", at(5 * MINUTE)), None);
}

#[test]
fn the_text_says_what_to_do() {
    let text = Warning::text_of("purchase", "purchase/1", 0.826, 0.91, 41.3);
    assert_eq!(
        text,
        "purchase/1 takes 83 % of the commands of workflow purchase, and 91 % of them wait for each other, because \
         the commands of one instance are decided one after another: it carries 41 a second here. More nodes or \
         workers will not make it faster. Split it into several instances (by place, day or customer, for example), \
         or accept that it is one queue."
    );
}

#[test]
fn does_not_warn_below_half_nor_of_a_key_that_does_not_queue_nor_of_few() {
    for (share, waited) in [(0.45, 4), (0.0, 4), (0.9, 2), (1.0, 0)] {
        let keys = HotKeys::new();
        assert!(flow(&keys, "purchase/1", share, waited, (0, 10 * MINUTE)).is_empty(), "{share} {waited}");
        assert_eq!(keys.warning("purchase", at(10 * MINUTE)), None);
    }
    // Six commands a second are 180 in half a minute.
    let keys = HotKeys::new();
    let warnings = (0..600).filter_map(|second| keys.observe("w", &1, 6, 6, at(second * SECOND)));
    assert_eq!(warnings.count(), 0);
}

#[test]
fn a_burst_is_no_warning() {
    let keys = HotKeys::new();
    assert!(flow(&keys, "purchase/1", 1.0, 4, (0, 8 * SECOND)).is_empty());
    assert!(flow(&keys, "purchase/1", 0.2, 4, (8 * SECOND, 5 * MINUTE)).is_empty());
    assert_eq!(keys.observe("bulk", &1, 500, 500, at(0)), None);
    assert_eq!(keys.observe("bulk", &1, 1, 1, at(31 * SECOND)), None);
}

#[test]
fn warns_again_after_ten_minutes_and_at_once_of_another_key() {
    let keys = HotKeys::new();
    let first = flow(&keys, "purchase/1", 0.9, 4, (0, 2 * MINUTE));
    let other = flow(&keys, "purchase/2", 0.9, 4, (2 * MINUTE, 5 * MINUTE));
    let again = flow(&keys, "purchase/1", 0.9, 4, (5 * MINUTE, 15 * MINUTE));
    assert_eq!([first.len(), other.len(), again.len()], [1, 1, 1]);
    let apart = again[0].0 - first[0].0;
    assert!((10 * MINUTE..10 * MINUTE + 5 * SECOND).contains(&apart), "{apart}");
}

#[test]
fn a_warning_is_shown_for_a_minute_after_it_is_over() {
    let keys = HotKeys::new();
    flow(&keys, "purchase/1", 1.0, 4, (0, MINUTE));
    assert!(keys.warning("purchase", at(2 * MINUTE - 100)).is_some());
    assert_eq!(keys.warning("purchase", at(2 * MINUTE)), None);
}

/// The vote never misses a majority, and what it counts is never too much: compared with counting every key.
#[test]
fn the_vote_finds_each_majority() {
    let mut random = SmallRng::seed_from_u64(seed());
    for _ in 0..20 {
        let keys = HotKeys::new();
        let mut counts = [0.0_f64; 5];
        let mut ahead = (0, 0);
        for now in (0..4 * MINUTE).step_by(100) {
            let favourite = now as usize / 100_000;
            let key = if random.random_bool(0.7) { favourite } else { random.random_range(0..5) };
            counts = counts.map(|count| count * (-0.1_f64 / 30.0).exp());
            counts[key] += 20.0;
            let total: f64 = counts.iter().sum();
            let majority = counts.iter().position(|count| *count > total / 2.0);
            ahead = if majority == Some(ahead.0) { ahead } else { (majority.unwrap_or(9), now) };
            if let Some(warning) = keys.observe("w", &key, 20, 20, at(now)) {
                assert_eq!(Some(warning.key), majority.map(|key| key.to_string()));
            }
            // What was counted of it must itself be the greater half, which takes until the others have faded.
            if now > ahead.1 + 70 * SECOND && ahead.0 == key {
                let shown = keys.warning("w", at(now)).map(|warning| warning.key);
                assert_eq!(shown, majority.map(|key| key.to_string()), "{now}");
            }
        }
    }
}

#[test]
fn workflows_are_bounded() {
    let keys = HotKeys::new();
    let used = |now: Now| keys.observe("used", &1, 10, 10, now);
    let mut warned = 0;
    for number in 0..5_000 {
        let now = at(number * 100);
        keys.observe(&format!("workflow-{number}"), &1, 10, 10, now);
        warned += usize::from(used(now).is_some());
    }
    assert!(keys.workflows() <= 1_024 && keys.workflows() > 900, "{}", keys.workflows());
    assert_eq!(warned, 1);
}
