//! The third rung.

use super::*;
use crate::contention::Reason;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;

const LEASABLE: Try = Try { may_lease: true, ..QUIET };
const LEASABLE_CONTENDED: Try = Try { may_lease: true, ..CONTENDED };

/// Ten tries a second, of which every `nth` is contended.
fn every(contention: &Contention<u64>, nth: u64, span: (u64, u64)) -> Vec<Switch<u64>> {
    let tries = (span.0..span.1).step_by(100).zip(0_u64..);
    tries
        .flat_map(|(now, number)| {
            let attempt = if number % nth == 0 { LEASABLE_CONTENDED } else { LEASABLE };
            contention.report(&1, THRESHOLD, &attempt, at(now))
        })
        .collect()
}

/// On the row lock, as a command has used up its tries.
fn on_the_row_lock() -> Contention<u64> {
    let contention = Contention::new();
    contention.report(&1, THRESHOLD, &Try { may_lease: true, ..EXHAUSTED }, at(0));
    contention
}

#[test]
fn a_row_that_is_always_waited_for_leads_up_to_the_lease() {
    let contention = on_the_row_lock();
    let [up] = &every(&contention, 1, (100, 20 * SECOND))[..] else { panic!("one switch") };
    assert_eq!((up.from, up.to, up.reason), (Rung::RowLock, Rung::Lease, Reason::Score));
    // 1 - 0.4 for each try: 16 after 27.
    assert_eq!((up.tries, up.contended, up.dwell), (27.0, 27.0, Duration::from_secs(30)));
    assert_eq!(
        up.to_string(),
        "up to the lease for at least 30 s: 27 of 27 tries contended (100.0 %), escalate_above is 5 %"
    );
    let told = contention.explain(&1, at(20 * SECOND));
    assert_eq!((told.rung, told.switches.len()), (Rung::Lease, 2));
    assert_eq!(serde_json::to_value(&told).unwrap()["rung"], "lease");
}

#[test]
fn without_a_lock_key_there_is_no_third_rung() {
    let contention = Contention::new();
    contention.report(&1, THRESHOLD, &EXHAUSTED, at(0));
    assert!(repeat(&contention, 1, CONTENDED, (100, 10 * MINUTE, 100)).is_empty());
    assert_eq!(contention.rung(&1, at(10 * MINUTE)), Rung::RowLock);
}

/// What leads up to the row lock does not by itself lead up to the lease.
#[test]
fn a_row_that_is_waited_for_now_and_then_stays_on_the_row_lock() {
    let contention = on_the_row_lock();
    assert!(every(&contention, 5, (100, 20 * MINUTE)).is_empty());
    assert_eq!(contention.rung(&1, at(20 * MINUTE)), Rung::RowLock);
}

#[test]
fn a_quiet_key_comes_down_rung_by_rung() {
    let contention = on_the_row_lock();
    let up = every(&contention, 1, (100, 10 * SECOND));
    let climbed = millis_of(up[0].at);
    let down = every(&contention, u64::MAX, (10 * SECOND, 3 * MINUTE));
    let expected = [(Rung::RowLock, climbed + 30 * SECOND), (Rung::Optimistic, climbed + 60 * SECOND + 10 * SECOND)];
    let brief = brief(&down);
    assert_eq!(brief[0], expected[0]);
    // 400 quiet tries are 40 s at ten a second, and longer than the dwell.
    assert_eq!(brief[1].0, Rung::Optimistic);
    assert!((expected[1].1..expected[1].1 + SECOND).contains(&brief[1].1), "{brief:?}");
    assert_eq!(down[0].from, Rung::Lease);
    assert!(down[0].to_string().starts_with("down to the row lock after a dwell of 30 s, as it is quiet"));
}

#[test]
fn an_idle_key_comes_down_both_rungs_though_nobody_asks() {
    let contention = on_the_row_lock();
    every(&contention, 1, (100, 10 * SECOND));
    let last = 10 * SECOND - 100;
    let first = last + 5 * MINUTE;
    assert_eq!(contention.rung(&1, at(first - 100)), Rung::Lease);
    assert_eq!(contention.rung(&1, at(first)), Rung::RowLock);
    assert_eq!(contention.rung(&1, at(first + 30 * SECOND)), Rung::Optimistic);
    let told = contention.explain(&1, at(60 * MINUTE));
    assert_eq!((told.rung, told.since), (Rung::Optimistic, Some(wall(first + 30 * SECOND))));
    let switches = contention.report(&1, THRESHOLD, &LEASABLE, at(60 * MINUTE));
    assert_eq!(brief(&switches), [(Rung::RowLock, first), (Rung::Optimistic, first + 30 * SECOND)]);
    assert_eq!(told.switches[2..], switches);
}

#[test]
fn losing_the_lock_service_leads_down_at_once_and_keeps_it_there_for_the_dwell() {
    let contention = on_the_row_lock();
    assert_eq!(contention.lose_locks(&1, at(1)), None, "it is not on the lease");
    every(&contention, 1, (100, 10 * SECOND));
    let lost = contention.lose_locks(&1, at(10 * SECOND)).unwrap();
    assert_eq!((lost.from, lost.to, lost.reason), (Rung::Lease, Rung::RowLock, Reason::LocksGone));
    assert_eq!(lost.to_string(), "down to the row lock for at least 30 s, as the lock service does not answer");
    assert_eq!(contention.lose_locks(&1, at(10 * SECOND)), None);
    let up = every(&contention, 1, (10 * SECOND + 100, 2 * MINUTE));
    assert_eq!(brief(&up), [(Rung::Lease, 40 * SECOND)]);
    assert_eq!(up[0].dwell, Duration::from_secs(60), "soon again");
}

/// Two steps up are one climb: neither is too soon after the other.
#[test]
fn climbing_does_not_double_the_dwell_and_coming_back_does() {
    let contention = on_the_row_lock();
    let up = every(&contention, 1, (100, 10 * SECOND));
    assert_eq!(up[0].dwell.as_secs(), 30);
    every(&contention, u64::MAX, (10 * SECOND, 45 * SECOND));
    assert_eq!(contention.rung(&1, at(45 * SECOND)), Rung::RowLock);
    let again = every(&contention, 1, (45 * SECOND, 60 * SECOND));
    assert_eq!((again[0].to, again[0].dwell.as_secs()), (Rung::Lease, 60));
}
