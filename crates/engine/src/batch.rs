//! Folds the commands that wait for one instance into one change set, in memory.
//!
//! Each command is judged on the instance as the one before left it. Nothing leaves here: answers go out only when the
//! conditional write, or a read of the primary, has proved the snapshot that was folded on.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockkeeper_model::definition::{Concurrency, OnLockLoss, Strategy};
use lockkeeper_model::{
    Action, Change, Command, Decision, Definition, EndedRun, Fingerprint, Instance, InstanceKey, Known, Refusal,
    Success, SuccessKind, decide,
};
use lockkeeper_store::{ChangeSet, NewKey, Requirement, StoredKey};
use tokio::time::Instant;
use uuid::Uuid;

use crate::clock::Clock;
use crate::codec;
use crate::engine::Answer;
use crate::fences::{self, Newest};
use crate::limits::{DECISIONS_PER_TURN, YOUNG};
use crate::pending::Pending;

/// The instance that a batch is decided on.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The record's version; 0: there is none.
    pub(crate) version: i64,
    pub(crate) instance: Option<Arc<Instance>>,
    /// The store's life that it belongs to: a condition of the write. None: not known.
    pub(crate) life: Option<i64>,
    /// When it was last known to be current.
    pub(crate) proven: Instant,
    /// Read from the primary after the batch was taken: its refusals need no further proof.
    pub(crate) fresh: bool,
}

impl Snapshot {
    /// Whether it was current a moment ago: if it is not now, somebody else is at work on the instance at the same
    /// time. An older one only says that this node's memory was stale.
    pub(crate) fn is_young(&self) -> bool {
        self.proven.elapsed() < YOUNG
    }
}

/// What a batch is judged by: the definitions, the answers where there are none, and what starts have begun before.
pub(crate) struct Judges {
    /// The definition that the current run is on.
    pub(crate) current: Option<Arc<Definition>>,
    /// The newest definition, or why there is none; read where the batch has a start, or there is no current one.
    pub(crate) newest: Option<Result<Arc<Definition>, Refusal>>,
    /// The versions that migrations of the batch name, or why there is none.
    pub(crate) targets: HashMap<i64, Result<Arc<Definition>, Refusal>>,
    /// The answer to whoever means an instance that is not there.
    pub(crate) missing: Option<Refusal>,
    /// Earlier runs of the id by the `request_id` that began them, as far as the batch has starts that give one.
    pub(crate) begun_before: HashMap<String, EndedRun>,
}

impl Judges {
    /// How the instance's commands commit.
    pub(crate) fn concurrency(&self) -> Concurrency {
        let newest = self.newest.as_ref().and_then(|newest| newest.as_ref().ok());
        let definition = self.current.as_ref().or(newest);
        definition.map(|definition| definition.concurrency().clone()).unwrap_or_default()
    }
}

impl Judges {
    /// Whether any command may need a lease.
    pub(crate) fn may_lease(&self) -> bool {
        let newest = self.newest.as_ref().and_then(|newest| newest.as_ref().ok());
        let targets = self.targets.values().filter_map(|target| target.as_ref().ok());
        self.current.iter().chain(newest).chain(targets).any(|definition| definition.may_lease())
    }

    /// The definition that says how a command commits, if there is one: that of the run which it is about, and the newest
    /// for a start. A start that ends a run is about that one: work may be under way under its lock.
    fn orders<'a>(
        &'a self,
        action: &Action,
        current: Option<&Instance>,
        on: Option<&'a Arc<Definition>>,
    ) -> Option<&'a Arc<Definition>> {
        let newest = self.newest.as_ref().and_then(|newest| newest.as_ref().ok());
        match action {
            Action::Start(start) if !start.ends_run(current) => newest.or(on),
            _ => on.or(newest),
        }
    }

    /// The lock that a command is to have a lease on, if it is to have one.
    pub(crate) fn lock_key(&self, current: Option<&Instance>, command: &Command) -> Result<Option<String>, Refusal> {
        let definition = self.orders(&command.action, current, self.current.as_ref());
        definition.map_or(Ok(None), |definition| definition.lock_key(current, command))
    }

    /// How one command commits.
    pub(crate) fn concurrency_of(&self, snapshot: &Snapshot, action: &Action) -> Concurrency {
        let current = snapshot.instance.as_deref();
        let state = current.map(|instance| instance.state.as_str());
        let definition = self.orders(action, current, self.current.as_ref());
        definition.map(|definition| definition.concurrency_of(state, action).clone()).unwrap_or_default()
    }
}

