//! The handlers, a file for each noun.

pub(crate) mod about;
pub(crate) mod backup;
pub(crate) mod closes;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod feed;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod instances;
pub(crate) mod locks;
pub(crate) mod metrics;
pub(crate) mod migrations;
pub(crate) mod purge;
pub(crate) mod tokens;
pub(crate) mod transitions;
pub(crate) mod workflows;

use crate::limits::{PAGE_DEFAULT, PAGE_MAX};
use crate::problem::{Problem, malformed};

/// The size of a page, as asked for.
fn page_limit(limit: Option<usize>) -> Result<usize, Problem> {
    match limit {
        None => Ok(PAGE_DEFAULT),
        Some(limit) if (1..=PAGE_MAX).contains(&limit) => Ok(limit),
        Some(limit) => Err(malformed(format!("limit is {limit}; 1 to {PAGE_MAX} are allowed"))),
    }
}

/// Refuses a field whose part is not built yet: passing over it would be a promise that is not kept.
fn not_built(field: &str, given: bool) -> Result<(), Problem> {
    if given {
        return Err(malformed(format!("`{field}` is not in this version: leave it out")));
    }
    Ok(())
}
