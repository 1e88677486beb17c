//! Approvals as people need them: any of, all of, so many of each role, veto, delegation, recall, added approvers.

use crate::support::Case;

/// A workflow whose event `approve` asks for `approval`, in `review`, reached from `draft`.
fn case_of(approval: &str) -> Case {
    let mut case = Case::new(&format!(
        "
        workflow: case
        initial: draft
        states:
          draft: {{on: {{submit: review, fill: {{assign: {{people: event.people}}}}}}}}
          review:
            on:
              approve: {{target: approved, approval: {approval}}}
              reject: rejected
              amend: {{assign: {{n: 1}}}}
              again: review
          approved: {{type: final}}
          rejected: {{type: final, status: failed}}
        "
    ));
    case.run("sam start -> started v1 draft");
    case
}

/// The same with a run in `review`, at version 2.
fn in_review(approval: &str) -> Case {
    let mut case = case_of(approval);
    case.run("sam submit -> applied v2 review");
    case
}

const NO_VOTE: &str = "is none of those who have a vote for \"approve\"";

#[test]
fn any_of_those_who_are_named() {
    in_review("{quorum: any, of: [ann, bob]}").run(&format!(
        r#"
        zoe approve -> not_permitted: "zoe" {NO_VOTE}
        bob approve -> applied v3 approved completed, by bob
        ann approve -> already_applied v3 approved completed, stays
        "#
    ));
}

#[test]
fn all_of_those_who_are_named() {
    in_review("{quorum: all, of: [ann, bob, cid, bob]}").run(
        r"
        ann approve -> pending_approval v3 review, 1/3 ann
        bob approve -> pending_approval v4 review, 2/3 ann bob
        ann approve -> pending_approval v4 review, 2/3 ann bob, stays
        cid approve -> applied v5 approved completed, by ann bob cid
        ",
    );
}

#[test]
fn people_are_named_by_the_data_and_by_nobody_who_votes() {
    let mut case = case_of("{quorum: all, of: data.people}");
    case.run(&format!(
        r#"
        sam fill data={{"people":["ann","bob"]}} -> applied v2 draft
        sam submit -> applied v3 review
        zoe approve data={{"people":["zoe"]}} -> not_permitted: "zoe" {NO_VOTE}
        bob approve -> pending_approval v4 review, 1/2 bob
        ann approve -> applied v5 approved completed, by bob ann
        "#
    ));
}

