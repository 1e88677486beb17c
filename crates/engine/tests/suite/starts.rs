//! Runs and start policies (DESIGN 7; FAULTS M5, M6, M17), on each store, with two nodes at it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_engine::{Answer, Engine, ManualClock, Options};
use lockkeeper_model::{
    Action, Close, Command, ConflictPolicy, Kind, Refusal, ReusePolicy, Send, Start, Status, SuccessKind, history,
};
use serde_json::json;
use uuid::Uuid;

use super::support::{Fault, House, command, event, key, keyed, name, put, queued};

const POLICIES: [ConflictPolicy; 3] = ConflictPolicy::ALL;

fn start(id: &str, start: Start) -> Command {
    command(id, Action::Start(Start { run: Uuid::new_v4(), ..start }), "ann")
}

/// A start by its policies and its request id (none: empty).
fn policed(id: &str, reuse: ReusePolicy, conflict: ConflictPolicy, request: &str) -> Command {
    let request_id = (!request.is_empty()).then(|| request.to_owned());
    start(id, Start { reuse_policy: reuse, conflict_policy: conflict, request_id, ..Start::default() })
}

fn requested(id: &str, conflict: ConflictPolicy, request: &str) -> Command {
    policed(id, ReusePolicy::AllowDuplicate, conflict, request)
}

fn terminate(id: &str, run: Option<Uuid>) -> Command {
    command(id, Action::Terminate(Close { run, reason: "why".to_owned() }), "ann")
}

async fn finish(engine: &Engine, id: &str) {
    assert_eq!(name(&engine.send(event(id, "finish", "ann"), None).await), "applied");
}

/// The run that was told, and the version.
fn told(answer: &Answer) -> (Uuid, i64) {
    let success = answer.result.as_ref().unwrap_or_else(|refusal| panic!("{refusal}"));
    (success.run, success.version)
}

/// The instance's history is a legal one, and as long as its version says.
async fn is_legal(house: &House, id: &str) {
    let items = house.history(id).await;
    history::check(items.iter().map(|item| (item.version, &item.entry))).unwrap();
    assert_eq!(items.len() as i64, house.other.instance(&key(id), false).await.unwrap().version);
}

/// How many runs of an id began, and how many of them were ended in favour of another.
async fn runs(house: &House, id: &str) -> (usize, usize) {
    let items = house.history(id).await;
    let count = |kind| items.iter().filter(|item| item.entry.kind == kind).count();
    (count(Kind::Start), count(Kind::Terminate))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_id_and_each_policy() {
    let house = House::new().await;
    for (n, reuse) in ReusePolicy::ALL.into_iter().enumerate() {
        for (m, conflict) in POLICIES.into_iter().enumerate() {
            let id = format!("{n}-{m}");
            house.start(&id, json!({})).await;
            let first = house.engine.instance(&key(&id), false).await.unwrap();
            // The other node, which remembers nothing.
            let answer = house.other.send(policed(&id, reuse, conflict, ""), None).await;
            match (reuse, conflict) {
                (ReusePolicy::RejectDuplicate, ConflictPolicy::TerminateExisting) => {
                    assert_eq!(name(&answer), "malformed")
                }
                (_, ConflictPolicy::Fail) => {
                    assert_eq!(answer.result, Err(Refusal::AlreadyRunning { run: first.run }));
                }
                (_, ConflictPolicy::UseExisting) => {
                    assert_eq!((name(&answer), told(&answer)), ("attached", (first.run, 1)));
                }
                (_, ConflictPolicy::TerminateExisting) => {
                    assert_eq!((name(&answer), told(&answer).1), ("started", 3));
                    assert_ne!(told(&answer).0, first.run);
                    let items = house.history(&id).await;
                    assert_eq!((&items[1].entry.kind, items[1].entry.run), (&Kind::Terminate, first.run));
                    assert!(items[1].entry.reason.as_deref().unwrap().contains("terminate_existing"));
                    assert_eq!((&items[2].entry.kind, items[2].entry.run), (&Kind::Start, told(&answer).0));
                    assert_eq!(items[1].entry.at, items[2].entry.at);
                }
            }
            is_legal(&house, &id).await;
        }
    }
}

/// FAULTS M6.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_starts_of_a_running_id_under_each_policy() {
    let house = House::new().await;
    for conflict in POLICIES {
        let id = conflict.as_str();
        house.start(id, json!({})).await;
        let mut starts = Vec::new();
        for n in 0..100 {
            let engine = if n % 2 == 0 { house.engine.clone() } else { house.other.clone() };
            starts.push(tokio::spawn(async move { decided(&engine, requested(id, conflict, "")).await }));
        }
        let mut names: HashMap<&str, usize> = HashMap::new();
        for answer in starts {
            *names.entry(name(&answer.await.unwrap())).or_default() += 1;
        }
        let (begun, ended) = runs(&house, id).await;
        match conflict {
            ConflictPolicy::Fail => assert_eq!(names, HashMap::from([("already_running", 100)])),
            ConflictPolicy::UseExisting => assert_eq!(names, HashMap::from([("attached", 100)])),
            ConflictPolicy::TerminateExisting => assert_eq!(names, HashMap::from([("started", 100)])),
        }
        let replaced = if conflict == ConflictPolicy::TerminateExisting { 100 } else { 0 };
        assert_eq!((begun, ended), (1 + replaced, replaced), "one run is left");
        assert_eq!(house.other.instance(&key(id), false).await.unwrap().status, Status::Running);
        is_legal(&house, id).await;
    }
}

