//! Two that must not work at the same time, and how it is seen whether they did.

use std::path::Path;

use crate::runner::{Runner, await_file};
use crate::support::cli::Said;

/// A pipeline that says again and again that it works. It does not hear of SIGTERM, and one of it has left the group.
const WORKING: &str = "trap '' TERM
    setsid sh -c 'trap \"\" TERM; while :; do date +%s%N >far.new; mv far.new far; done' &
    (while :; do date +%s%N >near.new; mv near.new near; done) | cat";

/// The time to live: long enough for a renewal on a busy machine.
pub(crate) const TTL: &str = "3s";

/// Begins to work under the lock `r`.
pub(crate) fn holder(dir: &Path, url: &str) -> Runner {
    let runner = Runner::script(dir, url, &["r", "--ttl", TTL], WORKING);
    await_file(&dir.join("near"));
    await_file(&dir.join("far"));
    runner
}

/// Waits for the lock and works under it; the holder must have stopped before.
pub(crate) fn successor(dir: &Path, url: &str) -> Said {
    let next = Runner::script(dir, url, &["r", "--wait", "25s"], "date +%s%N >next; echo $LOCKKEEPER_FENCE");
    let said = next.end();
    assert_eq!(said.code, Some(0), "{said:?}");
    let time = |name: &str| -> u64 { std::fs::read_to_string(dir.join(name)).unwrap().trim().parse().unwrap() };
    for last in ["near", "far"] {
        assert!(time(last) < time("next"), "{last} worked on while the next one worked");
    }
    said
}
