//! Change sets as the arrays that the schema's functions take.

use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::{ChangeSet, Fence, RecordKey};

/// A parameter with its type: nothing is prepared, so the server is told.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// How a call waits for locks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    lock_ms: i32,
    skip: bool,
}

impl Waits {
    /// For whatever is locked, each time so long.
    pub(super) fn up_to(bound: Duration) -> Self {
        // Rounded up, so that whoever is told to have waited has. A bound of 0 would be none.
        Self { lock_ms: i32::try_from(bound.as_micros().div_ceil(1000)).unwrap_or(i32::MAX).max(1), skip: false }
    }

    /// As [`Self::up_to`], but not for a row that another session has locked.
    pub(super) fn skipping(bound: Duration) -> Self {
        Self { skip: true, ..Self::up_to(bound) }
    }

    /// Milliseconds.
    pub(super) fn bound_ms(&self) -> i32 {
        self.lock_ms
    }

    /// Whether a locked row is passed over.
    pub(super) fn skips(&self) -> bool {
        self.skip
    }

    /// The bound, and whether a locked row is passed over.
    pub(super) fn parameters(&self) -> [Parameter<'_>; 2] {
        [(&self.lock_ms, Type::INT4), (&self.skip, Type::BOOL)]
    }
}

/// The columns of one change set.
pub(super) struct One<'a> {
    set: &'a ChangeSet,
    space: &'a str,
    id: &'a str,
    body: &'a [u8],
    at: i64,
    events: Vec<&'a [u8]>,
    keys: Keys<'a>,
    requirements: Requirements<'a>,
    fences: Fences<'a>,
    alarm: Option<i64>,
}

/// The columns of fences, side by side.
pub(super) struct Fences<'a> {
    resources: Vec<&'a str>,
    fences: Vec<i64>,
}

/// The columns of idempotency keys, side by side.
#[derive(Default)]
struct Keys<'a> {
    sets: Vec<i32>,
    names: Vec<&'a str>,
    versions: Vec<i64>,
    expiries: Vec<i64>,
    prints: Vec<&'a [u8]>,
    outcomes: Vec<&'a [u8]>,
}

/// The columns of requirements, side by side.
#[derive(Default)]
struct Requirements<'a> {
    sets: Vec<i32>,
    spaces: Vec<&'a str>,
    ids: Vec<&'a str>,
    versions: Vec<i64>,
}

/// The columns of many change sets, side by side.
#[derive(Default)]
pub(super) struct Many<'a> {
    spaces: Vec<&'a str>,
    ids: Vec<&'a str>,
    expected: Vec<i64>,
    lives: Vec<Option<i64>>,
    counts: Vec<i64>,
    primary: Vec<&'a str>,
    secondary: Vec<&'a str>,
    bodies: Vec<&'a [u8]>,
    ats: Vec<i64>,
    commits: Vec<Uuid>,
    event_sets: Vec<i32>,
    event_versions: Vec<i64>,
    events: Vec<&'a [u8]>,
    keys: Keys<'a>,
    requirements: Requirements<'a>,
    alarm_sets: Vec<i32>,
    alarms: Vec<i64>,
}

impl<'a> Keys<'a> {
    fn add(&mut self, place: i32, set: &'a ChangeSet) {
        for key in &set.keys {
            self.sets.push(place);
            self.names.push(&key.key);
            self.versions.push(key.version);
            self.expiries.push(key.expires_at.timestamp_millis());
            self.prints.push(&key.fingerprint);
            self.outcomes.push(&key.outcome);
        }
    }
}

impl<'a> Requirements<'a> {
    fn add(&mut self, place: i32, set: &'a ChangeSet) {
        for requirement in &set.requires {
            self.sets.push(place);
            self.spaces.push(&requirement.key.space);
            self.ids.push(&requirement.key.id);
            self.versions.push(requirement.version);
        }
    }
}

impl<'a> Fences<'a> {
    pub(super) fn new(fences: impl IntoIterator<Item = &'a Fence>) -> Self {
        let (resources, fences) = fences.into_iter().map(|fence| (&*fence.resource, fence.fence)).unzip();
        Self { resources, fences }
    }

