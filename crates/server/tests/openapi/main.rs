//! The OpenAPI document held against the server: what it documents is there, what is there is documented, and real
//! answers are as their schemas say.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod answers;
mod bodies;
mod document;
mod requests;
mod routes;
mod running;
mod schemas;
