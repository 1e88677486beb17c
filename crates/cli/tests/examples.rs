//! The examples are definitions that this version takes, without a warning, and keep the rules that their first lines
//! promise.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::path::Path;

use lockkeeper_model::{
    Act, Action, Actor, Command, Decision, Definition, Format, Instance, InstanceKey, Refusal, Send, Start,
    SuccessKind, Timestamp, decide,
};
use serde_json::{Value, json};
use uuid::Uuid;

/// One instance, moved by the judge alone.
struct Case {
    definition: Definition,
    key: InstanceKey,
    instance: Option<Instance>,
}

impl Case {
    fn new(workflow: &str, data: Value) -> Self {
        let mut case =
            Self { definition: example(workflow), key: InstanceKey::new(workflow, "1").unwrap(), instance: None };
        let start = Start { run: Uuid::from_u128(1), data: object(data), ..Start::default() };
        case.decide("ann", &[], Action::Start(start)).unwrap();
        case
    }

    fn send(&mut self, actor: &str, roles: &[&str], event: &str, data: Value) -> Result<SuccessKind, Refusal> {
        let send = Send { event: Some(event.to_owned()), data: object(data), ..Send::default() };
        self.decide(actor, roles, Action::Send(send))
    }

    fn decide(&mut self, actor: &str, roles: &[&str], action: Action) -> Result<SuccessKind, Refusal> {
        let actor = Actor::new(actor, roles.iter().map(|role| (*role).to_owned()), false).unwrap();
        let command = Command { instance: self.key.clone(), action, actor, idempotency_key: None };
        let now = Timestamp::from_timestamp_millis(1_700_000_000_000).unwrap();
        match decide(&self.definition, self.instance.as_ref(), &command, now)? {
            Decision::Change(change) => {
                self.instance = Some(change.instance);
                Ok(change.success.outcome)
            }
            Decision::Replace { .. } => unreachable!("no start here asks for it"),
            Decision::Stay(success) => Ok(success.outcome),
        }
    }

    fn state(&self) -> &str {
        &self.instance.as_ref().unwrap().state
    }

    fn data(&self, name: &str) -> &Value {
        &self.instance.as_ref().unwrap().data[name]
    }
}

fn object(value: Value) -> lockkeeper_model::Data {
    let Value::Object(data) = value else { panic!("not an object") };
    data
}

fn example(workflow: &str) -> Definition {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../examples/{workflow}.yaml"));
    Definition::read(&std::fs::read_to_string(file).unwrap(), Format::Yaml).unwrap().with_version(1)
}

#[test]
fn every_example_is_taken_without_a_warning() {
    for workflow in ["purchase", "budget", "ticket", "stock"] {
        let definition = example(workflow);
        assert_eq!(definition.workflow().as_str(), workflow);
        assert_eq!(definition.warnings(), [], "{workflow}");
    }
}

#[test]
fn a_purchase_needs_two_who_did_not_ask_for_it() {
    let mut case = Case::new("purchase", json!({"amount": 1200}));
    case.send("ann", &[], "submit", json!({})).unwrap();
    let own = case.send("ann", &["finance"], "approve", json!({}));
    assert!(matches!(own, Err(Refusal::GuardRejected { .. })), "{own:?}");
    let intern = case.send("ivo", &["intern"], "approve", json!({}));
    assert!(matches!(intern, Err(Refusal::NotPermitted { .. })), "{intern:?}");
    for _ in 0..2 {
        let vote = case.send("bob", &["finance"], "approve", json!({}));
        assert_eq!(vote, Ok(SuccessKind::PendingApproval), "one person counts once");
    }
    assert_eq!(case.send("eve", &["manager"], "approve", json!({})), Ok(SuccessKind::Applied));
    assert_eq!(case.state(), "approved");
}

#[test]
fn a_withdrawn_purchase_begins_its_votes_anew() {
    let mut case = Case::new("purchase", json!({"amount": 1200}));
    case.send("ann", &[], "submit", json!({})).unwrap();
    case.send("bob", &["finance"], "approve", json!({})).unwrap();
    assert!(case.send("bob", &["finance"], "withdraw", json!({})).is_err(), "it is not his");
    case.send("ann", &[], "withdraw", json!({})).unwrap();
    case.send("ann", &[], "change", json!({"amount": 99_000})).unwrap();
    case.send("ann", &[], "submit", json!({})).unwrap();
    assert_eq!(case.send("eve", &["manager"], "approve", json!({})), Ok(SuccessKind::PendingApproval));
    assert_eq!(case.data("amount"), 99_000);
}

