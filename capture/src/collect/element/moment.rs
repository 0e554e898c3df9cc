//! The clocks of exporters: the times of a record's packets, from the record and its datagram.

use super::Clock;
use crate::collect::limits::DecodeLimits;

/// Seconds from 1900 to 1970.
const NTP_TO_UNIX: i64 = 2_208_988_800;
/// How much later than its export a record may end, ms: some clocks count whole seconds, some run on another processor.
const AFTER_EXPORT_MS: i64 = 60_000;

/// The clock readings by which a datagram's records are dated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Arrival time, ms from the Unix epoch.
    pub received_ms: i64,
    /// Export time by the exporter's clock, in ms since the Unix epoch.
    pub export_ms: i64,
    /// The exporter's uptime when it sent the datagram, ms, if the header states it.
    pub uptime_ms: Option<u32>,
    /// The exporter's boot time, ms from the Unix epoch, if an options record stated it.
    pub boot_ms: Option<i64>,
}

impl Moment {
    /// By how much the exporter's clock is behind this host's, ms.
    pub fn behind_ms(&self) -> i64 {
        self.received_ms.saturating_sub(self.export_ms)
    }

    /// Correction to add to the exporter's times, ms; 0 if its clock is right or nearly so.
    pub fn correction_ms(&self, limits: &DecodeLimits) -> i64 {
        limits.correction_ms(self.behind_ms())
    }

    /// Converts a clock's value to ms from the Unix epoch; `None` if it is unset, or counts from an unknown boot time.
    pub fn ms(&self, clock: Clock, value: u64) -> Option<i64> {
        match clock {
            Clock::Uptime => self.of_uptime(value as u32),
            _ if value == 0 => None,
            Clock::Seconds => Some(i64::try_from(value).unwrap_or(i64::MAX).saturating_mul(1000)),
            Clock::Milliseconds => Some(i64::try_from(value).unwrap_or(i64::MAX)),
            Clock::Ntp => {
                let seconds = (value >> 32) as i64 - NTP_TO_UNIX;
                Some(seconds * 1000 + (((value & 0xffff_ffff) * 1000) >> 32) as i64)
            }
            Clock::MicrosecondsBefore => {
                Some(self.export_ms.saturating_sub(i64::try_from(value / 1000).unwrap_or(i64::MAX)))
            }
        }
    }

    /// Uptimes wrap after 49.7 days: the value nearest to the export is meant.
    pub fn of_uptime(&self, value: u32) -> Option<i64> {
        let now = match (self.uptime_ms, self.boot_ms) {
            (Some(uptime), _) => uptime,
            (None, Some(boot)) => self.export_ms.wrapping_sub(boot) as u32,
            (None, None) => return None,
        };
        Some(self.export_ms.saturating_sub(i64::from(now.wrapping_sub(value) as i32)))
    }

    /// Converts the exporter's times of the first and last packet to this host's clock; returns them and whether it had
    /// to correct them: no flow ends after its export, or lasts longer than [`DecodeLimits::flow_ms`].
    pub fn settle(&self, first: Option<i64>, last: Option<i64>, limits: &DecodeLimits) -> (i64, i64, bool) {
        let export = self.export_ms;
        let possible =
            |ms: i64| ms <= export.saturating_add(AFTER_EXPORT_MS) && ms >= export.saturating_sub(limits.flow_ms);
        let said_last = last.or(first);
        let last = said_last.filter(|&last| possible(last)).unwrap_or(export);
        let said_first = first.or(said_last);
        let first = said_first.filter(|&first| first <= last && first >= last.saturating_sub(limits.flow_ms));
        let mended = said_last.is_some_and(|said| said != last) || (said_first.is_some() && first.is_none());
        let correction = self.correction_ms(limits);
        let first = first.unwrap_or(last);
        (first.saturating_add(correction), last.saturating_add(correction), mended)
    }
}
