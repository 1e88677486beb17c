//! What the law of leases promises, whatever is asked in whatever order: random requests in memory, with and without time
//! passing. A failure names its seed; `LOCKKEEPER_SEED` repeats it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_store::Timestamp;
use lockkeeper_store::lease::{
    Answered, Ask, Asked, Claim, Holder, LeaseAnswer, LeaseId, LeaseRequest, Memory, Mode, Renewed, Table, Waiter,
    Woken, law,
};
use lockkeeper_store::limits::AHEAD_MIN;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

const NAMES: [&str; 3] = ["a", "b", "c"];
const SEQUENCES: u64 = 400;
const STEPS: usize = 120;

/// A table, those who use it, and what is known of them.
struct World {
    random: SmallRng,
    rows: Memory,
    now: Timestamp,
    asks: Vec<Ask>,
    /// Who was told to ask again since it last did.
    woken: HashSet<LeaseId>,
    last_fence: HashMap<Arc<str>, i64>,
    passes_time: bool,
    ahead: bool,
}

impl World {
    fn new(seed: u64, passes_time: bool, ahead: bool) -> Self {
        let now = Timestamp::default();
        let rows = Memory::new(now, 1, false);
        let mut world = Self {
            random: SmallRng::seed_from_u64(seed),
            rows: if ahead { rows.granting_ahead() } else { rows },
            now,
            asks: Vec::new(),
            woken: HashSet::new(),
            last_fence: HashMap::new(),
            passes_time,
            ahead,
        };
        world.asks = (0..8).map(|_| world.draw_ask()).collect();
        world
    }

    fn draw_ask(&mut self) -> Ask {
        let lease = LeaseId::of_attempt("", &self.random.random::<u64>().to_string());
        let names = self.random.random_range(1..=2);
        let first = self.random.random_range(0..NAMES.len());
        let claims: Vec<Claim> = (0..names)
            .map(|n| {
                let mode = match self.random.random_range(0..4) {
                    0 => Mode::Shared,
                    1 => Mode::Permits(self.random.random_range(2..4)),
                    _ => Mode::Exclusive,
                };
                Claim { resource: NAMES[(first + n) % NAMES.len()].into(), mode }
            })
            .collect();
        let ttl = Duration::from_millis(self.random.random_range(5..60));
        Ask::new(lease, "owner", "host", claims, ttl).expect("a good ask")
    }

    fn step(&mut self) {
        if self.passes_time && self.random.random_bool(0.5) {
            self.now += Duration::from_millis(self.random.random_range(0..20));
            self.rows.set_now(self.now);
        }
        let place = self.random.random_range(0..self.asks.len());
        let ask = self.asks[place].clone();
        let request = match self.random.random_range(0..16) {
            0..8 => {
                let keep = self.random.random_bool(0.8).then(|| Duration::from_millis(self.random.random_range(1..60)));
                LeaseRequest::Ask { ask: ask.clone(), keep }
            }
            8 | 9 => LeaseRequest::Renew { lease: ask.lease() },
            10..15 => {
                // Used up: whoever asks next is somebody else.
                let bar = self.random.random_bool(0.3);
                self.asks[place] = self.draw_ask();
                LeaseRequest::End { lease: ask.lease(), bar }
            }
            _ => LeaseRequest::Force { resource: NAMES[self.random.random_range(0..NAMES.len())].into() },
        };
        self.apply(&request, &ask);
        self.check();
    }

    fn apply(&mut self, request: &LeaseRequest, ask: &Ask) {
        let before = self.clone_waiters();
        if matches!(request, LeaseRequest::Ask { .. }) {
            self.woken.remove(&ask.lease());
        }
        let had_it = !held(&mut self.rows, ask.lease()).is_empty();
        let Ok(Answered { answer, woken, .. }) = law::apply(&mut self.rows, request);
        for Woken { lease, granted } in woken {
            assert!(self.ahead || granted.is_none());
            match granted {
                Some(granted) => self.check_grant_ahead(lease, &granted.fences, &before),
                None => drop(self.woken.insert(lease)),
            }
        }
        match answer {
            LeaseAnswer::Asked(Asked::Granted { fences }) => {
                let rows = held(&mut self.rows, ask.lease());
                assert_eq!(rows.len(), ask.claims().len(), "all or none");
                if !had_it {
                    self.check_grant(ask, &fences, &before);
                }
            }
            LeaseAnswer::Asked(asked) => {
                assert!(held(&mut self.rows, ask.lease()).is_empty(), "not granted, and not there: {asked:?}")
            }
            LeaseAnswer::Renewed(Renewed::Renewed { .. }) => assert!(had_it, "a renewal makes nothing"),
            _ => {}
        }
    }

