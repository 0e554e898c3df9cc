//! Encodes records as Protocol Buffers, directly into the octets of a batch of `flow.proto`.
//!
//! A large probe encodes millions of records per interval; generated code would first build a message of each record
//! and visit each field three times. The field numbers are those of `flow.proto`; a test reads everything back with the
//! generated code.

use crate::app::NotInspected;
use crate::app::names::{Kind, MAX_OCTETS};
use crate::meter::overflow::{OverflowKey, OverflowRecord};
use crate::meter::record::{Events, Record};
use crate::packet::{self, Address, Quoted};
use crate::privacy::{Privacy, Pseudonyms};
use crate::proto::overflow::Key;
use crate::proto::{self, Flow, Overflow, QuotedFlow, RecordKind};
use prost::Message as _;
use std::sync::Arc;

pub const BATCH_RECORDS: usize = 500;

/// Maximum octets of a record, with a margin: 60 numbers of at most 11 octets, four addresses, a name.
const RECORD_ROOM: usize = 60 * 11 + 4 * 18 + MAX_OCTETS + 8;
/// Maximum number of octets before the records: the batch's key and length.
const BATCH_HEAD: usize = 6;
/// The shift of a field's number in its key, and the wire types beside it.
const VARINT: u32 = 0;
const LENGTH_DELIMITED: u32 = 2;

/// A batch of records in the making.
#[derive(Debug)]
pub struct BatchEncoder {
    octets: Vec<u8>,
    at: usize,
    records: usize,
    /// Exporters' reports other than flows: in the batch, but not records.
    reports: usize,
    /// Pseudonyms in place of addresses, if the configuration asks for them.
    pseudonyms: Option<Box<Pseudonyms>>,
}

impl Default for BatchEncoder {
    fn default() -> BatchEncoder {
        // Zeroed memory is committed on the first write.
        BatchEncoder {
            octets: vec![0; BATCH_HEAD + BATCH_RECORDS * RECORD_ROOM],
            at: BATCH_HEAD,
            records: 0,
            reports: 0,
            pseudonyms: None,
        }
    }
}

impl BatchEncoder {
    /// An empty batch, whose addresses become pseudonyms if there is a key.
    pub fn new(privacy: Option<&Arc<Privacy>>) -> BatchEncoder {
        let pseudonyms = privacy.map(|privacy| Box::new(Pseudonyms::new(Arc::clone(privacy))));
        BatchEncoder { pseudonyms, ..BatchEncoder::default() }
    }

    /// Takes the pseudonyms of an interval that starts then, for everything that follows.
    #[inline]
    pub fn begin_interval(&mut self, start_ms: u64) {
        if let Some(pseudonyms) = &mut self.pseudonyms {
            pseudonyms.begin(start_ms);
        }
    }

    /// The number of the period whose pseudonyms it writes; 0 for addresses.
    pub fn period(&self) -> u64 {
        self.pseudonyms.as_ref().map_or(0, |pseudonyms| pseudonyms.period())
    }

    /// Whether records keep names and MAC addresses.
    #[inline]
    pub fn names(&self) -> bool {
        self.pseudonyms.as_ref().is_none_or(|pseudonyms| pseudonyms.names())
    }

    /// The pseudonyms, if there are any.
    pub fn pseudonyms(&mut self) -> Option<&mut Pseudonyms> {
        self.pseudonyms.as_deref_mut()
    }

    /// An address as it is published, and whether that is a pseudonym.
    #[inline]
    pub fn published(&mut self, address: &Address, version: u8) -> (Address, bool) {
        let mut address = *address;
        let replaced = match &mut self.pseudonyms {
            Some(pseudonyms) => pseudonyms.replace(&mut address, version),
            None => false,
        };
        (address, replaced)
    }

    /// Records of flows.
    pub fn len(&self) -> usize {
        self.records
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.records + self.reports == 0
    }

