//! An approval that could never be full says so; every other one is full once everybody has agreed who can.

use std::collections::BTreeSet;

use lockkeeper_model::{
    Act, Action, Actor, Command, Decision, Definition, Format, Instance, InstanceId, Kind, Refusal, Send, Start, decide,
};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Case, at, key_of};

/// A run in `review` whose `approve` asks for `approval`, with `data.people`, begun by sam.
fn in_review(approval: &str, people: &str) -> Case {
    let mut case = Case::new(&text(approval));
    case.run(&format!("sam start data={{\"people\":{people}}} -> started v1 review"));
    case
}

fn text(approval: &str) -> String {
    format!(
        "
        workflow: case
        initial: review
        states:
          review: {{on: {{approve: {{target: done, approval: {approval}}}, name: {{assign: {{people: event.people}}}}}}}}
          done: {{type: final}}
        "
    )
}

#[test]
fn the_next_who_has_a_vote_moves_what_is_full() {
    // Taking back the addition has made it full. Who voted may be gone: whoever has a vote moves it.
    let mut case = in_review("{quorum: 1, of: [ann, bob], add_approvers: true, recall: true}", "[]");
    case.run(
        r#"
        bob approve add=zoe -> pending_approval v2 review, 0/2
        ann approve -> pending_approval v3 review, 1/2 ann
        bob approve recall -> pending_approval v4 review, 1/1 ann
        zoe approve -> not_permitted: "zoe" is none of those who have a vote for "approve"
        bob approve -> applied v5 done completed, by ann bob
        "#,
    );
    // A delegate's hand is as good.
    let rule = "{groups: [{quorum: 1, roles: [x]}], delegation: true, add_approvers: true, recall: true}";
    in_review(rule, "[]").run(
        r"
        bob[x] approve add=zoe -> pending_approval v2 review, 0/2
        cid[x] approve delegate=yan -> pending_approval v3 review, 0/2
        ann[x] approve -> pending_approval v4 review, 1/2 ann
        bob[x] approve recall -> pending_approval v5 review, 1/1 ann
        yan approve -> applied v6 done completed, by ann yan
        ",
    );
}

#[test]
fn no_more_than_a_hundred_must_agree_however_they_are_named() {
    let groups = |names: &[&str]| {
        let group = |name: &&str| format!("{{quorum: all, of: 'data.people.map(p, p + \"{name}\")'}}");
        format!("{{groups: [{}]}}", names.iter().map(group).collect::<Vec<_>>().join(", "))
    };
    let people =
        |count: usize| serde_json::to_string(&(0..count).map(|n| format!("p{n}")).collect::<Vec<_>>()).unwrap();
    in_review(&groups(&["x", "y"]), &people(50)).run("p0x approve -> pending_approval v2 review, 1/100 p0x");
    let (two, both) = (groups(&["x", "y"]), "data.people.map(p, p + \"x\"); data.people.map(p, p + \"y\")");
    let answer = in_review(&two, &people(51)).judge_line("p0x approve");
    let expected = format!(
        "guard_error: cannot evaluate {both:?}: 102 must agree, and at most 100 may be asked for: nobody could ever approve"
    );
    assert_eq!(answer, expected);
}

#[test]
fn what_those_who_are_named_cannot_fill_is_told() {
    in_review("{groups: [{quorum: all, of: data.people}, {quorum: 1, of: [ann]}]}", r#"["ann","bob"]"#).run(
        r#"
        ann approve -> guard_error: cannot evaluate "data.people; ann": those who are named fill 2 of 3 places, each of them one: nobody could ever approve
        sam name data={"people":["bob"]} -> applied v2 review
        ann approve -> pending_approval v3 review, 1/2 ann
        bob approve -> applied v4 done completed, by ann bob
        "#,
    );
}

