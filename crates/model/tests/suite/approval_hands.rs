//! In whose hands votes are: delegates, those who were added, and what guards say of them.

use crate::approval_rules::named;
use crate::support::Case;

/// One hand is one vote: who casts the own one gives back what they held, and its owner votes, or hands it over again.
#[test]
fn who_votes_for_themselves_gives_back_what_they_held() {
    let rule = "{groups: [{quorum: 1, roles: [finance]}, {quorum: 2, roles: [legal]}], delegation: true, \
                add_approvers: {roles: [manager]}RECALL}";
    named(&rule.replace("RECALL", "")).run(
        r#"
        ann[finance] approve delegate=zoe -> pending_approval v3 review, 0/3
        bob[finance] approve -> pending_approval v4 review, 1/3 bob
        zoe[legal] approve -> pending_approval v5 review, 2/3 bob zoe
        mia[manager] approve add=ann -> pending_approval v6 review, 2/4 bob zoe
        cid[legal] approve -> pending_approval v7 review, 3/4 bob zoe cid
        ann[finance] approve -> applied v8 approved completed, by bob zoe cid ann
        "#,
    );
    named(&rule.replace("RECALL", ", recall: true")).run(
        r#"
        ann[finance] approve delegate=zoe -> pending_approval v3 review, 0/3
        bob[finance] approve -> pending_approval v4 review, 1/3 bob
        zoe[legal] approve -> pending_approval v5 review, 2/3 bob zoe
        bob[finance] approve recall -> pending_approval v6 review, 1/3 zoe
        zoe[legal] approve recall -> pending_approval v7 review, 0/3
        zoe approve -> not_permitted: "zoe" may not do this: one of the roles finance, legal is needed
        ann[finance] approve delegate=yan -> pending_approval v8 review, 0/3
        yan approve -> pending_approval v9 review, 1/3 yan
        ann[finance] approve recall -> act_refused: "yan" has cast the vote: it is theirs to take back
        "#,
    );
}

