//! Where the database is, and how much this node may ask of it.

use std::collections::HashSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};

use super::failure;
use super::socket::Address;
use crate::OpenError;

/// Settings of a [`super::PostgresStore`].
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    pub(super) config: Config,
    pub(super) verify: Verify,
    /// Certificate authorities (PEM) to trust instead of the operating system's.
    pub(super) root_certificates: Option<PathBuf>,
    /// The schema that holds the tables; it is made if it is not there. Two stores in one database have two schemas.
    pub schema: String,
    /// Connections that this node may have open.
    pub connections: usize,
    /// How long a request waits for a connection before it is `unavailable`.
    pub connection_wait: Duration,
    /// How long a commit may take before its fate is `unknown`.
    pub verdict_wait: Duration,
    /// How long a commit waits for a row that another session has locked.
    pub lock_wait: Duration,
    /// How long whoever holds a row may be silent before the server takes it back.
    pub row_lock_silence: Duration,
    /// Batches of change sets that may be under way at once; each takes a connection while it is.
    pub lanes: usize,
}

/// How far a server must prove who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verify {
    /// Not at all: encryption only (`sslmode=prefer`, `require`).
    Nothing,
    /// A certificate of a trusted authority, for whatever name (`sslmode=verify-ca`).
    Authority,
    /// And for the name that was connected to (`sslmode=verify-full`).
    Name,
}

/// The schema, unless the URL names another.
const SCHEMA: &str = "lockkeeper";

/// Enough for the lanes, reads, and sixteen row locks at once; a server has a hundred for all its clients by default.
const CONNECTIONS: usize = 32;

/// A pool that stays full for so long belongs to a database that does not answer.
const CONNECTION_WAIT: Duration = Duration::from_secs(5);

/// Well below the deadline of a command (30 s), so that there is time to learn what became of the commit.
const VERDICT_WAIT: Duration = Duration::from_secs(10);

/// As long as a row lock is waited for by default.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// A decision takes milliseconds: a holder that is silent for so long is gone, or stopped.
const ROW_LOCK_SILENCE: Duration = Duration::from_secs(10);

/// Two keep one core of the database busy while the other syncs; more make the batches smaller.
const LANES: usize = 2;

/// A peer that has vanished is noticed after this, with data under way or without.
const SILENCE_MAX: Duration = Duration::from_secs(15);

type Set = fn(&mut Config);

/// What makes it so, unless the URL says otherwise.
const KEEPALIVES: [(&str, Set); 4] = [
    ("keepalives_idle", |config| drop_it(config.keepalives_idle(SILENCE_MAX / 3))),
    ("keepalives_interval", |config| drop_it(config.keepalives_interval(SILENCE_MAX / 3))),
    ("keepalives_retries", |config| drop_it(config.keepalives_retries(2))),
    ("tcp_user_timeout", |config| drop_it(config.tcp_user_timeout(SILENCE_MAX))),
];

fn drop_it(_: &mut Config) {}

