//! Pauses between attempts.

use std::time::Duration;

use rand::RngExt;

use crate::limits::{BACKOFF_MAX, SETTLE_PAUSE};

/// Exponential backoff with full jitter before the attempt that follows `losses` lost ones: a random part of
/// `first * 2^(losses - 2)`, since the attempt after the first loss has none.
///
/// Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
pub(crate) fn backoff(first: Duration, losses: u32) -> Duration {
    let ceiling = first.saturating_mul(2u32.saturating_pow(losses.saturating_sub(2))).min(BACKOFF_MAX);
    ceiling.mul_f64(rand::rng().random_range(0.0..=1.0))
}

/// The pause before the fate of open commits is asked after again.
pub(crate) async fn pause(tries: u32) {
    let (first, longest) = SETTLE_PAUSE;
    let pause = first.saturating_mul(2u32.saturating_pow(tries.saturating_sub(1))).min(longest);
    tokio::time::sleep(pause).await;
}