/// Sent again while it loses to others, as a client does.
async fn decided(engine: &Engine, command: Command) -> Answer {
    for _ in 0..200 {
        let answer = engine.send(command.clone(), None).await;
        if name(&answer) != "conflict" {
            return answer;
        }
    }
    panic!("it loses for ever")
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_loses_the_race_to_begin_attaches() {
    let house = House::new().await;
    for round in 0..20 {
        let id = format!("r{round}");
        let mut starts = Vec::new();
        for n in 0..8 {
            let engine = if n % 2 == 0 { house.engine.clone() } else { house.other.clone() };
            let start = requested(&id, ConflictPolicy::UseExisting, "");
            starts.push(tokio::spawn(async move { decided(&engine, start).await }));
        }
        let (mut started, mut seen) = (0, Vec::new());
        for answer in starts {
            let answer = answer.await.unwrap();
            started += usize::from(name(&answer) == "started");
            seen.push(told(&answer).0);
        }
        seen.dedup();
        assert_eq!((started, seen.len()), (1, 1), "one begins, the others attach to its run");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_loses_its_write_attaches_to_who_won() {
    let house = House::new().await;
    let other = house.other.clone();
    house.store.next(Fault::Before(Box::new(move || {
        Box::pin(async move {
            let first = other.send(requested("a", ConflictPolicy::Fail, ""), None).await;
            assert_eq!(name(&first), "started");
        })
    })));
    let answer = house.engine.send(requested("a", ConflictPolicy::UseExisting, ""), None).await;
    assert_eq!((name(&answer), told(&answer).1), ("attached", 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_of_one_batch_see_each_other() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    let first = house.held_note().await;
    let batch: Vec<_> = [
        requested("a", ConflictPolicy::TerminateExisting, "r1"),
        requested("a", ConflictPolicy::UseExisting, ""),
        requested("a", ConflictPolicy::TerminateExisting, "r2"),
        // The run that r1 has begun is over, within this batch.
        requested("a", ConflictPolicy::TerminateExisting, "r1"),
        keyed(event("a", "note", "bob"), "k"),
        requested("a", ConflictPolicy::Fail, "r2"),
    ]
    .into_iter()
    .map(|command| {
        let engine = house.engine.clone();
        queued(Box::pin(async move { engine.send(command, None).await }))
    })
    .collect();
    house.store.release();
    first.await.unwrap();
    let mut answers = Vec::new();
    for answer in batch {
        answers.push(answer.await.unwrap());
    }
    let names: Vec<&str> = answers.iter().map(name).collect();
    assert_eq!(names, ["started", "attached", "started", "already_closed", "applied", "started"]);
    let (one, two) = (told(&answers[0]), told(&answers[2]));
    assert_eq!((told(&answers[1]), one.1, two.1), (one, 4, 6));
    assert_eq!(answers[3].result, Err(Refusal::AlreadyClosed { run: one.0, status: Status::Terminated }));
    assert_eq!(told(&answers[5]), (two.0, 7), "the same request: its run, as it stands");
    assert!(answers[5].replayed && !answers[2].replayed);
    let commits = house.store.commits.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(commits, 3, "the start, the note, and all of these in one commit");
    // And the store remembers what began in the middle of it.
    let again = house.other.send(requested("a", ConflictPolicy::UseExisting, "r1"), None).await;
    assert_eq!(again.result, Err(Refusal::AlreadyClosed { run: one.0, status: Status::Terminated }));
    is_legal(&house, "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_member_that_breaks_a_rule_fails_alone_whatever_others_write() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    *house.store.rejects.lock().unwrap() = Some("poison");
    let first = house.held_note().await;
    let good = requested("a", ConflictPolicy::TerminateExisting, "");
    let mut bad = requested("a", ConflictPolicy::TerminateExisting, "");
    let Action::Start(start) = &mut bad.action else { unreachable!() };
    start.data.insert("poison".to_owned(), json!(1));
    let batch: Vec<_> = [good.clone(), bad, event("a", "note", "bob")]
        .into_iter()
        .map(|command| {
            let engine = house.engine.clone();
            queued(Box::pin(async move { engine.send(command, None).await }))
        })
        .collect();
    house.store.release();
    first.await.unwrap();
    let mut names = Vec::new();
    for answer in batch {
        names.push(name(&answer.await.unwrap()));
    }
    assert_eq!(names, ["started", "malformed", "applied"]);
    assert_eq!(runs(&house, "a").await, (2, 1));
    is_legal(&house, "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_one_start_on_every_node_and_over_later_runs() {
    let clock = Arc::new(ManualClock::new(chrono::Utc::now()));
    let life = Duration::from_secs(7 * 24 * 3600);
    let house = House::with(Options { clock: clock.clone(), key_life: life, ..Options::default() }).await;
    let first = house.engine.send(requested("a", ConflictPolicy::Fail, "r1"), None).await;
    assert_eq!((name(&first), first.replayed), ("started", false));
    for engine in [&house.engine, &house.other] {
        for conflict in POLICIES {
            let again = engine.send(requested("a", conflict, "r1"), None).await;
            assert_eq!((name(&again), told(&again), again.replayed), ("started", told(&first), true));
        }
    }
    assert_eq!(runs(&house, "a").await, (1, 0));
    finish(&house.engine, "a").await;
    let closed = Err(Refusal::AlreadyClosed { run: told(&first).0, status: Status::Completed });
    for conflict in POLICIES {
        assert_eq!(house.other.send(requested("a", conflict, "r1"), None).await.result, closed);
    }
    // Others follow; a retry of the first must neither end nor join them, nor begin another.
    for (n, request) in ["r2", "", "r3"].into_iter().enumerate() {
        let engine = if n % 2 == 0 { &house.engine } else { &house.other };
        let next = engine.send(requested("a", ConflictPolicy::TerminateExisting, request), None).await;
        assert_eq!(name(&next), "started");
        for engine in [&house.engine, &house.other] {
            for conflict in POLICIES {
                assert_eq!(engine.send(requested("a", conflict, "r1"), None).await.result, closed);
            }
        }
        assert_eq!(runs(&house, "a").await.0, n + 2);
    }
    is_legal(&house, "a").await;
    // What happened long ago is forgotten, the current run's request is not.
    clock.advance(life + Duration::from_secs(1));
    let current = house.engine.send(requested("a", ConflictPolicy::Fail, "r3"), None).await;
    assert_eq!((name(&current), current.replayed), ("started", true));
    let late = house.engine.send(requested("a", ConflictPolicy::TerminateExisting, "r1"), None).await;
    assert_eq!((name(&late), late.replayed), ("started", false));
}

/// Another node has begun a run meanwhile, and with it the store has taken the key of the run before: this node's start
/// has lost its write, and is not told so by the version alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_on_a_run_that_was_followed_meanwhile_is_decided_again() {
    for request in ["", "r2"] {
        let house = House::new().await;
        house.engine.send(requested("a", ConflictPolicy::Fail, "r1"), None).await.result.unwrap();
        finish(&house.engine, "a").await;
        let other = house.other.clone();
        house.store.next(Fault::Before(Box::new(move || {
            Box::pin(async move {
                assert_eq!(name(&other.send(requested("a", ConflictPolicy::Fail, ""), None).await), "started");
            })
        })));
        let answer = house.engine.send(requested("a", ConflictPolicy::Fail, request), None).await;
        assert_eq!(name(&answer), "already_running", "{answer:?}");
        assert_eq!(runs(&house, "a").await, (2, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotency_key_is_answered_before_the_request_id() {
    let house = House::new().await;
    let begun = |request: &str, key: &str| keyed(requested("a", ConflictPolicy::Fail, request), key);
    let first = house.engine.send(begun("r", "k1"), None).await;
    // Another key, the same request: the run as it stands; nothing takes effect, so the key is not used up.
    let again = house.engine.send(begun("r", "k2"), None).await;
    assert_eq!((name(&again), told(&again), again.replayed), ("started", told(&first), true));
    // The same key, another request.
    assert_eq!(name(&house.engine.send(begun("s", "k1"), None).await), "key_reused");
    finish(&house.engine, "a").await;
    let replayed = house.other.send(begun("r", "k1"), None).await;
    assert_eq!((name(&replayed), told(&replayed), replayed.replayed), ("started", told(&first), true));
    assert_eq!(name(&house.other.send(begun("r", "k2"), None).await), "already_closed");
    // No client's key is one of those that remember requests.
    for key in ["request\u{1f}r", "request\u{1f}s", ""] {
        assert_eq!(name(&house.other.send(begun("s", key), None).await), "malformed");
        let several = vec![keyed(event("a", "note", "bob"), key), keyed(event("b", "note", "bob"), key)];
        assert!(house.other.send_atomic(several, None).await.is_err());
    }
}

/// Under the row lock and under a lease, starts are judged by the same rules.
#[tokio::test(flavor = "multi_thread")]
async fn every_strategy_begins_and_ends_runs_alike() {
    let strategies = [
        "strategy: optimistic",
        "strategy: pessimistic",
        "strategy: pessimistic, combine: false",
        "strategy: distributed, lock_key: \"'lock/' + instance.id\"",
    ];
    for concurrency in strategies {
        let house = House::leased(Options::default()).await;
        let whole = "concurrency: {strategy: optimistic, attempts: 3, backoff: 1ms}";
        let text = super::support::WORKFLOW.replace(whole, &format!("concurrency: {{{concurrency}}}"));
        put(&house.engine, "case", &text).await;
        let send = async |conflict, request| house.engine.send(requested("a", conflict, request), None).await;
        let one = send(ConflictPolicy::Fail, "r1").await;
        assert_eq!((name(&one), told(&one).1), ("started", 1), "{concurrency}");
        let two = send(ConflictPolicy::TerminateExisting, "r2").await;
        assert_eq!((name(&two), told(&two).1), ("started", 3), "{concurrency}");
        assert_eq!(name(&send(ConflictPolicy::UseExisting, "").await), "attached", "{concurrency}");
        for conflict in POLICIES {
            assert_eq!(name(&send(conflict, "r1").await), "already_closed", "{concurrency}");
            assert_eq!(told(&send(conflict, "r2").await), told(&two), "{concurrency}");
        }
        let mut crowd = Vec::new();
        for n in 0..20 {
            let engine = if n % 2 == 0 { house.engine.clone() } else { house.other.clone() };
            let start = requested("a", ConflictPolicy::TerminateExisting, &format!("c{}", n / 2));
            crowd.push(tokio::spawn(async move { decided(&engine, start).await }));
        }
        for answer in crowd {
            let answer = answer.await.unwrap();
            // A request that comes second may find its run over.
            assert!(matches!(name(&answer), "started" | "already_closed"), "{concurrency}: {answer:?}");
        }
        assert_eq!(runs(&house, "a").await, (12, 11), "{concurrency}: ten requests, each one run");
        is_legal(&house, "a").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_whose_answer_was_lost_took_place_once() {
    let house = House::new().await;
    for (n, fault) in [Fault::AnswerLost, Fault::NeverArrives, Fault::ArrivesLater].into_iter().enumerate() {
        let id = format!("a{n}");
        house.engine.send(requested(&id, ConflictPolicy::Fail, "r1"), None).await.result.unwrap();
        house.store.next(fault);
        let answer = house.engine.send(requested(&id, ConflictPolicy::TerminateExisting, "r2"), None).await;
        assert_eq!((name(&answer), told(&answer).1), ("started", 3));
        assert!(!house.store.deliver().await, "the late one finds its version taken");
        assert_eq!(runs(&house, &id).await, (2, 1));
        assert_eq!(name(&house.other.send(requested(&id, ConflictPolicy::Fail, "r1"), None).await), "already_closed");
        is_legal(&house, &id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_is_no_part_of_an_atomic_request() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    let moves = vec![event("a", "note", "bob"), requested("b", ConflictPolicy::Fail, "")];
    let failure = house.engine.send_atomic(moves, None).await.unwrap_err();
    assert_eq!((failure.failed_index, failure.refusal.outcome()), (Some(1), "malformed"));
}

/// FAULTS M5: one of the two ends the run, and the other is told how it ended.
#[tokio::test(flavor = "multi_thread")]
async fn finish_and_terminate_race() {
    let house = House::new().await;
    let mut finished = 0;
    let (pairs, at_once) = (crate::RACING_PAIRS, 50);
    for chunk in 0..pairs / at_once {
        let mut racing = Vec::new();
        for n in 0..at_once {
            let id = format!("m5-{chunk}-{n}");
            let (one, two) = (house.engine.clone(), house.other.clone());
            racing.push(tokio::spawn(async move { race(&one, &two, &id, n % 2 == 0).await }));
        }
        for race in racing {
            finished += usize::from(race.await.unwrap());
        }
    }
    println!("of {pairs} races, finish won {finished} and terminate {}", pairs - finished);
    assert!(finished > 0 && finished < pairs, "each wins some: {finished}");
}

/// One race; whether `finish` won.
async fn race(one: &Engine, two: &Engine, id: &str, finish_first: bool) -> bool {
    let begun = one.send(requested(id, ConflictPolicy::Fail, ""), None).await;
    let (run, _) = told(&begun);
    // On two nodes, or on one, in either order.
    let nodes = if id.ends_with('7') { (one, one) } else { (one, two) };
    let (finish, end) = (event(id, "finish", "ann"), terminate(id, Some(run)));
    let (finish, end) = match finish_first {
        true => tokio::join!(decided(nodes.0, finish), decided(nodes.1, end)),
        false => {
            let (end, finish) = tokio::join!(decided(nodes.1, end), decided(nodes.0, finish));
            (finish, end)
        }
    };
    let instance = two.instance(&key(id), false).await.unwrap();
    assert_eq!((instance.version, instance.run), (2, run));
    match (finish.result, end.result) {
        (Ok(success), Err(refusal)) => {
            assert_eq!((success.outcome, success.version), (SuccessKind::Applied, 2));
            assert_eq!(refusal, Refusal::AlreadyClosed { run, status: Status::Completed });
            assert_eq!((instance.status, instance.state.as_str()), (Status::Completed, "done"));
            true
        }
        (Err(refusal), Ok(success)) => {
            assert_eq!((success.outcome, success.version), (SuccessKind::Applied, 2));
            assert!(refusal.to_string().contains("(terminated)"), "{refusal}");
            let Refusal::StateMismatch { ended, .. } = refusal else { panic!("{refusal}") };
            assert_eq!((ended, instance.status), (Some(Status::Terminated), Status::Terminated));
            false
        }
        (finish, end) => panic!("{id}: {finish:?} and {end:?}"),
    }
}

/// FAULTS M17: what was decided on run 1 does nothing to run 2.
#[tokio::test(flavor = "multi_thread")]
async fn commands_of_an_earlier_run_are_refused() {
    let house = House::new().await;
    house.start("a", json!({})).await;
    for _ in 0..4 {
        house.engine.send(event("a", "note", "bob"), None).await.result.unwrap();
    }
    let one = house.engine.instance(&key("a"), false).await.unwrap();
    assert_eq!(one.version, 5);
    house.engine.send(terminate("a", Some(one.run)), None).await.result.unwrap();
    let two = house.other.send(requested("a", ConflictPolicy::Fail, ""), None).await;
    assert_eq!(told(&two).1, 7, "versions never restart");
    let send = |send: Send| command("a", Action::Send(Send { event: Some("finish".to_owned()), ..send }), "bob");
    let close = Close { run: Some(one.run), reason: "why".to_owned() };
    // This node still remembers run 1.
    for engine in [&house.engine, &house.other] {
        let answers = [
            (send(Send { expected_version: Some(5), ..Send::default() }), "version_mismatch"),
            (send(Send { run: Some(one.run), ..Send::default() }), "state_mismatch"),
            (command("a", Action::Terminate(close.clone()), "bob"), "state_mismatch"),
            (command("a", Action::Cancel(close.clone()), "bob"), "state_mismatch"),
        ];
        for (command, expected) in answers {
            assert_eq!(name(&engine.send(command, None).await), expected);
        }
    }
    let now = house.engine.instance(&key("a"), false).await.unwrap();
    assert_eq!((now.version, now.run, now.status), (7, told(&two).0, Status::Running));
    is_legal(&house, "a").await;
}