impl PostgresOptions {
    /// Reads a `postgres://` URL. Beyond libpq's parameters it takes `schema` and `connections`, and `sslmode` with
    /// `verify-ca` and `verify-full` (and `sslrootcert`).
    ///
    /// # Errors
    /// What is wrong with the URL, without its password.
    pub fn from_url(url: &str) -> Result<Self, OpenError> {
        check_credentials(url)?;
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut own = Own { verify: Verify::Nothing, root: None, schema: SCHEMA.to_owned(), connections: CONNECTIONS };
        let mut rest = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match own.take(name, value)? {
                Taken::Yes => {}
                Taken::No => rest.push(parameter.to_owned()),
                Taken::As(parameter) => rest.push(parameter.to_owned()),
            }
        }
        let names: HashSet<&str> = query.split('&').filter_map(|parameter| parameter.split('=').next()).collect();
        let rest = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        let mut config = Config::from_str(&rest).map_err(|error| bad_url(&failure::explain(&error)))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(bad_url("it names no host"));
        }
        if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            return Err(bad_url("target_session_attrs=read-only: a store is written to"));
        }
        if own.root.is_some() && own.verify == Verify::Nothing && config.get_ssl_mode() == SslMode::Require {
            // As libpq does: whoever names authorities wants them asked.
            own.verify = Verify::Authority;
        }
        if config.get_application_name().is_none() {
            config.application_name("lockkeeper");
        }
        for (name, set) in KEEPALIVES {
            if !names.contains(name) {
                set(&mut config);
            }
        }
        Ok(Self {
            config,
            verify: own.verify,
            root_certificates: own.root,
            schema: own.schema,
            connections: own.connections,
            connection_wait: CONNECTION_WAIT,
            verdict_wait: VERDICT_WAIT,
            lock_wait: LOCK_WAIT,
            row_lock_silence: ROW_LOCK_SILENCE,
            lanes: LANES,
        })
    }

    /// `postgres://host:port/database`, for people: no user, no password.
    pub(super) fn describe(&self) -> String {
        let hosts: Vec<String> = Address::all(&self.config).iter().map(Address::describe).collect();
        let schema = if self.schema == SCHEMA { String::new() } else { format!("?schema={}", self.schema) };
        format!("postgres://{}/{}{schema}", hosts.join(","), self.config.get_dbname().unwrap_or_default())
    }
}

/// The parameters that are ours.
struct Own {
    verify: Verify,
    root: Option<PathBuf>,
    schema: String,
    connections: usize,
}

