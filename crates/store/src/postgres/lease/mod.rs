//! Leases in the database, shared by all nodes.
//!
//! Requests that arrive while others are being committed go together: one transaction locks what they concern, its rows
//! are loaded into a [`crate::lease::Memory`], the law is applied to each in turn, and what it wrote is written and
//! committed: two round trips and one sync, however many they are. Time is the database's.
//!
//! Whoever is to ask again is told on this node at once, and on the others by NOTIFY, outside of every transaction.

mod columns;
mod listener;
mod lists;
mod news;
mod queue;
mod transaction;
mod worker;

pub(super) use lists::{edges, page};
pub(super) use queue::Queue;
