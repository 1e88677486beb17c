//! Leases: names held until a deadline, by at most as many as each of them allows.
//!
//! [`law`] says who gets a name and who waits, whatever the rows lie in: it works on a [`Table`] within one transaction.
//! The stores keep the rows in their tables; [`Memory`] keeps them in memory.

mod ask;
mod cycle;
pub mod law;
mod memory;
mod name;
mod request;
mod row;
mod table;

pub(crate) use ask::check_resource;
pub use ask::{Ask, BadAsk, Claim, Mode};
pub use cycle::{Circle, Edge, circles};
pub use memory::{Change, Memory};
pub use name::LeaseId;
pub use request::{Answered, Asked, Ended, Forced, GrantedAhead, HeldBy, LeaseAnswer, LeaseRequest, Renewed, Woken};
pub use row::{Holder, LeasePage, LeaseQuery, ResourceView, Waiter};
pub use table::Table;

/// The floor of fences at a time: seconds since 1970 times 2^20, to the millisecond. Whatever was given before is below,
/// unless a name was given a million times a second.
pub fn floor(now: crate::Timestamp) -> i64 {
    let floor = (i128::from(now.timestamp_millis()) << 20) / 1_000;
    i64::try_from(floor.clamp(0, i128::from(crate::limits::FENCE_MAX))).unwrap_or_default()
}
