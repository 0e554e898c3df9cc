//! Intervals: multiples of their length from the Unix epoch.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The length of an interval: 1, 2, 5, 10, 15 or 30 s, so that every window is a whole number of intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalLength(u32);

/// A length that is not one of those allowed.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("the interval must be one of 1s, 2s, 5s, 10s, 15s, 30s, not {0:?}")]
pub struct BadInterval(String);

impl IntervalLength {
    /// The length of `seconds`.
    ///
    /// # Errors
    /// If it is none of the six.
    pub fn from_seconds(seconds: u32) -> Result<Self, BadInterval> {
        match seconds {
            1 | 2 | 5 | 10 | 15 | 30 => Ok(IntervalLength(seconds)),
            _ => Err(BadInterval(format!("{seconds}s"))),
        }
    }

    /// Milliseconds.
    pub fn ms(self) -> u32 {
        self.0 * 1000
    }

    /// Nanoseconds.
    pub fn ns(self) -> i64 {
        i64::from(self.0) * 1_000_000_000
    }

    /// Number of the interval that holds a time (ns from the Unix epoch; before it, the first one).
    pub fn number(self, time_ns: i64) -> i64 {
        time_ns.max(0) / self.ns()
    }

    /// Start of the interval with this number, ns from the Unix epoch.
    pub fn start_ns(self, number: i64) -> i64 {
        number.saturating_mul(self.ns())
    }
}

impl Default for IntervalLength {
    fn default() -> Self {
        IntervalLength(10)
    }
}

impl FromStr for IntervalLength {
    type Err = BadInterval;

    fn from_str(text: &str) -> Result<Self, BadInterval> {
        let bad = || BadInterval(text.to_owned());
        let seconds = text.strip_suffix('s').unwrap_or(text).trim().parse().map_err(|_| bad())?;
        Self::from_seconds(seconds).map_err(|_| bad())
    }
}

impl fmt::Display for IntervalLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_divisors_of_thirty_seconds_are_lengths() {
        assert_eq!("10s".parse(), Ok(IntervalLength(10)));
        assert_eq!("30".parse(), Ok(IntervalLength(30)));
        for bad in ["3s", "0s", "", "10m", "-1s", "60s"] {
            assert!(bad.parse::<IntervalLength>().is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_and_starts_agree() {
        let length = IntervalLength(15);
        assert_eq!(length.number(14_999_999_999), 0);
        assert_eq!(length.number(15_000_000_000), 1);
        assert_eq!(length.start_ns(1), 15_000_000_000);
        assert_eq!(length.number(-5), 0);
    }
}
