//! Fences that a command carries.

use lockkeeper_model::limits::{FENCE_END, FENCES_MAX};
use lockkeeper_model::{Action, Command, Refusal, Send};

use crate::support::{Case, actor, key_of, render};

const WORKFLOW: &str = "{workflow: case, initial: a, states: {a: {on: {go: {}}}}}";

fn go(fences: Vec<(String, i64)>) -> Command {
    let send = Send { event: Some("go".to_owned()), fences: fences.into_iter().collect(), ..Send::default() };
    Command { instance: key_of("case"), action: Action::Send(send), actor: actor("ann"), idempotency_key: None }
}

#[test]
fn fences_that_no_lock_gives_are_malformed() {
    let mut case = Case::new(WORKFLOW);
    case.run("ann start -> started v1 a");
    let mut judge = |fences: &[(&str, i64)]| {
        let command = go(fences.iter().map(|(name, fence)| ((*name).to_owned(), *fence)).collect());
        render(&case.judge(&command))
    };
    // The judge's clock is some seconds after 1,700,000,000.
    let newest = (1_700_000_000 + 24 * 3_600) << 20;
    assert_eq!(judge(&[("inventory/sku-1", 1), ("b", newest)]), "applied v2 a");
    for fence in [newest + (100 << 20), FENCE_END - 1] {
        let answer = judge(&[("r", fence)]);
        assert!(
            answer.starts_with(&format!("malformed: the fence {fence} is none that a lock has given yet")),
            "{answer}"
        );
    }
    for fence in [0, -1, i64::MIN, FENCE_END, i64::MAX] {
        let expected = format!("malformed: the fence {fence} is none that a lock gives: those are from 1 to 2^53 - 1");
        assert_eq!(judge(&[("r", fence)]), expected);
    }
    for name in ["", ".", "..", "a\nb", &"x".repeat(513)] {
        assert!(judge(&[(name, 1)]).starts_with("malformed: `fences`: lock name "), "{name:?}");
    }
}

#[test]
fn fences_are_bounded() {
    let mut case = Case::new(WORKFLOW);
    case.run("ann start -> started v1 a");
    let mut judge = |count: usize| render(&case.judge(&go((0..count).map(|n| (format!("r{n}"), 1)).collect())));
    assert_eq!(judge(FENCES_MAX), "applied v2 a");
    assert_eq!(judge(FENCES_MAX + 1), "malformed: 17 fences are given; at most 16 are allowed");
}

#[test]
fn a_stale_fence_is_a_refusal_that_stays_one() {
    let fenced = Refusal::Fenced { resource: "inventory/sku-1".to_owned(), fence: 7, last: 8 };
    assert_eq!((fenced.code(), fenced.outcome(), fenced.is_retryable()), ("LK0010", "fenced", false));
    insta::assert_snapshot!(fenced);
}
