//! A command that waits for its answer, seen from both sides.
//!
//! Sender and driver agree by one atomic phase, so that "nothing was written" and "the fate is not known" are never
//! mixed up: a sender that gives up moves `Waiting -> Abandoned`, a driver that is about to commit `Waiting -> Sent`;
//! only one of them can.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use lockkeeper_model::definition::Concurrency;
use lockkeeper_model::{Command, Fingerprint, Refusal};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::engine::Answer;
use crate::leases::Share;

const WAITING: u8 = 0;
const SENT: u8 = 1;
const ABANDONED: u8 = 2;

/// What sender and driver agree by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Phase(Arc<AtomicU8>);

impl Phase {
    /// From here on only the store knows the fate. False: the sender has gone, nothing must be sent.
    pub(crate) fn mark_sent(&self) -> bool {
        self.step(WAITING, SENT) || self.0.load(Ordering::Acquire) == SENT
    }

    /// The store has said for certain that the commit did not take place.
    pub(crate) fn mark_not_sent(&self) {
        self.step(SENT, WAITING);
    }

    /// The sender goes. False: a commit is under way.
    pub(crate) fn abandon(&self) -> bool {
        self.step(WAITING, ABANDONED) || self.is_abandoned()
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.0.load(Ordering::Acquire) == ABANDONED
    }

    fn step(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// What is known when a sender stops waiting.
pub(crate) fn given_up(phase: &Phase, why: &str) -> Refusal {
    if phase.abandon() {
        return Refusal::Unavailable { detail: format!("{why} before it was committed; nothing was written") };
    }
    Refusal::Unknown {
        detail: format!(
            "{why} while the commit was under way: send it again with the same idempotency key, or read the history"
        ),
    }
}

/// The driver's side of a command.
pub(crate) struct Pending {
    pub(crate) command: Command,
    /// Set where there is an idempotency key.
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) deadline: Instant,
    /// Conditional writes that this command was part of and that were lost.
    pub(crate) losses: u32,
    /// A write that was lost to stale memory has been forgiven it once.
    pub(crate) excused: bool,
    /// When it came to this node.
    pub(crate) arrived: Instant,
    /// When it began to wait for the row that another session has locked.
    pub(crate) waiting_for_row: Option<Instant>,
    /// When it began to wait for a lease.
    pub(crate) waiting_for_lease: Option<Instant>,
    /// Its part in the lease that it is decided under.
    pub(crate) lease: Option<Share>,
    /// The lock service did not answer, and it goes under the row lock instead.
    pub(crate) locks_gone: bool,
    /// It is decided by the newest definition that the store has, and not by what this node remembers.
    pub(crate) reads_newest: bool,
    /// How often it was found to need another lease.
    pub(crate) reroutes: u32,
    /// How it commits, as the definition said that judged last.
    pub(crate) concurrency: Concurrency,
    phase: Phase,
    answer: oneshot::Sender<Answer>,
    permit: Permit,
}

/// The sender's side. Dropping it before the commit is sent takes the command back.
pub(crate) struct Waiter {
    phase: Phase,
    answer: oneshot::Receiver<Answer>,
}

impl Pending {
    pub(crate) fn new(command: Command, deadline: Instant, permit: Permit) -> (Self, Waiter) {
        let (sender, receiver) = oneshot::channel();
        let phase = Phase::default();
        let fingerprint = command.idempotency_key.is_some().then(|| command.fingerprint());
        let waiter = Waiter { phase: phase.clone(), answer: receiver };
        let pending = Self {
            command,
            fingerprint,
            deadline,
            losses: 0,
            excused: false,
            arrived: Instant::now(),
            waiting_for_row: None,
            waiting_for_lease: None,
            lease: None,
            locks_gone: false,
            reads_newest: false,
            reroutes: 0,
            concurrency: Concurrency::default(),
            phase,
            answer: sender,
            permit,
        };
        (pending, waiter)
    }

    /// Bytes that this command holds in the queue.
    pub(crate) fn bytes(&self) -> usize {
        self.permit.bytes
    }

    /// Whether the sender has gone; nobody will see an answer. One that left while a commit was under way was told
    /// `unknown`, and counts as gone once that commit is known not to have taken place.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.phase.is_abandoned() || self.answer.is_closed()
    }

    /// See [`Phase::mark_sent`].
    pub(crate) fn mark_sent(&self) -> bool {
        self.phase.mark_sent()
    }

    /// See [`Phase::mark_not_sent`].
    pub(crate) fn mark_not_sent(&self) {
        self.phase.mark_not_sent();
    }

    /// Gives the answer; a sender that has gone does not hear it.
    pub(crate) fn answer(self, answer: Answer) {
        let Self { answer: sender, permit, lease, .. } = self;
        // Its place first: whoever has an answer finds the queue, and the lease, without its command.
        drop((permit, lease));
        let _ = sender.send(answer);
    }
}

impl Waiter {
    /// The answer, or what is known at the deadline.
    pub(crate) async fn wait(mut self, deadline: Instant) -> Answer {
        match tokio::time::timeout_at(deadline, &mut self.answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_driver_gone)) => self.give_up("the node stopped working on it"),
            Err(_elapsed) => {
                // The answer may have come in the same instant; it is better than a guess.
                match self.answer.try_recv() {
                    Ok(answer) => answer,
                    Err(_) => self.give_up("its deadline passed"),
                }
            }
        }
    }

    fn give_up(&mut self, why: &str) -> Answer {
        given_up(&self.phase, why).into()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.phase.abandon();
    }
}

/// What a node may hold in its queues.
#[derive(Debug)]
pub(crate) struct Budget {
    commands_max: usize,
    bytes_max: usize,
    commands: AtomicUsize,
    bytes: AtomicUsize,
}

/// A place in the queues, given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(commands_max: usize, bytes_max: usize) -> Self {
        Self { commands_max, bytes_max, commands: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }

    /// Takes a place for a command with `bytes` of data.
    ///
    /// # Errors
    /// `busy`: the queues are full.
    pub(crate) fn enter(self: &Arc<Self>, bytes: usize) -> Result<Permit, Refusal> {
        let commands = self.commands.fetch_add(1, Ordering::Relaxed) + 1;
        let total = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let permit = Permit { budget: self.clone(), bytes };
        if commands > self.commands_max || total > self.bytes_max {
            return Err(Refusal::Busy {
                detail: format!(
                    "{} commands with {} bytes wait on this node; send it again a little later",
                    commands - 1,
                    total - bytes
                ),
            });
        }
        Ok(permit)
    }

    /// Commands that wait, or are being committed, now.
    pub(crate) fn waiting(&self) -> usize {
        self.commands.load(Ordering::Relaxed)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.budget.commands.fetch_sub(1, Ordering::Relaxed);
        self.budget.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
