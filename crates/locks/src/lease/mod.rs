//! A lease from its ask to its end.

mod acquire;
mod actor;
#[cfg(test)]
mod explored;
mod handle;
mod keeper;
mod locks;

pub use acquire::{Acquire, TTL_DEFAULT};
pub use handle::{Lease, Loss, Released};
pub use keeper::LossCause;
pub use locks::Locks;
