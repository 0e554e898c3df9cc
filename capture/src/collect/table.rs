//! Imported records added up by interval, exporter and biflow: what becomes records of Weir's own.
//!
//! A one-way record and its answer meet here, whichever comes first. Whose turn it is to be the source is decided when the
//! interval is published: who is known to have begun the flow, else who sent a SYN alone, else whose record begins
//! earlier, else who does not speak from the service's port.

use super::record::Imported;
use super::split::Spread;
use crate::filter::FilterCounts;
use crate::meter::index::Index;
use crate::meter::key::{Compact, End, Key, V4, V6, is_icmp};
use crate::meter::memory::advise_huge;
use crate::packet::{self, Address, tcp};
use crate::prefetch::prefetch;
use crate::publish::encode::BatchEncoder;
use crate::volume::Volume;
use arrayvec::ArrayVec;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use std::hash::{BuildHasher as _, Hash, Hasher};
use std::sync::Arc;

/// Parts of records that are added together, so that the memory of all is on its way while the first one waits for it.
const TOGETHER: usize = 16;
/// Flows that a list has room for at first.
const LEAST: usize = 64;
/// Octets of a server name or DNS name that are kept.
const MAX_NAME: usize = 255;
/// Octets that a record takes at most without its names: 30 numbers with their keys, three addresses, keys and lengths.
const NUMBERS_ROOM: usize = 30 * 12 + 3 * 19 + 2 * 5;

#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// Length of the intervals, ms.
    pub interval_ms: i64,
    /// Entries of all intervals together; past it what is there has to be published.
    pub max_entries: usize,
    /// How far before the open interval records may reach, ms.
    pub oldest_ms: i64,
}

/// Records whose times could not be taken as they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clamped {
    /// Ended after the open interval: counted at its end.
    pub future: u64,
    /// Began longer ago than is published: what was before is counted in the oldest interval.
    pub old: u64,
}

/// The exporter that reported a flow, and its sampling rate. A router's cards, which are observation domains, may each see one
/// direction of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Origin {
    exporter: Address,
    sampling: u32,
}

/// One flow of one origin, which is a number in the list of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FlowKey<K> {
    key: K,
    origin: u32,
}

impl<K: Hash> Hash for FlowKey<K> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
        state.write_u32(self.origin);
    }
}

/// What one end sent in one interval.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    packets: u64,
    octets: u64,
    /// Flows in which its record had the flag: a SYN in the first interval, FIN and RST in the last one.
    syn: u32,
    lone_syn: bool,
    fin: u32,
    rst: u32,
    /// As its first record states it.
    class_of_service: u8,
    /// When the earliest flow began that it sent in, ms; 0 where it sent nothing.
    began_ms: i64,
}

/// Values that few exporters report.
#[derive(Clone, Debug, Default)]
struct Rare {
    retransmissions: [u64; 2],
    out_of_order: [u64; 2],
    server: Box<[u8]>,
    query: Box<[u8]>,
}

#[derive(Debug)]
struct Cell {
    sides: [Side; 2],
    start_ms: i64,
    first_ms: i64,
    last_ms: i64,
    /// Who is known to have begun it.
    known: Option<End>,
    /// The end to whose packets the interfaces belong, and the interfaces.
    interfaces: (End, u32, u32),
    rtt_us: u32,
    application_id: u16,
    rare: Option<Box<Rare>>,
}

/// The flows of an interval, those of each IP version apart: most are of IPv4, whose keys are small.
#[derive(Default)]
struct Cells {
    four: List<V4>,
    six: List<V6>,
}

/// Flows in the order they came, so that new ones are written where the last one was; and where each is by its key.
struct List<K> {
    places: Index,
    flows: Vec<(FlowKey<K>, Cell)>,
}

/// The flows of one interval.
pub struct Flows {
    /// Start of the interval, ms.
    pub start_ms: i64,
    cells: Cells,
    origins: Arc<[Origin]>,
}

/// The open interval and those before it of which something came.
pub struct Table {
    options: TableOptions,
    open_ms: i64,
    /// The flows of each interval, by its start.
    flows: Vec<(i64, Cells)>,
    /// What is still to be added.
    pending: ArrayVec<Pending, TOGETHER>,
    entries: usize,
    clamped: Clamped,
    /// The exporters of the flows in the table, and the number of each.
    origins: Vec<Origin>,
    numbers: HashMap<Origin, u32, RandomState>,
    hasher: RandomState,
    /// What was emptied, for further intervals, the largest last: its memory stays, with room for twice as many entries as
    /// there may be, for lists that grow double.
    spare: Vec<Cells>,
}

