//! Locks: a lease that knows when it is lost.

mod clock;
mod service;

pub use clock::{Clock, ManualClock, Moment, SystemClock};
pub use lockkeeper_store::lease::{
    Ask, BadAsk, Claim, HeldBy, Holder, LeaseId, LeasePage, LeaseQuery, Mode, ResourceView, Waiter,
};
pub use service::{
    AcquireError, Grant, LockService, Release, RenewError, Renewal, Unavailable, Unconfirmed, describe, place_kept,
    usable,
};
