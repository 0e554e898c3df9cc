//! Times as text.

use jiff::Timestamp;

/// A time in ms from the Unix epoch as ISO 8601 in UTC with milliseconds; clamped to the calendar's range.
pub fn iso8601(ms: i64) -> String {
    let beyond = if ms < 0 { Timestamp::MIN } else { Timestamp::MAX };
    format!("{:.3}", Timestamp::from_millisecond(ms).unwrap_or(beyond))
}

#[cfg(test)]
mod tests {
    use super::iso8601;

    #[test]
    fn known_times() {
        assert_eq!(iso8601(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso8601(1_795_253_729_000), "2026-11-21T09:35:29.000Z");
        assert!(iso8601(i64::MAX).starts_with("9999-"));
    }
}
