//! Who may veto, and who may add an approver: those who may vote, guards and all, or those who are named for it.

use crate::support::Case;

/// A run in `review`, begun by sam, at version 2; `approve` asks for `approval` beside its guard, if it has one.
fn in_review(guard: &str, approval: &str) -> Case {
    let mut case = Case::new(&format!(
        "
        workflow: case
        initial: draft
        states:
          draft: {{on: {{submit: {{target: review, assign: {{people: 'has(event.people) ? event.people : []'}}}}}}}}
          review: {{on: {{approve: {{target: approved, {guard} approval: {approval}}}, reject: rejected}}}}
          approved: {{type: final}}
          rejected: {{type: final, status: failed}}
        "
    ));
    case.run("sam start -> started v1 draft");
    case
}

const NOT_SAM: &str = r#"guard: "actor.id != instance.started_by","#;
const REJECTED: &str = "guard_rejected: the guard does not hold: actor.id != instance.started_by";

#[test]
fn whom_the_guard_refuses_the_vote_neither_vetoes_nor_adds() {
    in_review(NOT_SAM, "{quorum: 2, roles: [chief], veto: reject, add_approvers: true}").run(&format!(
        r#"
        sam submit -> applied v2 review
        sam[chief] approve -> {REJECTED}
        sam[chief] reject -> {REJECTED}
        sam[chief] approve add=zoe -> {REJECTED}
        # Who has no vote anyhow is told that first.
        sam reject -> not_permitted: "sam" is none of those who may veto "approve" by "reject"
        ann[chief] approve add=zoe -> pending_approval v3 review, 0/3
        ann[chief] reject -> applied v4 rejected failed
        "#
    ));
    // Who is named for it needs no vote, and so no guard.
    let named = "{quorum: 2, roles: [chief], veto: {event: reject, of: [sam]}, add_approvers: {of: [sam]}}";
    in_review(NOT_SAM, named).run(
        r#"
        sam submit -> applied v2 review
        sam approve add=zoe -> pending_approval v3 review, 0/3
        ann[chief] approve add=yan -> not_permitted: "ann" is none of those who may add approvers to "approve"
        sam reject -> applied v4 rejected failed
        "#,
    );
}

#[test]
fn a_guard_that_cannot_be_told_is_an_error_there_too() {
    let error = "guard_error: cannot evaluate \"event.sure\": there is no field \"sure\"";
    in_review("guard: event.sure,", "{quorum: 2, of: [ann, bob], veto: reject, add_approvers: true}").run(&format!(
        r#"
        sam submit -> applied v2 review
        ann reject -> {error}
        ann approve add=zoe -> {error}
        zoe reject -> not_permitted: "zoe" is none of those who may veto "approve" by "reject"
        ann reject data={{"sure":false}} -> guard_rejected: the guard does not hold: event.sure
        ann reject data={{"sure":true}} -> applied v3 rejected failed
        "#
    ));
}

/// Of several approvals of one event a person has a vote for the one that the guards choose.
#[test]
fn a_veto_is_by_the_approval_that_the_guards_choose() {
    let text = r#"
        workflow: case
        initial: review
        states:
          review:
            on:
              approve:
                - {target: done, guard: data.amount < 10, approval: {quorum: 1, roles: [clerk], veto: reject}}
                - {target: done, approval: {quorum: 2, roles: [chief], veto: reject}}
              reject: rejected
          done: {type: final}
          rejected: {type: final, status: failed}
        "#;
    Case::new(text).run(
        r#"
        sam start data={"amount":50} -> started v1 review
        cid reject -> not_permitted: "cid" is none of those who may veto "approve" by "reject"
        cid[clerk] reject -> guard_rejected: the guard does not hold: data.amount < 10
        dan[chief] reject -> applied v2 rejected failed
        "#,
    );
    Case::new(text).run(
        r#"
        sam start data={"amount":5} -> started v1 review
        dan[chief] reject -> guard_rejected: the guard does not hold: !(data.amount < 10)
        cid[clerk] reject -> applied v2 rejected failed
        "#,
    );
}

#[test]
fn people_who_cannot_be_told_stop_no_veto_of_others() {
    let error = "guard_error: cannot evaluate \"data.nobody\": there is no field \"nobody\"";
    in_review("", "{quorum: all, of: data.nobody, veto: {event: reject, roles: [legal]}}").run(&format!(
        r#"
        sam submit -> applied v2 review
        ann approve -> {error}
        ann reject -> not_permitted: "ann" is none of those who may veto "approve" by "reject"
        ann[legal] reject -> applied v3 rejected failed
        "#
    ));
    let groups = "{groups: [{quorum: all, of: data.nobody}, {quorum: 1, roles: [legal]}], veto: reject}";
    in_review("", groups).run(&format!(
        r#"
        sam submit -> applied v2 review
        ann reject -> {error}
        ann[legal] approve -> {error}
        ann[legal] reject -> applied v3 rejected failed
        "#
    ));
    // Too few to agree, and any of them may end it.
    in_review("", "{quorum: 2, of: data.people, veto: reject}").run(
        r#"
        sam submit data={"people":["ann"]} -> applied v2 review
        ann approve -> guard_error: cannot evaluate "data.people": 2 of 1 people must agree: nobody could ever approve
        bob reject -> not_permitted: "bob" is none of those who may veto "approve" by "reject"
        ann reject -> applied v3 rejected failed
        "#,
    );
}
