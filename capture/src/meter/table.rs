//! The live flows of a worker: the state that outlasts an interval. The counts *within* an interval are a
//! [`super::record::Record`].
//!
//! Records of an interval lie densely in the order of their flows' first packets, so that closing an interval hands
//! over one vector and does not touch any flow. A flow knows its record of the two intervals that can be open at once
//! (the older one waits for its grace to pass).

use super::index::Index;
use super::key::{Compact, End, Initiator};
use super::memory::{self, Lines, place};
use super::record::{Extras, NONE, Stored, cost, is_event, packed_ms};
use super::tcp::{Connection, First, SegmentVerdict, end};
use crate::app::{AppPacket, AppSlot, Apps};
use crate::packet::{IpPacket, tcp};
use crate::prefetch::prefetch;
use crate::volume::Volume;
use foldhash::fast::RandomState;
use std::hash::BuildHasher;

/// Half of the range of a flow's times, ms: 12 days.
const FARTHEST_MS: i64 = 1 << 30;

/// Octets of memory that one flow may cost, including its records in the open and in the published interval: the
/// divisor of the memory bound.
pub const fn flow_cost<K>() -> usize {
    size_of::<Flow<K>>() + Index::COST + 2 * cost::<K>()
}

#[derive(Debug)]
struct Flow<K> {
    key: K,
    /// Time of the first packet in ns since the Unix epoch: low 32 bits, then high 32 bits.
    start: [u32; 2],
    /// Time of the last packet in ms after the table's base time, modulo 2^32.
    last: u32,
    /// Index of its record in each open interval, indexed by interval parity.
    records: [u32; 2],
    /// Low 16 bits of the interval number, indexed by interval parity.
    intervals: [u16; 2],
    /// See `connection`.
    tcp: u32,
    initiator: Initiator,
    connection: Follow,
    app: AppSlot,
}

/// State of a flow's TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follow {
    /// The flow is not TCP, or no TCP header was seen.
    Nothing,
    /// One segment of this end: `tcp` is the sequence number after it. With SYN, or without.
    Syn(End),
    Data(End),
    /// `tcp` is the index of its [`Connection`].
    All,
    /// No live flow: the entry is free.
    Free,
}

/// The live flows of one IP version.
pub struct FlowTable<K> {
    flows: Lines<Flow<K>>,
    free: Vec<u32>,
    index: Index,
    hasher: RandomState,
    connections: Vec<Connection>,
    free_connections: Vec<u32>,
    idle_ms: i64,
    /// The table's base time, ms from the Unix epoch.
    base_ms: i64,
    /// Where the search for idle flows continues, and its remainder.
    sweep: usize,
    owed: i64,
}

/// The data of a packet that its flow and its record count; or of fragments that waited together.
pub struct Arriving<'a> {
    pub ip: &'a IpPacket,
    /// Which end sent it.
    pub sender: End,
    /// Its volume.
    pub volume: Volume,
    /// Time of the first packet, ms from the Unix epoch.
    pub first_ms: i64,
    /// Time of the last packet, ms and ns from the Unix epoch.
    pub last_ms: i64,
    pub last_ns: i64,
    /// Fragments that waited for it, and the time of the first.
    pub more: Option<(Volume, i64)>,
    /// Number of the interval in which it is counted.
    pub interval: i64,
    /// The interval's start, ms from the Unix epoch.
    pub start_ms: i64,
    /// Its captured octets, from the IP header on.
    pub layer3: &'a [u8],
}

/// The outcome of counting a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// It is in a flow's record. True if it began the flow.
    Flow(bool),
    /// There was no room for a record. True if it nevertheless began a flow.
    NoRoom(bool),
}

/// Room for flows and records.
pub struct Room<F> {
    /// Octets that flows may take; called when a flow begins.
    pub flows: F,
    /// Maximum number of records.
    pub records: usize,
}

impl<K: Compact> FlowTable<K> {
    /// A table for at most `capacity` flows; it forgets a flow after `idle_ms` without a packet.
    pub fn new(capacity: usize, idle_ms: i64) -> FlowTable<K> {
        FlowTable {
            // This only reserves memory: pages are committed as flows arrive, and nothing ever moves.
            flows: memory::reserve_lines(capacity),
            free: Vec::new(),
            index: Index::default(),
            hasher: RandomState::default(),
            connections: Vec::new(),
            free_connections: Vec::new(),
            idle_ms,
            base_ms: 0,
            sweep: 0,
            owed: 0,
        }
    }

    /// Changes the idle time after which flows are forgotten.
    pub fn set_idle(&mut self, idle_ms: i64) {
        self.idle_ms = idle_ms;
    }

    /// Live flows, including those whose end the table has not noticed yet.
    pub fn entries(&self) -> usize {
        self.index.len()
    }