    /// Whether the batch has no room for another record.
    pub fn is_full(&self) -> bool {
        self.records + self.reports >= BATCH_RECORDS
    }

    /// Adds a flow's record of the interval that starts then.
    #[inline]
    pub fn flow(&mut self, record: &Record<'_>, interval_start_ms: u64) {
        let begins = self.begin_record();
        self.flow_fields(record, interval_start_ms);
        self.end_message(begins);
    }

    /// Adds a record whose fields `fill` writes, in the order of their numbers and in at most `room` octets.
    #[inline]
    pub fn record(&mut self, room: usize, fill: impl FnOnce(&mut BatchEncoder)) {
        // With the record's key and length, and one more octet.
        if self.octets.len() < self.at + room + 4 {
            self.octets.resize(self.at + room + 4, 0);
        }
        let begins = self.begin_record();
        fill(self);
        self.end_message(begins);
    }

    /// Adds an overflow record, which is rare.
    pub fn overflow(&mut self, record: &OverflowRecord, interval_start_ms: u64) {
        let begins = self.begin_record();
        let mut flow = overflow(record, interval_start_ms);
        if let Some(pseudonyms) = &mut self.pseudonyms {
            let replaced = [&mut flow.src_addr, &mut flow.dst_addr].map(|stated| pseudonyms.replace_stated(stated));
            flow.pseudonyms = which(replaced) as i32;
        }
        self.raw(&flow.encode_to_vec());
        self.end_message(begins);
    }

    /// Adds an exporter's report other than a flow, to its field of `FlowBatch`.
    pub fn report(&mut self, field: u32, report: &impl prost::Message) {
        // Its key, its length and itself.
        let length = report.encoded_len();
        let room = self.at + length + 2 + 5;
        if self.octets.len() < room {
            self.octets.resize(room, 0);
        }
        self.octet((field << 3 | LENGTH_DELIMITED) as u8);
        self.varint(length as u64);
        self.raw(&report.encode_to_vec());
        self.reports += 1;
    }

    /// The whole message; its other fields come from `header`, which has no body. The next batch begins.
    pub fn message(&mut self, header: &proto::FlowMessage) -> &[u8] {
        // The key and the length of FlowMessage.batch stand right before the records, and the header's fields, which
        // may come in any order, after them.
        let (mut head, mut length) = ([0; BATCH_HEAD], 0);
        put(&mut head, &mut length, u64::from(10 << 3 | LENGTH_DELIMITED));
        put(&mut head, &mut length, (self.at - BATCH_HEAD) as u64);
        let begins = BATCH_HEAD - length;
        self.octets[begins..BATCH_HEAD].copy_from_slice(&head[..length]);
        let fields = header.encode_to_vec();
        let end = self.at + fields.len();
        if self.octets.len() < end {
            self.octets.resize(end, 0);
        }
        self.octets[self.at..end].copy_from_slice(&fields);
        self.at = BATCH_HEAD;
        (self.records, self.reports) = (0, 0);
        &self.octets[begins..end]
    }

    /// Counts a record without encoding it.
    #[inline]
    pub fn pass(&mut self) {
        self.records += 1;
    }

    fn begin_record(&mut self) -> usize {
        self.octet((1 << 3 | LENGTH_DELIMITED) as u8);
        self.records += 1;
        // Octets of the length, usually one.
        self.at += 1;
        self.at
    }

    fn end_message(&mut self, begins: usize) {
        let length = self.at - begins;
        if length < 0x80 {
            self.octets[begins - 1] = length as u8;
        } else {
            self.end_long_message(begins, length);
        }
    }

    #[cold]
    fn end_long_message(&mut self, begins: usize, length: usize) {
        self.octets.copy_within(begins..self.at, begins + 1);
        self.octets[begins - 1] = (length & 0x7f) as u8 | 0x80;
        self.octets[begins] = (length >> 7) as u8;
        self.at += 1;
    }

