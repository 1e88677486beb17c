//! The locks of a server, over HTTP: so that the same task that keeps leases in a node keeps those of `lock run`.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_locks::{
    AcquireError, Ask, Claim, Clock, Grant, HeldBy, Holder, LeaseId, LeasePage, LeaseQuery, LockService, Mode, Release,
    RenewError, Renewal, SystemClock, Unavailable, Unconfirmed,
};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{Answer, CallError, Client, Request};
use crate::encode;
use crate::failure::Failure;
use crate::problem::Problem;

/// How long an answer may take beyond what the server was asked to wait.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// How long the answer to a renewal may take at least, however short the lease.
const RENEWAL_WAIT_MIN: Duration = Duration::from_millis(50);

/// The longest wait that one request asks for: less than the server's own bound, so that it is the server that answers.
const WAIT_MAX: Duration = Duration::from_secs(25);

/// A lock service that a server offers.
#[derive(Debug)]
pub(crate) struct RemoteLocks {
    client: Client,
    /// What the leases that are asked for or held are called there.
    tries: Mutex<HashMap<LeaseId, Try>>,
}

/// A try to get a lease, as the server knows it.
#[derive(Clone, Debug, Default)]
struct Try {
    owner: String,
    /// Counts up when the server has ended one: it does so when it sees the connection go.
    number: u32,
    /// The lease's name there; none: no grant has been seen.
    lease: Option<String>,
    /// How far each renewal moves its end.
    ttl: Duration,
    /// A request for it may have reached the server.
    is_known: bool,
    /// An answer was lost, so that the try may have been ended.
    unsure: bool,
}

#[derive(Deserialize)]
struct Granted {
    lease: String,
    #[serde(default)]
    fence: Option<i64>,
    #[serde(default)]
    fences: HashMap<String, Option<i64>>,
    valid_ms: u64,
}

#[derive(Deserialize)]
struct Renewed {
    valid_ms: u64,
}

#[derive(Deserialize)]
struct Released {
    outcome: String,
    since: Option<lockkeeper_model::Timestamp>,
}

impl RemoteLocks {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, tries: Mutex::default() }
    }

    /// What a lease that was granted is called by the server.
    pub(crate) fn name(&self, lease: LeaseId) -> Option<String> {
        self.tries().get(&lease).and_then(|one| one.lease.clone())
    }

    fn tries(&self) -> MutexGuard<'_, HashMap<LeaseId, Try>> {
        self.tries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The try of a lease; it begins with the first ask.
    fn current(&self, ask: &Ask) -> Try {
        let begin = || Try { owner: ask.owner().to_string(), ttl: ask.ttl(), ..Try::default() };
        self.tries().entry(ask.lease()).or_insert_with(begin).clone()
    }

    fn change(&self, lease: LeaseId, change: impl FnOnce(&mut Try)) {
        if let Some(one) = self.tries().get_mut(&lease) {
            change(one);
        }
    }

    async fn ask(&self, ask: &Ask, wait: Duration, one: &Try) -> Result<Granted, CallError> {
        let attempt = attempt(ask.lease(), one.number);
        let wait = wait.min(WAIT_MAX);
        let mut body = json!({
            "owner": one.owner, "host": ask.host(), "attempt": attempt,
            "ttl_ms": milliseconds(ask.ttl()), "wait_ms": milliseconds(wait),
        });
        let path = match &ask.claims()[..] {
            [claim] => {
                add_mode(&mut body, claim.mode);
                lock_path(&claim.resource, Some("acquire"))
            }
            claims => {
                body["resources"] = claims.iter().map(claim_body).collect();
                encode::path(&["v1", "locks", "acquire"])
            }
        };
        let request = Request { timeout: wait + ANSWER_WAIT, ..Request::post(path, &body) };
        read(&self.client.try_call(&request).await?)
    }
}

/// What the server knows a try by.
fn attempt(lease: LeaseId, number: u32) -> String {
    format!("{lease}.{number}")
}

/// The path of a lock, and of what is done with it. What is called like a route is written so that it is none.
pub(crate) fn lock_path(resource: &str, rest: Option<&str>) -> String {
    let path = match resource {
        "acquire" => "/v1/locks/%61cquire".to_owned(),
        "renew" => "/v1/locks/%72enew".to_owned(),
        "release" => "/v1/locks/%72elease".to_owned(),
        _ => encode::path(&["v1", "locks", resource]),
    };
    rest.map_or_else(|| path.clone(), |rest| format!("{path}/{rest}"))
}

fn claim_body(claim: &Claim) -> Value {
    let mut body = json!({ "name": claim.resource });
    add_mode(&mut body, claim.mode);
    body
}

