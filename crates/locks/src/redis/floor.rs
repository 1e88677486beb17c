//! The floor of fences: whatever a server has forgotten, fences never go back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use chrono::Utc;
use lockkeeper_store::{CommitError, Store, lease};

use crate::Unavailable;

/// What is remembered of fences outside of the server that gives them.
#[async_trait]
pub trait FenceFloor: Send + Sync + 'static {
    /// Raises the floor to `at_least`, if it is not there already; with 0 it is only read. The floor afterwards: it never
    /// goes down.
    ///
    /// # Errors
    /// [`Unavailable`]: it may or may not have been raised.
    async fn raise(&self, at_least: i64) -> Result<i64, Unavailable>;

    /// Whether it outlives this process: only then it can tell a server that was never used from one that was emptied.
    fn is_kept(&self) -> bool;
}

/// A floor that this process remembers, for where there is no store: it starts at the system's time of day, so after a
/// restart it is above what was before unless that clock was set back. To a new process every empty server is a new one.
#[derive(Debug, Default)]
pub struct ProcessFloor;

static OF_THIS_PROCESS: AtomicI64 = AtomicI64::new(0);

#[async_trait]
impl FenceFloor for ProcessFloor {
    async fn raise(&self, at_least: i64) -> Result<i64, Unavailable> {
        Ok(OF_THIS_PROCESS.fetch_max(at_least, Ordering::SeqCst).max(at_least))
    }

    fn is_kept(&self) -> bool {
        false
    }
}

#[async_trait]
impl FenceFloor for Arc<dyn Store> {
    async fn raise(&self, at_least: i64) -> Result<i64, Unavailable> {
        self.fence_floor(at_least).await.map_err(|error| match error {
            CommitError::Unavailable(detail) | CommitError::Unknown(detail) => Unavailable(detail),
        })
    }

    fn is_kept(&self) -> bool {
        true
    }
}

/// What a second is in floors: no server gives so many fences in a second.
const SECOND: i64 = 1 << 20;

/// Fences that may have been given since the floor was last raised: a minute's. Every node raises it once a minute, and
/// [`Remembered::keep`] when half of it is used up.
const GIVEN_SINCE: i64 = 60 * SECOND;

/// What was remembered when a server is met.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remembered {
    last: i64,
    kept: bool,
    /// What no fence is given at or below.
    pub(super) floor: i64,
    /// Whether a floor was ever raised here for a server like this one.
    pub(super) used: bool,
}

impl Remembered {
    pub(super) async fn read(memory: &dyn FenceFloor) -> Result<Self, Unavailable> {
        let last = memory.raise(0).await?;
        // Here floors are of whole seconds; those with which a store of its own accord begins are of milliseconds, or
        // nothing. One of these in a thousand is taken for one of ours, which costs a new server its first minute.
        let kept = memory.is_kept();
        let used = kept && last > 0 && last % SECOND == 0;
        Ok(Self { last, kept, floor: last.max(now()), used })
    }

    /// The floor above every fence that was ever given, for a server that may have forgotten some. `known`: this process
    /// has met it before.
    pub(super) fn lifted(self, known: bool) -> i64 {
        // What a process remembers by itself is of other servers then: of as many as it meets, the lifts do not add up.
        let from = if known || self.kept { self.floor } else { now() };
        from.saturating_add(GIVEN_SINCE).max(self.floor)
    }

    /// Remembers that fences are given above this one, before any is. Only now: were it raised before the server knows
    /// its own life, the next node to come would take a new server for an emptied one.
    pub(super) async fn keep(self, memory: &dyn FenceFloor, fence: i64) -> Result<(), Unavailable> {
        // Not always above the fence itself: where clocks lag, floors of whole seconds would run away from them.
        let used_up = fence > self.last.max(now()).saturating_add(GIVEN_SINCE / 2);
        let at_least = if used_up { (fence / SECOND + 1).saturating_mul(SECOND) } else { now() };
        if at_least > self.last {
            memory.raise(at_least).await?;
        }
        Ok(())
    }
}

fn now() -> i64 {
    lease::floor(Utc::now())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    struct Memory(Mutex<i64>);

    #[async_trait]
    impl FenceFloor for Memory {
        async fn raise(&self, at_least: i64) -> Result<i64, Unavailable> {
            let mut last = self.0.lock().expect("no panic");
            *last = at_least.max(*last);
            Ok(*last)
        }

        fn is_kept(&self) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn a_floor_of_ours_is_told_from_what_a_store_begins_with() {
        for of_store in [0, (now() / 1_000 * 999) | 1] {
            let memory = Memory(Mutex::new(of_store));
            let remembered = Remembered::read(&memory).await.expect("an answer");
            assert!(!remembered.used && remembered.floor >= now() - SECOND);
            assert!(!Remembered::read(&memory).await.expect("an answer").used, "until a server has been met");
            remembered.keep(&memory, remembered.lifted(false)).await.expect("an answer");
            assert!(Remembered::read(&memory).await.expect("an answer").used);
        }
    }

    /// Whoever met the server first may be gone before it could raise the floor.
    #[tokio::test]
    async fn the_next_lift_is_above_what_was_given_after_one_that_nobody_kept() {
        let memory = Memory(Mutex::new(now() + 3_600 * SECOND));
        let unkept = Remembered::read(&memory).await.expect("an answer").lifted(false);
        let other = Remembered::read(&memory).await.expect("an answer");
        other.keep(&memory, unkept).await.expect("an answer");
        assert!(Remembered::read(&memory).await.expect("an answer").lifted(false) > unkept + GIVEN_SINCE / 2);
    }

    #[tokio::test]
    async fn new_servers_do_not_raise_the_floor_of_a_process_further_and_further() {
        for _ in 0..10 {
            let remembered = Remembered::read(&ProcessFloor).await.expect("an answer");
            let lifted = remembered.lifted(false);
            assert!(
                !remembered.used && lifted >= now() + GIVEN_SINCE - SECOND && lifted <= now() + GIVEN_SINCE + SECOND
            );
            remembered.keep(&ProcessFloor, lifted).await.expect("an answer");
        }
        let remembered = Remembered::read(&ProcessFloor).await.expect("an answer");
        assert!(remembered.lifted(true) >= remembered.floor + GIVEN_SINCE, "for one that was known");
    }

    #[tokio::test]
    async fn meetings_alone_do_not_raise_a_floor_that_is_ahead() {
        let ahead = now() + 3_600 * SECOND;
        let memory = Memory(Mutex::new(ahead));
        for given in 0..100 {
            let remembered = Remembered::read(&memory).await.expect("an answer");
            remembered.keep(&memory, ahead + given).await.expect("an answer");
        }
        assert_eq!(memory.raise(0).await.expect("an answer"), ahead);
    }
}
