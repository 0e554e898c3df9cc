//! The pace of publishing an interval's records, so that a close does not take the processor from capture.

use std::time::{Duration, Instant};

/// Records a second, at least.
const LEAST_RATE: u64 = 150_000;
/// Tables up to this size are sent without pacing.
const AT_ONCE: usize = 20_000;

/// How fast to publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As fast as possible.
    Unpaced,
    /// Maximum time over which records are spread; less with few records, so that none waits longer than its share.
    Within(Duration),
}

/// The publishing of one interval.
pub struct Paced {
    started: Instant,
    total: usize,
    over: Duration,
}

impl Pace {
    /// The pace of a live capture: at most a fifth of an interval.
    pub fn live(interval_ms: u32) -> Pace {
        Pace::Within(Duration::from_millis(u64::from(interval_ms)) / 5)
    }

    /// Begins with an interval of `total` records.
    pub fn start(&self, total: usize) -> Paced {
        Paced { started: Instant::now(), total, over: self.over(total) }
    }

    /// The time over which `total` records are spread.
    fn over(&self, total: usize) -> Duration {
        match self {
            Pace::Unpaced => Duration::ZERO,
            Pace::Within(_) if total <= AT_ONCE => Duration::ZERO,
            Pace::Within(most) => (*most).min(Duration::from_micros(total as u64 * 1_000_000 / LEAST_RATE)),
        }
    }
}

impl Paced {
    /// Waits until `done` records are due.
    pub fn wait(&self, done: usize) {
        if self.over.is_zero() {
            return;
        }
        let due = self.over.mul_f64(done as f64 / self.total as f64);
        std::thread::sleep(due.saturating_sub(self.started.elapsed()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_tables_are_spread_and_never_over_more_than_a_fifth() {
        let pace = Pace::live(10_000);
        assert_eq!(pace.over(20_000), Duration::ZERO);
        assert_eq!(pace.over(150_000), Duration::from_secs(1));
        assert_eq!(pace.over(10_000_000), Duration::from_secs(2));
        assert_eq!(Pace::Unpaced.over(10_000_000), Duration::ZERO);
    }
}
