//! Alarms that are due.

use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{Error, Row};

use super::failure;
use super::pool::Share;
use super::rows::timestamp;
use super::store::Shared;
use super::values::Parameter;
use crate::limits::{ALARM_CLAIMED, DUE_MAX};
use crate::{CommitError, Due, ReadError, RecordKey};

/// Claims what is due.
pub(super) async fn due(shared: &Shared, limit: usize) -> Result<Due, ReadError> {
    let limit = i32::try_from(limit.min(DUE_MAX)).unwrap_or(i32::MAX);
    let claim_ms = i64::try_from(ALARM_CLAIMED.as_millis()).unwrap_or(i64::MAX);
    let connection = shared.connections.get(Share::Others).await.map_err(ReadError::Unavailable)?;
    let parameters: [Parameter<'_>; 2] = [(&limit, Type::INT4), (&claim_ms, Type::INT8)];
    let claim = connection.change(&shared.calls.claim_alarms, &parameters);
    let Ok(answer) = timeout(shared.options.verdict_wait, claim).await else {
        connection.give_up_reading();
        return Err(ReadError::Unavailable(shared.no_verdict()));
    };
    // Whatever became of the claims, they run out.
    let rows = answer.map_err(|fate| ReadError::Unavailable(CommitError::from(fate).to_string()))?;
    connection.done();
    let row = rows.first().ok_or_else(|| ReadError::Unavailable("the database gave no answer".to_owned()))?;
    read(row).map_err(|error| failure::read_error(&error))
}

fn read(row: &Row) -> Result<Due, Error> {
    let names = |column: &str| row.try_get::<_, Option<Vec<String>>>(column).map(Option::unwrap_or_default);
    let dues: Option<Vec<i64>> = row.try_get("dues")?;
    let keys = names("spaces")?.into_iter().zip(names("ids")?);
    let records = keys.zip(dues.unwrap_or_default());
    Ok(Due {
        now: timestamp(row.try_get("now_ms")?),
        records: records.map(|((space, id), due)| (RecordKey::new(&space, &id), timestamp(due))).collect(),
        next: row.try_get::<_, Option<i64>>("next_ms")?.map(timestamp),
    })
}
