//! The tables and functions, as numbered migrations.
//!
//! Each runs in one transaction with its number, under an advisory lock: of several nodes that start at once, one runs
//! it and the others find it done. They only add, so that nodes of the release before go on beside those of this one.

use tokio_postgres::Client;

use super::failure;
use super::options::PostgresOptions;
use crate::OpenError;

/// Migration n is entry n - 1. What is released is never edited: add another.
const MIGRATIONS: &[&str] = &[include_str!("schema_1.sql"), include_str!("schema_2.sql")];

/// The newest schema known here.
const KNOWN: i64 = MIGRATIONS.len() as i64;

/// "LkKp", and the schema's name: whoever migrates the same schema waits.
const LOCK: &str = "SELECT pg_advisory_xact_lock(1282100080, hashtext($1))";

/// Brings the schema to the newest version, whatever other nodes do at the same time.
pub(super) async fn migrate(client: &Client, options: &PostgresOptions) -> Result<(), OpenError> {
    let unusable = |error: tokio_postgres::Error| OpenError::NoDatabase {
        url: options.describe(),
        detail: format!("its schema cannot be brought up to date: {}", failure::explain(&error)),
    };
    let schema = quoted(&options.schema);
    // A schema that is up to date is not locked: nodes that start need not wait for each other.
    let found = found(client, &options.schema).await.map_err(unusable)?;
    if found < KNOWN {
        client.batch_execute("BEGIN").await.map_err(unusable)?;
        run(client, &options.schema, &schema).await.map_err(unusable)?;
        client.batch_execute("COMMIT").await.map_err(unusable)?;
    }
    if found > KNOWN {
        return Err(OpenError::TooNew { path: options.describe().into(), found, known: KNOWN });
    }
    Ok(())
}

async fn run(client: &Client, name: &str, schema: &str) -> Result<(), tokio_postgres::Error> {
    use tokio_postgres::types::Type;
    client.query_typed(LOCK, &[(&name, Type::TEXT)]).await?;
    let start = format!(
        "CREATE SCHEMA IF NOT EXISTS {schema};
         CREATE TABLE IF NOT EXISTS {schema}.migrations (number bigint PRIMARY KEY, at timestamptz DEFAULT now());"
    );
    client.batch_execute(&start).await?;
    let done = usize::try_from(found(client, name).await?).unwrap_or(0);
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(done) {
        client.batch_execute(&migration.replace("$schema", schema)).await?;
        client.batch_execute(&format!("INSERT INTO {schema}.migrations VALUES ({})", index + 1)).await?;
    }
    Ok(())
}

/// The number of the last migration that ran; 0: there is no schema.
async fn found(client: &Client, name: &str) -> Result<i64, tokio_postgres::Error> {
    use tokio_postgres::types::Type;
    let table = format!("{}.migrations", quoted(name));
    let exists = client.query_typed("SELECT to_regclass($1) IS NOT NULL", &[(&table, Type::TEXT)]).await?;
    if !exists.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(false) {
        return Ok(0);
    }
    let rows = client.query_typed(&format!("SELECT coalesce(max(number), 0) FROM {table}"), &[]).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(0))
}

/// The schema's name as SQL writes it. It has been checked to be letters, digits and `_`.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

#[cfg(test)]
mod tests {
    use crate::limits::{BODY_BYTES_MAX, EVENT_BYTES_MAX, TEXT_BYTES_MAX};

    #[test]
    fn the_sizes_are_those_of_limits() {
        assert_eq!((TEXT_BYTES_MAX, BODY_BYTES_MAX, EVENT_BYTES_MAX), (512, 1_048_576, 1_114_112));
    }
}