impl Table {
    /// An empty one whose open interval begins at `open_ms`.
    pub fn new(options: TableOptions, open_ms: i64) -> Table {
        Table {
            options,
            open_ms,
            flows: Vec::new(),
            pending: ArrayVec::new(),
            entries: 0,
            clamped: Clamped::default(),
            origins: Vec::new(),
            numbers: HashMap::default(),
            hasher: RandomState::default(),
            spare: Vec::new(),
        }
    }

    /// Start of the open interval, ms.
    pub fn open_ms(&self) -> i64 {
        self.open_ms
    }

    /// Opens the interval that begins at `start_ms`.
    pub fn open(&mut self, start_ms: i64) {
        self.open_ms = start_ms;
    }

    /// Entries of all intervals, at most.
    pub fn entries(&self) -> usize {
        self.entries + self.pending.len()
    }

    /// Whether what is there has to be published before more comes.
    pub fn is_full(&self) -> bool {
        self.entries() >= self.options.max_entries
    }

    /// What was counted at another time than it said.
    pub fn clamped(&self) -> Clamped {
        self.clamped
    }

    /// Takes all that is there, the oldest interval first.
    pub fn take(&mut self) -> Vec<Flows> {
        self.settle();
        self.entries = 0;
        self.numbers.clear();
        let origins: Arc<[Origin]> = std::mem::take(&mut self.origins).into();
        let flows = self.flows.drain(..);
        flows.map(|(start_ms, cells)| Flows { start_ms, cells, origins: Arc::clone(&origins) }).collect()
    }

    /// Gives the memory of published flows back.
    pub fn recycle(&mut self, flows: Flows) {
        let mut cells = flows.cells;
        cells.clear();
        let at = self.spare.partition_point(|spare| spare.capacity() < cells.capacity());
        self.spare.insert(at, cells);
        // The smallest ones are the least loss.
        let mut kept = 0;
        let all = self.spare.iter().rev();
        let most = all.take_while(|spare| {
            kept += spare.capacity();
            kept <= 2 * self.options.max_entries
        });
        let most = most.count().max(1);
        self.spare.drain(..self.spare.len() - most);
    }

    /// Adds a record of an exporter; returns the packets and octets that it stands for, scaled.
    pub fn add(&mut self, exporter: &Address, record: &Imported<'_>) -> Volume {
        let TableOptions { interval_ms, oldest_ms, .. } = self.options;
        let newest = self.open_ms + interval_ms - 1;
        let oldest = self.open_ms - oldest_ms;
        let (mut first, mut last) = (record.first_ms, record.last_ms.max(record.first_ms));
        if last > newest {
            self.clamped.future += 1;
            // Of a clock that is ahead: as long as it was, but until now.
            first = newest.saturating_sub(last.saturating_sub(first));
            last = newest;
        }
        if first < oldest {
            self.clamped.old += 1;
            first = oldest;
            last = last.max(first);
        }
        let (key, sender) = key_of(record);
        let scale = u64::from(record.sampling.unwrap_or(1).max(1));
        let scaled = record.sent.map(|sent| (sent.packets.saturating_mul(scale), sent.octets.saturating_mul(scale)));
        let origin = self.origin(Origin { exporter: *exporter, sampling: record.sampling.unwrap_or(0) });
        let key = FlowKey { key, origin };
        let hash = match key.key.version {
            4 => self.hasher.hash_one(FlowKey { key: V4::of(&key.key), origin }),
            _ => self.hasher.hash_one(FlowKey { key: V6::of(&key.key), origin }),
        };
        let whole = FlowPart {
            sent: scaled,
            start_ms: first,
            first_ms: first,
            last_ms: last,
            begins: true,
            ends: true,
            sender,
            flags: record.sent.map(|sent| sent.tcp_flags),
            class_of_service: record.sent.map(|sent| sent.class_of_service),
            initiator_known: record.initiator_known,
            interfaces: (record.input_interface, record.output_interface),
            rtt_us: record.handshake_rtt_us,
            application_id: record.application_id,
            rare: Rare::of(record, sender),
        };
        let start = first.div_euclid(interval_ms) * interval_ms;
        if last < start + interval_ms {
            self.put(key, hash, start, whole);
        } else {
            self.split(key, hash, start, &whole);
        }
        Volume { packets: scaled[0].0.saturating_add(scaled[1].0), octets: scaled[0].1.saturating_add(scaled[1].1) }
    }

