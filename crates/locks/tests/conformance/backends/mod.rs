pub(crate) mod in_process;
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod sqlite;
