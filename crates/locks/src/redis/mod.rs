//! Locks on Redis: for many nodes that share a Redis server, at one round trip each.
//!
//! Rows lie in Redis, and scripts repeat [`lockkeeper_store::lease::law`] on them, one script for each operation. Leases
//! expire by the server's clock; a jump of that clock can end them early: their holders hear of it at their next renewal,
//! and until then their fences protect what checks them.
//!
//! What Redis acknowledged it may still lose: with its last second, with a replica that was promoted behind, or
//! altogether. That is noticed when the server is met again, and then nobody gets a new lease before all that may have
//! been forgotten have run out, which is why they cannot be longer than [`RedisOptions::with_max_ttl`] says. Fences never
//! go back: their floor is kept outside of it.

mod answer;
mod floor;
mod life;
mod link;
mod options;
mod script;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_store::lease::{Ask, Asked, Edge, LeaseAnswer, LeasePage, LeaseQuery, LeaseRequest};
use lockkeeper_store::limits::{ENDED_KEPT, PAGE_MAX, SCAN_MAX, WAITERS_MAX};
use thiserror::Error;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::answer::{Answer, Strange};
pub use self::floor::{FenceFloor, ProcessFloor};
use self::link::{Link, Unmet};
pub use self::options::{BadRedisUrl, REDIS_MAX_TTL_DEFAULT, RedisOptions};
use self::script::{ASK, FORCE, LIST, RELEASE, RENEW};
use crate::{Leases, Served, Unavailable, Waiters};

/// A lock service on Redis.
pub type RedisLocks = Served<OnRedis>;

/// Leases in a Redis server.
pub struct OnRedis {
    link: Arc<Link>,
    waiters: Arc<Waiters>,
    max_ttl: Duration,
    place: String,
    stopped: CancellationToken,
    _keeper: DropGuard,
}

/// Why a lock service on Redis cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenRedisError {
    /// The server cannot keep leases with its version or its settings; says what would do.
    #[error("{place} cannot be used for locks: {detail}")]
    Unfit {
        /// Where it is.
        place: String,
        /// Why, and what would do.
        detail: String,
    },
    /// It does not answer, or is not ready.
    #[error("{place} is unavailable: {detail}")]
    Unavailable {
        /// Where it is.
        place: String,
        /// What happened.
        detail: String,
    },
}

/// How often settings and life of a server that nothing is wrong with are looked at, and the floor of fences is raised.
const CHECK_EVERY: Duration = Duration::from_secs(60);

/// The pauses between tries to connect: from the first, doubled up to the second.
const RECONNECT_PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How often a server that gets no leases because of its settings is looked at: somebody is about to change them.
const CHECK_EVERY_UNFIT: Duration = Duration::from_secs(5);

/// Holders of one page beyond its first name: some megabytes.
const PAGE_HOLDERS_MAX: usize = 10_000;

/// Names that a page's script reads at once: few are read in vain.
const NAMES_AT_ONCE: usize = 100;

impl RedisLocks {
    /// Connects. A connection that is lost later is made anew. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`OpenRedisError`].
    pub async fn open(options: RedisOptions) -> Result<Self, OpenRedisError> {
        let (service, met) = Self::start(options).await;
        met.map(|()| service)
    }

    /// As [`Self::open`], for those who can do without locks for a while: if the server does not answer, or is not
    /// ready, everything is `Unavailable` until it has been met.
    ///
    /// # Errors
    /// [`OpenRedisError::Unfit`] alone: nothing but somebody who changes the server will help.
    pub async fn open_lazily(options: RedisOptions) -> Result<Self, OpenRedisError> {
        let (service, met) = Self::start(options).await;
        match met {
            Ok(()) => {}
            Err(error @ OpenRedisError::Unfit { .. }) => return Err(error),
            Err(error @ OpenRedisError::Unavailable { .. }) => {
                tracing::warn!("{error}; there are no locks until it has been met");
                service.leases().link.changed.notify_one();
            }
        }
        Ok(service)
    }

    /// The service, and what came of the first try to connect.
    async fn start(options: RedisOptions) -> (Self, Result<(), OpenRedisError>) {
        let (waiters, stopped) = (Arc::new(Waiters::default()), CancellationToken::new());
        let (place, max_ttl, service) = (options.describe(), options.max_ttl, options.service.clone());
        let link = Arc::new(Link::new(options, waiters.clone()));
        let met = link.connect().await.map_err(|unmet| match unmet {
            Unmet::Unfit(detail) => OpenRedisError::Unfit { place: place.clone(), detail },
            Unmet::Unavailable(detail) | Unmet::Unkept(detail) => {
                OpenRedisError::Unavailable { place: place.clone(), detail }
            }
        });
        tokio::spawn(keep(link.clone(), stopped.clone()));
        let _keeper = stopped.clone().drop_guard();
        (Self::new(OnRedis { link, waiters, max_ttl, place, stopped, _keeper }, service), met)
    }
}

