//! What may pass a proxy, and when.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// For how long a change waits for what is passing; longer takes only what its receiver does not read.
const SETTLE_MAX: Duration = Duration::from_millis(200);

/// What a proxy does with what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Pass,
    Cut,
    Stall,
    HoldReplies,
    HoldRequests,
}

/// Where something is going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    ToServer,
    ToClient,
}

#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    mode: Mode,
    delay: Duration,
    passing: usize,
}

/// Something is on its way through the gate until this is dropped.
pub(super) struct Passage<'a>(&'a Gate);

impl Mode {
    fn lets(self, direction: Direction) -> bool {
        match self {
            Self::Pass => true,
            Self::Cut | Self::Stall => false,
            Self::HoldReplies => direction == Direction::ToServer,
            Self::HoldRequests => direction == Direction::ToClient,
        }
    }
}

impl Gate {
    pub(super) fn new() -> Self {
        let state = State { mode: Mode::Pass, delay: Duration::ZERO, passing: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn mode(&self) -> Mode {
        self.lock().mode
    }

    /// Afterwards nothing passes that the mode does not let pass.
    pub(super) fn set_mode(&self, mode: Mode) {
        let mut state = self.lock();
        state.mode = mode;
        self.changed.notify_all();
        let settled = self.changed.wait_timeout_while(state, SETTLE_MAX, |state| state.passing > 0);
        drop(settled.expect("nothing panics with the lock"));
    }

    pub(super) fn set_delay(&self, delay: Duration) {
        self.lock().delay = delay;
        self.changed.notify_all();
    }

    /// Closes a connection's flag and tells those who wait with it.
    pub(super) fn close(&self, closed: &AtomicBool) {
        let state = self.lock();
        closed.store(true, Ordering::SeqCst);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until what arrived at that time may pass; None: its connection was closed.
    pub(super) fn pass(&self, direction: Direction, arrived: Instant, closed: &AtomicBool) -> Option<Passage<'_>> {
        let mut state = self.lock();
        loop {
            if closed.load(Ordering::SeqCst) {
                return None;
            }
            let early = (arrived + state.delay).saturating_duration_since(Instant::now());
            state = if !state.mode.lets(direction) {
                self.changed.wait(state).expect("nothing panics with the lock")
            } else if !early.is_zero() {
                self.changed.wait_timeout(state, early).expect("nothing panics with the lock").0
            } else {
                state.passing += 1;
                return Some(Passage(self));
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics with the lock")
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        self.0.lock().passing -= 1;
        self.0.changed.notify_all();
    }
}