    /// The number of an origin. There are no more of them than records since all was taken.
    fn origin(&mut self, origin: Origin) -> u32 {
        if self.origins.last() == Some(&origin) {
            return self.origins.len() as u32 - 1;
        }
        *self.numbers.entry(origin).or_insert_with(|| {
            self.origins.push(origin);
            self.origins.len() as u32 - 1
        })
    }

    fn split(&mut self, key: FlowKey<Key>, hash: u64, mut start: i64, whole: &FlowPart) {
        let length = self.options.interval_ms;
        let spreads = whole.sent.map(|(packets, octets)| Spread::new(packets, octets, whole.first_ms, whole.last_ms));
        let mut before = [(0, 0); 2];
        while start <= whole.last_ms {
            let end = start + length;
            let now = spreads.map(|spread| spread.before(end));
            let sent = [0, 1].map(|side| (now[side].0 - before[side].0, now[side].1 - before[side].1));
            let (begins, ends) = (start <= whole.first_ms, end > whole.last_ms);
            let mut rare = whole.rare.clone();
            if !begins && let Some(rare) = &mut rare {
                rare.retransmissions = [0; 2];
                rare.out_of_order = [0; 2];
            }
            let (first_ms, last_ms) = (whole.first_ms.max(start), whole.last_ms.min(end - 1));
            let rtt_us = if begins { whole.rtt_us } else { 0 };
            self.put(key, hash, start, FlowPart { sent, first_ms, last_ms, begins, ends, rtt_us, rare, ..*whole });
            before = now;
            start = end;
        }
    }

    fn put(&mut self, FlowKey { key, origin }: FlowKey<Key>, hash: u64, start: i64, part: FlowPart) {
        if part.sent == [(0, 0); 2] {
            return;
        }
        let interval = self.flows.partition_point(|(other, _)| *other < start);
        if self.flows.get(interval).is_none_or(|(other, _)| *other != start) {
            // What is pending knows intervals by their place.
            self.settle();
            let cells = match self.spare.len() {
                0 => Cells::default(),
                // Most is of the open interval.
                all => self.spare.remove(if start == self.open_ms { all - 1 } else { 0 }),
            };
            self.flows.insert(interval, (start, cells));
        }
        let (_, cells) = &self.flows[interval];
        if key.version == 4 {
            cells.four.places.prefetch(hash)
        } else {
            cells.six.places.prefetch(hash)
        }
        self.pending.push(Pending { interval, key: FlowKey { key, origin }, hash, part });
        if self.pending.is_full() {
            self.settle();
        }
    }

    /// Adds what is pending.
    fn settle(&mut self) {
        for Pending { interval, key, hash, .. } in &self.pending {
            let (_, cells) = &self.flows[*interval];
            if key.key.version == 4 { cells.four.prefetch(*hash) } else { cells.six.prefetch(*hash) }
        }
        for Pending { interval, key: FlowKey { key, origin }, hash, part } in self.pending.drain(..) {
            let (_, cells) = &mut self.flows[interval];
            let is_new = match key.version {
                4 => cells.four.add(FlowKey { key: V4::of(&key), origin }, hash, part),
                _ => cells.six.add(FlowKey { key: V6::of(&key), origin }, hash, part),
            };
            self.entries += usize::from(is_new);
        }
    }
}

impl<K> Default for List<K> {
    fn default() -> List<K> {
        List { places: Index::default(), flows: Vec::new() }
    }
}

impl<K: Compact> List<K> {
    /// Asks for the memory of the flow that most likely has this hash.
    #[inline]
    fn prefetch(&self, hash: u64) {
        if let Some(flow) = self.places.likely(hash).and_then(|place| self.flows.get(place as usize)) {
            prefetch(&flow.0);
            prefetch(&flow.1);
        }
    }

    /// Adds a part of a record; whether it is the first of its flow.
    #[inline]
    fn add(&mut self, key: FlowKey<K>, hash: u64, part: FlowPart) -> bool {
        let flows = &mut self.flows;
        let place = self.places.find(hash, |place| flows[place as usize].0 == key);
        if let Some(place) = place {
            flows[place as usize].1.add(part);
            return false;
        }
        self.places.insert(hash, flows.len() as u32);
        if flows.len() == flows.capacity() {
            flows.reserve(flows.len().max(LEAST));
            advise_huge(flows.as_ptr(), flows.capacity());
        }
        let mut cell = Cell::new(&part);
        cell.add(part);
        flows.push((key, cell));
        true
    }

