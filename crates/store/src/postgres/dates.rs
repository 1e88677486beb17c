//! Records by their dates, and setting them.

use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{Error, Row};

use super::failure;
use super::pool::Share;
use super::rows::timestamp;
use super::store::Shared;
use super::values::Parameter;
use crate::limits::PAGE_MAX;
use crate::{CommitError, DateOf, Dated, DatedQuery, Facets, ReadError, RecordKey, Timestamp};

/// Who is to be looked at, claimed.
pub(super) async fn claim(shared: &Shared, query: &DatedQuery) -> Result<Vec<Dated>, ReadError> {
    let space: &str = &query.space;
    let (secondary, before) = (query.by == DateOf::Secondary, query.before.timestamp_millis());
    let (claim, limit) = (query.claim_ms(), query.limit.min(PAGE_MAX) as i64);
    let parameters: [Parameter<'_>; 5] = [
        (&space, Type::TEXT),
        (&secondary, Type::BOOL),
        (&before, Type::INT8),
        (&claim, Type::INT8),
        (&limit, Type::INT8),
    ];
    // Whatever became of the claims, they run out.
    let rows = change(shared, &shared.calls.claim_dated, &parameters).await;
    let rows = rows.map_err(|error| ReadError::Unavailable(error.to_string()))?;
    let read = rows.iter().map(|row| read(row, space)).collect::<Result<_, _>>();
    read.map_err(|error| failure::read_error(&error))
}

/// Sets one of the dates of each; of a record that somebody is changing it stays as it is.
pub(super) async fn set(shared: &Shared, of: DateOf, dates: &[(RecordKey, Timestamp)]) -> Result<(), CommitError> {
    let secondary = of == DateOf::Secondary;
    let spaces: Vec<&str> = dates.iter().map(|(key, _)| &*key.space).collect();
    let ids: Vec<&str> = dates.iter().map(|(key, _)| &*key.id).collect();
    let dates: Vec<i64> = dates.iter().map(|(_, date)| date.timestamp_millis()).collect();
    let parameters: [Parameter<'_>; 4] =
        [(&secondary, Type::BOOL), (&spaces, Type::TEXT_ARRAY), (&ids, Type::TEXT_ARRAY), (&dates, Type::INT8_ARRAY)];
    change(shared, &shared.calls.set_dates, &parameters).await.map(drop)
}

async fn change(shared: &Shared, call: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, CommitError> {
    let connection = shared.connections.get(Share::Others).await.map_err(CommitError::Unavailable)?;
    let Ok(answer) = timeout(shared.options.verdict_wait, connection.change(call, parameters)).await else {
        connection.give_up();
        return Err(CommitError::Unknown(shared.no_verdict()));
    };
    let rows = answer?;
    connection.done();
    Ok(rows)
}

fn read(row: &Row, space: &str) -> Result<Dated, Error> {
    let id: &str = row.try_get("id")?;
    Ok(Dated {
        key: RecordKey::new(space, id),
        version: row.try_get("version")?,
        facets: Facets { primary: row.try_get("primary_facet")?, secondary: row.try_get("secondary_facet")? },
        updated_at: timestamp(row.try_get("updated_ms")?),
        date: timestamp(row.try_get("date_ms")?),
    })
}