#[test]
fn a_budget_needs_three_of_five_and_one_no_ends_it() {
    let mut case = Case::new("budget", json!({"amount": 90_000}));
    // Whoever started it is one of the five, and has no vote.
    case.send("ann", &[], "submit", json!({})).unwrap();
    let own = case.send("ann", &[], "approve", json!({}));
    assert!(matches!(own, Err(Refusal::NotPermitted { .. })), "{own:?}");
    for (voter, outcome) in [("bob", SuccessKind::PendingApproval), ("cid", SuccessKind::PendingApproval)] {
        assert_eq!(case.send(voter, &[], "approve", json!({})), Ok(outcome));
    }
    let act = |act| Send { event: Some("approve".to_owned()), act: Some(act), ..Send::default() };
    let delegate = act(Act::Delegate { to: "zoe".to_owned() });
    assert_eq!(case.decide("dan", &[], Action::Send(delegate)), Ok(SuccessKind::PendingApproval));
    assert_eq!(case.decide("bob", &[], Action::Send(act(Act::Recall))), Ok(SuccessKind::PendingApproval));
    let back = json!({"reason": "too much"});
    let member = case.send("eve", &[], "send_back", back.clone());
    assert!(matches!(member, Err(Refusal::NotPermitted { .. })), "{member:?}");
    case.send("kim", &["chair"], "send_back", back).unwrap();
    assert_eq!(case.state(), "draft");
    case.send("ann", &[], "submit", json!({})).unwrap();
    let stale = case.send("zoe", &[], "approve", json!({}));
    assert!(matches!(stale, Err(Refusal::NotPermitted { .. })), "what she held ended with the visit: {stale:?}");
    let outsider = case.send("zoe", &[], "reject", json!({"reason": "no"}));
    assert!(matches!(outsider, Err(Refusal::NotPermitted { .. })), "{outsider:?}");
    case.send("dan", &[], "reject", json!({"reason": "no"})).unwrap();
    assert_eq!(case.state(), "rejected");
}

#[test]
fn a_ticket_is_resolved_by_whoever_has_it() {
    let mut case = Case::new("ticket", json!({"subject": "printer"}));
    case.send("zoe", &[], "escalate", json!({"reason": "smoke"})).unwrap();
    let wish = case.send("max", &[], "assign", json!({"assignee": "max"}));
    assert!(matches!(wish, Err(Refusal::NotPermitted { .. })), "{wish:?}");
    case.send("lea", &["lead"], "assign", json!({"assignee": "max"})).unwrap();
    assert!(case.send("zoe", &[], "resolve", json!({})).is_err(), "she has not got it");
    case.send("max", &[], "resolve", json!({})).unwrap();
    case.send("zoe", &[], "reopen", json!({"reason": "still smoking"})).unwrap();
    case.send("lea", &[], "reassign", json!({"assignee": "kim"})).unwrap();
    case.send("kim", &[], "resolve", json!({})).unwrap();
    case.send("zoe", &[], "close", json!({})).unwrap();
    assert_eq!(case.state(), "closed");
    assert_eq!((case.data("assignee"), case.data("escalated_by")), (&json!("kim"), &json!("zoe")));
}

#[test]
fn stock_never_falls_below_zero() {
    let mut case = Case::new("stock", json!({"on_hand": 10}));
    for bad in [json!({"quantity": 11}), json!({"quantity": 0}), json!({"quantity": -1})] {
        let taken = case.send("ann", &[], "take", bad.clone());
        assert!(matches!(taken, Err(Refusal::GuardRejected { .. })), "{bad}: {taken:?}");
    }
    let missing = case.send("ann", &[], "take", json!({}));
    assert!(matches!(missing, Err(Refusal::GuardError { .. })), "{missing:?}");
    case.send("ann", &[], "take", json!({"quantity": 7})).unwrap();
    assert!(case.send("ann", &[], "take", json!({"quantity": 7})).is_err());
    assert!(case.send("ann", &[], "retire", json!({})).is_err(), "three are left");
    case.send("ann", &[], "take", json!({"quantity": 3})).unwrap();
    assert_eq!(case.data("on_hand"), 0);
    case.send("ann", &[], "retire", json!({})).unwrap();
    assert_eq!(case.state(), "retired");
}
