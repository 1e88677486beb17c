//! The peers that every row is compared with: the same moves, as a careful program without this engine makes them.

pub(crate) mod command;
pub(crate) mod postgres;
pub(crate) mod sqlite;
