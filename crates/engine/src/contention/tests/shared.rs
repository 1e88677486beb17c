//! Keys that share a slot, threads that share the whole, and what it all costs.

use super::*;
use crate::contention::slots::Slots;

#[test]
fn keys_of_one_slot_share_a_rung_and_no_story() {
    let contention = Contention::new();
    let (mine, other) = (1, colliding(1));
    let slow = Try { lock_wait: Some(Duration::from_millis(40)), commands: 8, ..EXHAUSTED };
    contention.report(&mine, THRESHOLD, &slow, at(0));
    assert_eq!(contention.rung(&other, at(1)), Rung::RowLock);
    contention.report(&other, THRESHOLD, &QUIET, at(2));

    let told = contention.explain(&mine, at(3));
    assert_eq!((told.rung, told.switches.len(), told.shared_slot), (Rung::RowLock, 1, false));
    assert_eq!(told.waits.unwrap().commands_per_try, 8.0);
    let told = contention.explain(&other, at(3));
    assert_eq!((told.rung, told.switches.len(), told.shared_slot), (Rung::RowLock, 0, true));
    assert_eq!(told.waits, None);

    // The other one reports when both have come down; still it was not the one that had gone up.
    let down = contention.report(&other, THRESHOLD, &QUIET, at(400_000));
    assert_eq!(down[0].key, mine);
    assert_eq!(contention.explain(&mine, at(400_001)).switches.len(), 2);
    assert_eq!(contention.explain(&other, at(400_001)).switches, []);
}

#[test]
fn the_figures_are_those_of_the_key_with_most_of_the_tries() {
    let contention = Contention::new();
    let (first, second) = (1, colliding(1));
    let (small, large) = (Try { commands: 2, ..QUIET }, Try { commands: 9, ..QUIET });
    repeat(&contention, first, small, (0, 1_000, 10));
    repeat(&contention, second, large, (1_000, 2_000, 200));
    assert_eq!(contention.explain(&first, at(2_000)).waits.map(|waits| waits.commands_per_try), Some(2.0));
    assert_eq!(contention.explain(&second, at(2_000)).waits, None);
    repeat(&contention, second, large, (2_000, 4_000, 200));
    assert_eq!(contention.explain(&first, at(4_000)).waits, None);
    assert_eq!(contention.explain(&second, at(4_000)).waits.map(|waits| waits.commands_per_try), Some(9.0));
}

#[test]
fn slots_cost_nothing_before_they_are_used() {
    let contention = Contention::new();
    assert_eq!(contention.rung(&1_u64, at(0)), Rung::Optimistic);
    contention.explain(&2, at(0));
    assert_eq!(contention.slots.pages_used(), 0);
    contention.report(&3, THRESHOLD, &QUIET, at(0));
    assert_eq!(contention.slots.pages_used(), 1);
    assert!(size_of::<Slots>() <= 16);
}

#[test]
fn threads_share_it() {
    let contention = Contention::new();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let contention = &contention;
            scope.spawn(move || {
                for number in 0..5_000_u64 {
                    let key = number % 3;
                    let attempt = if number % 10 == thread { CONTENDED } else { QUIET };
                    contention.report(&key, THRESHOLD, &attempt, at(number));
                    contention.rung(&key, at(number));
                }
            });
        }
    });
    for key in 0..3 {
        let told = contention.explain(&key, at(5_000));
        assert_eq!((told.rung, told.switches.len()), (Rung::RowLock, 1), "{told:?}");
        // 6,667 tries in five seconds, a little faded.
        assert!((5_500.0..6_700.0).contains(&told.tries), "{told:?}");
    }
}
