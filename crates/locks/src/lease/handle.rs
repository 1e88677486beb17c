//! A lease in somebody's hands.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_store::lease::{Ask, LeaseId};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};

use super::actor::Answered;
use super::keeper::LossCause;
use crate::{Clock, Moment};

/// A lease that is held: renewed while this lives, given back when it is released or dropped.
///
/// What is done under it outside of this process should carry its fence, for nobody can take back what a process that
/// stood still does when it goes on.
#[derive(Debug)]
pub struct Lease {
    id: LeaseId,
    fences: Vec<(Arc<str>, Option<i64>)>,
    hold_until: Option<Moment>,
    state: watch::Receiver<State>,
    orders: mpsc::Sender<Answered>,
    clock: Arc<dyn Clock>,
}

/// How a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Held { valid_until: Moment },
    Lost(Loss),
}

/// A lease that is not held any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the lease is lost: {}", explain(*cause))]
pub struct Loss {
    /// Why.
    pub cause: LossCause,
    /// When that was noticed.
    pub at: Moment,
}

fn explain(cause: LossCause) -> &'static str {
    match cause {
        LossCause::Expired => "it could not be renewed in time",
        LossCause::Taken => "the lock service says that it is not held any more",
        LossCause::MaxHold => "it was held for as long as it may be",
    }
}

/// What became of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// It was held until now.
    Released,
    /// It had been lost before.
    AlreadyLost,
    /// The service did not answer. It goes on being asked until the lease has expired there.
    Unconfirmed,
}

/// How long a release waits for its answer; the task goes on without it.
const RELEASE_WAIT: Duration = Duration::from_secs(5);

impl Lease {
    pub(super) fn new(
        ask: &Ask,
        fences: Vec<Option<i64>>,
        hold_until: Option<Moment>,
        state: watch::Receiver<State>,
        orders: mpsc::Sender<Answered>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let names = ask.claims().iter().map(|claim| claim.resource.clone());
        Self { id: ask.lease(), fences: names.zip(fences).collect(), hold_until, state, orders, clock }
    }

    /// Its name at the service.
    pub fn id(&self) -> LeaseId {
        self.id
    }

    /// The fencing token of its one name, or of the first of several; none: the service has none. Whatever is done under
    /// the lease is to be refused by who has seen a higher one.
    pub fn fence(&self) -> Option<i64> {
        self.fences.first().and_then(|(_, fence)| *fence)
    }

    /// Its names, sorted by bytes, each with its fencing token.
    pub fn fences(&self) -> &[(Arc<str>, Option<i64>)] {
        &self.fences
    }

    /// How long it is held yet unless it is renewed; zero: it is lost.
    pub fn remaining(&self) -> Duration {
        match *self.state.borrow() {
            State::Held { valid_until } => valid_until.since(self.clock.now()),
            State::Lost(_) => Duration::ZERO,
        }
    }

    /// Whether it is held at this moment, which may be over when this returns.
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Until when it is held, as far as is known now.
    pub fn valid_until(&self) -> Moment {
        match *self.state.borrow() {
            State::Held { valid_until } => valid_until,
            State::Lost(loss) => loss.at,
        }
    }

    /// Returns when it is lost.
    pub async fn lost(&self) -> Loss {
        let mut state = self.state.clone();
        loop {
            let valid_until = match *state.borrow_and_update() {
                State::Held { valid_until } => valid_until,
                State::Lost(loss) => return loss,
            };
            let now = self.clock.now();
            if now >= valid_until {
                // The task that keeps it has not noticed yet: it may have stood still as this one did.
                let at_most = self.hold_until.is_some_and(|until| until <= valid_until);
                let cause = if at_most { LossCause::MaxHold } else { LossCause::Expired };
                return Loss { cause, at: now };
            }
            tokio::select! {
                changed = state.changed() => if changed.is_err() {
                    // The task is gone, and with it the renewals.
                    self.clock.sleep_until(valid_until).await;
                },
                () = self.clock.sleep_until(valid_until) => {}
            }
        }
    }

    /// Returns when it is renewed or lost; until when it is held then (none: it is lost).
    pub async fn renewed(&self) -> Option<Moment> {
        let mut state = self.state.clone();
        state.mark_unchanged();
        tokio::select! {
            changed = state.changed() => match *state.borrow() {
                State::Held { valid_until } if changed.is_ok() => Some(valid_until),
                _ => None,
            },
            _ = self.lost() => None,
        }
    }

    /// Does some work under the lease. If the lease is lost the work is dropped where it stands: it must bear that.
    ///
    /// # Errors
    /// [`Loss`]: the work was not finished.
    pub async fn run<'a, T, W>(&'a self, work: impl FnOnce(&'a Self) -> W) -> Result<T, Loss>
    where
        W: Future<Output = T>,
    {
        tokio::select! {
            // Not even begun once it is lost.
            biased;
            loss = self.lost() => Err(loss),
            value = work(self) => Ok(value),
        }
    }

    /// Gives it back. Dropping it does the same without waiting.
    pub async fn release(self) -> Released {
        let lost = matches!(*self.state.borrow(), State::Lost(_));
        if lost {
            return Released::AlreadyLost;
        }
        let (answered, arrival) = oneshot::channel();
        if self.orders.try_send(answered).is_err() {
            // Its task has ended: it was lost in between.
            return Released::AlreadyLost;
        }
        let give_up = self.clock.now() + RELEASE_WAIT;
        tokio::select! {
            biased;
            answer = arrival => match answer {
                Ok(released) => released,
                // Its task has ended: it was lost in between.
                Err(_) => Released::AlreadyLost,
            },
            () = self.clock.sleep_until(give_up) => Released::Unconfirmed,
        }
    }
}