fn add_mode(body: &mut Value, mode: Mode) {
    match mode {
        Mode::Exclusive => body["mode"] = json!("exclusive"),
        Mode::Shared => body["mode"] = json!("shared"),
        Mode::Permits(permits) => body["permits"] = json!(permits),
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn read<T: serde::de::DeserializeOwned>(answer: &Answer) -> Result<T, CallError> {
    answer.read().map_err(|_: Failure| CallError::Lost("the answer is not that of a Lockkeeper of this version".into()))
}

#[async_trait]
impl LockService for RemoteLocks {
    async fn acquire(&self, ask: &Ask, wait: Duration) -> Result<Grant, AcquireError> {
        let mut one = self.current(ask);
        // Whoever drops this future does not see that it was sent.
        self.change(ask.lease(), |one| one.is_known = true);
        // The answer may be a while on its way: the lease counts from here.
        let asked = SystemClock.now();
        let mut answer = self.ask(ask, wait, &one).await;
        if one.unsure && matches!(&answer, Err(CallError::Refused(problem)) if problem.outcome == "key_reused") {
            // The server saw the connection go, and ended the try. The next one stands at the end of the queue.
            self.change(ask.lease(), |one| *one = Try { number: one.number + 1, unsure: false, ..one.clone() });
            one = self.current(ask);
            answer = self.ask(ask, wait, &one).await;
        }
        if matches!(answer, Err(CallError::NotSent(_))) {
            self.change(ask.lease(), |now| now.is_known = one.is_known);
        }
        match answer {
            Ok(granted) => {
                self.change(ask.lease(), |one| one.lease = Some(granted.lease.clone()));
                let fence = |claim: &Claim| granted.fences.get(&*claim.resource).copied().flatten().or(granted.fence);
                let fences = ask.claims().iter().map(fence).collect();
                Ok(Grant { asked, fences, usable: Duration::from_millis(granted.valid_ms) })
            }
            Err(CallError::Refused(problem)) => Err(acquire_error(&problem)),
            Err(CallError::NotSent(detail)) => Err(AcquireError::Unavailable(detail)),
            Err(CallError::Lost(detail)) => {
                self.change(ask.lease(), |one| one.unsure = true);
                Err(AcquireError::Unavailable(detail))
            }
        }
    }

    async fn renew(&self, lease: LeaseId) -> Result<Renewal, RenewError> {
        let one = self.tries().get(&lease).cloned().unwrap_or_default();
        let name = one.lease.ok_or(RenewError::Lost { since: None })?;
        let asked = SystemClock.now();
        let path = encode::path(&["v1", "locks", "renew"]);
        // Begun after a third of it, a renewal on a connection that has gone silent must leave time for another.
        let timeout = (one.ttl / 6).clamp(RENEWAL_WAIT_MIN, ANSWER_WAIT);
        let request = Request { timeout, ..Request::post(path, &json!({ "lease": name })) };
        match self.client.try_call(&request).await.and_then(|answer| read::<Renewed>(&answer)) {
            Ok(renewed) => Ok(Renewal { asked, usable: Duration::from_millis(renewed.valid_ms) }),
            Err(CallError::Refused(problem)) if problem.outcome == "fenced" => {
                Err(RenewError::Lost { since: time(&problem, "since") })
            }
            Err(CallError::Refused(problem)) => Err(RenewError::Unavailable(problem.detail)),
            Err(CallError::NotSent(detail) | CallError::Lost(detail)) => Err(RenewError::Unavailable(detail)),
        }
    }

    /// The server bars each attempt that is released.
    async fn release(&self, lease: LeaseId, _bar: bool) -> Result<Release, Unconfirmed> {
        let one = self.tries().get(&lease).cloned();
        let Some(one) = one.filter(|one| one.is_known) else {
            self.tries().remove(&lease);
            return Ok(Release::AlreadyLost { since: None });
        };
        let body = match &one.lease {
            Some(name) => json!({ "lease": name }),
            None => json!({ "owner": one.owner, "attempt": attempt(lease, one.number) }),
        };
        let path = encode::path(&["v1", "locks", "release"]);
        let request = Request { timeout: ANSWER_WAIT, ..Request::post(path, &body) };
        match self.client.try_call(&request).await.and_then(|answer| read::<Released>(&answer)) {
            Ok(released) => {
                self.tries().remove(&lease);
                Ok(match released.outcome.as_str() {
                    "released" => Release::Released,
                    _ => Release::AlreadyLost { since: released.since },
                })
            }
            Err(CallError::Refused(problem)) => Err(Unconfirmed(problem.detail)),
            Err(CallError::NotSent(detail) | CallError::Lost(detail)) => Err(Unconfirmed(detail)),
        }
    }

    async fn force_release(&self, resource: &str) -> Result<Vec<Holder>, Unconfirmed> {
        let request = Request::new(Method::DELETE, lock_path(resource, None));
        // Leases are not named to others: who held it is told by the command that asks for it.
        match self.client.try_call(&request).await {
            Ok(_) => Ok(Vec::new()),
            Err(CallError::Refused(problem)) => Err(Unconfirmed(problem.detail)),
            Err(CallError::NotSent(detail) | CallError::Lost(detail)) => Err(Unconfirmed(detail)),
        }
    }

    async fn list(&self, _: &LeaseQuery) -> Result<LeasePage, Unavailable> {
        Err(Unavailable("a server does not tell what leases are called".to_owned()))
    }

    async fn ping(&self) -> Result<(), Unavailable> {
        let request = Request::get("/readyz".to_owned());
        self.client.call(&request).await.map(|_| ()).map_err(|_| Unavailable("the server is not ready".to_owned()))
    }

    async fn close(&self) {}

    fn describe(&self) -> String {
        self.client.url().to_owned()
    }
}

fn acquire_error(problem: &Problem) -> AcquireError {
    match problem.outcome.as_str() {
        "held" => AcquireError::Held(Box::new(held_by(problem))),
        "lock_timeout" => {
            let waited = problem.field("waited_ms").and_then(Value::as_u64).unwrap_or(0);
            AcquireError::LockTimeout { waited: Duration::from_millis(waited), held_by: Box::new(held_by(problem)) }
        }
        "deadlock" => {
            let cycle = problem.field("cycle").and_then(Value::as_array).into_iter().flatten();
            AcquireError::Deadlock { cycle: cycle.filter_map(Value::as_str).map(str::to_owned).collect() }
        }
        "key_reused" => {
            let ended = problem.field("ended").and_then(Value::as_bool).unwrap_or(true);
            AcquireError::Reused { ended }
        }
        // A busy server is asked again; a full queue is an answer.
        "busy" if problem.field("waiters").is_some() => {
            let waiters = problem.field("waiters").and_then(Value::as_u64).unwrap_or(0);
            AcquireError::Busy { resource: text(problem, "resource").into(), waiters }
        }
        _ if problem.is_worth_a_retry() => AcquireError::Unavailable(problem.detail.clone()),
        _ => AcquireError::Unsupported(format!("{} ({}): {}", problem.outcome, problem.code, problem.detail)),
    }
}

fn held_by(problem: &Problem) -> HeldBy {
    HeldBy {
        resource: text(problem, "resource").into(),
        owner: text(problem, "holder").into(),
        host: text(problem, "host").into(),
        since: time(problem, "since").unwrap_or_default(),
        holds: problem.field("holds").and_then(Value::as_bool).unwrap_or(true),
    }
}

fn text(problem: &Problem, name: &str) -> String {
    problem.field(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn time(problem: &Problem, name: &str) -> Option<lockkeeper_model::Timestamp> {
    problem.field(name).and_then(Value::as_str)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_called_like_a_route_is_written_so_that_it_is_none() {
        assert_eq!(lock_path("acquire", Some("acquire")), "/v1/locks/%61cquire/acquire");
        assert_eq!(lock_path("renew", None), "/v1/locks/%72enew");
        assert_eq!(lock_path("a/b", Some("acquire")), "/v1/locks/a%2Fb/acquire");
    }

    #[test]
    fn refusals_are_what_they_say() {
        let error = |status, body: &str| acquire_error(&Problem::read(status, body, None));
        let held = r#"{"outcome":"held","code":"LK0011","resource":"r","holder":"ann","host":"h",
            "since":"2026-11-29T02:00:00Z","holds":true}"#;
        let AcquireError::Held(held_by) = error(409, held) else { panic!("not held") };
        assert_eq!((&*held_by.resource, &*held_by.owner, &*held_by.host), ("r", "ann", "h"));
        assert_eq!(held_by.since.to_rfc3339(), "2026-11-29T02:00:00+00:00");
        assert!(matches!(error(429, r#"{"outcome":"busy"}"#), AcquireError::Unavailable(_)));
        assert!(matches!(error(429, r#"{"outcome":"busy","resource":"r","waiters":9}"#), AcquireError::Busy { .. }));
        assert!(matches!(error(503, "<html>"), AcquireError::Unavailable(_)));
        assert!(matches!(error(401, r#"{"outcome":"unauthenticated"}"#), AcquireError::Unsupported(_)));
    }
}
