//! Where a benchmark works, and what it leaves there.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::failure::Failure;
use crate::store_url::StoreUrl;

/// The schema of a benchmark on PostgreSQL, unless the URL names another: it is dropped afterwards.
const SCHEMA: &str = "lockkeeper_bench";

/// The store that is measured.
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) kind: Kind,
    /// Removed, with all that is in it, when the benchmark ends.
    _temporary: Option<TempDir>,
}

/// What the peers need to know of it.
pub(crate) enum Kind {
    /// A folder on the disk that the store's file is on.
    Disk(PathBuf),
    /// A database, by a URL that any client of PostgreSQL understands, and a schema in it.
    Database {
        /// The URL, without what only this program understands.
        plain: String,
        schema: String,
        /// Whether the schema is the benchmark's own.
        own: bool,
    },
}

impl Place {
    /// Where to work: at `store`; or in a new folder beside the work, not in /tmp: that is often memory, where a sync
    /// costs nothing.
    pub(crate) fn find(store: Option<&str>) -> Result<Self, Failure> {
        let Some(url) = store else {
            let temporary = tempfile::Builder::new().prefix(".lockkeeper-bench-").tempdir_in(".");
            let temporary =
                temporary.map_err(|error| Failure::failed(format!("cannot make a folder here: {error}")))?;
            let url = format!("sqlite://{}", temporary.path().join("bench.db").display());
            let kind = Kind::Disk(temporary.path().to_owned());
            return Ok(Self { url, kind, _temporary: Some(temporary) });
        };
        match StoreUrl::parse(url)? {
            StoreUrl::Sqlite(path) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let kind = Kind::Disk(folder.unwrap_or(Path::new(".")).to_owned());
                Ok(Self { url: url.to_owned(), kind, _temporary: None })
            }
            StoreUrl::Postgres(options) => {
                let query = url.split_once('?').map_or("", |(_, query)| query);
                let own = !query.split('&').any(|parameter| parameter.starts_with("schema="));
                let schema = if own { SCHEMA.to_owned() } else { options.schema.clone() };
                let joint = if url.contains('?') { '&' } else { '?' };
                let with_schema = if own { format!("{url}{joint}schema={SCHEMA}") } else { url.to_owned() };
                let kind = Kind::Database { plain: plain(url), schema, own };
                Ok(Self { url: with_schema, kind, _temporary: None })
            }
        }
    }

    /// Takes away what is left of a benchmark: before one and after it.
    pub(crate) async fn clean(&self) -> Result<(), Failure> {
        let Kind::Database { plain, schema, own } = &self.kind else { return Ok(()) };
        let failed = |error: tokio_postgres::Error| Failure::failed(format!("cannot clean up: {error}"));
        let (client, connection) = tokio_postgres::connect(plain, tokio_postgres::NoTls).await.map_err(failed)?;
        let connection = tokio::spawn(connection);
        let what = match own {
            true => format!("DROP SCHEMA IF EXISTS \"{schema}\" CASCADE"),
            false => format!("DROP TABLE IF EXISTS \"{schema}\".bench_peer"),
        };
        client.batch_execute(&what).await.map_err(failed)?;
        drop(client);
        // It ends with its client.
        let _ended = connection.await;
        Ok(())
    }
}

/// The URL without this program's own parameters. Peers talk without TLS: they are measured beside the server.
fn plain(url: &str) -> String {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let own = ["schema=", "connections=", "sslmode=", "sslrootcert="];
    let rest: Vec<&str> =
        query.split('&').filter(|part| !part.is_empty() && !own.iter().any(|own| part.starts_with(own))).collect();
    if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) }
}
