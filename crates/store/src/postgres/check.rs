//! What a server must be before anything is entrusted to it, and what is peculiar about its sessions.

use tokio_postgres::{Client, Error, Row};

use super::failure;

/// The oldest server that is known to do what is asked of it.
const SERVER_VERSION_MIN: i64 = 140_000;

/// Asked once a connection, before anything is known of the names that this session looks up first: so every name says
/// where it is. The settings are for a server that is left by a machine that vanishes: its processes end soon, not
/// after the two hours that are the default.
const FACTS: &str = "SELECT pg_catalog.current_setting('server_version_num')::bigint, pg_catalog.pg_is_in_recovery(),
    pg_catalog.current_setting('fsync')::boolean, pg_catalog.current_setting('transaction_read_only')::boolean,
    (SELECT pg_catalog.pg_encoding_to_char(d.encoding) FROM pg_catalog.pg_database d
        WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()),
    (SELECT c.system_identifier FROM pg_catalog.pg_control_system() c),
    pg_catalog.current_setting('default_transaction_isolation'), pg_catalog.current_schemas(true),
    pg_catalog.set_config('tcp_keepalives_idle', '10', false),
    pg_catalog.set_config('tcp_keepalives_interval', '5', false),
    pg_catalog.set_config('tcp_keepalives_count', '3', false)";

/// What a server says of itself and of a new session.
#[derive(Clone, Debug)]
struct Facts {
    version: i64,
    in_recovery: bool,
    fsync: bool,
    read_only: bool,
    encoding: String,
    system: i64,
    isolation: String,
    searched: Vec<String>,
}

/// What is to be remembered of a session that will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    /// The cluster: set once, when it is made.
    pub(super) system: i64,
    /// Whether each call must say its transaction's settings: the role's or the database's are others.
    pub(super) particular: bool,
}

/// Refuses a server that would not keep what it acknowledges.
pub(super) async fn session(client: &Client) -> Result<Passed, String> {
    let rows = client.query_typed(FACTS, &[]).await.map_err(|error| failure::explain(&error))?;
    let row = rows.first().ok_or("the server does not know its own database")?;
    judge(&read(row).map_err(|error| failure::explain(&error))?)
}

fn read(row: &Row) -> Result<Facts, Error> {
    Ok(Facts {
        version: row.try_get(0)?,
        in_recovery: row.try_get(1)?,
        fsync: row.try_get(2)?,
        read_only: row.try_get(3)?,
        encoding: row.try_get(4)?,
        system: row.try_get(5)?,
        isolation: row.try_get(6)?,
        searched: row.try_get(7)?,
    })
}

fn judge(facts: &Facts) -> Result<Passed, String> {
    if facts.version < SERVER_VERSION_MIN {
        return Err(format!("the server is PostgreSQL {}; 14 or newer is needed", facts.version / 10_000));
    }
    if facts.in_recovery {
        return Err("the server is in recovery (a standby): name the primary, or all hosts, separated by commas".into());
    }
    if !facts.fsync {
        return Err("the server runs with fsync=off and would lose what it acknowledges: turn it on".into());
    }
    if facts.read_only {
        // Set to keep writers away from a server that was replaced, or is about to be: not to be overruled.
        return Err("the database takes no changes: default_transaction_read_only is on".into());
    }
    if facts.encoding != "UTF8" {
        return Err(format!("the database's encoding is {}: create one with ENCODING 'UTF8'", facts.encoding));
    }
    // With names of other schemas before PostgreSQL's own, `=` may be somebody else's.
    let first = facts.searched.iter().find(|schema| !schema.starts_with("pg_temp"));
    let particular = facts.isolation != "read committed" || first.is_none_or(|schema| schema != "pg_catalog");
    Ok(Passed { system: facts.system, particular })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Facts {
        Facts {
            version: 140_000,
            in_recovery: false,
            fsync: true,
            read_only: false,
            encoding: "UTF8".to_owned(),
            system: 7,
            isolation: "read committed".to_owned(),
            searched: vec!["pg_catalog".to_owned(), "public".to_owned()],
        }
    }

    #[test]
    fn a_good_server_passes() {
        assert_eq!(judge(&good()), Ok(Passed { system: 7, particular: false }));
    }

    #[test]
    fn others_are_told_why() {
        let others = [
            (Facts { version: 130_014, ..good() }, "PostgreSQL 13; 14 or newer"),
            (Facts { in_recovery: true, read_only: true, ..good() }, "standby"),
            (Facts { fsync: false, ..good() }, "fsync=off"),
            (Facts { read_only: true, ..good() }, "default_transaction_read_only"),
            (Facts { encoding: "SQL_ASCII".to_owned(), ..good() }, "SQL_ASCII"),
        ];
        for (facts, part) in others {
            let why = judge(&facts).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn what_is_peculiar_is_noticed() {
        let schemas = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        let particular = |facts| judge(&facts).unwrap().particular;
        assert!(particular(Facts { isolation: "serializable".to_owned(), ..good() }));
        assert!(particular(Facts { searched: schemas(["theirs", "pg_catalog"]), ..good() }));
        assert!(!particular(Facts { searched: schemas(["pg_temp_3", "pg_catalog"]), ..good() }));
    }
}