#[test]
fn new_data_makes_no_vote_that_nobody_can_cast() {
    // zoe was added, and is named now: all who are named agree, she among them.
    in_review("{quorum: all, of: data.people, add_approvers: true, recall: true}", r#"["ann","bob"]"#).run(
        r#"
        ann approve add=zoe -> pending_approval v2 review, 0/3
        sam name data={"people":["ann","bob","zoe"]} -> applied v3 review
        ann approve -> pending_approval v4 review, 1/3 ann
        bob approve -> pending_approval v5 review, 2/3 ann bob
        zoe approve -> applied v6 done completed, by ann bob zoe
        "#,
    );
    // One of those who are named is enough, and zoe still has to agree beside them.
    in_review("{quorum: 1, of: data.people, add_approvers: true}", r#"["ann","bob"]"#).run(
        r#"
        ann approve add=zoe -> pending_approval v2 review, 0/2
        sam name data={"people":["ann","zoe"]} -> applied v3 review
        ann approve -> pending_approval v4 review, 1/2 ann
        zoe approve -> applied v5 done completed, by ann zoe
        "#,
    );
    // zoe holds the vote of ann, and has one of her own now: one hand is one vote, so ann has hers again.
    in_review("{quorum: all, of: data.people, delegation: true}", r#"["ann","bob"]"#).run(
        r#"
        ann approve delegate=zoe -> pending_approval v2 review, 0/2
        sam name data={"people":["ann","bob","zoe"]} -> applied v3 review
        zoe approve -> pending_approval v4 review, 1/3 zoe
        ann approve delegate=yan -> pending_approval v5 review, 1/3 zoe
        bob approve -> pending_approval v6 review, 2/3 zoe bob
        # Were zoe not named any more, she would still not have the vote that yan has now.
        sam name data={"people":["ann","bob"]} -> applied v7 review
        zoe approve -> not_permitted: "zoe" is none of those who have a vote for "approve"
        bob approve -> pending_approval v8 review, 1/2 bob
        yan approve -> applied v9 done completed, by bob yan
        "#,
    );
    // Who is not named any more has handed over nothing.
    in_review("{quorum: 1, of: data.people, delegation: true, add_approvers: true}", r#"["ann"]"#).run(
        r#"
        ann approve delegate=zoe -> pending_approval v2 review, 0/1
        sam name data={"people":["bob"]} -> applied v3 review
        zoe approve -> not_permitted: "zoe" is none of those who have a vote for "approve"
        bob approve delegate=zoe -> pending_approval v4 review, 0/1
        zoe approve -> applied v5 done completed, by zoe
        "#,
    );
}

const PEOPLE: [&str; 6] = ["sam", "ann", "bob", "cid", "dan", "eve"];
const ROLES: [&str; 2] = ["x", "y"];

/// A group of a rule: how many, of whom, with which role.
fn group() -> impl Strategy<Value = String> {
    let quorum = prop_oneof![Just("all"), Just("any"), Just("1"), Just("2"), Just("3")];
    let of = prop_oneof![
        2 => Just(Some("data.people".to_owned())),
        1 => Just(None),
        1 => prop::sample::subsequence(&PEOPLE[..], 1..5).prop_map(|people| Some(format!("[{}]", people.join(", ")))),
    ];
    (quorum, of, prop::option::weighted(0.3, prop::sample::select(&ROLES[..]))).prop_map(|(quorum, of, role)| {
        let quorum = if of.is_none() && quorum == "all" { "2" } else { quorum };
        let of = of.map_or_else(String::new, |of| format!(", of: {of}"));
        let role = role.map_or_else(String::new, |role| format!(", roles: [{role}]"));
        format!("{{quorum: {quorum}{of}{role}}}")
    })
}

