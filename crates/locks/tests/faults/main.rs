//! Leases whose service answers late, twice, wrongly or never, and whose time jumps: by a clock that the tests move.

mod bench;
mod calls;
mod clocks;
