//! One server for many tests.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::port::random;
use crate::postgres::{self, Postgres};

/// Names a server that is there already: the URL of a superuser. `with-servers` sets it.
pub const SHARED_SERVER: &str = "LOCKKEEPER_TEST_POSTGRES";

/// An empty database, dropped with this value, whoever is still connected to it.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    server: String,
}

/// An empty database on a server that many tests share.
///
/// That server is the one `LOCKKEEPER_TEST_POSTGRES` names (the URL of a superuser); else one that is started once for
/// this process. It lives in a static, which nothing drops: its guard sees the process end, and ends it then.
///
/// # Panics
/// There is no such server, or it cannot be started.
#[must_use]
pub fn shared_database() -> TestDatabase {
    static OWN: OnceLock<Postgres> = OnceLock::new();
    let server = std::env::var(SHARED_SERVER).unwrap_or_else(|_| OWN.get_or_init(Postgres::start).url());
    let database = TestDatabase { name: unique(), server };
    // In the way of nobody who is connected to the other template.
    database
        .at_server(&format!("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'", database.name))
        .unwrap_or_else(|error| panic!("no database on the shared server ({SHARED_SERVER} names it if set): {error}"));
    database
}

impl TestDatabase {
    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        with_database(&self.server, &self.name)
    }

    /// Its name on the server.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Executes statements in it, as [`Postgres::execute`] does.
    ///
    /// # Panics
    /// A statement failed; the message is the server's.
    pub fn execute(&self, sql: &str) -> String {
        postgres::execute(&self.url(), sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    fn at_server(&self, sql: &str) -> Result<String, String> {
        postgres::execute(&self.server, sql)
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if let Err(error) = self.at_server(&format!("DROP DATABASE {} WITH (FORCE)", self.name)) {
            eprintln!("the database {} is left behind: {error}", self.name);
        }
    }
}

fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("test_{}_{number}_{:04x}", std::process::id(), random())
}

/// `url` with another database: its path, between the authority and the parameters.
fn with_database(url: &str, name: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or_else(|| panic!("not a URL of PostgreSQL: {url}"));
    let (address, parameters) = rest.split_once('?').map_or((rest, None), |(address, rest)| (address, Some(rest)));
    let authority = address.split('/').next().unwrap_or_default();
    let parameters = parameters.map(|text| format!("?{text}")).unwrap_or_default();
    format!("{scheme}://{authority}/{name}{parameters}")
}
