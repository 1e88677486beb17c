//! Records by their dates, and setting them; by the writer.

use rusqlite::{Connection, Row, params};

use super::queue::{Effect, Request};
use super::rows::{text, timestamp};
use crate::limits::PAGE_MAX;
use crate::{DateOf, Dated, DatedQuery, Facets, RecordKey, Timestamp};

/// What is looked at, with a date; the payload stays unread.
macro_rules! select {
    ($date:literal, $rest:literal) => {
        concat!(
            "SELECT record, id, version, primary_facet, secondary_facet, updated_ms, ",
            $date,
            " FROM records ",
            $rest
        )
    };
}

// Each names its index, as lists do.
const UNDATED: &str = select!(
    "created_ms",
    "INDEXED BY records_undated WHERE space = ?1 AND primary_date_ms IS NULL AND created_ms < ?2
     ORDER BY created_ms, record LIMIT ?3"
);
const BY_PRIMARY: &str = select!(
    "primary_date_ms",
    "INDEXED BY records_by_primary_date WHERE space = ?1 AND primary_date_ms < ?2
     ORDER BY primary_date_ms, record LIMIT ?3"
);
const BY_SECONDARY: &str = select!(
    "secondary_date_ms",
    "INDEXED BY records_by_secondary_date WHERE space = ?1 AND secondary_date_ms < ?2
     ORDER BY secondary_date_ms, record LIMIT ?3"
);
const SET_PRIMARY: &str = "UPDATE records
    SET primary_date_ms = ?3, secondary_date_ms = coalesce(secondary_date_ms, created_ms) WHERE space = ?1 AND id = ?2";
const SET_SECONDARY: &str = "UPDATE records
    SET primary_date_ms = coalesce(primary_date_ms, created_ms), secondary_date_ms = ?3 WHERE space = ?1 AND id = ?2";

/// Tell who is to be looked at, and claim them.
pub(super) struct ClaimDated(pub(super) DatedQuery);

/// Set one of the dates of each.
pub(super) struct SetDates(pub(super) DateOf, pub(super) Vec<(RecordKey, Timestamp)>);

impl Request for ClaimDated {
    type Answer = Vec<Dated>;

    fn size(&self) -> usize {
        0
    }

    fn perform(&self, connection: &Connection) -> rusqlite::Result<(Vec<Dated>, Effect)> {
        let query = &self.0;
        let by_date = if query.by == DateOf::Primary { BY_PRIMARY } else { BY_SECONDARY };
        let mut found = select(connection, UNDATED, query)?;
        found.extend(select(connection, by_date, query)?);
        found.sort_by_key(|(record, dated)| (dated.date, *record));
        found.truncate(query.limit.min(PAGE_MAX));
        for (_, dated) in &found {
            set(connection, query.by, &dated.key, query.claim_ms())?;
        }
        let effect = if found.is_empty() { Effect::Nothing } else { Effect::Wrote };
        Ok((found.into_iter().map(|(_, dated)| dated).collect(), effect))
    }
}

impl Request for SetDates {
    type Answer = ();

    fn size(&self) -> usize {
        0
    }

    fn perform(&self, connection: &Connection) -> rusqlite::Result<((), Effect)> {
        let mut changed = 0;
        for (key, date) in &self.1 {
            changed += set(connection, self.0, key, date.timestamp_millis())?;
        }
        Ok(((), if changed > 0 { Effect::Wrote } else { Effect::Nothing }))
    }
}

/// Sets one date; the other is set with it if it was not. Says how many records it was.
fn set(connection: &Connection, of: DateOf, key: &RecordKey, date_ms: i64) -> rusqlite::Result<usize> {
    let sql = if of == DateOf::Primary { SET_PRIMARY } else { SET_SECONDARY };
    connection.prepare_cached(sql)?.execute(params![&*key.space, &*key.id, date_ms])
}

/// Records with their numbers.
fn select(connection: &Connection, sql: &str, query: &DatedQuery) -> rusqlite::Result<Vec<(i64, Dated)>> {
    let limit = query.limit.min(PAGE_MAX) as i64;
    let mut select = connection.prepare_cached(sql)?;
    let values = params![&*query.space, query.before.timestamp_millis(), limit];
    select.query_map(values, |row| Ok((row.get(0)?, read(row, &query.space)?)))?.collect()
}

fn read(row: &Row<'_>, space: &str) -> rusqlite::Result<Dated> {
    Ok(Dated {
        key: RecordKey::new(space, text(row, 1)?),
        version: row.get(2)?,
        facets: Facets { primary: text(row, 3)?.to_owned(), secondary: text(row, 4)?.to_owned() },
        updated_at: timestamp(row, 5)?,
        date: timestamp(row, 6)?,
    })
}
