//! One transaction: what requests concern is locked and loaded, the law is applied to each in turn, and what it wrote is
//! committed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tokio::time::{Instant, timeout};
use tokio_postgres::{Error, Row};

use super::columns::{Loaded, Wanted, Written};
use crate::CommitError;
use crate::lease::{Answered, LeaseId, LeaseRequest, Table as _, law};
use crate::postgres::failure::{self, Fate};
use crate::postgres::pool::{Connection, Share};
use crate::postgres::single::TRIES;
use crate::postgres::store::Shared;
use crate::postgres::values::Waits;

/// How long a node may be silent within a transaction. Between its two round trips lies one decision: whoever is silent
/// for longer is gone, or stopped, and the server ends its session, so that nobody waits for it.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// What the functions of the schema raise when something came between: the same may be tried again.
const CAME_BETWEEN: &str = "LKL01";

/// What they raise when requests concern too many names.
const TOO_MUCH: &str = "LKL02";

/// Requests that were not done, all of them.
#[derive(Clone, Debug)]
pub(super) enum Failed {
    /// They concern too many names for one transaction.
    TooMuch,
    /// Nothing was written: another session had something of them locked for as long as they wait.
    Locked,
    /// Nothing was written.
    Unavailable(String),
    /// COMMIT was sent. If it took place, there may be room for these.
    Unknown(String, Vec<LeaseId>),
}

impl From<Failed> for CommitError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::TooMuch => Self::Unavailable("it concerns too many names at once".to_owned()),
            Failed::Locked => Self::Unavailable("another session has had these leases locked for long".to_owned()),
            Failed::Unavailable(detail) => Self::Unavailable(detail),
            Failed::Unknown(detail, _) => Self::Unknown(detail),
        }
    }
}

/// How a try ended.
enum Tried {
    Done(Vec<Answered>),
    Failed(Failed),
    /// Nothing was written, and the next try may fare better: it was taken back for the sake of another, or the connection
    /// was a broken one. How it failed, if it was the last try.
    Again(Failed),
}

/// How long several requests wait together for what another session has locked: then each waits by itself, and the others
/// go on.
const WAIT_TOGETHER: Duration = Duration::from_millis(200);

/// Does what is asked, in this order; all answers, or none.
pub(super) async fn perform(shared: &Arc<Shared>, requests: &[&LeaseRequest]) -> Result<Vec<Answered>, Failed> {
    let wanted = Wanted::new(requests);
    let lock_wait = if requests.len() > 1 { WAIT_TOGETHER } else { shared.options.lock_wait };
    // One try may take as long as this; another is begun only within it.
    let until = Instant::now() + lock_wait + shared.options.verdict_wait;
    let mut failed = Failed::Unavailable(String::new());
    for _ in 0..TRIES {
        match once(shared, requests, &wanted, lock_wait).await {
            Tried::Done(answered) => return Ok(answered),
            Tried::Failed(failed) => return Err(failed),
            Tried::Again(again) => failed = again,
        }
        if Instant::now() >= until {
            break;
        }
    }
    Err(failed)
}

async fn once(shared: &Arc<Shared>, requests: &[&LeaseRequest], wanted: &Wanted<'_>, lock_wait: Duration) -> Tried {
    let mut connection = match shared.connections.get(Share::Others).await {
        Ok(connection) => connection,
        Err(detail) => return Tried::Failed(Failed::Unavailable(detail)),
    };
    // A wait for a lock that is left is ended.
    connection.waits_for_rows();
    let opened = timeout(lock_wait + shared.options.verdict_wait, open(&connection, shared, wanted, lock_wait));
    let row = match opened.await {
        Ok(Ok(row)) => row,
        Ok(Err(error)) => {
            connection.in_transaction();
            return failed_before(&error);
        }
        Err(_) => {
            connection.give_up_reading();
            return Tried::Failed(Failed::Unavailable(shared.no_verdict()));
        }
    };
    connection.in_transaction();
    let Some(loaded) = row.as_ref().map(Loaded::read) else {
        return Tried::Failed(Failed::Unavailable("the database gave no answer".to_owned()));
    };
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return Tried::Failed(Failed::Unavailable(failure::explain(&error))),
    };
    let (mut table, fences) = loaded.into_table();
    let answered: Vec<Answered> = requests
        .iter()
        .map(|request| {
            let Ok(answered) = law::apply(&mut table, request);
            answered
        })
        .collect();
    let changes = table.take_changes();
    if changes.is_empty() {
        // Taken back when the connection is dropped: there is nothing to wait for.
        return Tried::Done(answered);
    }
    let written = Written::new(table.now(), changes, &fences);
    match commit(shared, connection, &written).await {
        Ok(()) => Tried::Done(answered),
        Err(Tried::Failed(Failed::Unknown(detail, _))) => {
            let woken = answered.into_iter().flat_map(|answered| answered.woken).map(|woken| woken.lease).collect();
            Tried::Failed(Failed::Unknown(detail, woken))
        }
        Err(tried) => tried,
    }
}