    #[inline]
    fn flow_fields(&mut self, record: &Record<'_>, interval_start_ms: u64) {
        let key = &record.key;
        let (src, dst) = (record.initiator.end, 1 - record.initiator.end);
        let replaced = self.ends([&key.addresses[usize::from(src)], &key.addresses[usize::from(dst)]], key.version);
        self.number::<3>(u64::from(key.source_port(src)));
        self.number::<4>(u64::from(key.ports[usize::from(dst)]));
        self.number::<5>(u64::from(key.protocol));
        self.number::<6>(u64::from(key.version));
        self.number::<7>(u64::from(key.vlan));
        let (forward, reverse) = (record.forward(), record.reverse());
        self.number::<8>(u64::from(forward.packets));
        self.number::<9>(u64::from(forward.octets));
        self.number::<10>(u64::from(reverse.packets));
        self.number::<11>(u64::from(reverse.octets));
        let first_offset_ms = record.first_ms - interval_start_ms as i64;
        self.signed::<12>(first_offset_ms);
        self.number::<13>(record.last_ms.saturating_sub(record.first_ms).max(0) as u64);
        self.number::<14>(record.first_ms.saturating_sub(record.start_ms).max(0) as u64);
        self.number::<15>(u64::from(record.initiator.guess));
        self.number::<17>(u64::from(forward.class_of_service));
        self.number::<18>(u64::from(reverse.class_of_service));
        let events = (&forward.events, &reverse.events);
        if events != (&Events::default(), &Events::default()) {
            self.events(events);
        }
        self.number::<32>(u64::from(record.handshake_rtt_us));
        if let Some(quoted) = &record.quoted {
            self.quoted(quoted);
        }
        self.number::<48>(which(replaced) as u64);
        self.number::<50>(u64::from(record.application_id));
        if let Some(name) = record.name.filter(|_| self.names()) {
            match name.kind() {
                Kind::Server => self.bytes::<51>(name.as_str().as_bytes()),
                Kind::Query => self.bytes::<52>(name.as_str().as_bytes()),
                Kind::Awaited => {}
            }
        }
        if let Some(cause) = record.not_inspected {
            let cause = match cause {
                NotInspected::Overload => proto::NotInspected::Overload,
                NotInspected::PoolFull => proto::NotInspected::PoolFull,
                NotInspected::Displaced => proto::NotInspected::Displaced,
            };
            self.number::<53>(cause as u64);
        }
    }

    fn events(&mut self, (forward, reverse): (&Events, &Events)) {
        self.number::<20>(u64::from(forward.syn));
        self.number::<21>(u64::from(reverse.syn));
        self.number::<22>(u64::from(forward.synack));
        self.number::<23>(u64::from(reverse.synack));
        self.number::<24>(u64::from(forward.fin));
        self.number::<25>(u64::from(reverse.fin));
        self.number::<26>(u64::from(forward.rst));
        self.number::<27>(u64::from(reverse.rst));
        self.number::<28>(u64::from(forward.retransmissions));
        self.number::<29>(u64::from(reverse.retransmissions));
        self.number::<30>(u64::from(forward.out_of_order));
        self.number::<31>(u64::from(reverse.out_of_order));
        self.number::<40>(u64::from(forward.icmp_errors));
        self.number::<41>(u64::from(reverse.icmp_errors));
        self.number::<43>(u64::from(forward.icmp_errors_udp));
        self.number::<44>(u64::from(reverse.icmp_errors_udp));
    }

    fn quoted(&mut self, quoted: &Quoted) {
        let [src_addr, dst_addr] = quoted.addresses.map(|address| {
            let (address, _) = self.published(&address, quoted.version);
            (if quoted.version == 4 { &address[12..] } else { &address[..] }).to_vec()
        });
        let message = QuotedFlow {
            src_addr,
            dst_addr,
            src_port: u32::from(quoted.ports[0]),
            dst_port: u32::from(quoted.ports[1]),
            protocol: u32::from(quoted.protocol),
        };
        self.bytes::<42>(&message.encode_to_vec());
    }

