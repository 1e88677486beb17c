//! Sends a command until it is answered: each time under the same idempotency key, never past the time given.

use std::time::{Duration, Instant};

use rand::RngExt;

use crate::client::{Answer, CallError, Client, Request};
use crate::failure::{Failure, Unreachable};

/// How long a command is tried where `--wait` does not say.
pub(crate) const WAIT_DEFAULT: Duration = Duration::from_secs(10);

/// The longest `--wait`.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60 * 60);

/// How long nobody listening is borne without `--wait`: a restart passes, a server that is not there is told soon.
const NOBODY_LISTENING: Duration = Duration::from_secs(1);

/// How long the server works on one request at the longest.
const ATTEMPT_MAX: Duration = Duration::from_secs(30);

/// How much longer than the server an attempt waits, so that the server's own answer arrives.
const GRACE: Duration = Duration::from_secs(2);

const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// How long to go on trying.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    wait: Duration,
    nobody_listening: Duration,
}

impl Patience {
    /// From `--wait`, if it was given.
    pub(crate) fn new(wait: Option<Duration>) -> Self {
        match wait {
            Some(wait) => Self { wait, nobody_listening: wait },
            None => Self { wait: WAIT_DEFAULT, nobody_listening: NOBODY_LISTENING },
        }
    }
}

/// The pause before retry `n` (from 0) at the longest; the pause taken is any up to it.
pub(crate) fn backoff_max(n: u32) -> Duration {
    BACKOFF_FIRST.saturating_mul(2_u32.saturating_pow(n)).min(BACKOFF_MAX)
}

/// Any pause up to that of retry `n`.
pub(crate) fn backoff(n: u32) -> Duration {
    backoff_max(n).mul_f64(rand::rng().random::<f64>())
}

/// Sends what `request` builds for the time that the attempt has, until an answer comes that is worth having.
///
/// Only for requests that carry `key`: the server takes them once, however often they arrive.
pub(crate) async fn call(
    client: &Client,
    patience: Patience,
    key: &str,
    mut request: impl FnMut(Duration) -> Request,
) -> Result<Answer, Failure> {
    let begin = Instant::now();
    let mut maybe_sent = false;
    let mut retries = 0;
    loop {
        let attempt = patience.wait.saturating_sub(begin.elapsed()).min(ATTEMPT_MAX);
        let mut request = request(attempt);
        request.key = Some(key.to_owned());
        request.timeout = attempt + GRACE;
        let error = match client.try_call(&request).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let (limit, pause_min) = match &error {
            CallError::Refused(problem) if problem.is_worth_a_retry() => {
                maybe_sent |= problem.is_unknown();
                (patience.wait, problem.retry_after.unwrap_or_default())
            }
            CallError::Refused(_) => return Err(client.failure(error)),
            CallError::NotSent(_) => (patience.nobody_listening, Duration::ZERO),
            CallError::Lost(_) => {
                maybe_sent = true;
                (patience.wait, Duration::ZERO)
            }
        };
        let pause = pause_min + backoff(retries);
        if begin.elapsed() + pause >= limit {
            return Err(give_up(client, error, maybe_sent, key));
        }
        retries += 1;
        tokio::time::sleep(pause).await;
    }
}

/// The last error, with the key to send again under.
fn give_up(client: &Client, error: CallError, maybe_sent: bool, key: &str) -> Failure {
    match error {
        CallError::Refused(mut problem) => {
            problem.key = Some(key.to_owned());
            Failure::Refused(problem)
        }
        CallError::NotSent(detail) | CallError::Lost(detail) => Failure::Unreachable(Box::new(Unreachable {
            url: client.url().to_owned(),
            detail,
            maybe_sent,
            key: Some(key.to_owned()),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_cap() {
        assert_eq!(backoff_max(0), Duration::from_millis(50));
        assert_eq!(backoff_max(3), Duration::from_millis(400));
        assert_eq!(backoff_max(u32::MAX), BACKOFF_MAX);
        assert!((0..100).all(|n| backoff(n) <= backoff_max(n)));
    }
}
