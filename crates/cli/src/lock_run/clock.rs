use std::ops::Add;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub(crate) const fn since_start(since: Duration) -> Self {
        Self(since)
    }

    pub(crate) const fn elapsed(self) -> Duration {
        self.0
    }

    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemClock;

const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl SystemClock {
    pub(crate) fn now(&self) -> Moment {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let (seconds, nanos) = (u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0));
        Moment(Duration::new(seconds, nanos))
    }

    pub(crate) async fn sleep_until(&self, until: Moment) {
        loop {
            let left = until.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(LOOK_AGAIN)).await;
        }
    }
}