/// Whether a parameter was ours; or what is left of it for the driver.
enum Taken {
    Yes,
    No,
    As(&'static str),
}

impl Own {
    fn take(&mut self, name: &str, value: &str) -> Result<Taken, OpenError> {
        match (name, value) {
            ("sslmode", "verify-ca") => self.verify = Verify::Authority,
            ("sslmode", "verify-full") => self.verify = Verify::Name,
            ("sslrootcert", "system") => return Ok(Taken::Yes),
            ("sslrootcert", path) => {
                self.root = Some(PathBuf::from(decoded(path)?));
                return Ok(Taken::Yes);
            }
            ("schema", name) => {
                self.schema = schema_name(name)?;
                return Ok(Taken::Yes);
            }
            ("connections", number) => {
                self.connections = connections(number)?;
                return Ok(Taken::Yes);
            }
            _ => return Ok(Taken::No),
        }
        Ok(Taken::As("sslmode=require"))
    }
}

/// Refuses a password whose characters would be read as the URL's own: what comes after them would be told to a server,
/// or in a message.
fn check_credentials(url: &str) -> Result<(), OpenError> {
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    let (before, after) = address.split_once('?').unwrap_or((address, ""));
    let names_a_host = before.rsplit_once('@').is_some_and(|(_, host)| !host.is_empty());
    if before.matches('@').count() > 1 || (!names_a_host && after.contains('@')) {
        return Err(bad_url("in the user's name and the password, `@` is written %40, `?` %3F, `%` %25"));
    }
    Ok(())
}

/// A value with its `%` codes read.
fn decoded(value: &str) -> Result<String, OpenError> {
    let bad = || bad_url(&format!("{value:?} has a `%` that is not followed by two hexadecimal digits"));
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let code = digit().zip(digit()).and_then(|(high, low)| u8::try_from(high << 4 | low).ok());
        bytes.push(code.ok_or_else(bad)?);
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

fn schema_name(name: &str) -> Result<String, OpenError> {
    /// PostgreSQL's limit for a name (NAMEDATALEN).
    const BYTES_MAX: usize = 63;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || name.len() > BYTES_MAX || !name.chars().all(plain) || name.starts_with("pg_") {
        return Err(bad_url(&format!("schema {name:?}: write small letters, digits and `_`, at most {BYTES_MAX}")));
    }
    Ok(name.to_owned())
}

fn connections(number: &str) -> Result<usize, OpenError> {
    /// Below it the lanes and row locks have not one each; above it nobody's server goes.
    const RANGE: std::ops::RangeInclusive<usize> = 4..=1_000;
    let found = number.parse().ok().filter(|number| RANGE.contains(number));
    found.ok_or_else(|| {
        bad_url(&format!("connections={number}: write a number from {} to {}", RANGE.start(), RANGE.end()))
    })
}

fn bad_url(detail: &str) -> OpenError {
    OpenError::BadUrl {
        detail: detail.to_owned(),
        example: "postgres://user:password@host:5432/database?sslmode=verify-full",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_parameters_are_taken_out_and_the_others_left() {
        let url = "postgres://me:secret@a:1,b:2/db?sslmode=verify-full&sslrootcert=/ca.pem&schema=s_1&connections=8&target_session_attrs=read-write";
        let options = PostgresOptions::from_url(url).unwrap();
        assert_eq!((options.schema.as_str(), options.connections), ("s_1", 8));
        assert_eq!((options.verify, options.config.get_ssl_mode()), (Verify::Name, SslMode::Require));
        assert_eq!(options.root_certificates, Some(PathBuf::from("/ca.pem")));
        assert_eq!(options.describe(), "postgres://a:1,b:2/db?schema=s_1");
    }

    #[test]
    fn whoever_names_authorities_wants_them_asked() {
        let verify = |query: &str| PostgresOptions::from_url(&format!("postgres://a/db?{query}")).unwrap().verify;
        assert_eq!(verify("sslmode=require&sslrootcert=/my%20ca.pem"), Verify::Authority);
        assert_eq!(verify("sslrootcert=/my%20ca.pem&sslmode=verify-full"), Verify::Name);
        assert_eq!(verify("sslmode=require"), Verify::Nothing);
        let options = PostgresOptions::from_url("postgres://a/db?sslmode=require&sslrootcert=/my%20ca.pem").unwrap();
        assert_eq!(options.root_certificates, Some(PathBuf::from("/my ca.pem")));
    }

    #[test]
    fn silence_is_bounded_unless_the_url_says_otherwise() {
        let idle = |query: &str| PostgresOptions::from_url(&format!("postgres://a/db?{query}")).unwrap().config;
        assert_eq!(idle("").get_keepalives_idle(), SILENCE_MAX / 3);
        assert_eq!(idle("keepalives_idle=77").get_keepalives_idle(), Duration::from_secs(77));
        assert_eq!(idle("keepalives_idle=77").get_tcp_user_timeout(), Some(&SILENCE_MAX));
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for bad in [
            "a/db?schema=A",
            "a/db?schema=",
            "a/db?schema=pg_x",
            "a/db?schema=a\"b",
            "a/db?connections=3",
            "a/db?connections=x",
            "a/db?nonsense=1",
            "a/db?sslmode=nonsense",
            "a/db?sslrootcert=%zz",
            "a/db?target_session_attrs=read-only",
            "a:port/db",
            // Its second half would be a host.
            "secret@a/db",
            "?secret=secret@a/db",
        ] {
            let error = PostgresOptions::from_url(&format!("postgres://me:secret@{bad}")).unwrap_err().to_string();
            assert!(!error.contains("secret") && error.contains("postgres://user:password@host"), "{bad}: {error}");
        }
        let error = PostgresOptions::from_url("postgres://me:sec?ret=x@a/db").unwrap_err().to_string();
        assert!(error.contains("%3F") && !error.contains("ret=x"), "{error}");
        assert!(PostgresOptions::from_url("postgres:///db").is_err());
        let escaped = PostgresOptions::from_url("postgres://me:s%40%3F@a/db?application_name=x@y").unwrap();
        assert_eq!(escaped.config.get_password(), Some(&b"s@?"[..]));
    }
}
