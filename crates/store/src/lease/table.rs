//! The rows of leases, within one transaction.

use std::sync::Arc;

use super::{Holder, LeaseId, Waiter};
use crate::Timestamp;

/// What [`super::law`] reads and writes. Whatever it reads stays as it is until the transaction ends.
pub trait Table {
    /// Why the rows could not be read or written.
    type Error;

    /// The time by the clock that leases expire by, in whole milliseconds.
    fn now(&self) -> Timestamp;

    /// Whether those who wait are granted what they wait for by whoever makes room. If not, they are told to ask again.
    fn grants_ahead(&self) -> bool {
        false
    }

    /// Where fences of names begin of which none is known: above all that were forgotten.
    fn floor(&mut self) -> Result<i64, Self::Error>;

    /// Whether the name was ended and barred, and until when that is remembered has not passed.
    fn is_ended(&mut self, lease: LeaseId) -> Result<bool, Self::Error>;

    /// Remembers that the name was ended.
    fn put_ended(&mut self, lease: LeaseId, until: Timestamp) -> Result<(), Self::Error>;

    /// The last fence given for a name; 0: none is known.
    fn last_fence(&mut self, resource: &str) -> Result<i64, Self::Error>;

    /// Keeps the last fence given for a name.
    fn put_fence(&mut self, resource: &Arc<str>, fence: i64) -> Result<(), Self::Error>;

    /// The holders of a name, whether they have expired or not, in the order of their leases.
    fn holders(&mut self, resource: &str) -> Result<Vec<Holder>, Self::Error>;

    /// The names that a lease holds, with its row for each.
    fn held(&mut self, lease: LeaseId) -> Result<Vec<(Arc<str>, Holder)>, Self::Error>;

    /// Adds a holder, or replaces the one with the same name and lease.
    fn put_holder(&mut self, resource: &Arc<str>, holder: &Holder) -> Result<(), Self::Error>;

    /// Takes a holder away.
    fn remove_holder(&mut self, resource: &str, lease: LeaseId) -> Result<(), Self::Error>;

    /// The waiter of a name with the lowest ticket whose place has not lapsed.
    fn first_waiter(&mut self, resource: &str) -> Result<Option<Waiter>, Self::Error>;

    /// How many wait for a name, lapsed or not.
    fn waiters(&mut self, resource: &str) -> Result<u64, Self::Error>;

    /// The names that a lease waits for, with its row for each.
    fn waited(&mut self, lease: LeaseId) -> Result<Vec<(Arc<str>, Waiter)>, Self::Error>;

    /// A ticket above all that were drawn before.
    fn draw_ticket(&mut self) -> Result<i64, Self::Error>;

    /// Adds a waiter, or replaces the one with the same name and lease.
    fn put_waiter(&mut self, resource: &Arc<str>, waiter: &Waiter) -> Result<(), Self::Error>;

    /// Takes a waiter away.
    fn remove_waiter(&mut self, resource: &str, lease: LeaseId) -> Result<(), Self::Error>;

    /// Takes away the waiters of a name whose places have lapsed, a bounded number; whether there were any.
    fn remove_lapsed(&mut self, resource: &str) -> Result<bool, Self::Error>;
}
