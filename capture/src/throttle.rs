//! Limits repeated log lines: one line per cause and period.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time of the last line, by cause.
pub struct Throttle {
    said: Mutex<HashMap<String, Instant>>,
    every: Duration,
}

impl Throttle {
    /// Allows each cause once in `every`.
    pub fn new(every: Duration) -> Throttle {
        Throttle { said: Mutex::new(HashMap::new()), every }
    }

    /// Whether a cause may be logged now.
    pub fn allow(&self, cause: &str) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match said.get(cause) {
            Some(last) if now.duration_since(*last) < self.every => false,
            _ => {
                said.insert(cause.to_owned(), now);
                true
            }
        }
    }
}

impl Default for Throttle {
    fn default() -> Self {
        Throttle::new(Duration::from_secs(30))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once_and_others_beside_it() {
        let throttle = Throttle::new(Duration::from_secs(3600));
        assert!(throttle.allow("a"));
        assert!(!throttle.allow("a"));
        assert!(throttle.allow("b"));
        let eager = Throttle::new(Duration::ZERO);
        assert!(eager.allow("a") && eager.allow("a"));
    }
}
