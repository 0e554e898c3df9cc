//! Counters that repeat earlier counts: running totals of a flow (IE 85, 86), and events of a connection that repeat
//! the counts of another event. The last reported totals of each flow are kept, within a bound.

use crate::collect::record::{Imported, SentCounts};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher as _;

/// Maximum remembered flows of each of two generations.
const MOST: usize = 1 << 15;

/// How a template's records relate to earlier records of the same flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Counters since the flow began: the difference is new.
    Totals,
    /// Events with counts: equal counts at the same time are a repeat.
    Events,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    sent: [SentCounts; 2],
    last_ms: i64,
}

#[derive(Debug, Default)]
pub struct Totals {
    /// The current and the previous generation of flows; the previous one is dropped when the current is full.
    now: HashMap<u64, Last, RandomState>,
    before: HashMap<u64, Last, RandomState>,
    hasher: RandomState,
}

impl Totals {
    /// Reduces a record to the counts since its last report; false if there are none. `flow`: the rest of the flow's
    /// identity.
    pub fn settle(&mut self, follows: Follows, of: u64, flow: (u64, i64), record: &mut Imported<'_>) -> bool {
        let key = self.hasher.hash_one((of, flow, record.addresses, record.ports, record.protocol, record.vlan));
        if self.now.len() >= MOST {
            self.before = std::mem::take(&mut self.now);
        }
        let now = Last { sent: record.sent, last_ms: record.last_ms };
        let last = self.now.insert(key, now).or_else(|| self.before.remove(&key));
        let Some(last) = last else { return true };
        let counts = |sent: &[SentCounts; 2]| sent.map(|sent| (sent.packets, sent.octets));
        match follows {
            Follows::Events if counts(&last.sent) == counts(&now.sent) && last.last_ms == now.last_ms => return false,
            Follows::Events => {}
            Follows::Totals => {
                let grew = now.sent.iter().zip(&last.sent);
                // What became less is of another flow.
                if grew.clone().any(|(now, last)| now.packets < last.packets || now.octets < last.octets) {
                    return true;
                }
                for (sent, last) in record.sent.iter_mut().zip(&last.sent) {
                    sent.packets -= last.packets;
                    sent.octets -= last.octets;
                }
                if counts(&record.sent) == [(0, 0); 2] {
                    return false;
                }
            }
        }
        record.first_ms = record.first_ms.max(last.last_ms).min(record.last_ms);
        true
    }
}
