//! How contention comes.

use rand::RngExt;
use rand::rngs::SmallRng;

/// Decides of each try whether another node was in its way.
pub(super) trait Load {
    fn contended(&mut self, seconds: f64, random: &mut SmallRng) -> bool;
}

/// Each try by the same chance, independently (Bernoulli).
pub(super) struct Steady(pub(super) f64);

impl Load for Steady {
    fn contended(&mut self, _: f64, random: &mut SmallRng) -> bool {
        self.0 > 0.0 && random.random_bool(self.0)
    }
}

/// One chance until a moment, another from there on.
pub(super) struct Changes {
    pub(super) at: f64,
    pub(super) before: f64,
    pub(super) after: f64,
}

impl Load for Changes {
    fn contended(&mut self, seconds: f64, random: &mut SmallRng) -> bool {
        random.random_bool(if seconds < self.at { self.before } else { self.after })
    }
}

/// On and off in turn (two-state Markov), contended only while on; after a first minute off.
pub(super) struct OnOff {
    share_on: f64,
    /// Mean seconds on and off.
    means: [f64; 2],
    /// Sojourns are exponential, else all of the same length.
    exponential: bool,
    on: bool,
    until: f64,
}

impl OnOff {
    pub(super) fn new(share_on: f64, on: f64, off: f64, exponential: bool) -> Self {
        Self { share_on, means: [on, off], exponential, on: false, until: 60.0 }
    }
}

impl Load for OnOff {
    fn contended(&mut self, seconds: f64, random: &mut SmallRng) -> bool {
        while seconds >= self.until {
            self.on = !self.on;
            let mean = self.means[usize::from(!self.on)];
            self.until += mean * if self.exponential { -(1.0 - random.random::<f64>()).ln() } else { 1.0 };
        }
        self.on && random.random_bool(self.share_on)
    }
}

/// Contended tries come in clumps: a lost try is retried, and lost again.
pub(super) struct Clumped {
    /// Share of all tries that is contended.
    pub(super) share: f64,
    /// Length of a clump.
    pub(super) clump: u32,
    pub(super) left: u32,
}

impl Load for Clumped {
    fn contended(&mut self, _: f64, random: &mut SmallRng) -> bool {
        if self.left == 0 {
            let clump = f64::from(self.clump);
            // A clump of n starts so often that n of its tries in all make up the share.
            let begins = random.random_bool(self.share / (clump - (clump - 1.0) * self.share));
            self.left = if begins { self.clump } else { 0 };
        }
        let contended = self.left > 0;
        self.left = self.left.saturating_sub(1);
        contended
    }
}
