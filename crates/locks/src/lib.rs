//! Locks: a lease that knows when it is lost.

mod clock;
mod deadlocks;
mod durable;
mod in_process;
mod lease;
mod leases;
mod recent;
mod redis;
mod served;
mod service;
mod waiters;

pub use clock::{Clock, ManualClock, Moment, SystemClock};
pub use deadlocks::DEADLOCK_SCAN_DEFAULT;
pub use durable::{Durable, Stored};
pub use in_process::{InMemory, InProcess};
pub use lease::{Acquire, Lease, Locks, Loss, LossCause, Released, TTL_DEFAULT};
pub use leases::Leases;
pub use lockkeeper_store::lease::{
    Ask, BadAsk, Claim, HeldBy, Holder, LeaseId, LeasePage, LeaseQuery, Mode, ResourceView, Waiter,
};
pub use redis::{
    BadRedisUrl, FenceFloor, OnRedis, OpenRedisError, ProcessFloor, REDIS_MAX_TTL_DEFAULT, RedisLocks, RedisOptions,
};
pub use served::{Served, ServiceOptions};
pub use service::{
    AcquireError, Grant, LockService, Release, RenewError, Renewal, Unavailable, Unconfirmed, describe, place_kept,
    usable,
};
pub use waiters::{Presence, Waiters};
