//! The live flows of a worker: what outlasts an interval. What a flow did *in* an interval is a [`Record`].
//!
//! Records of an interval lie densely in the order of their flows' first packets, so that closing an interval hands
//! over one vector and touches no flow. A flow knows its record of the two intervals that can be open at once (the
//! older one waits for its grace to pass).

use super::key::{End, Initiator, Key};
use super::record::Record;
use crate::packet::{IpPacket, tcp};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Octets of memory that one flow may cost, its records in the open, the next and the interval being published
/// included: what the memory bound is divided by.
pub const FLOW_COST: usize = size_of::<Flow>() + INDEX_COST + 3 * size_of::<Record>();

/// Octets of an index entry at the index's smallest load (7/16), control octet included.
const INDEX_COST: usize = (size_of::<u32>() + 1) * 16 / 7;

/// A flow that is alive.
#[derive(Debug)]
struct Flow {
    key: Key,
    initiator: Initiator,
    handshake: Handshake,
    start_ms: i64,
    last_ms: i64,
    /// By parity of the interval's number: that number and the record's index.
    records: [(i64, u32); 2],
    hash: u64,
    alive: bool,
}

/// How far TCP's three-way handshake (RFC 9293, section 3.5) was seen to come.
#[derive(Clone, Copy, Debug)]
enum Handshake {
    None,
    Syn { from: End, at_ns: i64, sequence: u32 },
    SynAck { from: End, syn_at_ns: i64, acknowledges: u32 },
}

/// The live flows.
pub struct FlowTable {
    flows: Vec<Flow>,
    free: Vec<u32>,
    index: HashTable<u32>,
    hasher: RandomState,
    capacity: usize,
    idle_ms: i64,
    /// Where the search for idle flows goes on.
    sweep: usize,
}

/// No flow may be added: the table is full.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

impl FlowTable {
    /// A table for `capacity` flows, each of them forgotten after `idle_ms` without a packet.
    pub fn new(capacity: usize, idle_ms: i64) -> FlowTable {
        let capacity = capacity.clamp(1, u32::MAX as usize);
        FlowTable {
            // Memory is only promised here: pages come as flows do, and nothing ever has to be moved.
            flows: Vec::with_capacity(capacity),
            free: Vec::new(),
            index: HashTable::with_capacity(capacity),
            hasher: RandomState::default(),
            capacity,
            idle_ms,
            sweep: 0,
        }
    }

    /// Flows alive, those included whose end was not noticed yet.
    pub fn entries(&self) -> usize {
        self.index.len()
    }

    /// Flows that fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The number of a packet's flow, made where there is none, and whether it is new.
    ///
    /// # Errors
    /// [`Full`] where it would be new and there is no room.
    pub fn find(&mut self, key: &Key, ip: &IpPacket, sender: End, now_ms: i64) -> Result<(u32, bool), Full> {
        let hash = self.hasher.hash_one(key);
        let flows = &mut self.flows;
        if let Some(&number) = self.index.find(hash, |&number| flows[number as usize].key == *key) {
            let flow = &mut flows[number as usize];
            let idle = now_ms - flow.last_ms > self.idle_ms;
            if idle {
                flow.restart(Initiator::told_by(ip, sender), now_ms);
            } else {
                flow.last_ms = flow.last_ms.max(now_ms);
            }
            return Ok((number, idle));
        }
        let flow = Flow {
            key: *key,
            initiator: Initiator::told_by(ip, sender),
            handshake: Handshake::None,
            start_ms: now_ms,
            last_ms: now_ms,
            records: [(-1, 0); 2],
            hash,
            alive: true,
        };
        let number = if let Some(number) = self.free.pop() {
            flows[number as usize] = flow;
            number
        } else if flows.len() < self.capacity {
            flows.push(flow);
            (flows.len() - 1) as u32
        } else {
            return Err(Full);
        };
        self.index.insert_unique(hash, number, |&number| flows[number as usize].hash);
        Ok((number, true))
    }

    /// The record of a flow in interval `interval`, made at the end of `records` where there is none yet; `None`
    /// where that would be one more than `limit`.
    pub fn record<'a>(
        &mut self,
        number: u32,
        interval: i64,
        records: &'a mut Vec<Record>,
        limit: usize,
        now_ms: i64,
    ) -> Option<&'a mut Record> {
        let flow = &mut self.flows[number as usize];
        let slot = &mut flow.records[(interval & 1) as usize];
        if slot.0 != interval {
            if records.len() >= limit {
                return None;
            }
            *slot = (interval, records.len() as u32);
            records.push(Record::new(flow.key, flow.initiator, flow.start_ms, now_ms));
        }
        Some(&mut records[slot.1 as usize])
    }

    /// Follows a TCP packet: who began, where that was a guess so far, and how long the handshake took.
    pub fn follow(&mut self, number: u32, ip: &IpPacket, sender: End, time_ns: i64, record: &mut Record) {
        let Some(segment) = ip.tcp else { return };
        let flow = &mut self.flows[number as usize];
        match segment.flags & (tcp::SYN | tcp::ACK) {
            tcp::SYN => {
                if flow.initiator.guess {
                    flow.initiator = Initiator { end: sender, guess: false };
                    record.initiator = flow.initiator;
                }
                flow.handshake = Handshake::Syn { from: sender, at_ns: time_ns, sequence: segment.sequence };
            }
            super::key::SYN_ACK => {
                if let Handshake::Syn { from, at_ns, sequence } = flow.handshake
                    && from != sender
                    && segment.acknowledgement == sequence.wrapping_add(1)
                {
                    let acknowledges = segment.sequence.wrapping_add(1);
                    flow.handshake = Handshake::SynAck { from: sender, syn_at_ns: at_ns, acknowledges };
                }
            }
            tcp::ACK => {
                if let Handshake::SynAck { from, syn_at_ns, acknowledges } = flow.handshake
                    && from != sender
                    && segment.acknowledgement == acknowledges
                {
                    flow.handshake = Handshake::None;
                    // A handshake within less than a microsecond is still one that was seen.
                    record.handshake_rtt_us = ((time_ns - syn_at_ns) / 1000).clamp(1, i64::from(u32::MAX)) as u32;
                }
            }
            _ => {}
        }
    }

    /// Looks at `count` more flows and forgets those that are idle.
    pub fn sweep(&mut self, count: usize, now_ms: i64) {
        for _ in 0..count.min(self.flows.len()) {
            self.sweep = if self.sweep + 1 < self.flows.len() { self.sweep + 1 } else { 0 };
            let number = self.sweep as u32;
            let flow = &mut self.flows[self.sweep];
            if flow.alive && now_ms - flow.last_ms > self.idle_ms {
                flow.alive = false;
                if let Ok(entry) = self.index.find_entry(flow.hash, |&other| other == number) {
                    entry.remove();
                }
                self.free.push(number);
            }
        }
    }
}

impl Flow {
    /// Begins anew after a time without packets; records of this interval, if any, stay as they are.
    fn restart(&mut self, initiator: Initiator, now_ms: i64) {
        self.initiator = initiator;
        self.handshake = Handshake::None;
        self.start_ms = now_ms;
        self.last_ms = now_ms;
    }
}
