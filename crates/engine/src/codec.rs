//! How instances, history and definitions are laid into the store's records.

use bytes::Bytes;
use lockkeeper_model::limits::KEY_BYTES_MAX;
use lockkeeper_model::names::check_text;
use lockkeeper_model::{Command, EndedRun, Entry, Fingerprint, Instance, InstanceKey, Refusal, Success, WorkflowName};
use lockkeeper_store::{Alarm, Facets, Record, RecordKey};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The space of definitions. `$` cannot begin a workflow's name, so no workflow's instances share it.
pub(crate) const DEFINITION_SPACE: &str = "$workflow";

/// Before a `request_id` in the key that remembers it. Clients' keys have no control character ([`check_key`]).
const REQUEST_MARK: &str = "request\u{1f}";

/// Of keys that belong to no command.
pub(crate) const NO_FINGERPRINT: Fingerprint = [0; 32];

/// The idempotency key that remembers which run `request_id` has begun, once another has followed it.
pub(crate) fn request_key(request_id: &str) -> String {
    format!("{REQUEST_MARK}{request_id}")
}

/// The `request_id` that a key remembers, if it is such a key.
pub(crate) fn request_of(key: &str) -> Option<&str> {
    key.strip_prefix(REQUEST_MARK)
}

/// Refuses an idempotency key that no client may use.
pub(crate) fn check_key(command: &Command) -> Result<(), Refusal> {
    let Some(key) = &command.idempotency_key else { return Ok(()) };
    check_text("the idempotency key", key, KEY_BYTES_MAX)
        .map_err(|error| Refusal::Malformed { detail: error.to_string() })
}

/// Where an instance is kept: its workflow is the space.
pub(crate) fn instance_record(key: &InstanceKey) -> RecordKey {
    RecordKey::new(key.workflow.as_str(), key.id.as_str())
}

/// Where a workflow's definition is kept: one version of the record for each version of the definition.
pub(crate) fn definition_record(workflow: &WorkflowName) -> RecordKey {
    RecordKey::new(DEFINITION_SPACE, workflow.as_str())
}

/// Instances are listed by state and by status.
pub(crate) fn facets(instance: &Instance) -> Facets {
    Facets { primary: instance.state.clone(), secondary: instance.status.as_str().to_owned() }
}

/// What becomes of an instance's alarm when it changes.
pub(crate) fn alarm(before: Option<&Instance>, after: &Instance) -> Alarm {
    match (before.and_then(Instance::next_due), after.next_due()) {
        (before, after) if before == after => Alarm::Keep,
        (_, Some(due)) => Alarm::At(due),
        (_, None) => Alarm::Never,
    }
}

/// JSON of something that the engine itself made.
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Bytes, Refusal> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| Refusal::Unavailable {
        detail: format!("cannot write a record as JSON: {error}; please report this"),
    })
}

/// Something the engine wrote earlier; a newer node may have added fields, which are passed over.
pub(crate) fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(bytes)
        .map_err(|error| Refusal::Unavailable { detail: format!("{what} in the store cannot be read: {error}") })
}

/// The instance in a record.
pub(crate) fn decode_instance(record: &Record) -> Result<Instance, Refusal> {
    let mut instance: Instance = decode("an instance", &record.body)?;
    instance.version = record.version;
    Ok(instance)
}

/// A history entry.
pub(crate) fn decode_entry(body: &[u8]) -> Result<Entry, Refusal> {
    decode("a history entry", body)
}

/// What is kept with the key of a `request_id`.
pub(crate) fn decode_ended(body: &[u8]) -> Result<EndedRun, Refusal> {
    decode("how an earlier run ended", body)
}

/// The outcome kept with an idempotency key.
pub(crate) fn decode_success(body: &[u8]) -> Result<Success, Refusal> {
    decode("a kept outcome", body)
}