    /// Of `keep_fences`, and the first of `commit_fenced`.
    pub(super) fn parameters(&self) -> [Parameter<'_>; 2] {
        [(&self.resources, Type::TEXT_ARRAY), (&self.fences, Type::INT8_ARRAY)]
    }
}

impl<'a> One<'a> {
    pub(super) fn new(set: &'a ChangeSet) -> Self {
        let (mut keys, mut requirements) = (Keys::default(), Requirements::default());
        keys.add(1, set);
        requirements.add(1, set);
        Self {
            set,
            space: &set.key.space,
            id: &set.key.id,
            body: &set.body,
            at: set.at.timestamp_millis(),
            events: set.events.iter().map(|event| &event[..]).collect(),
            keys,
            requirements,
            fences: Fences::new(&set.fences),
            alarm: set.alarm.column(),
        }
    }

    /// Of `check_one`.
    pub(super) fn check<'p>(&'p self, waits: &'p Waits) -> Vec<Parameter<'p>> {
        let mut all: Vec<Parameter<'p>> = vec![
            (&self.space, Type::TEXT),
            (&self.id, Type::TEXT),
            (&self.set.expected_version, Type::INT8),
            (&self.set.life, Type::INT8),
            (&self.at, Type::INT8),
            (&self.keys.names, Type::TEXT_ARRAY),
        ];
        all.extend(self.required());
        all.extend(waits.parameters());
        all
    }

    /// Of `write_one`: the record's number first.
    pub(super) fn write<'p>(&'p self, record: &'p Option<i64>) -> Vec<Parameter<'p>> {
        let mut all: Vec<Parameter<'p>> = vec![
            (record, Type::INT8),
            (&self.space, Type::TEXT),
            (&self.id, Type::TEXT),
            (&self.set.expected_version, Type::INT8),
        ];
        all.extend(self.written());
        all
    }

    /// Of `commit_one` and `commit_carefully`.
    pub(super) fn commit<'p>(&'p self, waits: &'p Waits) -> Vec<Parameter<'p>> {
        let mut all: Vec<Parameter<'p>> = vec![
            (&self.space, Type::TEXT),
            (&self.id, Type::TEXT),
            (&self.set.expected_version, Type::INT8),
            (&self.set.life, Type::INT8),
        ];
        all.extend(self.written());
        all.extend(self.required());
        all.extend(waits.parameters());
        all
    }

    /// Whether the set carries fences.
    pub(super) fn is_fenced(&self) -> bool {
        !self.set.fences.is_empty()
    }

    /// Of `commit_fenced`.
    pub(super) fn commit_fenced<'p>(&'p self, careful: &'p bool, waits: &'p Waits) -> Vec<Parameter<'p>> {
        let mut all: Vec<Parameter<'p>> = self.fences.parameters().into();
        all.push((careful, Type::BOOL));
        all.extend(self.commit(waits));
        all
    }

    /// Whether the set sets its record's alarm.
    pub(super) fn is_alarmed(&self) -> bool {
        self.alarm.is_some()
    }

    /// Of `commit_alarmed`.
    pub(super) fn commit_alarmed<'p>(&'p self, careful: &'p bool, waits: &'p Waits) -> Vec<Parameter<'p>> {
        let mut all: Vec<Parameter<'p>> = vec![(&self.alarm, Type::INT8)];
        all.extend(self.commit_fenced(careful, waits));
        all
    }

    /// Of `put_alarm_of`; none: the alarm stays as it is.
    pub(super) fn put_alarm(&self) -> Option<[Parameter<'_>; 3]> {
        self.alarm.is_some().then_some([(&self.space, Type::TEXT), (&self.id, Type::TEXT), (&self.alarm, Type::INT8)])
    }

    fn written(&self) -> [Parameter<'_>; 11] {
        [
            (&self.set.facets.primary, Type::TEXT),
            (&self.set.facets.secondary, Type::TEXT),
            (&self.body, Type::BYTEA),
            (&self.at, Type::INT8),
            (&self.set.commit_id, Type::UUID),
            (&self.events, Type::BYTEA_ARRAY),
            (&self.keys.names, Type::TEXT_ARRAY),
            (&self.keys.versions, Type::INT8_ARRAY),
            (&self.keys.expiries, Type::INT8_ARRAY),
            (&self.keys.prints, Type::BYTEA_ARRAY),
            (&self.keys.outcomes, Type::BYTEA_ARRAY),
        ]
    }

    fn required(&self) -> [Parameter<'_>; 3] {
        [
            (&self.requirements.spaces, Type::TEXT_ARRAY),
            (&self.requirements.ids, Type::TEXT_ARRAY),
            (&self.requirements.versions, Type::INT8_ARRAY),
        ]
    }
}

