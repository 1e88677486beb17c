//! How each backend is started, and what the cases need behind its back.

pub(crate) mod postgres;
pub(crate) mod sqlite;