    /// It waited for just these names, and holds them now.
    fn check_grant_ahead(&mut self, lease: LeaseId, fences: &[i64], before: &HashMap<&'static str, Vec<Waiter>>) {
        let held = held(&mut self.rows, lease);
        let Ok(waits) = self.rows.waited(lease);
        assert!(waits.is_empty(), "it waits for {waits:?}, and holds {held:?}");
        let own: Vec<_> = before
            .iter()
            .filter_map(|(name, waiters)| Some((*name, waiters.iter().find(|waiter| waiter.lease == lease)?)))
            .collect();
        assert_eq!(held.len(), own.len(), "all or none");
        for ((name, holder), fence) in held.iter().zip(fences) {
            assert_eq!(holder.fence, Some(*fence));
            let (_, waiter) = own.iter().find(|(own, _)| *own == &**name).expect("it waited for it");
            let latest = (self.now + holder.ttl.max(AHEAD_MIN)).min(waiter.lapses) + Duration::from_millis(1);
            assert_eq!(holder.expires, latest, "no longer than its place would have been kept");
        }
        // Of those who share a name all may have come in this turn.
        for (name, holder) in &held {
            let last = self.last_fence.entry(name.clone()).or_default();
            let fence = holder.fence.expect("there are fences");
            assert!(fence >= *last, "{fence} after {last}");
            *last = fence;
        }
    }

    fn check_grant(&mut self, ask: &Ask, fences: &[i64], before: &HashMap<&'static str, Vec<Waiter>>) {
        let now = self.now;
        for (claim, fence) in ask.claims().iter().zip(fences) {
            let ticket =
                before[&*claim.resource].iter().find(|waiter| waiter.lease == ask.lease()).map(|own| own.ticket);
            let passed = before[&*claim.resource]
                .iter()
                .find(|waiter| waiter.lapses > now && ticket.is_none_or(|ticket| waiter.ticket < ticket));
            // Unless it was granted ahead in the same turn.
            let passed = passed.filter(|passed| !self.rows.waited(passed.lease).is_ok_and(|waits| waits.is_empty()));
            assert!(passed.is_none(), "somebody who waited was passed: {passed:?}");
            let Ok(holders) = self.rows.holders(&claim.resource);
            let alone = holders.len() == 1;
            let last = self.last_fence.entry(claim.resource.clone()).or_default();
            // Others may have joined in the same turn.
            let joined = self.ahead && fence > last;
            assert!(joined || if alone { fence > last } else { fence == last }, "{fence} after {last}, alone: {alone}");
            *last = *fence;
        }
    }

    fn clone_waiters(&mut self) -> HashMap<&'static str, Vec<Waiter>> {
        let mut of = HashMap::new();
        for name in NAMES {
            let mut waiters = Vec::new();
            for ask in &self.asks {
                let Ok(rows) = self.rows.waited(ask.lease());
                waiters.extend(rows.into_iter().filter(|(resource, _)| &**resource == name).map(|(_, waiter)| waiter));
            }
            of.insert(name, waiters);
        }
        of
    }

    fn check(&mut self) {
        for name in NAMES {
            let Ok(mut holders) = self.rows.holders(name);
            holders.retain(|holder| holder.expires > self.now);
            let strictest = holders.iter().map(|holder| holder.mode.capacity()).min().unwrap_or(u32::MAX);
            assert!(holders.len() <= strictest as usize, "{name}: {holders:?}");
            let generations: HashSet<_> = holders.iter().map(|holder| holder.fence).collect();
            assert!(generations.len() <= 1, "{name}: {holders:?}");
        }
        // What time alone has made free is found by whoever looks again, and nobody is told of it.
        if !self.passes_time {
            for ask in self.asks.clone() {
                let could = self.could_have(&ask);
                assert!(!could || self.woken.contains(&ask.lease()), "{ask:?} could be had, and nobody was told");
            }
        }
    }

    /// Whether one who waits is first everywhere, and there is room for it.
    fn could_have(&mut self, ask: &Ask) -> bool {
        let Ok(waited) = self.rows.waited(ask.lease());
        !waited.is_empty()
            && waited.iter().all(|(name, waiter)| {
                let (Ok(first), Ok(holders)) = (self.rows.first_waiter(name), self.rows.holders(name));
                first.is_some_and(|first| first.lease == ask.lease()) && room_for(waiter.mode, &holders)
            })
    }
}

fn held(rows: &mut Memory, lease: LeaseId) -> Vec<(Arc<str>, Holder)> {
    let now = rows.now();
    let Ok(mut held) = rows.held(lease);
    held.retain(|(_, holder)| holder.expires > now);
    held
}

fn room_for(mode: Mode, holders: &[Holder]) -> bool {
    let strictest = holders.iter().map(|holder| holder.mode.capacity()).fold(mode.capacity(), u32::min);
    holders.len() < strictest as usize
}

fn run(passes_time: bool, ahead: bool) {
    let first = std::env::var("LOCKKEEPER_SEED").map_or(7070, |text| text.parse().expect("a number"));
    for seed in first..first + SEQUENCES {
        let sequence = std::panic::catch_unwind(|| {
            let mut world = World::new(seed, passes_time, ahead);
            for _ in 0..STEPS {
                world.step();
            }
        });
        if let Err(cause) = sequence {
            println!("seed: LOCKKEEPER_SEED={seed}");
            std::panic::resume_unwind(cause);
        }
    }
}

#[test]
fn nobody_is_passed_and_nobody_who_has_room_is_forgotten() {
    run(false, false);
}

#[test]
fn what_has_expired_is_nobodys() {
    run(true, false);
}

#[test]
fn nobody_is_passed_where_grants_are_made_ahead() {
    run(false, true);
}

#[test]
fn what_has_expired_is_nobodys_where_grants_are_made_ahead() {
    run(true, true);
}