/// Connects anew when the connection is lost, for whoever waits needs it, and looks at the server from time to time.
async fn keep(link: Arc<Link>, stopped: CancellationToken) {
    let mut pause = RECONNECT_PAUSES.0;
    let work = async {
        loop {
            let check_in = if link.unfit().is_some() { CHECK_EVERY_UNFIT } else { CHECK_EVERY };
            tokio::select! {
                () = link.changed.notified() => {}
                () = tokio::time::sleep(check_in) => {
                    // That it is unfit has been said.
                    if let Err(Unmet::Unavailable(detail) | Unmet::Unkept(detail)) = link.check().await {
                        tracing::warn!(detail, "Redis has been looked at");
                    }
                }
            }
            while let Err(unmet) = link.connect().await {
                tracing::warn!(detail = Unavailable::from(unmet).0, "no connection to Redis");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RECONNECT_PAUSES.1);
            }
            pause = RECONNECT_PAUSES.0;
        }
    };
    stopped.run_until_cancelled(work).await;
    link.close();
}

impl OnRedis {
    async fn ask(&self, ask: &Ask, keep: Option<Duration>) -> Result<Asked, Unavailable> {
        self.link.fit().await?;
        let keep = keep.map_or("-1".to_owned(), |keep| keep.as_millis().to_string());
        let mut args = vec![
            ask.lease().to_string().into_bytes(),
            ask.owner().as_bytes().to_vec(),
            ask.host().as_bytes().to_vec(),
            ask.ttl().as_micros().to_string().into_bytes(),
            keep.into_bytes(),
            self.link.node().as_bytes().to_vec(),
            WAITERS_MAX.to_string().into_bytes(),
        ];
        for claim in ask.claims().iter() {
            args.push(claim.resource.as_bytes().to_vec());
            args.push(claim.mode.capacity().to_string().into_bytes());
        }
        match answer::asked(self.link.call(&ASK, args).await?)? {
            Answer::Asked(asked) => Ok(asked),
            Answer::Closed(left) => Err(Unavailable(closed(left))),
        }
    }
}

/// What whoever asks is told while nobody gets a lease.
fn closed(left: Duration) -> String {
    format!(
        "the server was restarted, replaced or emptied; leases that it may have forgotten run out within {} ms, and until \
         then it grants none",
        left.as_millis()
    )
}

impl From<Strange> for Unavailable {
    fn from(_: Strange) -> Self {
        Self(crate::served::STRANGE.to_owned())
    }
}

#[async_trait]
impl Leases for OnRedis {
    async fn change(&self, request: LeaseRequest) -> Result<LeaseAnswer, Unavailable> {
        let link = &self.link;
        Ok(match request {
            LeaseRequest::Ask { ask, keep } => LeaseAnswer::Asked(self.ask(&ask, keep).await?),
            LeaseRequest::Renew { lease } => {
                LeaseAnswer::Renewed(answer::renewed(link.call(&RENEW, words([lease.to_string()])).await?)?)
            }
            LeaseRequest::End { lease, bar } => {
                let barred = if bar { ENDED_KEPT } else { Duration::ZERO };
                let args = words([lease.to_string(), barred.as_millis().to_string()]);
                LeaseAnswer::Ended(answer::ended(link.call(&RELEASE, args).await?)?)
            }
            LeaseRequest::Force { resource } => {
                LeaseAnswer::Forced(answer::forced(link.call(&FORCE, words([resource.to_string()])).await?)?)
            }
            // Nobody is asked to give up where deadlocks are not looked for.
            LeaseRequest::Break { .. } => LeaseAnswer::Broken(false),
        })
    }

    async fn page(&self, query: &LeaseQuery) -> Result<LeasePage, Unavailable> {
        let args = words([
            query.after.clone().unwrap_or_default(),
            query.limit.clamp(1, PAGE_MAX).to_string(),
            PAGE_HOLDERS_MAX.to_string(),
            SCAN_MAX.to_string(),
            NAMES_AT_ONCE.to_string(),
        ]);
        Ok(answer::page(self.link.call(&LIST, args).await?)?)
    }

    async fn edges(&self) -> Result<Vec<Edge>, Unavailable> {
        Ok(Vec::new())
    }

    async fn ping(&self) -> Result<(), Unavailable> {
        Ok(self.link.check().await?)
    }

    fn unsupported(&self, ask: &Ask) -> Option<String> {
        let (ttl, max_ttl) = (ask.ttl(), self.max_ttl);
        (ttl > max_ttl).then(|| {
            format!(
                "a time to live of {ttl:?} is too long for locks on Redis: at most {max_ttl:?}, unless `max_ttl` is \
                 raised, and with it the time for which no lease is granted after a restart"
            )
        })
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    async fn close(&self) {
        self.stopped.cancel();
        self.link.close();
    }

    fn describe(&self) -> String {
        self.place.clone()
    }
}

fn words<const COUNT: usize>(words: [String; COUNT]) -> Vec<Vec<u8>> {
    words.map(String::into_bytes).into()
}

impl fmt::Debug for OnRedis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnRedis").field("place", &self.place).field("max_ttl", &self.max_ttl).finish_non_exhaustive()
    }
}
