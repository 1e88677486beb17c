//! How rows become records.

use bytes::Bytes;
use chrono::DateTime;
use tokio_postgres::{Error, Row};

use crate::{Event, Facets, Record, RecordKey, StoredKey, Timestamp};

/// The columns of a record, to be read with [`record`]; `r` is the table.
pub(super) const RECORD: &str = "r.version, r.primary_facet, r.secondary_facet, r.created_ms, r.updated_ms, r.body";

/// A record from the columns named as in [`RECORD`], and `life`.
pub(super) fn record(row: &Row, key: RecordKey) -> Result<Record, Error> {
    Ok(Record {
        key,
        version: row.try_get("version")?,
        facets: Facets { primary: row.try_get("primary_facet")?, secondary: row.try_get("secondary_facet")? },
        created_at: timestamp(row.try_get("created_ms")?),
        updated_at: timestamp(row.try_get("updated_ms")?),
        body: bytes(row, "body")?,
        life: row.try_get("life")?,
    })
}

/// Version, commit id and body.
pub(super) fn event(row: &Row) -> Result<Event, Error> {
    Ok(Event { version: row.try_get("version")?, commit_id: row.try_get("commit_id")?, body: bytes(row, "body")? })
}

/// The keys in the four arrays that the functions answer with.
pub(super) fn taken_keys(row: &Row) -> Result<Vec<StoredKey>, Error> {
    let Some(names) = row.try_get::<_, Option<Vec<String>>>("taken_keys")? else { return Ok(Vec::new()) };
    let versions: Vec<i64> = row.try_get("taken_versions")?;
    let prints: Vec<&[u8]> = row.try_get("taken_prints")?;
    let outcomes: Vec<&[u8]> = row.try_get("taken_outcomes")?;
    let keys = names.into_iter().zip(versions).zip(prints.into_iter().zip(outcomes));
    Ok(keys
        .map(|((key, version), (print, outcome))| StoredKey {
            key,
            version,
            // The table's own check: 32 bytes.
            fingerprint: print.try_into().unwrap_or_default(),
            outcome: Bytes::copy_from_slice(outcome),
        })
        .collect())
}

fn bytes(row: &Row, column: &str) -> Result<Bytes, Error> {
    row.try_get::<_, &[u8]>(column).map(Bytes::copy_from_slice)
}

/// Written from a timestamp; one that was changed by hand to what no calendar has is read as the beginning of time.
pub(super) fn timestamp(millis: i64) -> Timestamp {
    DateTime::from_timestamp_millis(millis).unwrap_or_default()
}
