//! The model's rules as tables: a definition, a script of commands, and what must come of each.
#![allow(missing_docs, clippy::unwrap_used)]

mod approval_checks;
mod approval_entitled;
mod approval_owners;
mod approval_properties;
mod approval_reach;
mod approval_rules;
mod approvals;
mod concurrency;
mod definitions;
mod fences;
mod histories;
mod history_properties;
mod imports;
mod lists;
mod lock_keys;
mod migrations;
mod moves;
mod properties;
mod retention;
mod returns;
mod schemas;
mod starts;
mod support;
mod timers;
mod values;