/// A command with what it comes to, if the batch stands.
pub(crate) struct Member {
    pub(crate) pending: Pending,
    pub(crate) answer: Answer,
    /// The places of its events in the change set; none: it changes nothing.
    pub(crate) events: Range<usize>,
    /// Another member has the same idempotency key, and this is its answer.
    pub(crate) echoes: bool,
}

impl Member {
    /// Whether the change set holds anything of it.
    pub(crate) fn changes(&self) -> bool {
        !self.events.is_empty()
    }
}

/// A folded batch.
pub(crate) struct Folded {
    pub(crate) members: Vec<Member>,
    /// None: nobody changes anything.
    pub(crate) set: Option<ChangeSet>,
    /// The instance once the set is committed.
    pub(crate) instance: Option<Arc<Instance>>,
    /// From the first command on that needs another lease than it has, once those before it are decided, or is refused by a
    /// definition that may not be the newest: not judged.
    pub(crate) rest: Vec<Pending>,
}

/// What a batch is folded by, beside its definitions.
pub(crate) struct FoldBy<'a> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) key_life: Duration,
    /// All of it is to be judged: a commit of it is open.
    pub(crate) whole: bool,
}

/// Effects of one command, before they are laid into a change set.
struct Fold<'a> {
    judges: &'a Judges,
    clock: &'a dyn Clock,
    key_life: Duration,
    /// Whether any command may need a lease.
    leases: bool,
    current: Option<Arc<Instance>>,
    definition: Option<Arc<Definition>>,
    /// The version of the newest definition, once a start has relied on it.
    relied_on: Option<i64>,
    events: Vec<Bytes>,
    keys: Vec<NewKey>,
    fences: Newest,
    by_key: HashMap<String, (Fingerprint, Success)>,
    /// Runs that have begun by a `request_id` and were followed by another in this batch.
    begun_before: HashMap<String, EndedRun>,
}

/// Judges `batch` on `snapshot`, in order.
pub(crate) async fn fold(
    key: &InstanceKey,
    batch: Vec<Pending>,
    snapshot: &Snapshot,
    judges: &Judges,
    by: FoldBy<'_>,
) -> Result<Folded, (Vec<Pending>, Refusal)> {
    let mut fold = Fold {
        judges,
        clock: by.clock,
        key_life: by.key_life,
        leases: judges.may_lease(),
        current: snapshot.instance.clone(),
        definition: judges.current.clone(),
        relied_on: None,
        events: Vec::new(),
        keys: Vec::new(),
        fences: Newest::default(),
        by_key: HashMap::new(),
        begun_before: HashMap::new(),
    };
    let mut members = Vec::with_capacity(batch.len());
    let mut rest = Vec::new();
    let mut batch = batch.into_iter().enumerate();
    while let Some((place, mut pending)) = batch.next() {
        if !by.whole && fold.lacks_lease(&pending) == Ok(true) {
            rest = std::iter::once(pending).chain(batch.map(|(_, pending)| pending)).collect();
            break;
        }
        if place % DECISIONS_PER_TURN == DECISIONS_PER_TURN - 1 {
            tokio::task::yield_now().await;
        }
        let before = fold.events.len();
        let (answer, echoes) = match fold.echo(&pending) {
            Some(answer) => (answer, true),
            None => (fold.judge(&pending), false),
        };
        if !by.whole && fold.may_be_outdated(&pending, &answer) {
            pending.reads_newest = true;
            rest = std::iter::once(pending).chain(batch.map(|(_, pending)| pending)).collect();
            break;
        }
        members.push(Member { pending, answer, events: before..fold.events.len(), echoes });
    }
    match fold.into_set(key, snapshot) {
        Ok((set, instance)) => Ok(Folded { members, set, instance, rest }),
        Err(refusal) => Err((members.into_iter().map(|m| m.pending).chain(rest).collect(), refusal)),
    }
}

