//! State of one exporter session in one observation domain: its templates, sampling rates and sequence numbers are its
//! own (RFC 7011, sections 3.1 and 8).

use crate::collect::element::moment::Moment;
use crate::collect::element::template::{LeftOut, Templates};
use crate::collect::exporter::counting::Counting;
use crate::collect::exporter::origin::Session;
use crate::collect::exporter::recent::Recent;
use crate::collect::exporter::sampling::Rates;
use crate::collect::limits::DecodeLimits;

/// How far an uptime may deviate from its expected value, ms, in addition to a 64th of the time elapsed.
const DRIFT_MS: i64 = 10_000;

#[derive(Clone, Debug, Default)]
pub struct Talk {
    pub session: Session,
    pub heard_ms: i64,
    /// Number of its datagrams.
    pub datagrams: u64,
    pub counting: Counting,
    /// Last uptime and its arrival time, in ms.
    pub uptime: Option<(u32, i64)>,
    pub templates: Templates,
    /// Boot time from an option, ms from the Unix epoch.
    pub boot_ms: Option<i64>,
    pub rates: Rates,
    /// Sets that wait for a template.
    pub waiting: u32,
    /// The session by which its flows' totals are found: for UDP the first one, if it moved; for TCP the session
    /// without its port.
    pub origin: Session,
    /// Records before this time are unknown, ms, as records are dated; `None` before the first datagram.
    pub since_ms: Option<i64>,
    /// By how much the exporter's clock was behind this host's at its last datagram, ms.
    pub behind_ms: i64,
    pub recent: Recent,
}

impl Talk {
    pub fn new(session: Session) -> Talk {
        let origin = if session.stream { Session { port: 0, ..session } } else { session };
        Talk { session, origin, heard_ms: i64::MIN, ..Talk::default() }
    }

    /// The same exporter in another session.
    pub fn moved(&self, session: Session) -> Talk {
        Talk {
            session,
            heard_ms: self.heard_ms,
            datagrams: 0,
            counting: self.counting.clone(),
            uptime: self.uptime,
            boot_ms: self.boot_ms,
            templates: self.templates.clone(),
            rates: self.rates.clone(),
            waiting: 0,
            origin: self.origin,
            since_ms: self.since_ms,
            behind_ms: self.behind_ms,
            recent: Recent::default(),
        }
    }

    /// Moves the times when it was heard along with the host's clock. Returns by how much later its records are dated
    /// from now on, ms: those of an exporter whose clock is far off are dated by the host's.
    pub fn clock_set(&mut self, by_ms: i64, limits: &DecodeLimits) -> i64 {
        self.heard_ms = self.heard_ms.saturating_add(by_ms);
        if let Some((_, at_ms)) = &mut self.uptime {
            *at_ms = at_ms.saturating_add(by_ms);
        }
        let before_ms = limits.correction_ms(self.behind_ms);
        self.behind_ms = self.behind_ms.saturating_add(by_ms);
        let later_ms = limits.correction_ms(self.behind_ms).saturating_sub(before_ms);
        if let Some(since_ms) = self.since_ms.as_mut().filter(|since_ms| **since_ms != i64::MIN) {
            *since_ms = since_ms.saturating_add(later_ms);
        }
        later_ms
    }

    /// Reads a datagram's times; returns whether the exporter restarted since the previous one. A restart also restarts
    /// sequence numbers and invalidates templates (RFC 3954, section 9). `may_hold`: whether the sequence numbers
    /// contradict a restart, given whether the uptime continues.
    ///
    /// The uptime of a restarted exporter began after its last datagram. An uptime that merely decreases belongs to a
    /// late datagram, or to another card in the same domain.
    pub fn hear(
        &mut self,
        moment: &Moment,
        may_hold: impl Fn(&Counting, bool) -> bool,
        left_out: &mut LeftOut,
    ) -> bool {
        let last_ms = self.heard_ms;
        self.heard_ms = last_ms.max(moment.received_ms);
        let Some(uptime) = moment.uptime_ms else { return false };
        let Some((before, at_ms)) = self.uptime.replace((uptime, moment.received_ms)) else { return false };
        let on = i64::from(uptime.wrapping_sub(before) as i32);
        let elapsed = moment.received_ms.saturating_sub(at_ms);
        let runs_on = on.saturating_sub(elapsed).saturating_abs() <= DRIFT_MS + elapsed.saturating_abs() / 64;
        let booted_ms = moment.received_ms.saturating_sub(i64::from(uptime));
        if booted_ms < last_ms.saturating_sub(DRIFT_MS) || may_hold(&self.counting, runs_on) {
            return false;
        }
        self.counting.restart();
        std::mem::take(&mut self.templates).forget(left_out);
        true
    }
}