fn guarded(guard: &str, approval: &str) -> Case {
    let mut case = Case::new(&format!(
        "
        workflow: case
        initial: review
        states:
          review:
            on:
              approve: {{target: approved, guard: \"{guard}\", approval: {approval}}}
              author: {{assign: {{author: event.author}}}}
          approved: {{type: final}}
        "
    ));
    case.run(r#"sam start data={"author":"cid"} -> started v1 review"#);
    case
}

/// A vote that its owner could not cast is cast by no other hand.
#[test]
fn the_guard_is_asked_about_the_owner_too() {
    let rule = "{quorum: 2, roles: [finance], delegation: true, add_approvers: true, recall: true}";
    guarded("actor.id != data.author", rule).run(
        r#"
        ann[finance] approve delegate=cid -> act_refused: a guard of "approve" refuses "cid", who could not vote
        ann[finance] approve add=cid -> act_refused: a guard of "approve" refuses "cid", who could not vote
        ann[finance] approve delegate=zoe -> pending_approval v2 review, 0/2
        sam author data={"author":"ann"} -> applied v3 review
        ann[finance] approve -> guard_rejected: the guard does not hold: actor.id != data.author
        zoe approve -> act_refused: a guard of "approve" refuses "ann", whose vote "zoe" holds
        bob[finance] approve -> pending_approval v4 review, 1/2 bob
        sam author data={"author":"eve"} -> applied v5 review
        zoe approve -> pending_approval v6 review, 1/2 zoe
        bob[finance] approve -> applied v7 approved completed, by zoe bob
        "#,
    );
    // Of roles, and of what a vote sends, nothing is known of somebody who is not there.
    guarded("'finance' in actor.roles && actor.id != data.author", rule)
        .run("ann[finance] approve delegate=cid -> pending_approval v2 review, 0/2");
    guarded("actor.id != event.author", rule)
        .run(r#"ann[finance] approve delegate=cid data={"author":"eve"} -> pending_approval v2 review, 0/2"#);
}

/// Whoever was added has to agree, whichever of the event's transitions new data chooses.
#[test]
fn who_was_added_is_asked_whichever_transition_is_meant() {
    let mut case = Case::new(
        "
        workflow: case
        initial: review
        states:
          review:
            on:
              approve:
                - {target: done, guard: data.n >= 10, approval: {quorum: 2, add_approvers: true, recall: true}}
                - {target: done, approval: {quorum: 2, exclude_starter: true, recall: true}}
              set: {assign: {n: event.n}}
          done: {type: final}
        ",
    );
    case.run(
        r#"
        sam start data={"n":10} -> started v1 review
        ann approve add=zoe -> pending_approval v2 review, 0/3
        ann approve add=sam -> pending_approval v3 review, 0/4
        sam set data={"n":9} -> applied v4 review
        ann approve -> pending_approval v5 review, 1/3 ann
        bob approve -> pending_approval v6 review, 2/3 ann bob
        zoe approve recall -> act_refused: "zoe" has done nothing by "approve" since the run came here
        sam set data={"n":10} -> applied v7 review
        ann approve recall -> pending_approval v8 review, 0/3
        sam set data={"n":9} -> applied v9 review
        ann approve -> pending_approval v10 review, 1/3 ann
        bob approve -> pending_approval v11 review, 2/3 ann bob
        zoe approve -> applied v12 done completed, by ann bob zoe
        "#,
    );
}

/// Nobody votes for a way back that there is not.
#[test]
fn a_return_to_nowhere_collects_no_votes() {
    let mut case = Case::new(
        "
        workflow: case
        initial: draft
        states:
          draft: {on: {go: review, undo: {return: previous, approval: {quorum: 2, delegation: true, add_approvers: true}}}}
          review: {on: {undo: {return: previous, approval: {quorum: 2}}, end: done}}
          done: {type: final}
        ",
    );
    case.run(
        r#"
        ann start -> started v1 draft
        ann undo -> act_refused: "undo" leads back to a state that the run has passed, and there is none
        ann undo delegate=bob -> act_refused: "undo" leads back to a state that the run has passed, and there is none
        ann undo add=bob -> act_refused: "undo" leads back to a state that the run has passed, and there is none
        ann go -> applied v2 review
        ann undo -> pending_approval v3 review, 1/2 ann
        bob undo -> applied v4 draft, by ann bob
        "#,
    );
}

/// Whoever reads the history sees why votes count no more.
#[test]
fn the_history_tells_whose_votes_are_void() {
    let mut case = Case::new(
        "
        workflow: case
        initial: review
        states:
          review:
            on:
              approve: {target: done, approval: {quorum: 3}}
              other: {target: done, approval: {quorum: 3}}
              stay: {approval: {quorum: 2}, assign: {n: data.n + 1}}
              set: {assign: {n: event.n}}
              again: {target: review, assign: {n: event.n}}
            after: {5s: {assign: {reminded: 'true'}}, 6s: {guard: data.n > 100, assign: {late: 'true'}}}
          done: {type: final}
        ",
    );
    case.run(
        r#"
        sam start data={"n":1} -> started v1 review
        ann approve -> pending_approval v2 review, 1/3 ann
        ann other -> pending_approval v3 review, 1/3 ann
        sam set data={"n":2} -> applied v4 review
        bob approve -> pending_approval v5 review, 1/3 bob
        timer fire until=100 -> applied v6 review
        cid approve -> pending_approval v7 review, 1/3 cid
        timer fire until=100 -> applied v8 review
        ann stay -> pending_approval v9 review, 1/2 ann
        bob stay -> applied v10 review, by ann bob
        dan approve -> pending_approval v11 review, 1/3 dan
        sam again data={"n":3} -> applied v12 review
        "#,
    );
    let told: Vec<_> = case.history.iter().map(|(version, entry)| (*version, entry.votes_dropped.join(" "))).collect();
    let told: Vec<_> = told.into_iter().filter(|(_, hands)| !hands.is_empty()).collect();
    // A timer that has done nothing leaves them; what fills its own approval has used its votes up; a new visit has none.
    assert_eq!(told, [(4, "ann".to_owned()), (6, "bob".to_owned()), (10, "cid".to_owned())]);
}

/// Of an event's transitions one may do with fewer: that does not forget who was added to another.
#[test]
fn an_addition_outlives_what_stays() {
    let mut case = Case::new(
        "
        workflow: case
        initial: review
        states:
          review:
            on:
              approve:
                - {guard: has(event.note)}
                - {target: done, approval: {quorum: 1, add_approvers: {roles: [manager]}}}
          done: {type: final}
        ",
    );
    case.run(
        r#"
        sam start -> started v1 review
        mia[manager] approve add=zoe -> pending_approval v2 review, 0/2
        ann approve data={"note":"x"} -> applied v3 review
        ann approve -> pending_approval v4 review, 1/2 ann
        zoe approve -> applied v5 done completed, by ann zoe
        "#,
    );
}

/// Where people choose the transition, by who they are, one who was added has no vote for another than it was for.
#[test]
fn an_addition_is_no_burden_where_it_cannot_be_fulfilled() {
    for (guard, roles) in [("\"'director' in actor.roles\"", ""), ("data.n >= 10", "roles: [director], ")] {
        let (first, second) = if roles.is_empty() {
            (
                format!("{{target: done, guard: {guard}, approval: {{quorum: 1}}}}"),
                "{target: done, approval: {quorum: 2, add_approvers: {roles: [manager]}}}".to_owned(),
            )
        } else {
            (
                format!(
                    "{{target: done, guard: {guard}, approval: {{quorum: 2, add_approvers: {{roles: [manager]}}}}}}"
                ),
                format!("{{target: done, {roles}approval: {{quorum: 1}}}}"),
            )
        };
        let mut case = Case::new(&format!(
            "
            workflow: case
            initial: review
            states:
              review: {{on: {{approve: [{first}, {second}], set: {{assign: {{n: event.n}}}}}}}}
              done: {{type: final}}
            "
        ));
        case.run(
            r#"
            sam start data={"n":10} -> started v1 review
            mia[manager] approve add=zoe -> pending_approval v2 review, 0/3
            sam set data={"n":5} -> applied v3 review
            dan[director] approve -> applied v4 done completed, by dan
            "#,
        );
    }
}

/// What cannot be told of the owner is no reason to refuse the hand's own vote.
#[test]
fn a_guard_that_cannot_tell_of_the_owner_leaves_the_own_vote() {
    let mut case = guarded(
        "data.limits[actor.id] >= 1",
        "{quorum: 2, roles: [finance], delegation: true}}\n              limit: {assign: {limits: event.limits}",
    );
    case.run(
        r#"
        sam limit data={"limits":{"ann":5,"bob":5,"zoe":5}} -> applied v2 review
        ann[finance] approve delegate=zoe -> pending_approval v3 review, 0/2
        sam limit data={"limits":{"bob":5,"zoe":5}} -> applied v4 review
        bob[finance] approve -> pending_approval v5 review, 1/2 bob
        zoe[finance] approve -> applied v6 approved completed, by bob zoe
        "#,
    );
}

/// The owner is asked about as every voter is: of an event's transitions the first is meant whose guard holds.
#[test]
fn the_owner_is_judged_by_the_guards_before_too() {
    let mut case = Case::new(
        r#"
        workflow: case
        initial: review
        states:
          review:
            on:
              approve:
                - {target: refused, guard: "actor.id == data.author"}
                - {target: done, approval: {quorum: 1, roles: [finance], delegation: true}}
              author: {assign: {author: event.author}}
          refused: {type: final}
          done: {type: final}
        "#,
    );
    case.run(
        r#"
        sam start data={"author":"cid"} -> started v1 review
        ann[finance] approve delegate=zoe -> pending_approval v2 review, 0/1
        sam author data={"author":"ann"} -> applied v3 review
        zoe approve -> act_refused: a guard of "approve" refuses "ann", whose vote "zoe" holds
        "#,
    );
}

/// A question about somebody else is not paid by the command.
#[test]
fn asking_about_the_owner_leaves_the_purse_alone() {
    let many: Vec<String> = (0..1_300).map(|n| format!("p{n}")).collect();
    let mut case = guarded(
        "data.items.all(i, i != actor.id)",
        "{quorum: 2, of: '[data.one, data.two]', delegation: true}}\n              set: {assign: {items: event.items, one: event.one, two: event.two}",
    );
    let data = serde_json::json!({"items": many, "one": "ann", "two": "bob"});
    case.run(&format!(
        "
        sam set data={data} -> applied v2 review
        ann approve delegate=zoe -> pending_approval v3 review, 0/2
        zoe approve -> pending_approval v4 review, 1/2 zoe
        bob approve -> applied v5 approved completed, by zoe bob
        "
    ));
}

/// A guard that nobody passes for now says nothing of who is added.
#[test]
fn who_may_add_by_a_role_may_do_so_before_anybody_may_vote() {
    let rule = "{quorum: 1, add_approvers: {roles: [manager]}}}\n              ready: {assign: {ready: 'true'}";
    let mut case = guarded("has(data.ready) && actor.id != data.author", rule);
    case.run(
        r#"
        mia[manager] approve add=zoe -> pending_approval v2 review, 0/2
        sam ready -> applied v3 review
        mia[manager] approve add=cid -> act_refused: a guard of "approve" refuses "cid", who could not vote
        "#,
    );
}

/// A guard that lists people refuses all others: none of them gets a vote, or is waited for.
#[test]
fn who_is_on_no_list_gets_no_vote_and_is_not_added() {
    let rule = "{quorum: 2, delegation: true, add_approvers: {roles: [manager]}}}\n              staff: {assign: {approvers: event.approvers}";
    let mut case = guarded("actor.id in data.approvers", rule);
    case.run(
        r#"
        sam staff data={"approvers":["ann","bob"]} -> applied v2 review
        mia[manager] approve add=zoe -> act_refused: a guard of "approve" refuses "zoe", who could not vote
        ann approve delegate=zed -> act_refused: a guard of "approve" refuses "zed", who could not vote
        "#,
    );
}

/// What new data has made impossible can still be taken back: the vote first, whichever transition it is for.
#[test]
fn what_was_done_can_be_taken_back_whatever_the_data_say_now() {
    let mut case = Case::new(
        "
        workflow: case
        initial: review
        states:
          review:
            on:
              approve:
                - {target: done, guard: data.kind == 'a', approval: {quorum: all, of: data.people, add_approvers: true, recall: true}}
                - {target: done, guard: data.kind != 'a', approval: {quorum: 1, recall: true}}
              set: {assign: {kind: event.kind, people: event.people}}
          done: {type: final}
        ",
    );
    case.run(
        r#"
        sam start data={"kind":"a","people":["ann","bob"]} -> started v1 review
        ann approve add=zoe -> pending_approval v2 review, 0/3
        sam set data={"kind":"b","people":[]} -> applied v3 review
        ann approve -> pending_approval v4 review, 1/2 ann
        ann approve recall -> pending_approval v5 review, 0/2
        ann approve recall -> pending_approval v6 review, 0/1
        ann approve -> applied v7 done completed, by ann
        "#,
    );
}

/// Who was added and has agreed is not asked again by what they have agreed to.
#[test]
fn an_approval_that_stays_is_over_for_all_its_ways() {
    let mut case = Case::new(
        "
        workflow: case
        initial: review
        states:
          review:
            on:
              approve:
                - {guard: data.n > 5, approval: {quorum: 1, add_approvers: true}}
                - {approval: {quorum: 1, add_approvers: true}}
              set: {assign: {n: event.n}}
        ",
    );
    case.run(
        r#"
        sam start data={"n":9} -> started v1 review
        ann approve add=zoe -> pending_approval v2 review, 0/2
        sam set data={"n":1} -> applied v3 review
        zoe approve -> pending_approval v4 review, 1/2 zoe
        ann approve -> applied v5 review, by zoe ann
        ann approve -> applied v6 review, by ann
        "#,
    );
}