    /// Source and destination, the fields 1 and 2; returns which of them are pseudonyms.
    #[inline]
    pub fn ends(&mut self, addresses: [&Address; 2], version: u8) -> [bool; 2] {
        let [(src, src_replaced), (dst, dst_replaced)] = addresses.map(|address| self.published(address, version));
        self.address::<1>(&src, version);
        self.address::<2>(&dst, version);
        [src_replaced, dst_replaced]
    }

    /// Another address of a record: a pseudonym if it is to be one, left out where it is unspecified.
    pub fn other<const FIELD: u32>(&mut self, address: &Address) {
        if *address != Address::default() {
            let version = if packet::shortest(address).len() == 4 { 4 } else { 6 };
            let (address, _) = self.published(address, version);
            self.address::<FIELD>(&address, version);
        }
    }

    /// An address, in 4 octets if it is IPv4.
    #[inline]
    fn address<const FIELD: u32>(&mut self, address: &Address, version: u8) {
        if version == 4 {
            self.bytes::<FIELD>(&address[12..16]);
        } else {
            self.bytes::<FIELD>(address);
        }
    }

    /// A number, left out if it is 0.
    #[inline]
    pub fn number<const FIELD: u32>(&mut self, value: u64) {
        if value != 0 {
            self.key::<FIELD>(VARINT);
            self.varint(value);
        }
    }

    /// A sint64, left out if it is 0: the sign is the lowest bit.
    #[inline]
    pub fn signed<const FIELD: u32>(&mut self, value: i64) {
        self.number::<FIELD>((value << 1 ^ value >> 63) as u64);
    }

    /// Octets or text, empty or not.
    #[inline]
    pub fn bytes<const FIELD: u32>(&mut self, octets: &[u8]) {
        self.key::<FIELD>(LENGTH_DELIMITED);
        self.varint(octets.len() as u64);
        self.raw(octets);
    }

    /// A message, whose fields `fill` writes.
    #[inline]
    pub fn nested<const FIELD: u32>(&mut self, fill: impl FnOnce(&mut BatchEncoder)) {
        self.key::<FIELD>(LENGTH_DELIMITED);
        // Octets of the length, usually one.
        self.at += 1;
        let begins = self.at;
        fill(self);
        self.end_message(begins);
    }

    /// Returns the octets that `fill` writes.
    pub fn written(&mut self, fill: impl FnOnce(&mut BatchEncoder)) -> &[u8] {
        let begins = self.at;
        fill(self);
        &self.octets[begins..self.at]
    }

    #[inline]
    fn key<const FIELD: u32>(&mut self, wire_type: u32) {
        let key = FIELD << 3 | wire_type;
        if key < 0x80 {
            self.octet(key as u8);
        } else {
            self.octet(key as u8 | 0x80);
            self.octet((key >> 7) as u8);
        }
    }

    #[inline]
    fn varint(&mut self, value: u64) {
        put(&mut self.octets, &mut self.at, value);
    }

    #[inline]
    fn octet(&mut self, octet: u8) {
        self.octets[self.at] = octet;
        self.at += 1;
    }

    /// Fields that are encoded already.
    #[inline]
    pub fn raw(&mut self, octets: &[u8]) {
        self.octets[self.at..self.at + octets.len()].copy_from_slice(octets);
        self.at += octets.len();
    }
}

/// Writes a varint at a position and advances it.
#[inline]
fn put(octets: &mut [u8], at: &mut usize, mut value: u64) {
    while value >= 0x80 {
        octets[*at] = value as u8 | 0x80;
        *at += 1;
        value >>= 7;
    }
    octets[*at] = value as u8;
    *at += 1;
}