    fn clear(&mut self) {
        self.places.clear();
        self.flows.clear();
    }
}

impl Cells {
    fn len(&self) -> usize {
        self.four.flows.len() + self.six.flows.len()
    }

    fn capacity(&self) -> usize {
        self.four.flows.capacity() + self.six.flows.capacity()
    }

    fn clear(&mut self) {
        self.four.clear();
        self.six.clear();
    }
}

/// A part of a record on its way into a flow.
struct Pending {
    /// The place of its interval.
    interval: usize,
    key: FlowKey<Key>,
    hash: u64,
    part: FlowPart,
}

/// What of a record falls into one interval.
struct FlowPart {
    /// Packets and octets of its source and of its destination, scaled.
    sent: [(u64, u64); 2],
    /// When the flow began, as far as that is believed, ms.
    start_ms: i64,
    /// First and last packet of this part, ms.
    first_ms: i64,
    last_ms: i64,
    /// Whether the record's first and last packet are in it.
    begins: bool,
    ends: bool,
    /// The end that is its source.
    sender: End,
    flags: [u8; 2],
    class_of_service: [u8; 2],
    initiator_known: bool,
    interfaces: (u32, u32),
    rtt_us: u32,
    application_id: u16,
    rare: Option<Box<Rare>>,
}

/// The key of a record, and the end that is its source.
fn key_of(record: &Imported<'_>) -> (Key, End) {
    let ports = if is_icmp(record.protocol) { [record.ports[1]; 2] } else { record.ports };
    let [src, dst] = record.addresses;
    let upper = (src, ports[0]) > (dst, ports[1]);
    let key = Key {
        addresses: if upper { [dst, src] } else { [src, dst] },
        ports: if upper { [ports[1], ports[0]] } else { ports },
        vlan: record.vlan,
        protocol: record.protocol,
        version: record.version,
    };
    (key, End::from(upper))
}

impl Rare {
    fn of(record: &Imported<'_>, sender: End) -> Option<Box<Rare>> {
        let mut counts = record.sent.map(|sent| [sent.retransmissions, sent.out_of_order]);
        if counts == [[0; 2]; 2] && record.server_name.is_empty() && record.dns_query.is_empty() {
            return None;
        }
        if sender == 1 {
            counts.swap(0, 1);
        }
        let kept = |name: &[u8]| name[..name.len().min(MAX_NAME)].into();
        Some(Box::new(Rare {
            retransmissions: counts.map(|[retransmissions, _]| u64::from(retransmissions)),
            out_of_order: counts.map(|[_, out_of_order]| u64::from(out_of_order)),
            server: kept(record.server_name),
            query: kept(record.dns_query),
        }))
    }

    /// Adds what a further record has; names stay as they came first.
    fn add(&mut self, other: Rare) {
        for end in 0..2 {
            self.retransmissions[end] += other.retransmissions[end];
            self.out_of_order[end] += other.out_of_order[end];
        }
        for (name, other) in [(&mut self.server, other.server), (&mut self.query, other.query)] {
            if name.is_empty() {
                *name = other;
            }
        }
    }
}

impl Cell {
    fn new(part: &FlowPart) -> Cell {
        let (input, output) = part.interfaces;
        Cell {
            sides: [Side::default(); 2],
            start_ms: i64::MAX,
            first_ms: i64::MAX,
            last_ms: i64::MIN,
            known: None,
            interfaces: (part.sender, input, output),
            rtt_us: 0,
            application_id: 0,
            rare: None,
        }
    }

    fn add(&mut self, part: FlowPart) {
        for (direction, (packets, octets)) in part.sent.into_iter().enumerate() {
            if packets == 0 && octets == 0 {
                continue;
            }
            let side = &mut self.sides[usize::from(part.sender) ^ direction];
            if side.began_ms == 0 || part.start_ms < side.began_ms {
                side.began_ms = part.start_ms;
            }
            if side.packets == 0 && side.octets == 0 {
                side.class_of_service = part.class_of_service[direction];
            }
            side.packets = side.packets.saturating_add(packets);
            side.octets = side.octets.saturating_add(octets);
            let flags = part.flags[direction];
            if part.begins {
                side.syn = side.syn.saturating_add(u32::from(flags & tcp::SYN != 0));
                side.lone_syn |= flags & (tcp::SYN | tcp::ACK) == tcp::SYN;
            }
            if part.ends {
                side.fin = side.fin.saturating_add(u32::from(flags & tcp::FIN != 0));
                side.rst = side.rst.saturating_add(u32::from(flags & tcp::RST != 0));
            }
        }
        self.start_ms = self.start_ms.min(part.start_ms);
        self.first_ms = self.first_ms.min(part.first_ms);
        self.last_ms = self.last_ms.max(part.last_ms);
        if part.initiator_known {
            self.known = Some(part.sender);
        }
        self.rtt_us = self.rtt_us.max(part.rtt_us);
        if part.application_id != 0 {
            self.application_id = part.application_id;
        }
        if let Some(rare) = part.rare {
            match &mut self.rare {
                Some(all) => all.add(*rare),
                none => *none = Some(rare),
            }
        }
    }

