//! What was acknowledged, held against what the store has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use serde_json::Value;

use crate::client::Done;
use crate::support::api::Api;
use crate::support::call::instance;
use crate::support::history::{Row, history};
use crate::world::{COUNTERS, ON_HAND, REVIEWS, STOCKS};

/// Of so many effective commands one is sent again at the end.
const SENT_AGAIN: usize = 19;

/// What the store has promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// What was acknowledged is kept.
    Kept,
    /// What was acknowledged shortly before a failover may be missing as a whole; all else holds.
    MayLose,
}

/// The figures of a run that went well.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    acknowledged: usize,
    effective: usize,
    /// Acknowledged with effect, and missing.
    pub(crate) lost: usize,
    refused: usize,
    retried: usize,
    /// Answered `unknown` and sent again.
    pub(crate) unknown: usize,
    /// Answered `unavailable` and sent again.
    pub(crate) unavailable: usize,
    replayed: usize,
    sent_again: usize,
    instances: usize,
    versions: usize,
}

/// The histories, by workflow and id.
type Histories = BTreeMap<(&'static str, String), Vec<Row>>;

/// Checks everything.
pub(crate) async fn judge(api: &Api, done: &[Done], promise: Promise) -> Verdict {
    let mut verdict = Verdict { acknowledged: done.len(), ..Verdict::default() };
    let kept = |_: &&Done| promise == Promise::Kept;
    // First, so that one that took effect again would be seen below. One that was lost would take effect anew.
    for one in done.iter().filter(kept).filter(|one| is_effective(one)).step_by(SENT_AGAIN) {
        let again = api.call(&one.command.call).await;
        assert!(again.replayed(), "sent again, {} was answered {again:?}", one.command.key);
        assert_eq!(again.json(), one.answer.json(), "{}", one.command.key);
        verdict.sent_again += 1;
    }
    let histories = read(api, done, promise).await;
    verdict.instances = histories.len();
    verdict.versions = histories.values().map(Vec::len).sum();
    let keys = places(&histories);
    for one in done {
        let found = keys.get(one.command.key.as_str());
        if is_effective(one) {
            let told = (one.command.workflow, id(one), one.answer.version());
            verdict.effective += 1;
            if found.is_none() && promise == Promise::MayLose {
                verdict.lost += 1;
            } else {
                assert_eq!(found, Some(&told), "{}: {:?}", one.command.key, one.answer);
            }
        } else {
            assert_eq!(found, None, "without effect, but recorded: {}: {:?}", one.command.key, one.answer);
            verdict.refused += usize::from(one.answer.status >= 400);
        }
        verdict.retried += usize::from(one.attempts > 1);
        let was = |outcome: &str| usize::from(one.before.iter().any(|before| before == outcome));
        verdict.unknown += was("unknown");
        verdict.unavailable += was("unavailable");
        verdict.replayed += usize::from(one.answer.replayed());
    }
    assert_eq!(keys.len() + verdict.lost, verdict.effective, "a key in the history that nobody was told of");
    check_sums(api, &histories).await;
    verdict
}

/// Where each key stands: the workflow, the id, the version.
fn places(histories: &Histories) -> HashMap<&str, (&'static str, String, i64)> {
    let mut places = HashMap::new();
    for ((workflow, id), rows) in histories {
        for (row, key) in rows.iter().filter_map(|row| Some((row, row.key.as_deref()?))) {
            let before = places.insert(key, (*workflow, id.clone(), row.version));
            assert_eq!(before, None, "a second place of {key}: {workflow}/{id}, version {}", row.version);
        }
    }
    places
}

/// Whether the answer says that something was committed; all else is an answer that changes nothing.
fn is_effective(one: &Done) -> bool {
    let (status, outcome) = (one.answer.status, one.answer.outcome());
    match (status, outcome.as_str()) {
        (201, "started") | (200, "applied" | "pending_approval") => true,
        (200, "already_applied") | (409, "state_mismatch") | (422, "guard_rejected") => false,
        _ => panic!("{}: {:?}", one.command.key, one.answer),
    }
}

fn id(one: &Done) -> String {
    let id = one.answer.json()["id"].as_str().expect("a success names its instance").to_owned();
    assert!(one.command.id.as_ref().is_none_or(|sent| *sent == id), "{id}: {:?}", one.command.call);
    id
}

async fn read(api: &Api, done: &[Done], promise: Promise) -> Histories {
    let shared = [("counter", COUNTERS), ("stock", STOCKS), ("review", REVIEWS)];
    let mut names: BTreeSet<(&'static str, String)> = shared
        .into_iter()
        .flat_map(|(workflow, instances)| (0..instances).map(move |number| (workflow, number.to_string())))
        .collect();
    names.extend(done.iter().filter(|one| is_effective(one)).map(|one| (one.command.workflow, id(one))));
    let mut histories = Histories::new();
    for (workflow, id) in names {
        // One that was started shortly before a failover.
        if promise == Promise::MayLose && api.get(&instance(workflow, &id, "")).await.status == 404 {
            continue;
        }
        let rows = history(api, workflow, &id).await;
        histories.insert((workflow, id), rows);
    }
    histories
}

/// The data is what the history adds up to; a stock was never below zero on the way.
async fn check_sums(api: &Api, histories: &Histories) {
    for ((workflow, id), rows) in histories {
        let instance = api.instance(workflow, id).await;
        assert_eq!(instance["version"], Value::from(rows.len()), "{workflow}/{id}");
        match *workflow {
            "counter" => {
                let counted = rows.iter().filter(|row| row.event.as_deref() == Some("count")).count();
                assert_eq!(instance["data"]["n"], Value::from(counted), "{workflow}/{id}");
            }
            "stock" => assert_eq!(instance["data"]["on_hand"], Value::from(on_hand(rows)), "{workflow}/{id}"),
            _ => check_quorums(rows),
        }
    }
}

fn on_hand(rows: &[Row]) -> i64 {
    rows.iter().fold(ON_HAND, |on_hand, row| {
        let quantity = row.raw["data"]["quantity"].as_i64().unwrap_or(0);
        let after = match row.event.as_deref() {
            Some("take") => on_hand - quantity,
            Some("put") => on_hand + quantity,
            _ => on_hand,
        };
        assert!(after >= 0, "below zero: {row:?}");
        after
    })
}

/// Each approval is two votes and the move that they lead to.
fn check_quorums(rows: &[Row]) {
    let mut voters = Vec::new();
    for row in rows {
        match (row.kind.as_str(), row.event.as_deref()) {
            ("vote", _) => voters.push(row.actor.clone()),
            ("move", Some("approve")) => {
                voters.push(row.actor.clone());
                assert_eq!(row.raw["approved_by"], Value::from(std::mem::take(&mut voters)), "{row:?}");
            }
            _ => assert!(voters.is_empty(), "votes without their move before {row:?}"),
        }
        assert!(voters.len() < 3, "three votes and no move: {row:?}");
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acknowledged, effective, lost, refused, retried, unknown, unavailable, replayed, .. } = self;
        let Self { sent_again, instances, versions, .. } = self;
        write!(
            f,
            "{acknowledged} commands acknowledged, {effective} with effect, {lost} of them lost, {refused} refused; \
             {retried} sent more than once ({unknown} after unknown, {unavailable} after unavailable), {replayed} \
             replayed, {sent_again} sent again at the end; {versions} versions of {instances} instances"
        )
    }
}
