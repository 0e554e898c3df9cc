//! Counters that tell the same more than once: totals of a flow that is reported again and again (IE 85, 86), and events of a
//! connection that come with the counts of another event. What each flow was last reported with is kept, within a bound.

use crate::collect::record::{Imported, SentCounts};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher as _;

/// Flows that are remembered at most, twice over.
const MOST: usize = 1 << 15;

/// How records of a template go on from those before of the same flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Counters since the flow began: what is new is the difference.
    Totals,
    /// Events with counts: the same counts at the same time are the same.
    Events,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    sent: [SentCounts; 2],
    last_ms: i64,
}

#[derive(Debug, Default)]
pub struct Totals {
    /// The flows of now, and those of before: these go when there are too many.
    now: HashMap<u64, Last, RandomState>,
    before: HashMap<u64, Last, RandomState>,
    hasher: RandomState,
}

impl Totals {
    /// Leaves in a record what is new of it, since when it was last reported; false where nothing is. `flow`: what else a flow
    /// is known by.
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
