//! Lists, page by page.
//!
//! The filters are applied here, to names and facets only, so that a page
//! can end after a bounded number of rows looked at; bodies are read for what is given out.

use rusqlite::{Connection, Row, ToSql, params};

use super::readers::ReadFailure;
use super::rows;
use crate::limits::{PAGE_BYTES_MAX, PAGE_MAX, SCAN_MAX};
use crate::place::Place;
use crate::{ListOrder, ListQuery, Page};

// Each names its index: the planner knows nothing of how the values lie, and a sort would read everything.
const BY_ID: &str = "SELECT record, id, primary_facet, secondary_facet FROM records INDEXED BY records_by_id
    WHERE space = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
const NEWEST: &str = "SELECT record, id, primary_facet, secondary_facet FROM records INDEXED BY records_by_space
    WHERE space = ?1 AND record < ?2 ORDER BY record DESC LIMIT ?3";
const NEWEST_BY_PRIMARY: &str = "SELECT record, id, primary_facet, secondary_facet
    FROM records INDEXED BY records_by_primary
    WHERE space = ?1 AND record < ?2 AND primary_facet = ?4 ORDER BY record DESC LIMIT ?3";
const NEWEST_BY_SECONDARY: &str = "SELECT record, id, primary_facet, secondary_facet
    FROM records INDEXED BY records_by_secondary
    WHERE space = ?1 AND record < ?2 AND secondary_facet = ?4 ORDER BY record DESC LIMIT ?3";

/// One page.
pub(super) fn page(connection: &Connection, query: &ListQuery) -> Result<Page, ReadFailure> {
    let after = Place::after(query).map_err(ReadFailure::Told)?;
    let snapshot = connection.unchecked_transaction()?;
    // One more than is looked at, to tell whether there is one more.
    let scan = (SCAN_MAX + 1) as i64;
    let space: &str = &query.space;
    let page = match (&after, &query.primary, &query.secondary) {
        (Place::Id(id), _, _) => collect(&snapshot, query, BY_ID, params![space, id, scan]),
        (Place::Record(record), Some(primary), _) => {
            collect(&snapshot, query, NEWEST_BY_PRIMARY, params![space, record, scan, primary])
        }
        (Place::Record(record), None, Some(secondary)) => {
            collect(&snapshot, query, NEWEST_BY_SECONDARY, params![space, record, scan, secondary])
        }
        (Place::Record(record), None, None) => collect(&snapshot, query, NEWEST, params![space, record, scan]),
    }?;
    snapshot.commit()?;
    Ok(page)
}

fn collect(snapshot: &Connection, query: &ListQuery, sql: &str, values: &[&dyn ToSql]) -> Result<Page, ReadFailure> {
    let limit = query.limit.clamp(1, PAGE_MAX);
    let mut select = snapshot.prepare_cached(sql)?;
    let mut body = snapshot.prepare_cached(rows::RECORD_BY_ROW)?;
    let mut candidates = select.query(values)?;
    let mut records = Vec::new();
    let mut place = None;
    let (mut bytes, mut seen) = (0, 0);
    while let Some(candidate) = candidates.next()? {
        if seen == SCAN_MAX || records.len() == limit || bytes >= PAGE_BYTES_MAX {
            return Ok(Page { records, next: place.map(|place: Place| place.cursor()) });
        }
        seen += 1;
        place = Some(of(query.order, candidate)?);
        if matches(query, candidate)? {
            let record = body.query_row([candidate.get::<_, i64>(0)?], rows::record)?;
            bytes += record.body.len();
            records.push(record);
        }
    }
    Ok(Page { records, next: None })
}

/// Byte for byte: SQL's LIKE would fold case and read `%` and `_` as patterns.
fn matches(query: &ListQuery, candidate: &Row<'_>) -> rusqlite::Result<bool> {
    let is = |wanted: &Option<String>, column| -> rusqlite::Result<bool> {
        Ok(match wanted {
            Some(wanted) => rows::text(candidate, column)? == wanted,
            None => true,
        })
    };
    let contains = match &query.contains {
        Some(part) => rows::text(candidate, 1)?.contains(part.as_str()),
        None => true,
    };
    let without = match &query.without_secondary {
        Some(unwanted) => rows::text(candidate, 3)? != unwanted,
        None => true,
    };
    Ok(contains && without && is(&query.primary, 2)? && is(&query.secondary, 3)?)
}

/// Where a row stands.
fn of(order: ListOrder, row: &Row<'_>) -> rusqlite::Result<Place> {
    Ok(match order {
        ListOrder::Id => Place::Id(rows::text(row, 1)?.to_owned()),
        ListOrder::Newest => Place::Record(row.get(0)?),
    })
}
