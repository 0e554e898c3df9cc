//! Counters that repeat earlier counts: running totals of a flow (IE 85, 86), and events of a connection that repeat
//! the counts of another event. Each exporter has a table of its flows' last totals, within a bound. Where the table
//! cannot know whether an earlier total was counted, it counts nothing.

use crate::collect::exporter::origin::Session;
use crate::collect::record::{Imported, SentCounts};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher as _;

/// How a template's records relate to earlier records of the same flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Counters since the flow began: the difference is new.
    Totals,
    /// Events with counts: equal counts at the same time are a repeat.
    Events,
}

/// The part of a record that was not counted before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The counts that the record now holds.
    New,
    /// Nothing: an earlier record reported all of it.
    Repeated,
    /// Nothing that is certain: an earlier record, which the table does not know, may have reported it. Later totals of
    /// the flow count from here.
    MayBeRepeated,
}

/// A record's place among the records of its exporter.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    pub follows: Follows,
    /// The session that it belongs to.
    pub session: Session,
    /// The flow's identity besides addresses and ports: its number, and its start time as sent.
    pub flow: (u64, i64),
    /// When the flow began or, of an event, when it happened, ms; the least possible time if it is not stated.
    pub began_ms: i64,
    /// When the record was exported, ms.
    pub sent_ms: i64,
    /// When the flow ended or the event happened, by the exporter's clock, ms.
    pub stated_ms: i64,
    /// Whether it is the flow's last record.
    pub ended: bool,
    /// Records of the session before this time, ms, are unknown.
    pub since_ms: i64,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    counts: [(u64, u64); 2],
    last_ms: i64,
    stated_ms: i64,
    began_ms: i64,
    sent_ms: i64,
    ended: bool,
}

/// The last totals of one exporter's flows.
#[derive(Clone, Debug)]
pub struct Totals {
    /// The current and the previous generation of flows; the previous one is dropped when both are full.
    now: HashMap<u64, Last, RandomState>,
    before: HashMap<u64, Last, RandomState>,
    hasher: RandomState,
    /// Flows that began before this time, ms, may have been dropped.
    since_ms: i64,
}

impl Default for Totals {
    fn default() -> Totals {
        let (now, before) = (HashMap::default(), HashMap::default());
        Totals { now, before, hasher: RandomState::default(), since_ms: i64::MIN }
    }
}

impl Totals {
    /// Number of flows.
    pub fn flows(&self) -> usize {
        self.now.len() + self.before.len()
    }

    /// Moves the times of its flows, whose exporter's records are dated this many ms later from now on.
    pub fn clock_set(&mut self, later_ms: i64) {
        let moved = |ms: &mut i64| {
            if *ms != i64::MIN {
                *ms = ms.saturating_add(later_ms);
            }
        };
        moved(&mut self.since_ms);
        if later_ms != 0 {
            for last in self.now.values_mut().chain(self.before.values_mut()) {
                moved(&mut last.began_ms);
                moved(&mut last.last_ms);
            }
        }
    }

    /// Makes room for another flow: none of `most` flows is dropped, and at most half as many more are kept. Returns
    /// the number of dropped flows that had not ended.
    #[inline]
    pub fn make_room(&mut self, most: usize) -> u64 {
        let is_full = self.now.len() >= most / 2 && self.flows() >= most;
        if is_full { self.drop_oldest() } else { 0 }
    }

    /// Drops the previous generation; the current one takes its place.
    #[cold]
    pub fn drop_oldest(&mut self) -> u64 {
        let gone = std::mem::replace(&mut self.before, std::mem::take(&mut self.now));
        let mut dropped = 0;
        for last in gone.values().filter(|last| !last.ended) {
            self.since_ms = self.since_ms.max(last.began_ms.saturating_add(1));
            dropped += 1;
        }
        dropped
    }

    /// Reduces a record to the counts that no earlier record reported.
    pub fn settle(&mut self, report: &Report, record: &mut Imported<'_>) -> Settled {
        let Report { follows, session, flow, began_ms, sent_ms, stated_ms, ended, since_ms } = *report;
        let key = self.hasher.hash_one((session, flow, record.addresses, record.ports, record.protocol, record.vlan));
        let counts = |sent: &[SentCounts; 2]| sent.map(|sent| (sent.packets, sent.octets));
        let counted = counts(&record.sent);
        let now = Last { counts: counted, last_ms: record.last_ms, stated_ms, began_ms, sent_ms, ended };
        let Some(last) = self.now.insert(key, now).or_else(|| self.before.remove(&key)) else {
            let is_known = began_ms >= since_ms.max(self.since_ms);
            return if is_known { Settled::New } else { Settled::MayBeRepeated };
        };
        match follows {
            Follows::Events if last.counts == now.counts && last.stated_ms == now.stated_ms => {
                return Settled::Repeated;
            }
            Follows::Events => {}
            Follows::Totals => {
                let mut grew = now.counts.iter().zip(&last.counts);
                if grew.any(|(now, last)| now.0 < last.0 || now.1 < last.1) {
                    // Lower counts: an earlier record that arrived late, or, if it was sent later, another flow.
                    if sent_ms > last.sent_ms {
                        return Settled::New;
                    }
                    self.now.insert(key, last);
                    return Settled::Repeated;
                }
                for (sent, (packets, octets)) in record.sent.iter_mut().zip(&last.counts) {
                    sent.packets -= packets;
                    sent.octets -= octets;
                }
                if counts(&record.sent) == [(0, 0); 2] {
                    return Settled::Repeated;
                }
            }
        }
        record.first_ms = record.first_ms.max(last.last_ms).min(record.last_ms);
        Settled::New
    }
}
