//! The tables and functions, as numbered migrations.
//!
//! Each runs in a transaction of its own with its number, under an advisory lock: of several nodes that start at once, one
//! runs it and the others find it done. They only add, so that nodes of the release before go on beside those of this one.
//! Those must not be kept waiting for long, so a migration does not wait for a table: all that came after it would wait with
//! it. It begins anew instead.

use std::fmt;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};

use super::failure;
use super::options::PostgresOptions;
use super::pool::Connection;
use crate::OpenError;

/// Migration n is entry n - 1. What is released is never edited: add another.
const MIGRATIONS: &[&str] = &[
    include_str!("schema_1.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    include_str!("schema_5.sql"),
    include_str!("schema_6.sql"),
    include_str!("schema_7.sql"),
    include_str!("schema_8.sql"),
    include_str!("schema_9.sql"),
    include_str!("schema_10.sql"),
];

/// The newest schema known here.
const KNOWN: i64 = MIGRATIONS.len() as i64;

/// How long one question about the schema may take.
const QUESTION_WAIT: Duration = Duration::from_secs(60);

/// How long a step may take that goes through whole tables, or waits for another node that is at it: an index over a
/// thousand million events takes most of it. Cut short it would begin anew at the next start, for ever.
const MIGRATION_WAIT: Duration = Duration::from_secs(60 * 60);

/// Whatever the role's defaults are: a migration takes its time, but not to wait, and must see what the one before it has
/// left.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL search_path = pg_catalog, pg_temp;
    SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 1000";

/// Between two tries to get the locks of a migration: several times as long as one may keep others waiting.
const LOCKED_PAUSE: Duration = Duration::from_secs(3);

/// "LkKp", and the schema's name: whoever migrates the same schema waits.
const LOCK: &str = "SELECT pg_catalog.pg_advisory_xact_lock(1282100080, pg_catalog.hashtext($1))";

/// What the role must be allowed to do, table by table.
const RIGHTS: &[(&str, &[&str])] = &[
    ("records", &["SELECT", "INSERT", "UPDATE"]),
    ("events", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("idempotency_keys", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("lives", &["SELECT", "INSERT", "UPDATE"]),
    ("fences", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("counters", &["SELECT", "INSERT", "UPDATE"]),
    ("alarms", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("lease_holders", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("lease_waiters", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("lease_ended", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
];

/// Brings the schema to the newest version, whatever other nodes do at the same time.
pub(super) async fn migrate(connection: &mut Connection, options: &PostgresOptions) -> Result<(), OpenError> {
    let no_database = |detail: String| OpenError::NoDatabase { url: options.describe(), detail };
    let unusable = |why: Failed| {
        let hint = if why.is_forbidden() { HINT } else { "" };
        no_database(format!("its schema cannot be brought up to date: {why}{hint}"))
    };
    let schema = quoted(&options.schema);
    // A schema that is up to date is not locked: nodes that start need not wait for each other, nor have the right.
    let mut found = within(QUESTION_WAIT, found(connection.client(), &schema)).await.map_err(unusable)?;
    if found < KNOWN {
        tracing::info!(from = found, to = KNOWN, "bringing the schema up to date");
        connection.in_transaction();
        let client = connection.client();
        found = within(MIGRATION_WAIT, run(client, &options.schema, &schema)).await.map_err(unusable)?;
    }
    if found > KNOWN {
        return Err(OpenError::TooNew { store: options.describe(), found, known: KNOWN });
    }
    let client = connection.client();
    if let Some(right) = within(QUESTION_WAIT, missing_right(client, &schema)).await.map_err(unusable)? {
        return Err(no_database(format!("the role may not {right}{HINT}")));
    }
    within(MIGRATION_WAIT, settle_feed(client, &schema)).await.map_err(unusable)
}

/// Why a step was not done.
enum Failed {
    Refused(Error),
    Late(Duration),
}

impl Failed {
    fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE))
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => f.write_str(&failure::explain(error)),
            Self::Late(bound) => write!(f, "the database gave no answer within {bound:?}"),
        }
    }
}

async fn within<T>(bound: Duration, step: impl Future<Output = Result<T, Error>>) -> Result<T, Failed> {
    timeout(bound, step).await.map_err(|_elapsed| Failed::Late(bound))?.map_err(Failed::Refused)
}

const HINT: &str = "; to create the store, the role needs CREATE on the database (or on a schema made for it), and to \
                    use it, USAGE on the schema and SELECT, INSERT, UPDATE and DELETE on its tables";

/// Runs what has not run; the number of the last that has.
async fn run(client: &Client, name: &str, schema: &str) -> Result<i64, Error> {
    loop {
        match run_next(client, name, schema).await {
            Ok(done) if done >= KNOWN => return Ok(done),
            Ok(_) => {}
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                client.batch_execute("ROLLBACK").await?;
                tracing::info!("the schema is in use, or another node brings it up to date: trying again");
                sleep(LOCKED_PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Runs the first that has not run, if any, in one transaction; the number of the last that has.
async fn run_next(client: &Client, name: &str, schema: &str) -> Result<i64, Error> {
    client.batch_execute(BEGIN).await?;
    client.query_typed(LOCK, &[(&name, Type::TEXT)]).await?;
    // Asked for only if it is not there: whoever may create tables in a schema may not create one.
    let exists = "SELECT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = $1)";
    if !first(client.query_typed(exists, &[(&name, Type::TEXT)]).await?)?.unwrap_or(false) {
        client.batch_execute(&format!("CREATE SCHEMA {schema}")).await?;
    }
    let mut done = found(client, schema).await?;
    if done == 0 {
        let table = format!(
            "CREATE TABLE IF NOT EXISTS {schema}.migrations (number bigint PRIMARY KEY, at timestamptz DEFAULT now())"
        );
        client.batch_execute(&table).await?;
    }
    if let Some(migration) = usize::try_from(done).ok().and_then(|next| MIGRATIONS.get(next)) {
        done += 1;
        client.batch_execute(&migration.replace("$schema", schema)).await?;
        client.batch_execute(&format!("INSERT INTO {schema}.migrations VALUES ({done})")).await?;
    }
    client.batch_execute("COMMIT").await?;
    Ok(done)
}

/// The number of the last migration that ran; 0: there is no schema.
async fn found(client: &Client, schema: &str) -> Result<i64, Error> {
    let table = format!("{schema}.migrations");
    let exists = "SELECT pg_catalog.to_regclass($1) IS NOT NULL";
    if !first(client.query_typed(exists, &[(&table, Type::TEXT)]).await?)?.unwrap_or(false) {
        return Ok(0);
    }
    let newest = format!("SELECT pg_catalog.max(number) FROM {table}");
    Ok(first(client.query_typed(&newest, &[]).await?)?.unwrap_or(0))
}

/// What the role lacks: better heard of now than at the first commit.
async fn missing_right(client: &Client, schema: &str) -> Result<Option<String>, Error> {
    let all = RIGHTS.iter().flat_map(|(table, rights)| rights.iter().map(move |right| (table, *right)));
    let (tables, rights): (Vec<String>, Vec<&str>) =
        all.map(|(table, right)| (format!("{schema}.{table}"), right)).unzip();
    let missing = "SELECT pg_catalog.concat(n.of, ' on ', n.name) FROM unnest($1, $2) n (name, of)
        WHERE NOT pg_catalog.has_table_privilege(n.name, n.of) LIMIT 1";
    first(client.query_typed(missing, &[(&tables, Type::TEXT_ARRAY), (&rights, Type::TEXT_ARRAY)]).await?)
}

/// After a dump was restored, events may have numbers of transactions that this cluster has not reached.
async fn settle_feed(client: &Client, schema: &str) -> Result<(), Error> {
    let settle = format!("SELECT {schema}.settle_feed()");
    let settled: i64 = first(client.query_typed(&settle, &[]).await?)?.unwrap_or(0);
    if settled > 0 {
        tracing::info!(events = settled, "the events come from another cluster: their place in the feed is settled");
    }
    // So may the mark of what was forgotten. As it was read: what a node forgets meanwhile has reached this cluster.
    let mark = format!(
        "WITH seen AS MATERIALIZED (
             SELECT c.value FROM {schema}.counters c
             WHERE c.name = 'feed_purged' AND c.value >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
         UPDATE {schema}.counters c SET value = coalesce(
                 (SELECT e.xid::text::bigint FROM {schema}.events e ORDER BY e.xid DESC LIMIT 1), 0)
             FROM seen WHERE c.name = 'feed_purged' AND c.value = seen.value"
    );
    client.batch_execute(&mark).await?;
    Ok(())
}

fn first<T: for<'a> tokio_postgres::types::FromSql<'a>>(rows: Vec<tokio_postgres::Row>) -> Result<Option<T>, Error> {
    rows.first().map_or(Ok(None), |row| row.try_get(0))
}

/// The schema's name as SQL writes it. It has been checked to be letters, digits and `_`.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::limits::{BODY_BYTES_MAX, EVENT_BYTES_MAX, FENCE_MAX, FENCE_TOUCHED_WITHIN, TEXT_BYTES_MAX};

    #[test]
    fn the_sizes_are_those_of_limits() {
        assert_eq!((TEXT_BYTES_MAX, BODY_BYTES_MAX, EVENT_BYTES_MAX), (512, 1_048_576, 1_114_112));
        assert_eq!(FENCE_MAX, 9_007_199_254_740_991);
        assert_eq!(FENCE_TOUCHED_WITHIN, Duration::from_millis(86_400_000));
    }
}