#[test]
fn a_list_of_nobody_approves_nothing() {
    for (people, problem) in [
        ("[]", "1 of 0 people must agree: nobody could ever approve"),
        (r#"["ann",5]"#, "people are texts: their ids"),
        (r#"["ann",""]"#, "actor id is empty"),
        ("7", "a list of people is needed"),
    ] {
        case_of("{quorum: all, of: data.people}").run(&format!(
            r#"
            sam fill data={{"people":{people}}} -> applied v2 draft
            sam submit -> applied v3 review
            ann approve -> guard_error: cannot evaluate "data.people": {problem}
            "#
        ));
    }
    in_review("{quorum: all, of: [sam], exclude_starter: true}").run(
        r#"
        sam approve -> guard_error: cannot evaluate "sam": 1 of 0 people must agree, whoever started the run aside: nobody could ever approve
        "#,
    );
}

#[test]
fn named_people_need_the_role_too_where_one_is_asked_for() {
    in_review("{quorum: 2, of: [ann, bob], roles: [lead]}").run(&format!(
        r#"
        ann approve -> not_permitted: "ann" may not do this: one of the roles lead is needed
        zoe[lead] approve -> not_permitted: "zoe" {NO_VOTE}
        ann[lead] approve -> pending_approval v3 review, 1/2 ann
        bob[lead] approve -> applied v4 approved completed, by ann bob
        "#
    ));
}

#[test]
fn so_many_of_each_role_and_nobody_for_two() {
    let groups = "{groups: [{quorum: 2, roles: [finance]}, {quorum: 1, roles: [legal]}]}";
    let full = "act_refused: \"eve\" has a vote, but the places that it could fill are full";
    in_review(groups).run(
        r#"
        zoe approve -> not_permitted: "zoe" may not do this: one of the roles finance, legal is needed
        # She is counted where she helps most, not where she came first.
        ann[finance,legal] approve -> pending_approval v3 review, 1/3 ann
        ann[legal] approve -> pending_approval v3 review, 1/3 ann, stays
        bob[finance] approve -> pending_approval v4 review, 2/3 ann bob
        cid[finance] approve -> applied v5 approved completed, by ann bob cid
        "#,
    );
    in_review(groups).run(&format!(
        r#"
        ann[finance] approve -> pending_approval v3 review, 1/3 ann
        bob[finance] approve -> pending_approval v4 review, 2/3 ann bob
        eve[finance] approve -> {full}
        dan[finance,legal] approve -> applied v5 approved completed, by ann bob dan
        "#
    ));
}

#[test]
fn whoever_started_the_run_has_no_vote() {
    let mut case =
        in_review("{quorum: 1, of: [sam, ann], exclude_starter: true, delegation: true, add_approvers: true}");
    case.run(
        r#"
        sam approve -> not_permitted: "sam" started the run and has no vote for "approve"
        sam approve delegate=zoe -> not_permitted: "sam" started the run and has no vote for "approve"
        ann approve delegate=sam -> act_refused: "sam" started the run and has no vote
        ann approve add=sam -> act_refused: "sam" started the run and has no vote
        ann approve -> applied v3 approved completed, by ann
        "#,
    );
}

#[test]
fn a_vote_is_cast_by_whom_it_was_handed_to() {
    in_review("{quorum: 3, of: [ann, bob, cid, dan, eve], delegation: true, recall: true}").run(&format!(
        r#"
        zoe approve -> not_permitted: "zoe" {NO_VOTE}
        zoe approve delegate=yan -> not_permitted: "zoe" {NO_VOTE}
        ann approve -> pending_approval v3 review, 1/3 ann
        ann approve delegate=zoe -> act_refused: "ann" has voted: the vote would have to be taken back first
        bob approve delegate=bob -> act_refused: "bob" has that vote already
        bob approve delegate=ann -> act_refused: "ann" has voted
        bob approve delegate=cid -> act_refused: "cid" has a vote of their own
        bob approve delegate=zoe -> pending_approval v4 review, 1/3 ann
        bob approve delegate=zoe -> pending_approval v4 review, 1/3 ann, stays
        bob approve delegate=yan -> act_refused: "bob" has handed the vote to "zoe"
        bob approve -> act_refused: "bob" has handed the vote to "zoe"
        # One hand, one vote: who holds a vote gets no other.
        cid approve delegate=zoe -> act_refused: "zoe" holds somebody's vote already
        # No chains.
        zoe approve delegate=yan -> act_refused: a vote that was handed over cannot be handed on
        zoe approve -> pending_approval v5 review, 2/3 ann zoe
        zoe approve -> pending_approval v5 review, 2/3 ann zoe, stays
        bob approve -> act_refused: "bob" has handed the vote to "zoe"
        # It was cast: it is no longer his to take back.
        bob approve recall -> act_refused: "zoe" has cast the vote: it is theirs to take back
        zoe approve recall -> pending_approval v6 review, 1/3 ann
        bob approve recall -> pending_approval v7 review, 1/3 ann
        zoe approve -> not_permitted: "zoe" {NO_VOTE}
        bob approve -> pending_approval v8 review, 2/3 ann bob
        eve approve delegate=zoe -> pending_approval v9 review, 2/3 ann bob
        zoe approve -> applied v10 approved completed, by ann bob zoe
        "#
    ));
}

#[test]
fn the_vote_of_a_role_is_handed_over_with_the_role() {
    let rule = "{groups: [{quorum: 1, roles: [finance]}, {quorum: 1, roles: [legal]}], delegation: {roles: [deputy]}, recall: true}";
    let mut case = in_review(rule);
    case.run(
        r#"
        ann[finance] approve delegate=zoe -> pending_approval v3 review, 0/2
        zoe approve -> not_permitted: "zoe" is none of those to whom a vote for "approve" may be handed
        zoe[deputy] approve -> pending_approval v4 review, 1/2 zoe
        bob[finance] approve -> act_refused: "bob" has a vote, but the places that it could fill are full
        # A second vote of the same hand, whatever role it claims.
        zoe[legal] approve -> pending_approval v4 review, 1/2 zoe, stays
        bob[legal] approve -> applied v5 approved completed, by zoe bob
        "#,
    );
    let behalf: Vec<_> = case.history.iter().map(|(_, entry)| entry.on_behalf_of.as_deref()).collect();
    assert_eq!(behalf, [None, None, None, Some("ann"), None]);
    // Neither a circle: who has handed theirs over is handed none.
    in_review("{quorum: 2, roles: [finance], delegation: true}").run(
        r#"
        ann[finance] approve delegate=bob -> pending_approval v3 review, 0/2
        bob[finance] approve delegate=ann -> act_refused: a vote that was handed over cannot be handed on
        cid[finance] approve delegate=ann -> act_refused: "ann" has handed the own vote over
        # He casts hers; his own is not a second one.
        bob[finance] approve -> pending_approval v4 review, 1/2 bob
        bob[finance] approve -> pending_approval v4 review, 1/2 bob, stays
        cid[finance] approve -> applied v5 approved completed, by bob cid
        "#,
    );
    in_review("{quorum: any, of: [ann], delegation: {of: [zoe]}}").run(
        r#"
        ann approve delegate=yan -> not_permitted: "yan" is none of those to whom a vote for "approve" may be handed
        ann approve delegate=zoe -> pending_approval v3 review, 0/1
        zoe approve -> applied v4 approved completed, by zoe
        "#,
    );
}

#[test]
fn what_the_definition_does_not_allow_is_refused() {
    in_review("{quorum: 2, roles: [finance]}").run(
        r#"
        ann[finance] approve -> pending_approval v3 review, 1/2 ann
        bob[finance] approve delegate=zoe -> act_refused: votes for "approve" cannot be handed over
        bob[finance] approve add=zoe -> act_refused: approvers cannot be added to "approve"
        ann[finance] approve recall -> act_refused: what was done for "approve" cannot be taken back: it has no `recall: true`
        ann reject delegate=zoe -> act_refused: "reject" needs no approval: there are no votes
        ann reject add=zoe -> act_refused: "reject" needs no approval: there are no votes
        ann . delegate=zoe -> malformed: name the `event` whose approval is meant
        ann approve recall to=draft -> malformed: `to` has no meaning with a recall: name the event that is to be taken back
        ann submit delegate=zoe -> state_mismatch: not possible in state "review"; it is in draft
        ann[finance] approve delegate= -> malformed: actor id is empty
        "#,
    );
}

#[test]
fn a_vote_is_taken_back_until_the_last_place_is_filled() {
    let mut case = in_review("{quorum: 2, roles: [finance], recall: true}");
    case.run(
        r#"
        ann[finance] approve -> pending_approval v3 review, 1/2 ann
        bob . recall -> act_refused: there is nothing that "bob" could take back now
        bob approve recall -> act_refused: "bob" has done nothing by "approve" since the run came here
        ann approve recall v=2 -> version_mismatch: expected version 2, but the instance is at version 3: read it again and decide anew
        ann approve recall from=draft -> state_mismatch: expected state "draft", but the instance is in "review"
        # Without the role: it is hers all the same.
        ann . recall -> pending_approval v4 review, 0/2
        bob[finance] approve -> pending_approval v5 review, 1/2 bob
        ann[finance] approve -> applied v6 approved completed, by bob ann
        bob approve recall -> state_mismatch: the run has ended (completed) in state "approved"; the command needs review
        "#,
    );
    use lockkeeper_model::Kind::{Move, Recall, Start, Vote};
    let kinds: Vec<_> = case.history.iter().map(|(_, entry)| entry.kind.clone()).collect();
    assert_eq!(kinds, [Start, Move, Vote, Recall, Vote, Move], "nothing is deleted");
}

#[test]
fn an_added_approver_has_to_agree_too() {
    in_review("{quorum: 2, of: [ann, bob, cid], add_approvers: {roles: [manager]}, delegation: true, recall: true}")
        .run(
            r#"
        ann approve add=zoe -> not_permitted: "ann" may not add an approver: one of the roles manager is needed
        ann approve -> pending_approval v3 review, 1/2 ann
        max[manager] approve add=ann -> act_refused: "ann" has voted
        max[manager] approve add=bob -> act_refused: "bob" has a vote of their own
        max[manager] approve add=zoe -> pending_approval v4 review, 1/3 ann
        max[manager] approve add=zoe -> pending_approval v4 review, 1/3 ann, stays
        # Those of the rule still have to agree, and so has she.
        bob approve -> pending_approval v5 review, 2/3 ann bob
        cid approve -> act_refused: "cid" has a vote, but the places that it could fill are full
        # New data is something else to vote on, but she stays.
        ann amend -> applied v6 review
        ann approve -> pending_approval v7 review, 1/3 ann
        bob approve -> pending_approval v8 review, 2/3 ann bob
        zoe approve delegate=yan -> pending_approval v9 review, 2/3 ann bob
        yan approve -> applied v10 approved completed, by ann bob yan
        "#,
        );
    // Taking the addition back leaves the votes; the next one, even a repeated one, makes the move.
    in_review("{quorum: 1, of: [ann, bob], add_approvers: true, recall: true}").run(
        r#"
        zoe approve add=yan -> not_permitted: "zoe" is none of those who may add approvers to "approve"
        bob approve add=zoe -> pending_approval v3 review, 0/2
        ann approve -> pending_approval v4 review, 1/2 ann
        ann approve recall -> pending_approval v5 review, 0/2
        ann approve -> pending_approval v6 review, 1/2 ann
        bob approve recall -> pending_approval v7 review, 1/1 ann
        ann approve -> applied v8 approved completed, by ann
        "#,
    );
    // A new visit begins without.
    in_review("{quorum: 1, of: [ann, bob], add_approvers: true}").run(
        r"
        bob approve add=zoe -> pending_approval v3 review, 0/2
        sam again -> applied v4 review
        ann approve -> applied v5 approved completed, by ann
        ",
    );
}

#[test]
fn one_no_ends_it() {
    let veto = "{quorum: all, of: [ann, bob, cid], veto: reject, delegation: true}";
    let refused = "is none of those who may veto \"approve\" by \"reject\"";
    in_review(veto).run(&format!(
        r#"
        ann approve -> pending_approval v3 review, 1/3 ann
        zoe reject -> not_permitted: "zoe" {refused}
        bob approve delegate=zoe -> pending_approval v4 review, 1/3 ann
        bob reject -> not_permitted: "bob" {refused}
        zoe reject -> applied v5 rejected failed
        cid approve -> state_mismatch: the run has ended (failed) in state "rejected"; the command needs review
        "#
    ));
    // Who has agreed may think again.
    in_review(veto).run(
        r"
        ann approve -> pending_approval v3 review, 1/3 ann
        ann reject -> applied v4 rejected failed
        ",
    );
    in_review("{quorum: 2, roles: [finance], veto: {event: reject, roles: [legal]}}").run(&format!(
        r#"
        ann[finance] reject -> not_permitted: "ann" {refused}
        zoe . to=rejected -> not_permitted: "zoe" {refused}
        zoe[legal] reject -> applied v3 rejected failed
        "#
    ));
}

#[test]
fn votes_end_with_the_visit_and_so_does_all_that_belongs_to_them() {
    let mut case = in_review("{quorum: 2, of: [ann, bob, cid], add_approvers: true, delegation: true, recall: true}");
    case.run(
        r"
        ann approve delegate=zoe -> pending_approval v3 review, 0/2
        zoe approve -> pending_approval v4 review, 1/2 zoe
        bob approve add=yan -> pending_approval v5 review, 1/3 zoe
        # New data: the votes are gone, and zoe still holds the one of ann.
        sam amend -> applied v6 review
        zoe approve -> pending_approval v7 review, 1/3 zoe
        sam again -> applied v8 review
        ",
    );
    let instance = case.current.as_ref().unwrap();
    assert!(instance.votes.is_empty() && instance.delegations.is_empty() && instance.additions.is_empty());
    case.run(&format!(
        r#"
        zoe approve -> not_permitted: "zoe" {NO_VOTE}
        ann approve -> pending_approval v9 review, 1/2 ann
        "#
    ));
}

#[test]
fn guards_are_for_those_who_vote_and_who_hand_over() {
    let mut case = Case::new(
        r#"
        workflow: case
        initial: review
        states:
          review:
            on:
              approve:
                - {target: done, guard: "event.amount < 10", approval: {quorum: 2, roles: [clerk]}}
                - target: done
                  guard: "actor.id != instance.started_by"
                  approval: {quorum: 2, roles: [chief], delegation: true, add_approvers: {roles: [manager]}, recall: true}
          done: {type: final}
        "#,
    );
    case.run(
        r#"
        sam start -> started v1 review
        sam[chief] approve delegate=zoe data={"amount":50} -> guard_rejected: the guard does not hold: event.amount < 10; actor.id != instance.started_by
        ann[chief] approve delegate=zoe -> guard_error: cannot evaluate "event.amount < 10": there is no field "amount"
        ann[chief] approve delegate=zoe data={"amount":50} -> pending_approval v2 review, 0/2
        # What she holds is a vote for the other transition.
        zoe approve data={"amount":5} -> not_permitted: "zoe" may not do this: one of the roles clerk is needed
        zoe approve data={"amount":50} -> pending_approval v3 review, 1/2 zoe
        zoe approve recall -> pending_approval v4 review, 0/2
        zoe approve data={"amount":50} -> pending_approval v5 review, 1/2 zoe
        bob[chief] approve data={"amount":50} -> applied v6 done completed, by zoe bob
        "#,
    );
}

#[test]
fn votes_of_earlier_versions_go_on_counting() {
    let mut case = in_review("{quorum: 2, roles: [finance]}");
    case.run("ann[finance] approve -> pending_approval v3 review, 1/2 ann");
    let mut stored = serde_json::to_value(case.current.as_ref().unwrap()).unwrap();
    stored["votes"][0].as_object_mut().unwrap().remove("roles");
    let read: lockkeeper_model::Instance = serde_json::from_value(stored).unwrap();
    case.current = Some(lockkeeper_model::Instance { version: 3, ..read });
    case.run(
        r"
        ann[finance] approve -> pending_approval v3 review, 1/2 ann, stays
        bob[finance] approve -> applied v4 approved completed, by ann bob
        ",
    );
}

#[test]
fn a_veto_is_for_those_who_may_send_the_event() {
    let mut case = Case::new(
        "{workflow: w, initial: a, states: {a: {on: {approve: {target: b, roles: [finance], approval: {quorum: 2, veto: reject}}, reject: c}}, b: {type: final}, c: {type: final, status: failed}}}",
    );
    case.run(
        r#"
        ann start -> started v1 a
        zoe reject -> not_permitted: "zoe" is none of those who may veto "approve" by "reject"
        bob[finance] reject -> applied v2 c failed
        "#,
    );
}

#[test]
fn an_approver_who_has_voted_by_a_delegate_is_not_taken_away() {
    let mut case = Case::new(
        "{workflow: w, initial: a, states: {a: {on: {approve: {target: b, approval: {quorum: 2, of: [ann, bob], delegation: true, add_approvers: true, recall: true}}}}, b: {type: final}}}",
    );
    case.run(
        r#"
        ann start -> started v1 a
        ann approve add=cid -> pending_approval v2 a, 0/3
        cid approve delegate=dan -> pending_approval v3 a, 0/3
        dan approve -> pending_approval v4 a, 1/3 dan
        ann approve recall -> act_refused: "cid" has voted already
        "#,
    );
}

/// A workflow in which data name the people, in `review`.
pub(crate) fn named(approval: &str) -> Case {
    let mut case = Case::new(&format!(
        "
        workflow: case
        initial: draft
        states:
          draft: {{on: {{submit: {{target: review, assign: {{people: event.people}}}}}}}}
          review:
            on:
              approve: {{target: approved, approval: {approval}}}
              name: {{assign: {{people: event.people}}}}
          approved: {{type: final}}
        "
    ));
    case.run("sam start -> started v1 draft");
    case.run(r#"sam submit data={"people":["ann","bob"]} -> applied v2 review"#);
    case
}

/// New data put a delegation out of force, and an addition that is taken back puts it in force again: no vote counts twice
/// by that.
#[test]
fn a_delegation_that_was_out_of_force_gives_no_second_vote() {
    named("{quorum: all, of: data.people, delegation: true, add_approvers: true, recall: true}").run(
        r#"
        ann approve delegate=zoe -> pending_approval v3 review, 0/2
        sam name data={"people":["bob","cid"]} -> applied v4 review
        bob approve add=zoe -> pending_approval v5 review, 0/3
        sam name data={"people":["ann","bob"]} -> applied v6 review
        ann approve -> pending_approval v7 review, 1/3 ann
        bob approve recall -> pending_approval v8 review, 1/2 ann
        zoe approve -> not_permitted: "zoe" is none of those who have a vote for "approve"
        ann approve -> pending_approval v8 review, 1/2 ann, stays
        bob approve -> applied v9 approved completed, by ann bob
        "#,
    );
}

/// Whoever is added asks for their own vote: one that they had handed over long ago does not stand in the way.
#[test]
fn who_is_added_has_no_forgotten_delegation() {
    let rule = "{groups: [{quorum: all, of: data.people}, {quorum: 1, roles: [finance]}], delegation: true, \
                add_approvers: {roles: [manager]}}";
    named(rule).run(
        r#"
        ann approve delegate=zoe -> pending_approval v3 review, 0/3
        sam name data={"people":["bob"]} -> applied v4 review
        zoe[finance] approve -> pending_approval v5 review, 1/2 zoe
        mia[manager] approve add=ann -> pending_approval v6 review, 1/3 zoe
        ann approve -> pending_approval v7 review, 2/3 zoe ann
        bob approve -> applied v8 approved completed, by zoe ann bob
        "#,
    );
}