/// The field `pseudonyms` of a record whose source or destination is one.
#[inline]
pub fn which(replaced: [bool; 2]) -> proto::Pseudonyms {
    match replaced {
        [false, false] => proto::Pseudonyms::Unspecified,
        [true, false] => proto::Pseudonyms::Source,
        [false, true] => proto::Pseudonyms::Destination,
        [true, true] => proto::Pseudonyms::Both,
    }
}

fn overflow(record: &OverflowRecord, interval_start_ms: u64) -> Flow {
    let mut flow = Flow {
        fwd_packets: record.volume.packets,
        fwd_octets: record.volume.octets,
        fwd_tcp_syn: record.syn,
        first_seen_offset_ms: record.first_ms - interval_start_ms as i64,
        last_seen_offset_ms: record.last_ms.saturating_sub(record.first_ms).max(0) as u64,
        initiator_guess: true,
        record_kind: RecordKind::Overflow as i32,
        ..Flow::default()
    };
    let (kind, key, inbound) = match record.key {
        OverflowKey::Source(src, kind, port) => {
            set_address(&mut flow.src_addr, &src, kind.version);
            flow.dst_port = u32::from(port);
            (kind, Key::SourceAndPort, false)
        }
        OverflowKey::Destination(dst, kind, port) => {
            set_address(&mut flow.dst_addr, &dst, kind.version);
            flow.dst_port = u32::from(port);
            (kind, Key::DestinationAndPort, false)
        }
        OverflowKey::Direction(kind, inbound) => (kind, Key::ProtocolAndDirection, inbound),
    };
    flow.protocol = u32::from(kind.protocol);
    flow.ip_version = u32::from(kind.version);
    let distinct_sketch = record.distinct.registers().to_vec();
    flow.overflow = Some(Overflow { key: key as i32, distinct_sketch, inbound });
    flow
}