impl<'a> Many<'a> {
    pub(super) fn new(sets: impl IntoIterator<Item = &'a ChangeSet>) -> Self {
        let mut many = Self::default();
        for (place, set) in (1..).zip(sets) {
            many.add(place, set);
        }
        many
    }

    fn add(&mut self, place: i32, set: &'a ChangeSet) {
        self.spaces.push(&set.key.space);
        self.ids.push(&set.key.id);
        self.expected.push(set.expected_version);
        self.lives.push(set.life);
        self.counts.push(set.events.len() as i64);
        self.primary.push(&set.facets.primary);
        self.secondary.push(&set.facets.secondary);
        self.bodies.push(&set.body);
        self.ats.push(set.at.timestamp_millis());
        self.commits.push(set.commit_id);
        for (version, event) in (set.expected_version.saturating_add(1)..).zip(&set.events) {
            self.event_sets.push(place);
            self.event_versions.push(version);
            self.events.push(event);
        }
        self.keys.add(place, set);
        self.requirements.add(place, set);
        if let Some(alarm) = set.alarm.column() {
            self.alarm_sets.push(place);
            self.alarms.push(alarm);
        }
    }

    /// Whether any set sets its record's alarm.
    pub(super) fn is_alarmed(&self) -> bool {
        !self.alarms.is_empty()
    }

    /// Of `commit_many`; of `commit_many_alarmed` if any set sets an alarm.
    pub(super) fn parameters<'p>(&'p self, waits: &'p Waits) -> Vec<Parameter<'p>> {
        let Self { keys, requirements, .. } = self;
        let mut all: Vec<Parameter<'p>> = vec![
            (&self.spaces, Type::TEXT_ARRAY),
            (&self.ids, Type::TEXT_ARRAY),
            (&self.expected, Type::INT8_ARRAY),
            (&self.lives, Type::INT8_ARRAY),
            (&self.counts, Type::INT8_ARRAY),
            (&self.primary, Type::TEXT_ARRAY),
            (&self.secondary, Type::TEXT_ARRAY),
            (&self.bodies, Type::BYTEA_ARRAY),
            (&self.ats, Type::INT8_ARRAY),
            (&self.commits, Type::UUID_ARRAY),
            (&self.event_sets, Type::INT4_ARRAY),
            (&self.event_versions, Type::INT8_ARRAY),
            (&self.events, Type::BYTEA_ARRAY),
            (&keys.sets, Type::INT4_ARRAY),
            (&keys.names, Type::TEXT_ARRAY),
            (&keys.versions, Type::INT8_ARRAY),
            (&keys.expiries, Type::INT8_ARRAY),
            (&keys.prints, Type::BYTEA_ARRAY),
            (&keys.outcomes, Type::BYTEA_ARRAY),
            (&requirements.sets, Type::INT4_ARRAY),
            (&requirements.spaces, Type::TEXT_ARRAY),
            (&requirements.ids, Type::TEXT_ARRAY),
            (&requirements.versions, Type::INT8_ARRAY),
            (&waits.lock_ms, Type::INT4),
        ];
        if self.is_alarmed() {
            all.extend::<[Parameter<'p>; 2]>([(&self.alarm_sets, Type::INT4_ARRAY), (&self.alarms, Type::INT8_ARRAY)]);
        }
        all
    }
}

/// The two texts of a name.
pub(super) fn name(key: &RecordKey) -> (&str, &str) {
    (&key.space, &key.id)
}