/// Locks and reads, in one round trip.
async fn open(
    connection: &Connection,
    shared: &Shared,
    wanted: &Wanted<'_>,
    lock_wait: Duration,
) -> Result<Option<Row>, Error> {
    let ms = |bound: Duration| bound.as_millis().clamp(1, i32::MAX as u128);
    let begin = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL search_path = pg_catalog, pg_temp;
         SET LOCAL idle_in_transaction_session_timeout = {}; SET LOCAL statement_timeout = {}",
        ms(SILENCE_MAX),
        ms(lock_wait + shared.options.verdict_wait)
    );
    let lock_ms = Waits::up_to(lock_wait).bound_ms();
    let parameters = wanted.parameters(&lock_ms);
    let client = connection.client();
    // Both are sent before either is answered.
    let both = join(client.batch_execute(&begin), client.query_typed(&shared.calls.lease_open, &parameters));
    let (begun, rows) = both.await;
    begun?;
    Ok(rows?.into_iter().next())
}

/// Nothing was sent to be committed.
fn failed_before(error: &Error) -> Tried {
    let detail = failure::explain(error);
    match error.code().map(|code| code.code()) {
        Some(TOO_MUCH) => Tried::Failed(Failed::TooMuch),
        Some(CAME_BETWEEN) => Tried::Again(Failed::Locked),
        _ if failure::breaks(error) => Tried::Again(Failed::Unavailable(detail)),
        _ => match failure::fate(error) {
            Fate::Yielded(_) => Tried::Again(Failed::Locked),
            Fate::Locked => Tried::Failed(Failed::Locked),
            _ => Tried::Failed(Failed::Unavailable(detail)),
        },
    }
}

/// Writes and commits, in one round trip. COMMIT is where the fate becomes unknown.
async fn commit(shared: &Shared, mut connection: Connection, written: &Written) -> Result<(), Tried> {
    if connection.is_over() {
        let ended = "the session that had the leases locked has ended".to_owned();
        return Err(Tried::Again(Failed::Unavailable(ended)));
    }
    connection.committing();
    let (client, parameters) = (connection.client(), written.parameters());
    // Without an effect if the call has failed: COMMIT then takes everything back.
    let both = join(client.query_typed(&shared.calls.lease_write, &parameters), client.batch_execute("COMMIT"));
    let bound = shared.options.lock_wait + shared.options.verdict_wait;
    let Ok((call, ended)) = timeout(bound, both).await else {
        connection.give_up();
        return Err(Tried::Failed(Failed::Unknown(shared.no_verdict(), Vec::new())));
    };
    let fate = match (call, ended) {
        (Ok(_), Ok(())) => match connection.proven() {
            Ok(()) => {
                connection.done();
                return Ok(());
            }
            Err(fate) => fate,
        },
        (Ok(_), Err(error)) => failure::fate(&error),
        (Err(error), _) if error.code().is_some_and(|code| code.code() == CAME_BETWEEN) => {
            connection.done();
            return Err(Tried::Again(Failed::Locked));
        }
        (Err(error), _) => failure::fate_within(&error),
    };
    Err(match fate {
        Fate::Unknown(detail) => Tried::Failed(Failed::Unknown(detail, Vec::new())),
        Fate::Yielded(_) => Tried::Again(Failed::Locked),
        Fate::Locked => Tried::Failed(Failed::Locked),
        Fate::Rejected(detail) | Fate::TakenBack(detail) => Tried::Failed(Failed::Unavailable(detail)),
    })
}
