//! Waiting, never for ever.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Far above what anything waited for takes, even in a busy machine.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(30);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Looks until there is something, or the time is over.
pub(crate) fn poll<T>(at_most: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + at_most;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        sleep(PAUSE);
    }
}