#[derive(Clone, Debug)]
enum Step {
    Vote(usize),
    Delegate(usize, usize),
    Add(usize, usize),
    Recall(usize),
    Name(Vec<&'static str>),
}

fn step() -> impl Strategy<Value = Step> {
    let who = 0..PEOPLE.len();
    prop_oneof![
        3 => who.clone().prop_map(Step::Vote),
        3 => (who.clone(), who.clone()).prop_map(|(from, to)| Step::Delegate(from, to)),
        2 => (who.clone(), who.clone()).prop_map(|(by, id)| Step::Add(by, id)),
        2 => who.prop_map(Step::Recall),
        2 => prop::sample::subsequence(&PEOPLE[..], 0..6).prop_map(Step::Name),
    ]
}

fn command(who: &str, send: Send) -> Command {
    let actor = Actor::new(who, ROLES.map(str::to_owned), false).unwrap();
    Command { instance: key_of("case"), action: Action::Send(send), actor, idempotency_key: None }
}

fn approve(act: Option<Act>) -> Send {
    Send { event: Some("approve".to_owned()), act, ..Send::default() }
}

fn told(step: &Step) -> Command {
    let name = |at: &usize| PEOPLE[*at].to_owned();
    match step {
        Step::Vote(who) => command(PEOPLE[*who], approve(None)),
        Step::Delegate(from, to) => command(PEOPLE[*from], approve(Some(Act::Delegate { to: name(to) }))),
        Step::Add(by, id) => command(PEOPLE[*by], approve(Some(Act::AddApprover { id: name(id) }))),
        Step::Recall(who) => command(PEOPLE[*who], approve(Some(Act::Recall))),
        Step::Name(people) => {
            let data = serde_json::from_value(json!({ "people": people })).unwrap();
            command("sam", Send { event: Some("name".to_owned()), data, ..Send::default() })
        }
    }
}

/// Whether everybody's vote, each sent once more, makes the move; or the reason why nobody's could.
fn everybody_agrees(definition: &Definition, mut current: Instance) -> Result<bool, String> {
    let others: Vec<String> = (0..20).map(|n| format!("other-{n}")).collect();
    for who in PEOPLE.iter().copied().chain(others.iter().map(String::as_str)) {
        match decide(definition, Some(&current), &command(who, approve(None)), at(99)) {
            Ok(Decision::Change(change)) if change.entry.kind == Kind::Move => return Ok(true),
            Ok(Decision::Change(change)) => current = change.instance,
            Ok(_) | Err(Refusal::NotPermitted { .. } | Refusal::ActRefused { .. }) => {}
            Err(refusal) => return Err(refusal.to_string()),
        }
    }
    Ok(false)
}

/// As many cases as fit an ordinary test run; `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300);
    ProptestConfig { cases, failure_persistence: None, max_global_rejects: 100_000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Whatever was done before: nobody waits for a vote that nobody can cast.
    #[test]
    fn an_approval_is_reached_once_everybody_agrees_or_says_why_not(
        groups in prop::collection::vec(group(), 1..4),
        exclude in any::<bool>(),
        people in prop::sample::subsequence(&PEOPLE[..], 1..6),
        steps in prop::collection::vec(step(), 0..20),
    ) {
        let rule = format!(
            "{{groups: [{}], delegation: true, recall: true, add_approvers: true, exclude_starter: {exclude}}}",
            groups.join(", ")
        );
        // What the text alone tells is refused with it.
        let Ok(definition) = Definition::read(&text(&rule), Format::Yaml) else { return Err(TestCaseError::reject("never")) };
        let data = serde_json::from_value(json!({ "people": people })).unwrap();
        let start = Command {
            action: Action::Start(Start { data, ..Start::default() }),
            ..command("sam", Send::default())
        };
        let Ok(Decision::Change(started)) = decide(&definition, None, &start, at(0)) else { panic!("it starts") };
        let mut current = started.instance;
        for (number, step) in (1..).zip(&steps) {
            if let Ok(Decision::Change(change)) = decide(&definition, Some(&current), &told(step), at(number)) {
                current = change.instance;
            }
        }
        if current.status.is_closed() {
            return Ok(());
        }
        let shown = definition.approvals(&InstanceId::new("case").unwrap(), &current).remove(0).approval;
        let agreed = everybody_agrees(&definition, current.clone());
        match (&shown, &agreed) {
            (Ok(_), Ok(true)) => {}
            (Err(shown), Err(told)) => prop_assert_eq!(shown, told),
            _ => prop_assert!(false, "{rule}: {shown:?}, {agreed:?}, {current:?}"),
        }
        if let Ok(shown) = shown {
            let waiting: BTreeSet<_> = shown.waiting_for.iter().collect();
            prop_assert!(shown.voters.iter().all(|voter| !waiting.contains(voter)));
        }
    }
}