    /// Who began it, and whether that is a guess.
    fn initiator(&self, key: &Key) -> (End, bool) {
        let [lower, upper] = &self.sides;
        if let Some(end) = self.known {
            return (end, false);
        }
        if lower.lone_syn != upper.lone_syn {
            return (End::from(upper.lone_syn), false);
        }
        let answered = lower.packets > 0 && upper.packets > 0;
        if answered && lower.began_ms != upper.began_ms {
            return (End::from(upper.began_ms < lower.began_ms), true);
        }
        // A service's port is low, a client's is not; the other way round only where both are.
        let service = |port: u16| (1..1024).contains(&port);
        match (service(key.ports[0]), service(key.ports[1])) {
            (true, false) => (1, true),
            (false, true) => (0, true),
            _ if answered => (End::from(key.ports[0] < key.ports[1]), true),
            _ => (End::from(lower.packets == 0), true),
        }
    }
}

impl Flows {
    /// How many.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cells.len() == 0
    }

    /// Each as a record of its own.
    pub fn records(&self) -> impl Iterator<Item = CollectedRecord<'_>> {
        let record = |key: Key, origin: u32, cell| {
            let origin = &self.origins[origin as usize];
            CollectedRecord { interval_ms: self.start_ms, key, origin, cell }
        };
        let four = self.cells.four.flows.iter().map(move |(of, cell)| record(of.key.key(), of.origin, cell));
        let six = self.cells.six.flows.iter().map(move |(of, cell)| record(of.key.key(), of.origin, cell));
        four.chain(six)
    }
}

/// A record to be published.
pub struct CollectedRecord<'a> {
    interval_ms: i64,
    key: Key,
    origin: &'a Origin,
    cell: &'a Cell,
}

