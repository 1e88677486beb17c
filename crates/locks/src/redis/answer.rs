//! Reading what the scripts answer: lists of texts, the first of which says what it is.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_store::Timestamp;
use lockkeeper_store::lease::{
    Asked, Ended, Forced, GrantedAhead, HeldBy, Holder, LeasePage, Mode, Renewed, ResourceView, Woken,
};
use redis::Value;

/// An answer that cannot be read.
#[derive(Debug)]
pub(super) struct Strange;

/// What an ask came to.
#[derive(Debug)]
pub(super) enum Answer {
    Asked(Asked),
    /// No new leases before so long has passed: the server may have forgotten some.
    Closed(Duration),
}

pub(super) fn asked(value: Value) -> Result<Answer, Strange> {
    let mut words = Words::of(value)?;
    Ok(Answer::Asked(match &*words.text()? {
        "granted" => Asked::Granted { fences: words.rest(Words::int)? },
        "waiting" => {
            let held_by = held_by(words.list()?)?;
            let look_again = words.int()?;
            let look_again = u64::try_from(look_again).ok().map(Duration::from_millis);
            Asked::Waiting { held_by, look_again, ticket: words.int()? }
        }
        "held" => Asked::Held(held_by(words.list()?)?),
        "full" => Asked::Full { resource: words.text()?, waiters: words.number()? },
        "over" => Asked::Over,
        "mismatch" => Asked::Mismatch,
        "closed" => return Ok(Answer::Closed(Duration::from_millis(words.number()?))),
        _ => return Err(Strange),
    }))
}

/// What is said on the channel of a node: who is to ask again, or has been granted what it waited for.
pub(super) fn woken(text: &[u8]) -> Result<Woken, Strange> {
    let mut words = std::str::from_utf8(text).map_err(|_| Strange)?.split_ascii_whitespace();
    let lease = words.next().ok_or(Strange)?.parse().map_err(|_| Strange)?;
    let numbers: Result<Vec<i64>, _> = words.map(str::parse).collect();
    let granted = match &*numbers.map_err(|_| Strange)? {
        [] => None,
        [_] => return Err(Strange),
        [ticket, fences @ ..] => Some(GrantedAhead { ticket: *ticket, fences: fences.to_vec() }),
    };
    Ok(Woken { lease, granted })
}

pub(super) fn renewed(value: Value) -> Result<Renewed, Strange> {
    let mut words = Words::of(value)?;
    match &*words.text()? {
        "renewed" => Ok(Renewed::Renewed { ttl: Duration::from_micros(words.number()?) }),
        "lost" => Ok(Renewed::Lost { since: words.time_if_any()? }),
        _ => Err(Strange),
    }
}

pub(super) fn ended(value: Value) -> Result<Ended, Strange> {
    let mut words = Words::of(value)?;
    match &*words.text()? {
        "released" => Ok(Ended::Released),
        "lost" | "none" => Ok(Ended::AlreadyLost { since: words.time_if_any()? }),
        "left" => Ok(Ended::Left),
        _ => Err(Strange),
    }
}

pub(super) fn forced(value: Value) -> Result<Forced, Strange> {
    let mut words = Words::of(value)?;
    if &*words.text()? != "forced" {
        return Err(Strange);
    }
    Ok(Forced { holders: holders(words)? })
}

pub(super) fn page(value: Value) -> Result<LeasePage, Strange> {
    let mut words = Words::of(value)?;
    let (now, next) = (words.time()?, words.text()?);
    let resources = words.rest(|words| view(words.list()?))?;
    Ok(LeasePage { resources, next: Some(next.to_string()).filter(|next| !next.is_empty()), now })
}

/// What a server is met as.
#[derive(Debug)]
pub(super) struct Meeting {
    /// Drawn for each life of the server.
    pub(super) token: Arc<str>,
    /// For so long nobody gets a lease.
    pub(super) closed: Duration,
    /// The longest time to live, of all nodes.
    pub(super) max_ttl: Duration,
    /// The last one given; those to come are above it.
    pub(super) fence: i64,
}

pub(super) fn met(value: Value) -> Result<Meeting, Strange> {
    let mut words = Words::of(value)?;
    Ok(Meeting {
        token: words.text()?,
        closed: Duration::from_millis(words.number()?),
        max_ttl: Duration::from_millis(words.number()?),
        fence: words.int()?,
    })
}

fn view(mut words: Words) -> Result<ResourceView, Strange> {
    let (resource, waiters) = (words.text()?, words.number()?);
    Ok(ResourceView { resource, holders: holders(words.list()?)?, waiters })
}

fn holders(mut words: Words) -> Result<Vec<Holder>, Strange> {
    let mut holders = words.rest(|words| holder(words.list()?))?;
    holders.sort_unstable_by_key(|holder| holder.lease);
    Ok(holders)
}

fn held_by(mut words: Words) -> Result<HeldBy, Strange> {
    Ok(HeldBy {
        resource: words.text()?,
        owner: words.text()?,
        host: words.text()?,
        since: words.time()?,
        holds: &*words.text()? == "1",
    })
}

fn holder(mut words: Words) -> Result<Holder, Strange> {
    Ok(Holder {
        lease: words.text()?.parse().map_err(|_| Strange)?,
        owner: words.text()?,
        host: words.text()?,
        mode: Mode::of_capacity(u32::try_from(words.int()?).map_err(|_| Strange)?),
        fence: Some(words.int()?),
        since: words.time()?,
        expires: words.time()?,
        ttl: Duration::from_micros(words.number()?),
        names: u32::try_from(words.int()?).map_err(|_| Strange)?,
    })
}

struct Words(std::vec::IntoIter<Value>);

impl Words {
    fn of(value: Value) -> Result<Self, Strange> {
        match value {
            Value::Array(list) => Ok(Self(list.into_iter())),
            _ => Err(Strange),
        }
    }

    fn text(&mut self) -> Result<Arc<str>, Strange> {
        match self.0.next() {
            Some(Value::BulkString(bytes)) => String::from_utf8(bytes).map(Into::into).map_err(|_| Strange),
            _ => Err(Strange),
        }
    }

    fn list(&mut self) -> Result<Self, Strange> {
        self.0.next().map_or(Err(Strange), Self::of)
    }

    fn int(&mut self) -> Result<i64, Strange> {
        self.text()?.parse().map_err(|_| Strange)
    }

    fn number(&mut self) -> Result<u64, Strange> {
        self.text()?.parse().map_err(|_| Strange)
    }

    fn time(&mut self) -> Result<Timestamp, Strange> {
        Timestamp::from_timestamp_millis(self.int()?).ok_or(Strange)
    }

    fn time_if_any(&mut self) -> Result<Option<Timestamp>, Strange> {
        if self.0.len() == 0 { Ok(None) } else { self.time().map(Some) }
    }

    fn rest<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T, Strange>) -> Result<Vec<T>, Strange> {
        let mut all = Vec::with_capacity(self.0.len());
        while self.0.len() > 0 {
            all.push(read(self)?);
        }
        Ok(all)
    }
}