impl Fold<'_> {
    /// Whether a command must not be decided without a lease that it has not: only where its strategy is `distributed`. To
    /// the others a lease is a matter of speed.
    fn lacks_lease(&self, pending: &Pending) -> Result<bool, Refusal> {
        if !self.leases {
            return Ok(false);
        }
        let command = &pending.command;
        let current = self.current.as_deref();
        let Some(definition) = self.judges.orders(&command.action, current, self.definition.as_ref()) else {
            return Ok(false);
        };
        let state = current.map(|instance| instance.state.as_str());
        let own = definition.concurrency_of(state, &command.action);
        let without = pending.locks_gone && own.on_lock_loss == OnLockLoss::RowLock;
        if own.strategy != Strategy::Distributed || without {
            return Ok(false);
        }
        let Some(resource) = definition.lock_key(current, command)? else { return Ok(false) };
        let leased = pending.lease.as_ref().is_some_and(|lease| lease.resource() == resource);
        Ok(!leased && !fences::gives(command, &resource))
    }

    /// Whether a start is refused by what this node remembers as the newest definition: nothing is written for it that would
    /// find out that there is a newer one.
    fn may_be_outdated(&self, pending: &Pending, answer: &Answer) -> bool {
        let is_by_definition = matches!(answer.result, Err(Refusal::Malformed { .. } | Refusal::GuardError { .. }));
        if pending.reads_newest || !is_by_definition || !matches!(pending.command.action, Action::Start(_)) {
            return false;
        }
        self.judges.newest.as_ref().and_then(|newest| newest.as_ref().ok()).is_some_and(|newest| newest.judges_starts())
    }

    /// The answer to a command whose key another of this batch has.
    fn echo(&self, pending: &Pending) -> Option<Answer> {
        let (key, fingerprint) = keyed(pending)?;
        let (first, success) = self.by_key.get(key)?;
        Some(match first == fingerprint {
            true => Answer { result: Ok(success.clone()), replayed: true },
            false => Refusal::KeyReused { key: key.clone() }.into(),
        })
    }

    fn judge(&mut self, pending: &Pending) -> Answer {
        let before = self.events.len();
        let result = self.decide(pending);
        // A run that is said to have started, though nothing changes, was started by the same request before.
        let started = result.as_ref().is_ok_and(|success| success.outcome == SuccessKind::Started);
        Answer { result, replayed: started && self.events.len() == before }
    }

    fn decide(&mut self, pending: &Pending) -> Result<Success, Refusal> {
        let starts = matches!(pending.command.action, Action::Start(_));
        let unread = || Refusal::Unavailable { detail: "a definition was not read; nothing was written".to_owned() };
        let definition = if starts {
            self.judges.newest.clone().ok_or_else(unread)??
        } else {
            match (&self.current, &self.definition) {
                (Some(_), Some(definition)) => definition.clone(),
                _ => return Err(self.judges.missing.clone().unwrap_or_else(unread)),
            }
        };
        let target = self.target(&pending.command.action).transpose()?;
        let known = Known {
            definition: &definition,
            begun_before: self.begun_before(&pending.command.action),
            target: target.as_deref(),
        };
        let decision = decide(known, self.current.as_deref(), &pending.command, self.clock.now())?;
        let (ended, change) = match decision {
            Decision::Stay(success) => return Ok(success),
            Decision::Change(change) => (None, change),
            Decision::Replace { ended, started } => (Some(ended), started),
        };
        // What cannot be locked is not changed; what is refused anyway is told why.
        self.lacks_lease(pending)?;
        // Encoded before anything is taken over, so that a failure leaves the fold as it was.
        let end = ended.as_ref().map(|ended| codec::encode(&ended.entry)).transpose()?;
        let event = codec::encode(&change.entry)?;
        if starts {
            let before = ended.as_ref().map(|ended| &ended.instance).or(self.current.as_deref());
            let request = before.map(|before| self.request_over(before, &change)).transpose()?.flatten();
            if let Some((request, ended, key)) = request {
                self.begun_before.insert(request, ended);
                self.keys.push(key);
            }
        }
        if let Some((key, fingerprint)) = keyed(pending) {
            self.keys.push(NewKey {
                key: key.clone(),
                fingerprint: *fingerprint,
                outcome: codec::encode(&change.success)?,
                version: change.instance.version,
                expires_at: change.entry.at + self.key_life,
            });
            self.by_key.insert(key.clone(), (*fingerprint, change.success.clone()));
        }
        self.events.extend(end);
        self.events.push(event);
        self.fences.add(pending);
        if let Some(target) = target {
            if matches!(&pending.command.action, Action::Migrate(migrate) if migrate.to_version.is_none()) {
                self.relied_on = Some(target.version());
            }
            self.definition = Some(target);
        } else if starts {
            self.relied_on = Some(definition.version());
            self.definition = Some(definition);
        }
        self.current = Some(Arc::new(change.instance));
        Ok(change.success)
    }

    /// The version of the definition that a migration leads to.
    fn target(&self, action: &Action) -> Option<Result<Arc<Definition>, Refusal>> {
        let Action::Migrate(migrate) = action else { return None };
        match migrate.to_version {
            Some(version) => self.judges.targets.get(&version).cloned(),
            None => self.judges.newest.clone(),
        }
    }

    /// The earlier run that a start's `request_id` has begun.
    fn begun_before(&self, action: &Action) -> Option<EndedRun> {
        let Action::Start(start) = action else { return None };
        let request = start.request_id.as_ref()?;
        self.begun_before.get(request).or_else(|| self.judges.begun_before.get(request)).copied()
    }

    /// The `request_id` of the run `before`, which `started` follows, with how that run ended, and the key under which the
    /// store remembers it for whoever sends that request again. The instance itself tells of its last run only.
    fn request_over(&self, before: &Instance, started: &Change) -> Result<Option<(String, EndedRun, NewKey)>, Refusal> {
        let Some((request, ended)) = before.request_id.clone().zip(before.ended()) else { return Ok(None) };
        let key = NewKey {
            key: codec::request_key(&request),
            fingerprint: codec::NO_FINGERPRINT,
            outcome: codec::encode(&ended)?,
            version: started.instance.version,
            expires_at: started.entry.at + self.key_life,
        };
        Ok(Some((request, ended, key)))
    }

    fn into_set(
        self,
        key: &InstanceKey,
        snapshot: &Snapshot,
    ) -> Result<(Option<ChangeSet>, Option<Arc<Instance>>), Refusal> {
        let Some(instance) = self.current.filter(|_| !self.events.is_empty()) else {
            return Ok((None, None));
        };
        let requires =
            self.relied_on.map(|version| Requirement { key: codec::definition_record(&key.workflow), version });
        let set = ChangeSet {
            key: codec::instance_record(key),
            commit_id: Uuid::new_v4(),
            expected_version: snapshot.version,
            facets: codec::facets(&instance),
            body: codec::encode(&*instance)?,
            events: self.events,
            keys: self.keys,
            requires: requires.into_iter().collect(),
            fences: self.fences.into_fences(),
            alarm: codec::alarm(snapshot.instance.as_deref(), &instance),
            at: self.clock.now(),
            life: snapshot.life,
        };
        Ok((Some(set), Some(instance)))
    }
}