    pub fn octets(&self) -> usize {
        self.index.len() * flow_cost::<K>() + self.connections.len() * size_of::<Connection>()
    }

    /// The hash of a key; prefetches its flow's index entry.
    #[inline]
    pub fn hash(&self, key: &K) -> u64 {
        let hash = self.hasher.hash_one(key);
        self.index.prefetch(hash);
        hash
    }

    /// Prefetches the flow with this hash.
    #[inline]
    pub fn prefetch_flow(&self, hash: u64) -> Option<u32> {
        let number = self.index.likely(hash)?;
        prefetch(&self.flows[number as usize]);
        Some(number)
    }

    /// Prefetches a flow's record.
    #[inline]
    pub fn prefetch_record(&self, number: u32, interval: i64, records: &[Stored<K>]) {
        let flow = &self.flows[number as usize];
        if flow.connection == Follow::All {
            prefetch(&self.connections[flow.tcp as usize]);
        }
        if let Some(record) = records.get(flow.records[(interval & 1) as usize] as usize) {
            prefetch(record);
        }
    }

    /// Counts a packet in its flow's record, and creates either if it is missing and there is room. Takes the key with
    /// its hash, and the result of [`FlowTable::prefetch_flow`], valid while no flow is forgotten.
    #[inline]
    pub fn count(
        &mut self,
        (key, hash, likely): (&K, u64, Option<u32>),
        arriving: &Arriving<'_>,
        (records, extras): (&mut Vec<Stored<K>>, &mut Extras),
        room: Room<impl FnOnce() -> usize>,
        apps: &mut Apps,
    ) -> Counted {
        let &Arriving { ip, sender, last_ns: time_ns, last_ms: now_ms, interval, start_ms, .. } = arriving;
        // A late packet may have any time; its flow is alive in the interval that it is counted in.
        let alive_ms = now_ms.max(start_ms);
        let now = alive_ms.wrapping_sub(self.base_ms) as u32;
        let flows = &self.flows;
        let is = |number: u32| flows[number as usize].key == *key;
        let found = likely.filter(|&number| is(number)).or_else(|| self.index.find(hash, is));
        let (number, new) = match found {
            Some(number) => {
                let flow = &mut self.flows[number as usize];
                let since = now.wrapping_sub(flow.last) as i32;
                let idle = i64::from(since) > self.idle_ms;
                if idle {
                    flow.release(&mut self.free_connections, apps);
                    *flow = Flow::new(key, ip, sender, time_ns, now);
                } else if since > 0 {
                    flow.last = now;
                }
                (number, idle)
            }
            None if self.octets() < (room.flows)() => {
                if self.flows.is_empty() {
                    self.base_ms = alive_ms;
                }
                let now = alive_ms.wrapping_sub(self.base_ms) as u32;
                let flow = Flow::new(key, ip, sender, time_ns, now);
                let number = match self.free.pop() {
                    Some(number) => {
                        self.flows[number as usize] = flow;
                        number
                    }
                    None => {
                        self.flows.push(flow);
                        (self.flows.len() - 1) as u32
                    }
                };
                self.index.insert(hash, number);
                (number, true)
            }
            None => return Counted::NoRoom(false),
        };
        let flow = &mut self.flows[number as usize];
        let verdict = match &ip.tcp {
            Some(segment) if !ip.is_later_fragment() => {
                let known = (&mut self.connections, &mut self.free_connections);
                let verdict = flow.follow(segment, sender, time_ns, new, known);
                if flow.initiator.guess && segment.flags & (tcp::SYN | tcp::ACK) == tcp::SYN {
                    flow.initiator = Initiator { end: sender, guess: false };
                }
                verdict
            }
            _ => SegmentVerdict::default(),
        };
        let from_initiator = sender == flow.initiator.end;
        let transport = usize::from(ip.transport);
        let time_ms = now_ms.max(0) as u64;
        let packet = AppPacket { ip, l3: arriving.layer3, l4: transport, from_initiator, time_ms };
        let learnt = apps.packet(&mut flow.app, &packet);
        let parity = (interval & 1) as usize;
        let at = |ms: i64| packed_ms(ms - start_ms);
        if flow.intervals[parity] != interval as u16 {
            if records.len() >= room.records {
                return Counted::NoRoom(new);
            }
            flow.intervals[parity] = interval as u16;
            flow.records[parity] = records.len() as u32;
            let flow_start_ms = flow.start_ns().div_euclid(1_000_000);
            records.push(Stored::new(*key, flow.initiator, flow_start_ms, at(now_ms)));
        }
        let record = &mut records[flow.records[parity] as usize];
        record.initiator = flow.initiator;
        if learnt || record.is_new() {
            record.tell(extras, &flow.app);
        }
        record.classify(extras, sender, ip.class_of_service);
        let last = at(now_ms);
        let first = if arriving.first_ms == now_ms { last } else { at(arriving.first_ms) };
        let mut full = record.count(sender, arriving.volume, first, last);
        if let Some((volume, first_ms)) = arriving.more {
            full |= record.count(sender, volume, at(first_ms), last);
        }
        if is_event(ip) && !ip.is_later_fragment() || verdict != SegmentVerdict::default() {
            full |= record.note(extras, ip, sender, verdict, arriving.layer3);
        }
        if full {
            // The flow's next packet begins a new record.
            flow.intervals[parity] = !flow.intervals[parity];
        }
        Counted::Flow(new)
    }