fn set_address(to: &mut Vec<u8>, address: &Address, version: u8) {
    to.clear();
    to.extend_from_slice(if version == 4 { &address[12..] } else { address });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::names::Name;
    use crate::meter::key;
    use crate::meter::overflow::OverflowKind;
    use crate::meter::record::Sent;
    use crate::meter::sketch::Sketch;
    use crate::privacy::tests::privacy;
    use crate::proto::flow_message::Body;
    use crate::volume::Volume;
    use proptest::prelude::*;

    /// A record as generated code represents it, field by field.
    fn expected(record: &Record<'_>, interval_start_ms: u64) -> Flow {
        let mut flow = Flow::default();
        let key = &record.key;
        let (src, dst) = (record.initiator.end, 1 - record.initiator.end);
        set_address(&mut flow.src_addr, &key.addresses[usize::from(src)], key.version);
        set_address(&mut flow.dst_addr, &key.addresses[usize::from(dst)], key.version);
        flow.src_port = u32::from(key.source_port(src));
        flow.dst_port = u32::from(key.ports[usize::from(dst)]);
        flow.protocol = u32::from(key.protocol);
        flow.ip_version = u32::from(key.version);
        flow.vlan = u32::from(key.vlan);
        let (fwd, rev) = (record.forward(), record.reverse());
        flow.fwd_packets = u64::from(fwd.packets);
        flow.fwd_octets = u64::from(fwd.octets);
        flow.rev_packets = u64::from(rev.packets);
        flow.rev_octets = u64::from(rev.octets);
        flow.first_seen_offset_ms = record.first_ms - interval_start_ms as i64;
        flow.last_seen_offset_ms = record.last_ms.saturating_sub(record.first_ms).max(0) as u64;
        flow.flow_age_ms = record.first_ms.saturating_sub(record.start_ms).max(0) as u64;
        flow.initiator_guess = record.initiator.guess;
        flow.fwd_class_of_service = u32::from(fwd.class_of_service);
        flow.rev_class_of_service = u32::from(rev.class_of_service);
        let (fwd, rev) = (&fwd.events, &rev.events);
        (flow.fwd_tcp_syn, flow.rev_tcp_syn) = (fwd.syn.into(), rev.syn.into());
        (flow.fwd_tcp_synack, flow.rev_tcp_synack) = (fwd.synack.into(), rev.synack.into());
        (flow.fwd_tcp_fin, flow.rev_tcp_fin) = (fwd.fin.into(), rev.fin.into());
        (flow.fwd_tcp_rst, flow.rev_tcp_rst) = (fwd.rst.into(), rev.rst.into());
        (flow.fwd_tcp_retransmissions, flow.rev_tcp_retransmissions) =
            (fwd.retransmissions.into(), rev.retransmissions.into());
        (flow.fwd_tcp_out_of_order, flow.rev_tcp_out_of_order) = (fwd.out_of_order.into(), rev.out_of_order.into());
        flow.tcp_handshake_rtt_us = record.handshake_rtt_us;
        (flow.fwd_icmp_errors, flow.rev_icmp_errors) = (fwd.icmp_errors.into(), rev.icmp_errors.into());
        (flow.fwd_icmp_errors_udp, flow.rev_icmp_errors_udp) = (fwd.icmp_errors_udp.into(), rev.icmp_errors_udp.into());
        flow.icmp_quoted_flow = record.quoted.map(|quoted| {
            let octets = |address: Address| (if quoted.version == 4 { &address[12..] } else { &address[..] }).to_vec();
            QuotedFlow {
                src_addr: octets(quoted.addresses[0]),
                dst_addr: octets(quoted.addresses[1]),
                src_port: u32::from(quoted.ports[0]),
                dst_port: u32::from(quoted.ports[1]),
                protocol: u32::from(quoted.protocol),
            }
        });
        flow.application_id = u32::from(record.application_id);
        flow.application_not_inspected = record.not_inspected.map_or(0, |cause| {
            (match cause {
                NotInspected::Overload => proto::NotInspected::Overload,
                NotInspected::PoolFull => proto::NotInspected::PoolFull,
                NotInspected::Displaced => proto::NotInspected::Displaced,
            }) as i32
        });
        if let Some(name) = record.name {
            let field = if name.kind() == Kind::Server { &mut flow.server_name } else { &mut flow.dns_query };
            field.push_str(name.as_str());
        }
        flow
    }

    #[test]
    fn reports_stand_beside_records() {
        let event = proto::NatEvent { src_port: 1, user_name: "anna".repeat(60), ..proto::NatEvent::default() };
        let counters = proto::ExporterCounters { in_octets: u64::MAX, ..proto::ExporterCounters::default() };
        let name = proto::ExporterName { name: "xe-0/0/1".to_owned(), ..proto::ExporterName::default() };
        let mut encoder = BatchEncoder::default();
        for _ in 0..BATCH_RECORDS {
            assert!(!encoder.is_full());
            encoder.report(2, &event);
        }
        assert!(encoder.is_full() && !encoder.is_empty());
        assert_eq!(encoder.len(), 0, "reports are no records");
        encoder.report(3, &counters);
        encoder.report(4, &name);
        encoder.record(2, |batch| batch.number::<5>(6));
        let message = proto::FlowMessage::decode(encoder.message(&proto::FlowMessage::default())).unwrap();
        let Some(Body::Batch(batch)) = message.body else { panic!() };
        assert_eq!(batch.nat_events, vec![event; BATCH_RECORDS]);
        assert_eq!((batch.interface_counters, batch.names), (vec![counters], vec![name]));
        assert_eq!((batch.flows.len(), batch.flows[0].protocol), (1, 6));
        assert!(encoder.is_empty());
    }

    /// Small numbers and those at the ends of their range.
    fn number() -> impl Strategy<Value = u32> {
        prop_oneof![2 => Just(0), 2 => 0..300_u32, 1 => any::<u32>(), 1 => Just(u32::MAX)]
    }

    fn sent() -> impl Strategy<Value = Sent> {
        let rare = || prop_oneof![4 => Just(0), 1 => any::<u16>()];
        let events = (rare(), rare(), rare(), rare(), rare(), rare(), [rare(), rare()]);
        let events = events.prop_map(|(syn, synack, fin, rst, retransmissions, out_of_order, icmp)| Events {
            syn,
            synack,
            fin,
            rst,
            retransmissions,
            out_of_order,
            icmp_errors: icmp[0],
            icmp_errors_udp: icmp[1],
        });
        (number(), number(), any::<u8>(), events).prop_map(|(octets, packets, class_of_service, events)| Sent {
            octets,
            packets,
            class_of_service,
            events,
        })
    }

    fn address(version: u8) -> impl Strategy<Value = Address> {
        any::<Address>().prop_map(move |octets| match version {
            4 => std::net::Ipv4Addr::from(u32::from_be_bytes([octets[0], octets[1], octets[2], octets[3]]))
                .to_ipv6_mapped()
                .octets(),
            _ => octets,
        })
    }

    fn record() -> impl Strategy<Value = Record<'static>> {
        let key = prop_oneof![Just(4), Just(6)].prop_flat_map(|version| {
            ([address(version), address(version)], any::<[u16; 2]>(), 0..4096_u16, any::<u8>()).prop_map(
                move |(addresses, ports, vlan, protocol)| key::Key { addresses, ports, vlan, protocol, version },
            )
        });
        let times = (any::<i32>(), any::<i32>(), any::<i32>());
        let quoted = prop::option::of(([address(4), address(4)], any::<[u16; 2]>(), any::<u8>()));
        let not_inspected = prop::option::of(prop::sample::select(&NotInspected::ALL[..]));
        let beside = (number(), quoted, any::<u16>(), not_inspected);
        (key, (0..2_u8, any::<bool>()), times, [sent(), sent()], beside).prop_map(
            |(key, (end, guess), (start, first, last), sent, (rtt_us, quoted, application_id, not_inspected))| Record {
                key,
                initiator: key::Initiator { end, guess },
                start_ms: START as i64 + i64::from(start),
                first_ms: START as i64 + i64::from(first),
                last_ms: START as i64 + i64::from(last),
                sent,
                handshake_rtt_us: rtt_us,
                quoted: quoted.map(|(addresses, ports, protocol)| Quoted { addresses, ports, protocol, version: 4 }),
                application_id,
                not_inspected,
                name: None,
            },
        )
    }

    const START: u64 = 1_700_000_000_000;

    proptest! {
        #[test]
        fn generated_code_reads_what_was_encoded(
            records in prop::collection::vec((record(), prop::option::of("[a-z.]{1,255}")), 0..60),
            probe in "[a-z]{0,63}",
        ) {
            let names: Vec<_> = records.iter().map(|(_, name)| name.as_ref().and_then(|name| Name::server(name.as_bytes()))).collect();
            let records: Vec<_> =
                records.iter().zip(&names).map(|((record, _), name)| Record { name: name.as_ref(), ..record.clone() }).collect();
            let header = proto::FlowMessage { probe, sequence: 7, ..proto::FlowMessage::default() };
            let mut encoder = BatchEncoder::default();
            // A batch does not leak into the next one.
            for records in [&records[..], &records[..records.len() / 2]] {
                records.iter().for_each(|record| encoder.flow(record, START));
                prop_assert_eq!(encoder.len(), records.len());
                let message = proto::FlowMessage::decode(encoder.message(&header)).unwrap();
                let flows = records.iter().map(|record| expected(record, START)).collect();
                let body = Some(Body::Batch(proto::FlowBatch { flows, ..Default::default() }));
                prop_assert_eq!(message, proto::FlowMessage { body, ..header.clone() });
            }
        }

        #[test]
        fn every_address_of_a_record_becomes_its_pseudonym(
            records in prop::collection::vec(record(), 1..30),
            coarse in prop::collection::vec((address(4), address(6)), 1..5),
            local in prop::option::of(Just("0.0.0.0/1")),
            kept: bool,
        ) {
            let name = Name::server(b"www.example.org").unwrap();
            let privacy = privacy(local, kept);
            let (mut encoder, mut pseudonyms) = (BatchEncoder::new(Some(&privacy)), Pseudonyms::new(privacy));
            encoder.begin_interval(START);
            pseudonyms.begin(START);
            let mut plain = Vec::new();
            for record in records {
                let record = Record { name: Some(&name), ..record };
                encoder.flow(&record, START);
                plain.push(expected(&record, START));
            }
            for (four, six) in coarse {
                let kind = |version| OverflowKind { protocol: 6, version };
                let keys = [
                    OverflowKey::Source(four, kind(4), 1),
                    OverflowKey::Destination(six, kind(6), 1),
                    OverflowKey::Direction(kind(4), true),
                ];
                for key in keys {
                    let record = OverflowRecord {
                        key,
                        volume: Volume::default(),
                        syn: 0,
                        distinct: Sketch::default(),
                        first_ms: START as i64,
                        last_ms: START as i64,
                    };
                    encoder.overflow(&record, START);
                    plain.push(overflow(&record, START));
                }
            }
            for flow in &mut plain {
                let replaced = [&mut flow.src_addr, &mut flow.dst_addr].map(|stated| pseudonyms.replace_stated(stated));
                flow.pseudonyms = i32::from(replaced[0]) + 2 * i32::from(replaced[1]);
                if let Some(quoted) = &mut flow.icmp_quoted_flow {
                    pseudonyms.replace_stated(&mut quoted.src_addr);
                    pseudonyms.replace_stated(&mut quoted.dst_addr);
                }
                if !kept {
                    flow.server_name.clear();
                }
            }
            let message = proto::FlowMessage::decode(encoder.message(&proto::FlowMessage::default())).unwrap();
            let Some(Body::Batch(batch)) = message.body else { panic!("no batch") };
            prop_assert_eq!(batch.flows, plain);
        }
    }

    #[test]
    fn a_full_batch_of_the_largest_records_has_room() {
        let name = Name::server(&[b'a'; MAX_OCTETS]).unwrap();
        let most = Events {
            syn: u16::MAX,
            synack: u16::MAX,
            fin: u16::MAX,
            rst: u16::MAX,
            retransmissions: u16::MAX,
            out_of_order: u16::MAX,
            icmp_errors: u16::MAX,
            icmp_errors_udp: u16::MAX,
        };
        let sent = Sent { octets: u32::MAX, packets: u32::MAX, class_of_service: u8::MAX, events: most };
        let quoted = Quoted { addresses: [[255; 16]; 2], ports: [u16::MAX; 2], protocol: u8::MAX, version: 6 };
        let record = Record {
            key: key::Key { addresses: [[255; 16]; 2], ports: [u16::MAX; 2], vlan: 4095, protocol: 255, version: 6 },
            initiator: key::Initiator { end: 0, guess: true },
            start_ms: i64::MIN,
            first_ms: i64::MIN / 2,
            last_ms: i64::MAX / 2,
            sent: [sent, sent],
            handshake_rtt_us: u32::MAX,
            quoted: Some(quoted),
            application_id: u16::MAX,
            not_inspected: Some(NotInspected::Displaced),
            name: Some(&name),
        };
        let mut encoder = BatchEncoder::default();
        while !encoder.is_full() {
            encoder.flow(&record, 0);
        }
        let message = proto::FlowMessage::decode(encoder.message(&proto::FlowMessage::default())).unwrap();
        let Some(Body::Batch(batch)) = message.body else { panic!("no batch") };
        assert_eq!(batch.flows, vec![expected(&record, 0); BATCH_RECORDS]);
    }
}
