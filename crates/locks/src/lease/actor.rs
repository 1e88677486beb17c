//! The task that keeps a lease: it carries out what its [`Keeper`] says.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use lockkeeper_store::lease::Ask;
use tokio::sync::{mpsc, oneshot, watch};

use super::handle::{Lease, Loss, Released, State};
use super::keeper::{Answer, Call, Keeper, News, Plan, Step};
use super::locks::Counters;
use crate::{AcquireError, Clock, LockService, Moment, Release};

/// Where the answer of an acquisition goes.
pub(super) type Granted = oneshot::Sender<Result<Lease, AcquireError>>;

/// Where the answer of a release goes.
pub(super) type Answered = oneshot::Sender<Released>;

type Under = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// One lease and its task.
pub(super) struct Actor {
    pub(super) service: Arc<dyn LockService>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) counters: Arc<Counters>,
    pub(super) ask: Ask,
    keeper: Keeper,
    call: Option<Under>,
    caller: Caller,
}

/// Whoever wanted the lease.
enum Caller {
    /// It waits for the answer.
    Waiting(Granted),
    /// It has the lease.
    Holding { state: watch::Sender<State>, orders: mpsc::Receiver<Answered>, answer: Option<Answered> },
    /// It has gone.
    Gone,
}

impl Actor {
    pub(super) fn new(
        service: Arc<dyn LockService>,
        clock: Arc<dyn Clock>,
        counters: Arc<Counters>,
        (ask, plan): (Ask, Plan),
        granted: Granted,
    ) -> Self {
        let keeper = Keeper::new(plan, clock.now());
        Self { service, clock, counters, ask, keeper, call: None, caller: Caller::Waiting(granted) }
    }

    /// Keeps the lease until nothing is left to be done.
    pub(super) async fn run(mut self) {
        loop {
            let Step { drop_call, call, until, news } = self.keeper.step(self.clock.now());
            if drop_call {
                self.call = None;
            }
            for news in news {
                self.tell(news);
            }
            if let Some(call) = call {
                self.call = Some(self.make(call));
            }
            if self.keeper.is_over() {
                return;
            }
            self.wait(until).await;
        }
    }

    /// Waits for whatever comes first: an answer, the caller, the time.
    async fn wait(&mut self, until: Moment) {
        let Self { clock, keeper, call, caller, counters, .. } = self;
        tokio::select! {
            // What the caller wants comes first: a lease that was released is not renewed.
            biased;
            want = caller.want() => {
                if want == Want::NoMore {
                    counters.count_dropped(caller);
                    *caller = Caller::Gone;
                }
                keeper.give_back(clock.now());
            }
            answer = poll_fn(|context| match call {
                Some(call) => call.as_mut().poll(context),
                None => std::task::Poll::Pending,
            }) => {
                *call = None;
                keeper.answered(answer, clock.now());
            }
            () = clock.sleep_until(until) => {}
        }
    }

    /// Begins a call.
    fn make(&self, call: Call) -> Under {
        let (service, ask) = (self.service.clone(), self.ask.clone());
        match call {
            Call::Ask { wait } => Box::pin(async move { Answer::Ask(service.acquire(&ask, wait).await) }),
            Call::Renew => Box::pin(async move { Answer::Renew(service.renew(ask.lease()).await) }),
            Call::End { bar } => Box::pin(async move { Answer::End(service.release(ask.lease(), bar).await) }),
        }
    }

    fn tell(&mut self, news: News) {
        match news {
            News::Granted { fences, valid_until, hold_until } => self.hand_over(fences, valid_until, hold_until),
            News::Refused(error) => {
                if let Caller::Waiting(granted) = std::mem::replace(&mut self.caller, Caller::Gone) {
                    // Whoever has gone need not know.
                    let _gone = granted.send(Err(error));
                }
            }
            News::Renewed { valid_until } => self.caller.set(State::Held { valid_until }),
            News::Lost(cause) => {
                self.counters.count_lost();
                tracing::warn!(lease = %self.ask.lease(), ?cause, "a lease is lost");
                self.caller.set(State::Lost(Loss { cause, at: self.clock.now() }));
                self.caller.answer(Released::AlreadyLost);
            }
            News::Ended(release) => {
                let released = match release {
                    Some(Release::Released) => Released::Released,
                    Some(Release::AlreadyLost { .. }) => Released::AlreadyLost,
                    None => Released::Unconfirmed,
                };
                self.caller.answer(released);
            }
        }
    }

    fn hand_over(&mut self, fences: Vec<Option<i64>>, valid_until: Moment, hold_until: Option<Moment>) {
        let Caller::Waiting(granted) = std::mem::replace(&mut self.caller, Caller::Gone) else { return };
        let (state, view) = watch::channel(State::Held { valid_until });
        let (ordered, orders) = mpsc::channel(1);
        self.caller = Caller::Holding { state, orders, answer: None };
        // If whoever waited has gone, the lease comes back and is dropped here: that is heard as the holder's going.
        let clock = self.clock.clone();
        let _gone = granted.send(Ok(Lease::new(&self.ask, fences, hold_until, view, ordered, clock)));
    }
}

/// What the caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    /// To give the lease back, and to hear of it.
    Release,
    /// Nothing any more.
    NoMore,
}

impl Caller {
    /// Returns when the caller wants something. Cancelled, nothing is missed.
    async fn want(&mut self) -> Want {
        match self {
            Self::Waiting(granted) => {
                granted.closed().await;
                Want::NoMore
            }
            Self::Holding { orders, answer, .. } if answer.is_none() => match orders.recv().await {
                Some(order) => {
                    *answer = Some(order);
                    Want::Release
                }
                None => Want::NoMore,
            },
            Self::Holding { .. } | Self::Gone => std::future::pending().await,
        }
    }

    fn set(&mut self, now: State) {
        if let Self::Holding { state, .. } = self {
            state.send_replace(now);
        }
    }

    fn answer(&mut self, released: Released) {
        if let Self::Holding { answer, .. } = self
            && let Some(answer) = answer.take()
        {
            let _gone = answer.send(released);
        }
    }
}

impl Counters {
    /// A holder that went without a release has forgotten it, or was cancelled.
    fn count_dropped(&self, caller: &Caller) {
        if let Caller::Holding { state, .. } = caller
            && matches!(*state.borrow(), State::Held { .. })
        {
            self.dropped();
        }
    }
}
