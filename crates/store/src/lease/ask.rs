//! What is asked for: names, and how each is to be shared.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::LeaseId;
use crate::limits::{CLAIMS_MAX, HOLDERS_MAX, TEXT_BYTES_MAX, TTL_MAX, TTL_MIN};

/// How a name is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Alone.
    Exclusive,
    /// Together with others that share it.
    Shared,
    /// By so many at once, this one included; from 1 (which is alone).
    Permits(u32),
}

impl Mode {
    /// How many may hold the name as far as this holder is concerned; the strictest of them decides.
    pub fn capacity(self) -> u32 {
        match self {
            Self::Exclusive => 1,
            Self::Shared => HOLDERS_MAX,
            Self::Permits(permits) => permits,
        }
    }

    /// The mode with this capacity.
    pub fn of_capacity(capacity: u32) -> Self {
        match capacity {
            0 | 1 => Self::Exclusive,
            HOLDERS_MAX.. => Self::Shared,
            permits => Self::Permits(permits),
        }
    }
}

/// One name of an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The name of what is locked.
    pub resource: Arc<str>,
    /// How it is to be held.
    pub mode: Mode,
}

/// A try to get a lease on one or more names, all or none. Checked: its names are sorted by bytes, each there once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    lease: LeaseId,
    owner: Arc<str>,
    host: Arc<str>,
    claims: Arc<[Claim]>,
    ttl: Duration,
}

/// Why an ask cannot be; the text says what would do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct BadAsk(pub String);

impl Ask {
    /// Checks an ask. A name that is given twice is asked for once, in the stricter of the two modes. `owner` names one
    /// flow of work (a thread, a job), for only then does a circle of owners that wait for each other mean a deadlock.
    ///
    /// # Errors
    /// [`BadAsk`]: a name, the number of names, the owner or the time to live is out of bounds.
    pub fn new(
        lease: LeaseId,
        owner: &str,
        host: &str,
        claims: impl IntoIterator<Item = Claim>,
        ttl: Duration,
    ) -> Result<Self, BadAsk> {
        check_text("the owner", owner)?;
        check_text("the host", host)?;
        check_ttl(ttl)?;
        // Stores count in whole milliseconds, and give none less than is believed here.
        let ttl = Duration::from_millis(u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX));
        let mut modes: BTreeMap<Arc<str>, Mode> = BTreeMap::new();
        for Claim { resource, mode } in claims {
            check_resource(&resource)?;
            check_mode(mode)?;
            let stricter = match modes.get(&resource) {
                Some(other) if other.capacity() < mode.capacity() => *other,
                _ => mode,
            };
            modes.insert(resource, Mode::of_capacity(stricter.capacity()));
            if modes.len() > CLAIMS_MAX {
                return Err(BadAsk(format!("at most {CLAIMS_MAX} resources can be asked for at once")));
            }
        }
        if modes.is_empty() {
            return Err(BadAsk("no resource is named: name at least one".to_owned()));
        }
        let claims = modes.into_iter().map(|(resource, mode)| Claim { resource, mode }).collect();
        Ok(Self { lease, owner: owner.into(), host: host.into(), claims, ttl })
    }

    /// The lease that it is to be.
    pub fn lease(&self) -> LeaseId {
        self.lease
    }

    /// Who asks.
    pub fn owner(&self) -> &Arc<str> {
        &self.owner
    }

    /// Where whoever asks is, for people.
    pub fn host(&self) -> &Arc<str> {
        &self.host
    }

    /// What is asked for: sorted by the names' bytes, each once.
    pub fn claims(&self) -> &Arc<[Claim]> {
        &self.claims
    }

    /// How long the lease lives from its grant and from each renewal.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }
}

/// Whether `resource` can be locked.
///
/// # Errors
/// [`BadAsk`].
pub(crate) fn check_resource(resource: &str) -> Result<(), BadAsk> {
    if matches!(resource, "." | "..") {
        return Err(BadAsk(format!("the resource cannot be called {resource:?}: a path would lose it")));
    }
    check_text("the resource", resource)
}

fn check_text(what: &str, text: &str) -> Result<(), BadAsk> {
    if text.is_empty() {
        return Err(BadAsk(format!("{what} is empty: name it")));
    }
    if text.len() > TEXT_BYTES_MAX {
        let bytes = text.len();
        return Err(BadAsk(format!("{what} has {bytes} bytes; at most {TEXT_BYTES_MAX} are allowed")));
    }
    if text.chars().any(char::is_control) {
        return Err(BadAsk(format!("{what} has control characters; they are not allowed")));
    }
    Ok(())
}

fn check_mode(mode: Mode) -> Result<(), BadAsk> {
    match mode {
        Mode::Permits(0) => Err(BadAsk("a resource with 0 permits cannot be held: ask for at least 1".to_owned())),
        Mode::Permits(permits) if permits >= HOLDERS_MAX => {
            Err(BadAsk(format!("a resource can have fewer than {HOLDERS_MAX} permits, not {permits}")))
        }
        _ => Ok(()),
    }
}

fn check_ttl(ttl: Duration) -> Result<(), BadAsk> {
    if ttl < TTL_MIN {
        return Err(BadAsk(format!("a time to live of {ttl:?} is too short; at least {TTL_MIN:?} is allowed")));
    }
    if ttl > TTL_MAX {
        return Err(BadAsk(format!("a time to live of {ttl:?} is too long; at most {TTL_MAX:?} is allowed")));
    }
    Ok(())
}
