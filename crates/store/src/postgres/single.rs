//! One change set by itself: its conditional write, and the search for what is wrong in it.

use tokio_postgres::Client;

use super::calls::{Calls, Told, told};
use super::failure::{self, Fate};
use super::values::One;
use crate::{ChangeSet, CommitError, Verdict};

/// Commits a set in a transaction of its own. `lock_ms` 0: a row that is locked is not waited for.
pub(super) async fn commit(client: &Client, calls: &Calls, set: &ChangeSet, lock_ms: i32) -> Result<Told, CommitError> {
    let one = One::new(set);
    let rows = match client.query_typed(&calls.commit_one, &one.commit(&lock_ms)).await {
        Ok(rows) => rows,
        Err(error) => return failed(client, calls, set, failure::fate(&error)).await,
    };
    let row = rows.first().ok_or_else(|| CommitError::Unknown("the database gave no answer".to_owned()))?;
    told(row, set).map_err(|error| CommitError::Unknown(failure::explain(&error)))
}

/// What a call that failed means. The transaction has been taken back, unless its fate is unknown.
pub(super) async fn failed(client: &Client, calls: &Calls, set: &ChangeSet, fate: Fate) -> Result<Told, CommitError> {
    match fate {
        Fate::Rejected(reason) => Ok(Told::Verdict(rejection(client, calls, set, reason).await)),
        Fate::Locked => Ok(Told::Locked),
        Fate::TakenBack(detail) => Err(CommitError::Unavailable(detail)),
        Fate::Unknown(detail) => Err(CommitError::Unknown(detail)),
    }
}

/// A set breaks a rule of the database: which event does. If that cannot be found out, the set as a whole is at fault.
pub(super) async fn rejection(client: &Client, calls: &Calls, set: &ChangeSet, reason: String) -> Verdict {
    let one = One::new(set);
    let found = client.query_typed(&calls.find_culprit, &one.write(&None)).await;
    let place = found.ok().and_then(|rows| rows.first()?.try_get::<_, Option<i32>>("place").ok()?);
    // Places count from 1; 0 is the record itself.
    let event = place.and_then(|place| usize::try_from(place).ok()).and_then(|place| place.checked_sub(1));
    Verdict::Rejected { event, reason }
}
