//! Lists, page by page.
//!
//! A page goes on after a place in its order, not after a number of rows: what is added meanwhile moves nothing
//! (<https://use-the-index-luke.com/no-offset>). The filters are applied here, to names and facets only, so that a page
//! can end after a bounded number of rows looked at; bodies are read for what is given out.

use rusqlite::{Connection, Row, ToSql, params};

use super::readers::ReadFailure;
use super::rows;
use crate::limits::{PAGE_BYTES_MAX, PAGE_MAX, SCAN_MAX};
use crate::{ListOrder, ListQuery, Page, ReadError};

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
        place = Some(Place::of(query.order, candidate)?);
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
    Ok(contains && is(&query.primary, 2)? && is(&query.secondary, 3)?)
}

/// A place in a list: the last row that was looked at.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// In the order of ids.
    Id(String),
    /// In the order of creation.
    Record(i64),
}

impl Place {
    /// Where the query goes on.
    fn after(query: &ListQuery) -> Result<Self, ReadError> {
        let Some(cursor) = &query.cursor else {
            return Ok(match query.order {
                // No id is empty.
                ListOrder::Id => Self::Id(String::new()),
                ListOrder::Newest => Self::Record(i64::MAX),
            });
        };
        Self::parse(query.order, cursor).ok_or_else(|| ReadError::BadCursor(cursor.clone()))
    }

    fn of(order: ListOrder, row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(match order {
            ListOrder::Id => Self::Id(rows::text(row, 1)?.to_owned()),
            ListOrder::Newest => Self::Record(row.get(0)?),
        })
    }

    /// Letters and digits only, so that it passes through any address or shell.
    fn cursor(&self) -> String {
        match self {
            Self::Id(id) => {
                let mut cursor = String::with_capacity(1 + id.len() * 2);
                cursor.push('i');
                cursor.extend(id.bytes().flat_map(|byte| [digit(byte >> 4), digit(byte & 0x0f)]));
                cursor
            }
            Self::Record(record) => format!("n{record}"),
        }
    }

    fn parse(order: ListOrder, cursor: &str) -> Option<Self> {
        match order {
            ListOrder::Id => Some(Self::Id(from_hex(cursor.strip_prefix('i')?)?)),
            ListOrder::Newest => {
                let record: i64 = cursor.strip_prefix('n')?.parse().ok()?;
                (record > 0).then_some(Self::Record(record))
            }
        }
    }
}

fn digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0')
}

fn from_hex(text: &str) -> Option<String> {
    if text.is_empty() || !text.len().is_multiple_of(2) {
        return None;
    }
    let nibble = |byte: u8| char::from(byte).to_digit(16);
    let bytes: Option<Vec<u8>> = text
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| u8::try_from(nibble(pair[0])? << 4 | nibble(pair[1])?).ok())
        .collect();
    String::from_utf8(bytes?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_back_to_its_place() {
        for id in ["a", "ü/%2F 😀 ", "0"] {
            let place = Place::Id(id.to_owned());
            assert_eq!(Place::parse(ListOrder::Id, &place.cursor()), Some(place));
        }
        let place = Place::Record(7);
        assert_eq!(Place::parse(ListOrder::Newest, &place.cursor()), Some(place));
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        for cursor in ["", "i", "i6", "ixx", "iff", "n1", "n7", "ié"] {
            assert_eq!(Place::parse(ListOrder::Id, cursor), None, "{cursor:?}");
        }
        for cursor in ["", "n", "n-1", "n0", "i61", "n9223372036854775808"] {
            assert_eq!(Place::parse(ListOrder::Newest, cursor), None, "{cursor:?}");
        }
    }
}
