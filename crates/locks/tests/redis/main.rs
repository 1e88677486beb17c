//! Redis as it is met in practice: what the scripts answer is what the law says, and what becomes of locks when the
//! server is stopped, killed, paused, emptied, replaced, delayed or cut off.

mod bench;
mod clocks;
mod forgotten;
mod killed;
mod law;
mod network;
mod opening;
mod queues;
mod tls;