    /// Advances the time by `elapsed_ms`: checks enough flows to cover all in a quarter of the idle time, and forgets
    /// idle ones.
    pub fn tick(&mut self, elapsed_ms: i64, now_ms: i64, apps: &mut Apps) {
        let len = self.flows.len();
        let pass_ms = (self.idle_ms / 4).max(1);
        self.owed += (len as i64).saturating_mul(elapsed_ms.clamp(0, pass_ms));
        let count = (self.owed / pass_ms).min(len as i64);
        self.owed -= count * pass_ms;
        if count == 0 || len == 0 {
            self.owed = self.owed.min(pass_ms);
            return;
        }
        let now = now_ms.wrapping_sub(self.base_ms) as u32;
        // After a jump this long all flows are idle, for a time that 32 bits do not hold.
        let jumped = elapsed_ms > FARTHEST_MS;
        for _ in 0..count {
            self.sweep = if self.sweep + 1 < len { self.sweep + 1 } else { 0 };
            let flow = &mut self.flows[self.sweep];
            let idle = jumped || i64::from(now.wrapping_sub(flow.last) as i32) > self.idle_ms;
            if flow.connection != Follow::Free && idle {
                flow.release(&mut self.free_connections, apps);
                flow.connection = Follow::Free;
                let number = self.sweep as u32;
                self.index.remove(self.hasher.hash_one(flow.key), number);
                self.free.push(number);
            }
        }
    }
}

impl<K: Compact> Flow<K> {
    fn new(key: &K, ip: &IpPacket, sender: End, time_ns: i64, now: u32) -> Flow<K> {
        Flow {
            key: *key,
            start: [time_ns as u32, (time_ns >> 32) as u32],
            last: now,
            records: [NONE; 2],
            // These match no interval: the lowest bit of an interval's number is its parity.
            intervals: [1, 0],
            tcp: NONE,
            initiator: Initiator::told_by(ip, sender),
            connection: Follow::Nothing,
            app: AppSlot::default(),
        }
    }

    fn start_ns(&self) -> i64 {
        i64::from(self.start[1]) << 32 | i64::from(self.start[0])
    }

    /// Processes a segment; the table keeps a connection only from its second segment on, so that a flood of first
    /// segments costs nothing.
    fn follow(
        &mut self,
        segment: &crate::packet::Tcp,
        sender: End,
        time_ns: i64,
        new: bool,
        (connections, free): (&mut Vec<Connection>, &mut Vec<u32>),
    ) -> SegmentVerdict {
        let first = |sender, syn, next, at_ns| First { sender, at_ns, syn, next };
        let start_ns = self.start_ns();
        let started = match self.connection {
            Follow::All => return connections[self.tcp as usize].follow(segment, sender, time_ns),
            Follow::Syn(of) => Some(first(of, true, self.tcp, start_ns)),
            Follow::Data(of) => Some(first(of, false, self.tcp, start_ns)),
            Follow::Nothing | Follow::Free => None,
        };
        let syn = segment.flags & (tcp::SYN | tcp::ACK) == tcp::SYN;
        let Some(started) = started else {
            // The start time of the handshake is the flow's own, so only its first packet can be stored this way.
            if new {
                self.tcp = end(segment);
                self.connection = if syn { Follow::Syn(sender) } else { Follow::Data(sender) };
            } else {
                self.keep(Connection::new(first(sender, syn, end(segment), time_ns)), connections, free);
            }
            return SegmentVerdict::default();
        };
        self.keep(Connection::new(started), connections, free);
        connections[self.tcp as usize].follow(segment, sender, time_ns)
    }

    fn keep(&mut self, connection: Connection, connections: &mut Vec<Connection>, free: &mut Vec<u32>) {
        self.connection = Follow::All;
        self.tcp = place(connections, free, connection);
    }

    /// Releases the flow's connection and detection state.
    fn release(&mut self, free_connections: &mut Vec<u32>, apps: &mut Apps) {
        apps.end(&mut self.app);
        if self.connection == Follow::All {
            free_connections.push(self.tcp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::{V4, V6};
    use super::*;

    #[test]
    fn flows_are_small() {
        assert_eq!((size_of::<Flow<V4>>(), size_of::<Flow<V6>>()), (64, 88));
    }
}
