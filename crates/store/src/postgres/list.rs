//! Lists, page by page: a bounded number of names and facets is looked at, then the bodies of what is given out are
//! read, in the same order.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::failure;
use super::queries::run;
use super::rows;
use super::store::Shared;
use super::values::Parameter;
use crate::limits::{PAGE_BYTES_MAX, PAGE_MAX, SCAN_MAX};
use crate::place::Place;
use crate::{ListOrder, ListQuery, Page, ReadError, RecordKey};

/// A candidate that matches.
struct Found {
    record: i64,
    id: String,
}

/// By how much more is looked at where a first look has found too little that matches.
const SCAN_GROWTH: usize = 8;

/// One page.
pub(super) async fn page(shared: &Shared, query: &ListQuery) -> Result<Page, ReadError> {
    let order = Place::after(query)?;
    let limit = query.limit.clamp(1, PAGE_MAX);
    let (mut found, mut next, mut seen) = (Vec::new(), None, 0);
    let mut place = order.clone();
    let mut scan = first_scan(query);
    'full: loop {
        let candidates = candidates(shared, query, &place, scan).await?;
        for candidate in &candidates {
            if seen == SCAN_MAX || found.len() == limit {
                next = Some(place);
                break 'full;
            }
            seen += 1;
            let one = read(candidate).map_err(|error| failure::read_error(&error))?;
            place = one.0.place(&order);
            if matches(query, &one) {
                found.push(one.0);
            }
        }
        if candidates.len() < scan {
            break;
        }
        scan = (scan * SCAN_GROWTH).min(SCAN_MAX + 1);
    }
    bodies(shared, query, &order, found, next).await
}

/// How much is looked at first: one more than is needed, to tell whether there is one more. Without a part to search for, an
/// index finds what matches at least one filter; what is to be without a facet is rarely with it.
fn first_scan(query: &ListQuery) -> usize {
    let filters = usize::from(query.primary.is_some()) + usize::from(query.secondary.is_some());
    let exact = query.contains.is_none() && filters <= usize::from(query.order == ListOrder::Newest);
    if exact { query.limit.clamp(1, PAGE_MAX) + 1 } else { SCAN_MAX + 1 }
}

type Candidate = (Found, String, String);

impl Found {
    fn place(&self, order: &Place) -> Place {
        match order {
            Place::Id(_) => Place::Id(self.id.clone()),
            Place::Record(_) => Place::Record(self.record),
        }
    }
}

fn read(row: &Row) -> Result<Candidate, tokio_postgres::Error> {
    Ok((Found { record: row.try_get(0)?, id: row.try_get(1)? }, row.try_get(2)?, row.try_get(3)?))
}

/// Byte for byte: SQL's LIKE would read `%` and `_` as patterns.
fn matches(query: &ListQuery, (found, primary, secondary): &Candidate) -> bool {
    query.primary.as_ref().is_none_or(|wanted| wanted == primary)
        && query.secondary.as_ref().is_none_or(|wanted| wanted == secondary)
        && query.without_secondary.as_ref() != Some(secondary)
        && query.contains.as_ref().is_none_or(|part| found.id.contains(part.as_str()))
}

async fn candidates(shared: &Shared, query: &ListQuery, after: &Place, scan: usize) -> Result<Vec<Row>, ReadError> {
    let lists = &shared.calls.lists;
    let space: &str = &query.space;
    let scan = scan as i64;
    let (mut sql, mut parameters): (_, Vec<Parameter<'_>>) = match after {
        Place::Id(id) => (&lists.by_id, vec![(&space, Type::TEXT), (id, Type::TEXT)]),
        Place::Record(record) => (&lists.newest, vec![(&space, Type::TEXT), (record, Type::INT8)]),
    };
    parameters.push((&scan, Type::INT8));
    let by_id = matches!(after, Place::Id(_));
    match (&query.primary, &query.secondary) {
        (Some(primary), _) if !by_id => {
            sql = &lists.newest_by_primary;
            parameters.push((primary, Type::TEXT));
        }
        (None, Some(secondary)) if !by_id => {
            sql = &lists.newest_by_secondary;
            parameters.push((secondary, Type::TEXT));
        }
        _ => {}
    }
    run(shared, sql, &parameters).await
}

/// Reads the records that were found. Large bodies end the page early. A record that has moved out of the filter since
/// it was found is left out, and so is one that is gone.
async fn bodies(
    shared: &Shared,
    query: &ListQuery,
    order: &Place,
    found: Vec<Found>,
    next: Option<Place>,
) -> Result<Page, ReadError> {
    let nothing = |next: Option<Place>| Ok(Page { records: Vec::new(), next: next.map(|place| place.cursor()) });
    if found.is_empty() {
        return nothing(next);
    }
    let numbers: Vec<i64> = found.iter().map(|found| found.record).collect();
    let bytes = PAGE_BYTES_MAX as i64;
    let parameters: [Parameter<'_>; 2] = [(&numbers, Type::INT8_ARRAY), (&bytes, Type::INT8)];
    let rows = run(shared, &shared.calls.lists.bodies, &parameters).await?;
    if rows.is_empty() {
        return nothing(next);
    }
    page_of(query, order, &found, next, &rows).map_err(|error| failure::read_error(&error))
}

fn page_of(
    query: &ListQuery,
    order: &Place,
    found: &[Found],
    mut next: Option<Place>,
    rows: &[Row],
) -> Result<Page, tokio_postgres::Error> {
    let mut rows = rows.iter().peekable();
    let mut records = Vec::new();
    let mut last = None;
    for one in found {
        let Some(row) = rows.peek() else {
            // Here the page was full, unless nothing but records that are gone come after.
            next = last;
            break;
        };
        last = Some(one.place(order));
        if row.try_get::<_, i64>("record")? != one.record {
            continue;
        }
        let record = rows::record(row, RecordKey::new(&query.space, &one.id))?;
        rows.next();
        let matches = |wanted: &Option<String>, facet: &String| wanted.as_ref().is_none_or(|wanted| wanted == facet);
        if matches(&query.primary, &record.facets.primary)
            && matches(&query.secondary, &record.facets.secondary)
            && query.without_secondary.as_ref() != Some(&record.facets.secondary)
        {
            records.push(record);
        }
    }
    Ok(Page { records, next: next.map(|place| place.cursor()) })
}