impl CollectedRecord<'_> {
    /// What its lower and its upper end sent.
    pub fn sent(&self) -> [Volume; 2] {
        self.cell.sides.each_ref().map(|side| Volume { packets: side.packets, octets: side.octets })
    }

    /// Has the filters count it.
    pub fn count(&self, filters: &mut FilterCounts) {
        for (end, volume) in (0..2).zip(self.sent()) {
            if volume.packets > 0 {
                match self.key.version {
                    4 => filters.flow(|| V4::of(&self.key).sent_by(end), volume),
                    _ => filters.flow(|| V6::of(&self.key).sent_by(end), volume),
                }
            }
        }
    }

    /// Adds it to a batch, as `flow.proto` has it.
    pub fn encode(&self, batch: &mut BatchEncoder) {
        let CollectedRecord { interval_ms, key, origin, cell } = self;
        let (end, guess) = cell.initiator(key);
        let (src, dst) = (usize::from(end), usize::from(1 - end));
        let (forward, reverse) = (&cell.sides[src], &cell.sides[dst]);
        let (seen_by, input, output) = cell.interfaces;
        let (input, output) = if seen_by == end { (input, output) } else { (output, input) };
        let text = |name: fn(&Rare) -> &[u8]| cell.rare.as_deref().map(|rare| String::from_utf8_lossy(name(rare)));
        let names = [text(|rare| &rare.server), text(|rare| &rare.query)];
        let room = NUMBERS_ROOM + names.iter().flatten().map(|name| name.len()).sum::<usize>();
        batch.record(room, |batch| {
            batch.address::<1>(&key.addresses[src], key.version);
            batch.address::<2>(&key.addresses[dst], key.version);
            batch.number::<3>(u64::from(key.source_port(end)));
            batch.number::<4>(u64::from(key.ports[dst]));
            batch.number::<5>(u64::from(key.protocol));
            batch.number::<6>(u64::from(key.version));
            batch.number::<7>(u64::from(key.vlan));
            batch.number::<8>(forward.packets);
            batch.number::<9>(forward.octets);
            batch.number::<10>(reverse.packets);
            batch.number::<11>(reverse.octets);
            batch.signed::<12>(cell.first_ms - interval_ms);
            batch.number::<13>((cell.last_ms - cell.first_ms).max(0) as u64);
            batch.number::<14>((cell.first_ms - cell.start_ms).max(0) as u64);
            batch.number::<15>(u64::from(guess));
            batch.number::<17>(u64::from(forward.class_of_service));
            batch.number::<18>(u64::from(reverse.class_of_service));
            // The answer's SYN is a SYN-ACK.
            batch.number::<20>(u64::from(forward.syn));
            batch.number::<23>(u64::from(reverse.syn));
            batch.number::<24>(u64::from(forward.fin));
            batch.number::<25>(u64::from(reverse.fin));
            batch.number::<26>(u64::from(forward.rst));
            batch.number::<27>(u64::from(reverse.rst));
            if let Some(rare) = &cell.rare {
                batch.number::<28>(rare.retransmissions[src]);
                batch.number::<29>(rare.retransmissions[dst]);
                batch.number::<30>(rare.out_of_order[src]);
                batch.number::<31>(rare.out_of_order[dst]);
            }
            batch.number::<32>(u64::from(cell.rtt_us));
            batch.number::<50>(u64::from(cell.application_id));
            let [server, query] = names.each_ref().map(|name| name.as_deref().filter(|name| !name.is_empty()));
            if let Some(server) = server {
                batch.bytes::<51>(server.as_bytes());
            }
            if let Some(query) = query {
                batch.bytes::<52>(query.as_bytes());
            }
            batch.bytes::<60>(packet::shortest(&origin.exporter));
            batch.number::<61>(u64::from(origin.sampling));
            batch.number::<62>(u64::from(input));
            batch.number::<63>(u64::from(output));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::record::SentCounts;
    use crate::proto;
    use crate::proto::flow_message::Body;
    use proptest::prelude::*;
    use prost::Message as _;

    const OPEN: i64 = 1_700_000_000_000;
    const OPTIONS: TableOptions = TableOptions { interval_ms: 10_000, max_entries: 1000, oldest_ms: 3_600_000 };

    fn mapped(last: u8) -> Address {
        std::net::Ipv4Addr::new(192, 0, 2, last).to_ipv6_mapped().octets()
    }

    fn imported(packets: u64, octets: u64, first_ms: i64, last_ms: i64) -> Imported<'static> {
        Imported {
            addresses: [mapped(1), mapped(2)],
            ports: [40_000, 443],
            version: 4,
            protocol: 6,
            sent: [SentCounts { packets, octets, ..SentCounts::default() }, SentCounts::default()],
            first_ms,
            last_ms,
            ..Imported::default()
        }
    }

    fn answer(of: &Imported<'static>) -> Imported<'static> {
        let [a, b] = of.addresses;
        Imported { addresses: [b, a], ports: [of.ports[1], of.ports[0]], ..*of }
    }

    /// All records, by interval.
    fn taken(table: &mut Table) -> Vec<(i64, Vec<proto::Flow>)> {
        table
            .take()
            .iter()
            .map(|flows| (flows.start_ms, flows.records().map(|record| encoded(&record)).collect()))
            .collect()
    }

    /// As generated code reads it.
    fn encoded(record: &CollectedRecord<'_>) -> proto::Flow {
        let mut batch = BatchEncoder::default();
        record.encode(&mut batch);
        let message = proto::FlowMessage::decode(batch.message(&proto::FlowMessage::default())).unwrap();
        let Some(Body::Batch(mut batch)) = message.body else { panic!("no batch") };
        batch.flows.remove(0)
    }

    fn only(table: &mut Table) -> proto::Flow {
        let mut all = taken(table);
        assert_eq!((all.len(), all[0].1.len()), (1, 1), "{all:?}");
        all.remove(0).1.remove(0)
    }

    #[test]
    fn a_record_of_a_minute_is_in_seven_intervals_and_adds_up() {
        let mut table = Table::new(OPTIONS, OPEN);
        let record = imported(601, 60_100, OPEN - 55_000, OPEN + 5_000);
        assert_eq!(table.add(&mapped(9), &record), Volume { packets: 601, octets: 60_100 });
        let all = taken(&mut table);
        let packets: Vec<_> = all.iter().map(|(start, flows)| ((start - OPEN) / 1000, flows[0].fwd_packets)).collect();
        assert_eq!(packets, [(-60, 50), (-50, 100), (-40, 100), (-30, 100), (-20, 100), (-10, 100), (0, 51)]);
        assert_eq!(all.iter().map(|(_, flows)| flows[0].fwd_octets).sum::<u64>(), 60_100);
        let ages: Vec<_> = all.iter().map(|(_, flows)| (flows[0].first_seen_offset_ms, flows[0].flow_age_ms)).collect();
        assert_eq!(ages[..3], [(5_000, 0), (0, 5_000), (0, 15_000)]);
        assert_eq!(all[6].1[0].last_seen_offset_ms, 5_000);
    }

    #[test]
    fn the_class_of_service_is_that_of_the_first_record_of_each_end() {
        let mut table = Table::new(OPTIONS, OPEN);
        let of = |class_of_service, mut record: Imported<'static>| {
            record.sent[0].class_of_service = class_of_service;
            record
        };
        let question = imported(20, 2000, OPEN - 1000, OPEN + 1000);
        let mut both = of(0xb8, question);
        // Of an end that sent nothing nothing is known.
        both.sent[1].class_of_service = 0x14;
        table.add(&mapped(9), &both);
        table.add(&mapped(9), &of(0x28, question));
        table.add(&mapped(9), &of(0x2b, answer(&imported(4, 400, OPEN, OPEN + 900))));
        let all = taken(&mut table);
        let classes = |flow: &proto::Flow| (flow.fwd_class_of_service, flow.rev_class_of_service);
        let classes: Vec<_> = all.iter().map(|(_, flows)| classes(&flows[0])).collect();
        assert_eq!(classes, [(0xb8, 0), (0xb8, 0x2b)]);
    }

    #[test]
    fn a_record_and_its_answer_are_one_biflow_of_who_began_it() {
        let question = imported(5, 500, OPEN, OPEN + 900);
        let mut answered = answer(&imported(4, 4000, OPEN + 3, OPEN + 900));
        answered.sent[0].tcp_flags = tcp::SYN | tcp::ACK;
        for records in [[&question, &answered], [&answered, &question]] {
            let mut table = Table::new(OPTIONS, OPEN);
            records.iter().for_each(|record| _ = table.add(&mapped(9), record));
            let flow = only(&mut table);
            assert_eq!((flow.src_port, flow.dst_port, flow.initiator_guess), (40_000, 443, true));
            assert_eq!((flow.fwd_packets, flow.rev_packets, flow.rev_octets), (5, 4, 4000));
            assert_eq!((flow.fwd_tcp_syn, flow.rev_tcp_syn, flow.rev_tcp_synack), (0, 0, 1));
            assert_eq!(flow.exporter_addr, [192, 0, 2, 9]);
        }
    }

    #[test]
    fn a_lone_syn_and_what_an_exporter_knows_are_no_guess() {
        let mut table = Table::new(OPTIONS, OPEN);
        let mut scan = answer(&imported(1, 40, OPEN, OPEN));
        scan.sent[0].tcp_flags = tcp::SYN;
        table.add(&mapped(9), &scan);
        let flow = only(&mut table);
        assert_eq!((flow.src_port, flow.initiator_guess, flow.fwd_tcp_syn), (443, false, 1));
        let known = Imported { initiator_known: true, ..answer(&imported(1, 40, OPEN, OPEN)) };
        table.add(&mapped(9), &known);
        let flow = only(&mut table);
        assert_eq!((flow.src_port, flow.initiator_guess, flow.fwd_packets), (443, false, 1));
        // Else a server that is seen alone is the destination.
        table.add(&mapped(9), &answer(&imported(3, 120, OPEN, OPEN)));
        let flow = only(&mut table);
        assert_eq!((flow.dst_port, flow.initiator_guess, flow.fwd_packets, flow.rev_packets), (443, true, 0, 3));
    }

    #[test]
    fn sampled_counts_are_scaled_and_say_so() {
        let mut table = Table::new(OPTIONS, OPEN);
        table.add(&mapped(9), &Imported { sampling: Some(1000), ..imported(3, 4500, OPEN, OPEN) });
        let flow = only(&mut table);
        assert_eq!((flow.fwd_packets, flow.fwd_octets, flow.sampling_rate), (3000, 4_500_000, 1000));
        // What is sampled otherwise is not mixed with it.
        table.add(&mapped(9), &Imported { sampling: Some(1000), ..imported(3, 4500, OPEN, OPEN) });
        table.add(&mapped(9), &imported(3, 4500, OPEN, OPEN));
        let mut rates: Vec<_> =
            taken(&mut table)[0].1.iter().map(|flow| (flow.sampling_rate, flow.fwd_packets)).collect();
        rates.sort_unstable();
        assert_eq!(rates, [(0, 3), (1000, 3000)]);
    }

    #[test]
    fn exporters_are_told_apart_and_flags_are_at_the_ends() {
        let mut table = Table::new(OPTIONS, OPEN);
        let mut record = imported(30, 3000, OPEN - 20_000, OPEN + 1);
        record.sent[0].tcp_flags = tcp::SYN | tcp::ACK | tcp::FIN;
        table.add(&mapped(8), &record);
        table.add(&mapped(9), &record);
        let all = taken(&mut table);
        assert_eq!(all.iter().map(|(_, flows)| flows.len()).collect::<Vec<_>>(), [2, 2, 2]);
        let flags = |flow: &proto::Flow| (flow.fwd_tcp_syn, flow.fwd_tcp_fin);
        let flags: Vec<_> = all.iter().map(|(_, flows)| flags(&flows[0])).collect();
        assert_eq!(flags, [(1, 0), (0, 0), (0, 1)]);
    }

    #[test]
    fn memory_that_is_given_back_has_nothing_of_before_and_is_bounded() {
        let mut table = Table::new(TableOptions { max_entries: 4, ..OPTIONS }, OPEN);
        for round in 1..=9 {
            let record = imported(7 * round, 70, OPEN - 25_000, OPEN);
            for exporter in [8, 9] {
                table.add(&mapped(exporter), &record);
            }
            assert!(table.is_full());
            let all = table.take();
            let sum: u64 = all.iter().flat_map(Flows::records).map(|record| encoded(&record).fwd_packets).sum();
            assert_eq!(sum, 2 * 7 * round);
            all.into_iter().for_each(|flows| table.recycle(flows));
            let kept: usize = table.spare.iter().map(Cells::capacity).sum();
            assert!(table.spare.len() == 1 || kept <= 8, "{kept}");
        }
    }

    #[test]
    fn absurd_times_are_counted_at_the_nearest() {
        let mut table = Table::new(OPTIONS, OPEN);
        let hour = 3_600_000;
        for (first, last) in
            [(i64::MIN, i64::MIN), (i64::MAX, i64::MAX), (i64::MIN, i64::MAX), (OPEN + hour, OPEN + hour)]
        {
            let volume = table.add(&mapped(9), &imported(7, 70, first, last));
            assert_eq!(volume, Volume { packets: 7, octets: 70 });
        }
        let all = taken(&mut table);
        assert_eq!((all[0].0, all.last().unwrap().0), (OPEN - hour, OPEN));
        let packets: u64 = all.iter().flat_map(|(_, flows)| flows).map(|flow| flow.fwd_packets).sum();
        assert_eq!(packets, 28);
        assert_eq!(table.clamped(), Clamped { future: 3, old: 2 });
    }

    proptest! {
        #[test]
        fn whatever_comes_adds_up(
            records in prop::collection::vec(
                (0..u64::from(u32::MAX), any::<u32>(), -200_000..50_000_i64, 0..150_000_i64, any::<bool>(), prop::option::of(0..100_u32)), 1..50),
        ) {
            let mut table = Table::new(OPTIONS, OPEN);
            let mut sums = Volume::default();
            for (packets, octets, first, lasts, reverse, sampling) in records {
                let record = imported(packets, u64::from(octets), OPEN + first, OPEN + first + lasts);
                let record = if reverse { answer(&record) } else { record };
                sums += table.add(&mapped(9), &Imported { sampling, ..record });
            }
            let most = table.entries();
            let flows = table.take();
            prop_assert!(flows.iter().map(Flows::len).sum::<usize>() <= most);
            prop_assert_eq!(table.entries(), 0);
            let mut published = Volume::default();
            for interval in &flows {
                for record in interval.records() {
                    let (flow, sent) = (encoded(&record), record.sent());
                    published.packets += flow.fwd_packets + flow.rev_packets;
                    published.octets += flow.fwd_octets + flow.rev_octets;
                    prop_assert_eq!(sent[0].packets + sent[1].packets, flow.fwd_packets + flow.rev_packets);
                    prop_assert!((0..10_000).contains(&flow.first_seen_offset_ms));
                    prop_assert!(flow.first_seen_offset_ms as u64 + flow.last_seen_offset_ms < 10_000);
                }
            }
            prop_assert_eq!(published, sums);
        }
    }
}
