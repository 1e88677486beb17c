//! Every order of events that a lease can meet, explored: calls that arrive late, twice or never, answers that are lost, a
//! process that stands still, a caller that leaves at any moment, others who want the lock, a forced release.
//!
//! One tick is a second. The server is the law in small: one name, exclusive.

use std::time::Duration;

use chrono::DateTime;
use stateright::{Checker, Model, Property};

use super::keeper::{Answer, Call, Keeper, LossCause, News, Plan};
use crate::{AcquireError, Grant, HeldBy, Moment, Release, RenewError, Renewal, Unconfirmed, usable};

const TTL: u64 = 3;

/// How far the time goes.
#[derive(Clone)]
struct World {
    plan: Plan,
    until: u64,
    /// Calls whose answers were given up, and that may still arrive.
    late_calls: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: u64,
    keeper: Keeper,
    /// The call under way: when it was sent, and its answer once it was served.
    call: Option<Sent>,
    /// Calls that nobody waits for any more, not yet arrived.
    late: Vec<Call>,
    server: Server,
    caller: Caller,
    forced: bool,
    /// The server has let go of the lease by itself: it expired, or was taken.
    let_go: bool,
    gave_back_at: Option<u64>,
    /// Giving back has reached the server. Until then a late call may still get something, which expires by itself.
    ended: bool,
    /// How long it may be held; forever if nothing is said.
    hold_most: u64,
    broken: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sent {
    at: u64,
    call: Call,
    served: Option<Served>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Served {
    Granted,
    Held,
    Over,
    Renewed,
    Lost,
    Released,
    NotThere,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Server {
    ours_until: Option<u64>,
    others: bool,
    barred: bool,
}

/// What whoever wanted the lease knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Caller {
    Waits,
    Holds { until: Moment },
    Refused,
    Lost,
    Released,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Event {
    /// A second passes.
    Tick,
    /// The process gets to run.
    Step,
    /// The call that is under way is served.
    Serve,
    /// Its answer arrives.
    Arrive,
    /// Its answer, or the call itself, is lost; it may still be served later.
    Fail { served_later: bool },
    /// A late call arrives after all.
    ServeLate(usize),
    /// A late call is lost for good.
    LoseLate(usize),
    /// Another takes the lock, if it is free.
    OtherTakes,
    /// The other gives it back.
    OtherReleases,
    /// Somebody takes the lock from us.
    Force,
    /// The caller releases, or goes.
    GiveBack,
}

fn at(now: u64) -> Moment {
    Moment::since_start(Duration::from_secs(now))
}

fn ttl() -> Duration {
    Duration::from_secs(TTL)
}

fn somebody() -> Box<HeldBy> {
    let since = DateTime::UNIX_EPOCH;
    Box::new(HeldBy { resource: "r".into(), owner: "other".into(), host: "h".into(), since, holds: true })
}

impl Server {
    fn expire(&mut self, now: u64) {
        self.ours_until = self.ours_until.filter(|until| now < *until);
    }

    fn serve(&mut self, call: Call, now: u64) -> Served {
        self.expire(now);
        match call {
            Call::Ask { .. } if self.barred => Served::Over,
            Call::Ask { .. } if self.others => Served::Held,
            Call::Ask { .. } => {
                self.ours_until = Some(now + TTL);
                Served::Granted
            }
            Call::Renew if self.ours_until.is_some() => {
                self.ours_until = Some(now + TTL);
                Served::Renewed
            }
            Call::Renew => Served::Lost,
            Call::End { bar } => {
                self.barred |= bar;
                if self.ours_until.take().is_some() { Served::Released } else { Served::NotThere }
            }
        }
    }
}

impl State {
    fn holds(&self) -> bool {
        matches!(self.caller, Caller::Holds { until } if at(self.now) < until)
    }

    /// Lets the process run until it waits.
    fn step(&mut self) {
        let step = self.keeper.step(at(self.now));
        if step.drop_call
            && let Some(Sent { call, served: None, .. }) = self.call.take()
        {
            self.late.push(call);
        }
        for news in step.news {
            self.hear(news);
        }
        if let Some(call) = step.call {
            if self.call.is_some() {
                self.broken = Some("two calls under way at once");
            }
            if call == Call::Renew && !matches!(self.caller, Caller::Holds { .. }) {
                self.broken = Some("a renewal of what is not held");
            }
            self.call = Some(Sent { at: self.now, call, served: None });
        }
    }

    fn hear(&mut self, news: News) {
        self.caller = match (self.caller, news) {
            // Its task hears of nobody's going before it acts, and hands nothing to who is gone.
            (Caller::Gone, News::Granted { .. } | News::Refused(_)) => Caller::Gone,
            (Caller::Waits, News::Granted { valid_until, .. }) => Caller::Holds { until: valid_until },
            (Caller::Waits, News::Refused(_)) => Caller::Refused,
            (Caller::Holds { .. }, News::Renewed { valid_until }) => Caller::Holds { until: valid_until },
            (Caller::Holds { .. }, News::Lost(cause)) => {
                if cause == LossCause::MaxHold && self.now < self.hold_most {
                    self.broken = Some("a false loss");
                }
                Caller::Lost
            }
            (Caller::Released | Caller::Gone, News::Ended(release)) => {
                if matches!(release, Some(Release::AlreadyLost { .. })) && !self.let_go {
                    self.broken = Some("released in time, and called lost");
                }
                self.caller
            }
            // Lost before it was released, and heard of in between: the answer to the release.
            (Caller::Released | Caller::Gone, News::Lost(_)) => Caller::Lost,
            (caller @ (Caller::Refused | Caller::Lost), News::Ended(_)) => caller,
            _ => {
                self.broken = Some("news after the end, or out of order");
                self.caller
            }
        };
    }

    fn answer(&mut self, served: Served, sent: u64) {
        let asked = at(sent);
        let answer = match served {
            Served::Granted => Answer::Ask(Ok(Grant { asked, fences: vec![Some(1)], usable: usable(ttl()) })),
            Served::Held => Answer::Ask(Err(AcquireError::LockTimeout { waited: Duration::ZERO, held_by: somebody() })),
            Served::Over => Answer::Ask(Err(AcquireError::Reused { ended: true })),
            Served::Renewed => Answer::Renew(Ok(Renewal { asked, usable: usable(ttl()) })),
            Served::Lost => Answer::Renew(Err(RenewError::Lost { since: None })),
            Served::Released => Answer::End(Ok(Release::Released)),
            Served::NotThere => Answer::End(Ok(Release::AlreadyLost { since: None })),
        };
        self.keeper.answered(answer, at(self.now));
    }

    fn fail(&mut self, call: Call) {
        let silence = || "silence".to_owned();
        let answer = match call {
            Call::Ask { .. } => Answer::Ask(Err(AcquireError::Unavailable(silence()))),
            Call::Renew => Answer::Renew(Err(RenewError::Unavailable(silence()))),
            Call::End { .. } => Answer::End(Err(Unconfirmed(silence()))),
        };
        self.keeper.answered(answer, at(self.now));
    }
}

impl Model for World {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let new = |others| State {
            now: 0,
            keeper: Keeper::new(self.plan, at(0)),
            call: None,
            late: Vec::new(),
            server: Server { others, ..Server::default() },
            caller: Caller::Waits,
            forced: false,
            let_go: false,
            gave_back_at: None,
            ended: false,
            hold_most: self.plan.max_hold.map_or(u64::MAX, |most| most.as_secs()),
            broken: None,
        };
        vec![new(false), new(true)]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        if state.now < self.until {
            events.push(Event::Tick);
        }
        events.push(Event::Step);
        if let Some(sent) = &state.call {
            match sent.served {
                None => {
                    events.push(Event::Serve);
                    events.push(Event::Fail { served_later: false });
                    if state.late.len() < self.late_calls {
                        events.push(Event::Fail { served_later: true });
                    }
                }
                Some(_) => events.extend([Event::Arrive, Event::Fail { served_later: false }]),
            }
        }
        for place in 0..state.late.len() {
            events.extend([Event::ServeLate(place), Event::LoseLate(place)]);
        }
        events.push(if state.server.others { Event::OtherReleases } else { Event::OtherTakes });
        if state.server.ours_until.is_some() && !state.forced {
            events.push(Event::Force);
        }
        if state.gave_back_at.is_none() && matches!(state.caller, Caller::Waits | Caller::Holds { .. }) {
            events.push(Event::GiveBack);
        }
    }

    fn next_state(&self, last: &State, event: Event) -> Option<State> {
        let mut state = last.clone();
        match event {
            Event::Tick => {
                state.now += 1;
                let had = state.server.ours_until.is_some();
                state.server.expire(state.now);
                state.let_go |= had && state.server.ours_until.is_none();
            }
            Event::Step => state.step(),
            Event::Serve => {
                let now = state.now;
                let sent = state.call.as_mut()?;
                sent.served = Some(state.server.serve(sent.call, now));
                state.ended |= matches!(sent.call, Call::End { .. });
            }
            Event::Arrive => {
                let sent = state.call.take()?;
                state.answer(sent.served?, sent.at);
            }
            Event::Fail { served_later } => {
                let sent = state.call.take()?;
                if served_later {
                    state.late.push(sent.call);
                }
                state.fail(sent.call);
            }
            Event::ServeLate(place) => {
                let call = state.late.remove(place);
                state.server.serve(call, state.now);
                state.ended |= matches!(call, Call::End { .. });
            }
            Event::LoseLate(place) => drop(state.late.remove(place)),
            Event::OtherTakes => {
                state.server.expire(state.now);
                if state.server.ours_until.is_some() {
                    return None;
                }
                state.server.others = true;
            }
            Event::OtherReleases => state.server.others = false,
            Event::Force => {
                state.forced = true;
                state.let_go = true;
                state.server.ours_until = None;
            }
            Event::GiveBack => {
                state.gave_back_at = Some(state.now);
                state.caller = match state.caller {
                    Caller::Holds { .. } => Caller::Released,
                    _ => Caller::Gone,
                };
                state.keeper.give_back(at(state.now));
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("who holds it holds it on the server too", |_, state: &State| {
                !state.holds() || state.forced || state.server.ours_until.is_some_and(|until| state.now < until)
            }),
            Property::always("nothing happens out of order", |_, state: &State| state.broken.is_none()),
            Property::always("what is given back stays so, whatever arrives late", |_, state: &State| {
                !(state.ended && state.keeper.is_over()) || state.server.ours_until.is_none()
            }),
            Property::sometimes("it is granted", |_, state: &State| matches!(state.caller, Caller::Holds { .. })),
            Property::always("nobody holds it for longer than it may be held", |world: &Self, state: &State| {
                let most = world.plan.max_hold.unwrap_or(Duration::MAX);
                !matches!(state.caller, Caller::Holds { until } if until.since(at(state.now)) > most)
            }),
            Property::sometimes("it is renewed, or held for as long as it may be", |world: &Self, state: &State| {
                let enough = if world.plan.max_hold.is_some() { 1 } else { TTL };
                matches!(state.caller, Caller::Holds { until } if until > at(enough))
            }),
            Property::sometimes("it is lost", |_, state: &State| state.caller == Caller::Lost),
            Property::sometimes("it is released", |_, state: &State| {
                state.caller == Caller::Released && state.keeper.is_over()
            }),
            Property::sometimes("others hold it when it is over", |_, state: &State| {
                state.keeper.is_over() && state.server.others
            }),
        ]
    }
}

fn explore(wait: u64, until: u64, late_calls: usize, max_hold: Option<u64>) {
    let max_hold = max_hold.map(Duration::from_secs);
    let plan = Plan { ttl: ttl(), wait: Duration::from_secs(wait), max_hold, jitter_percent: 100 };
    let checker = World { plan, until, late_calls }.checker().threads(2).spawn_bfs().join();
    println!("wait {wait} s, {until} s: {} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn whoever_does_not_wait() {
    explore(0, 5, 2, None);
}

#[test]
fn whoever_waits() {
    explore(1, 5, 1, None);
}

#[test]
fn whoever_may_not_hold_it_for_long() {
    explore(0, 4, 1, Some(2));
}
