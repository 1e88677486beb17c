//! Whose it is to say what becomes of a request.

use std::sync::atomic::{AtomicU8, Ordering};

/// Its sender's while the request waits, whoever works on it once that is begun.
#[derive(Debug, Default)]
pub(super) struct Turn(AtomicU8);

impl Turn {
    const WAITS: u8 = 0;
    const BEGUN: u8 = 1;
    const WITHDRAWN: u8 = 2;

    /// Work on it begins; false: it was withdrawn.
    pub(super) fn begin(&self) -> bool {
        self.claim(Self::BEGUN)
    }

    /// Its sender waits no longer; false: work on it has begun.
    pub(super) fn withdraw(&self) -> bool {
        self.claim(Self::WITHDRAWN)
    }

    fn claim(&self, for_whom: u8) -> bool {
        self.0.compare_exchange(Self::WAITS, for_whom, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