fn keyed(pending: &Pending) -> Option<(&String, &Fingerprint)> {
    pending.command.idempotency_key.as_ref().zip(pending.fingerprint.as_ref())
}

impl Folded {
    /// Keys of the commands that change nothing: whether they took effect before, only the store can say.
    pub(crate) fn idle_keys(&self) -> Vec<String> {
        self.members
            .iter()
            .filter(|member| !member.changes() && !member.echoes)
            .filter_map(|member| member.pending.command.idempotency_key.clone())
            .collect()
    }

    /// Replaces the answers of members that took effect earlier, as their kept keys tell.
    pub(crate) fn replay(&mut self, stored: &[StoredKey]) {
        for member in self.members.iter_mut().filter(|member| !member.changes()) {
            if let Some(answer) = stored_answer(&member.pending, stored) {
                member.answer = answer;
            }
        }
    }

    /// The commands, to be decided again.
    pub(crate) fn into_pending(self) -> Vec<Pending> {
        self.members.into_iter().map(|member| member.pending).collect()
    }
}

/// The answer that the store has kept for this command's key.
pub(crate) fn stored_answer(pending: &Pending, stored: &[StoredKey]) -> Option<Answer> {
    let key = pending.command.idempotency_key.as_ref()?;
    let stored = stored.iter().find(|stored| stored.key == *key)?;
    if pending.fingerprint != Some(stored.fingerprint) {
        return Some(Refusal::KeyReused { key: key.clone() }.into());
    }
    Some(match codec::decode_success(&stored.outcome) {
        Ok(success) => Answer { result: Ok(success), replayed: true },
        // It took effect, but what was answered cannot be read: the history tells.
        Err(refusal) => Refusal::Unknown { detail: format!("the command took effect, but {refusal}") }.into(),
    })
}
