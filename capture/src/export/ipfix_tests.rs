//! Reads an [`Encoder`]'s messages with a reader written from RFC 7011 and RFC 3954 alone.

use super::*;
use crate::export::elements::{DEFAULT, https};
use crate::proto::Flow;
use proptest::prelude::*;
use std::collections::HashMap;

const START_MS: u64 = 1_795_253_720_000;

/// A field of a template as a reader sees it: (enterprise, id, length).
type Told = (u32, u16, u16);

/// The content of messages: fields of each data record by (enterprise, id), and the messages' headers.
#[derive(Default)]
struct Read {
    templates: HashMap<u16, Vec<Told>>,
    records: Vec<HashMap<(u32, u16), Vec<u8>>>,
    options: Vec<HashMap<(u32, u16), Vec<u8>>>,
    /// Sequence, seconds, uptime (NetFlow v9), domain, octets and data records of each message.
    headers: Vec<Header>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Header {
    sequence: u32,
    seconds: u32,
    uptime: u32,
    domain: u32,
    octets: usize,
    data_records: u32,
}

fn be(octets: &[u8]) -> u64 {
    octets.iter().fold(0, |number, &octet| number << 8 | u64::from(octet))
}

impl Read {
    fn message(&mut self, message: &[u8]) {
        let version = be(&message[..2]);
        let mut header = Header { octets: message.len(), ..Header::default() };
        let (mut rest, counted) = if version == 10 {
            assert_eq!(be(&message[2..4]) as usize, message.len(), "the length says all octets");
            header.seconds = be(&message[4..8]) as u32;
            header.sequence = be(&message[8..12]) as u32;
            header.domain = be(&message[12..16]) as u32;
            (&message[16..], None)
        } else {
            assert_eq!(version, 9);
            header.uptime = be(&message[4..8]) as u32;
            header.seconds = be(&message[8..12]) as u32;
            header.sequence = be(&message[12..16]) as u32;
            header.domain = be(&message[16..20]) as u32;
            (&message[20..], Some(be(&message[2..4])))
        };
        let mut count = 0;
        while !rest.is_empty() {
            let (set, length) = (be(&rest[..2]) as u16, be(&rest[2..4]) as usize);
            assert!((4..=rest.len()).contains(&length), "a set of {length} octets in {}", rest.len());
            assert!(version == 10 || length % 4 == 0, "NetFlow v9 is padded to four octets");
            let body = &rest[4..length];
            rest = &rest[length..];
            match (version, set) {
                (10, 2) | (9, 0) => count += self.templates(body, false, version),
                (10, 3) | (9, 1) => count += self.templates(body, true, version),
                _ => {
                    let records = self.data(set, body);
                    header.data_records += records;
                    count += u64::from(records);
                }
            }
        }
        if let Some(counted) = counted {
            assert_eq!(counted, count, "the header counts templates and records");
        }
        self.headers.push(header);
    }

    fn templates(&mut self, mut body: &[u8], options: bool, version: u64) -> u64 {
        let mut count = 0;
        while body.len() > 3 {
            let id = be(&body[..2]) as u16;
            let fields = match (options, version) {
                (false, _) => be(&body[2..4]),
                (true, 10) => be(&body[2..4]),
                (true, _) => (be(&body[2..4]) + be(&body[4..6])) / 4,
            };
            body = &body[if options { 6 } else { 4 }..];
            let mut told = Vec::new();
            for _ in 0..fields {
                let (field, length) = (be(&body[..2]) as u16, be(&body[2..4]) as u16);
                body = &body[4..];
                if version == 10 && field & 0x8000 != 0 {
                    told.push((be(&body[..4]) as u32, field & 0x7fff, length));
                    body = &body[4..];
                } else {
                    told.push((0, field, length));
                }
            }
            self.templates.insert(id, told);
            count += 1;
        }
        count
    }

    fn data(&mut self, set: u16, mut body: &[u8]) -> u32 {
        let template = self.templates.get(&set).expect("a template before its records").clone();
        let least: usize =
            template.iter().map(|&(.., length)| if length == u16::MAX { 1 } else { length.into() }).sum();
        let mut count = 0;
        while body.len() >= least {
            let mut record = HashMap::new();
            for &(enterprise, field, length) in &template {
                let mut length = usize::from(length);
                if length == usize::from(u16::MAX) {
                    length = usize::from(body[0]);
                    body = &body[1..];
                    if length == 255 {
                        length = be(&body[..2]) as usize;
                        body = &body[2..];
                    }
                }
                record.insert((enterprise, field), body[..length].to_vec());
                body = &body[length..];
            }
            count += 1;
            if set == OF_OPTIONS { self.options.push(record) } else { self.records.push(record) }
        }
        assert!(body.iter().all(|&octet| octet == 0), "padding is zeros");
        count
    }

    fn sum(&self, enterprise: u32, field: u16) -> u64 {
        self.records.iter().filter_map(|record| record.get(&(enterprise, field))).map(|octets| be(octets)).sum()
    }
}

/// Encodes flows and reads the messages.
fn round(protocol: ExportProtocol, template: &str, biflow: bool, flows: &[Flow], most: usize) -> Read {
    let template = ExportTemplate::parse(template, biflow).unwrap();
    let mut encoder = Encoder::new(protocol, &template, 7, most);
    let mut read = Read::default();
    let mut records = 0;
    {
        let mut out = |ready: Ready<'_>| {
            records += ready.records;
            read.message(ready.octets);
        };
        encoder.interval(START_MS, 10_000, &mut out);
        for flow in flows {
            encoder.record(&View::both(flow, START_MS), &mut out);
        }
        encoder.finish(&mut out);
    }
    assert_eq!(records, read.records.len() as u64);
    read
}

fn flow() -> impl Strategy<Value = Flow> {
    let count = || prop_oneof![1 => Just(0_u64), 3 => 1..5_000_u64, 1 => any::<u32>().prop_map(u64::from)];
    let name = prop_oneof![3 => Just(String::new()), 2 => "[a-z.]{1,60}", 1 => "[a-z]{250,260}"];
    (
        prop::sample::select(vec![4_u32, 6]),
        any::<[u8; 32]>(),
        any::<[u16; 2]>(),
        any::<u8>(),
        [count(), count(), count(), count()],
        -200..10_000_i64,
        0..10_000_u64,
        name,
    )
        .prop_map(|(version, addresses, ports, protocol, counts, first, last, server_name)| {
            let length = if version == 4 { 4 } else { 16 };
            Flow {
                src_addr: addresses[..length].to_vec(),
                dst_addr: addresses[16..16 + length].to_vec(),
                src_port: ports[0].into(),
                dst_port: ports[1].into(),
                protocol: protocol.into(),
                ip_version: version,
                // A record has at least one packet.
                fwd_packets: counts[0].max(1),
                fwd_octets: counts[1],
                rev_packets: counts[2],
                rev_octets: if counts[2] > 0 { counts[3] } else { 0 },
                first_seen_offset_ms: first,
                last_seen_offset_ms: last,
                server_name,
                ..Flow::default()
            }
        })
}

const PROTOCOLS: [ExportProtocol; 2] = [ExportProtocol::Ipfix, ExportProtocol::V9];

proptest! {
    #[test]
    fn one_way_records_are_read_back(flows in prop::collection::vec(flow(), 0..80), most in 700..3000_usize) {
        for protocol in PROTOCOLS {
            let template = format!("{DEFAULT} %TLS_SERVER_NAME %FLOW_START_MILLISECONDS %FLOW_END_MILLISECONDS");
            let read = round(protocol, &template, false, &flows, most);
            let two_way = flows.iter().filter(|flow| flow.rev_packets > 0).count();
            prop_assert_eq!(read.records.len(), flows.len() + two_way);
            prop_assert_eq!(read.sum(0, 2), flows.iter().map(|flow| flow.fwd_packets + flow.rev_packets).sum::<u64>());
            prop_assert_eq!(read.sum(0, 1), flows.iter().map(|flow| flow.fwd_octets + flow.rev_octets).sum::<u64>());
            prop_assert!(read.headers.iter().all(|header| header.domain == 7 && header.octets <= most));
            let server_name = match protocol { ExportProtocol::Ipfix => (NTOP, 188), ExportProtocol::V9 => (0, NTOP_IN_V9 + 188) };
            let mut records = read.records.iter();
            for flow in &flows {
                let record = records.next().unwrap();
                let (src, dst) = if flow.ip_version == 4 { ((0, 8), (0, 12)) } else { ((0, 27), (0, 28)) };
                prop_assert_eq!((&record[&src], &record[&dst]), (&flow.src_addr, &flow.dst_addr));
                prop_assert_eq!(be(&record[&(0, 7)]), u64::from(flow.src_port));
                prop_assert_eq!(be(&record[&(0, 11)]), u64::from(flow.dst_port));
                let first = (START_MS as i64 + flow.first_seen_offset_ms) as u64;
                prop_assert_eq!(be(&record[&(0, 152)]), first);
                prop_assert_eq!(be(&record[&(0, 153)]), first + flow.last_seen_offset_ms);
                let name = match protocol { ExportProtocol::Ipfix => &flow.server_name[..], ExportProtocol::V9 => &flow.server_name[..flow.server_name.len().min(48)] };
                let told = &record[&server_name];
                let told: Vec<u8> = told.iter().copied().take_while(|&octet| octet != 0).collect();
                prop_assert_eq!(std::str::from_utf8(&told).unwrap(), name);
                if protocol == ExportProtocol::V9 {
                    let header = read.headers[0];
                    let boot = u64::from(header.seconds) * 1000 - u64::from(header.uptime);
                    prop_assert_eq!(boot + be(&record[&(0, 22)]), first);
                    prop_assert_eq!(boot + be(&record[&(0, 21)]), first + flow.last_seen_offset_ms);
                }
                if flow.rev_packets > 0 {
                    let back = records.next().unwrap();
                    prop_assert_eq!((&back[&src], &back[&dst]), (&flow.dst_addr, &flow.src_addr));
                    prop_assert_eq!((be(&back[&(0, 2)]), be(&back[&(0, 1)])), (flow.rev_packets, flow.rev_octets));
                }
            }
        }
    }

    #[test]
    fn biflows_are_one_record_each(flows in prop::collection::vec(flow(), 0..40)) {
        for (protocol, out) in PROTOCOLS.into_iter().zip([[(REVERSE, 1), (REVERSE, 2)], [(0, 23), (0, 24)]]) {
            let read = round(protocol, DEFAULT, true, &flows, 1400);
            prop_assert_eq!(read.records.len(), flows.len());
            for (flow, record) in flows.iter().zip(&read.records) {
                prop_assert_eq!((be(&record[&(0, 1)]), be(&record[&(0, 2)])), (flow.fwd_octets, flow.fwd_packets));
                prop_assert_eq!((be(&record[&out[0]]), be(&record[&out[1]])), (flow.rev_octets, flow.rev_packets));
            }
        }
    }

    #[test]
    fn sequences_have_no_gaps(flows in prop::collection::vec(flow(), 1..120), again in prop::collection::vec(any::<bool>(), 120)) {
        for protocol in PROTOCOLS {
            let mut encoder = Encoder::new(protocol, &ExportTemplate::parse(DEFAULT, false).unwrap(), 0, 700);
            let mut read = Read::default();
            let mut out = |ready: Ready<'_>| read.message(ready.octets);
            for (number, (flow, again)) in flows.iter().zip(&again).enumerate() {
                encoder.interval(START_MS + number as u64 / 50 * 10_000, 10_000, &mut out);
                if *again {
                    encoder.send_templates(&mut out);
                }
                encoder.record(&View::both(flow, START_MS), &mut out);
            }
            encoder.finish(&mut out);
            let mut next = 0;
            for header in &read.headers {
                prop_assert_eq!(header.sequence, next);
                // IPFIX numbers data records, including those of options (RFC 7011); NetFlow v9 numbers messages (RFC
                // 3954).
                next += if protocol == ExportProtocol::Ipfix { header.data_records } else { 1 };
            }
        }
    }
}

#[test]
fn the_options_tell_the_sampling_and_the_interval() {
    for protocol in PROTOCOLS {
        let one = Flow { fwd_packets: 1, ip_version: 4, ..Flow::default() };
        let read = round(protocol, DEFAULT, false, &[one], 1400);
        let [options] = &read.options[..] else { panic!("one options record") };
        let told: Vec<u64> = [34, 35, 36, 37].iter().map(|&id| be(&options[&(0, id)])).collect();
        assert_eq!(told, [1, 1, 10, 10]);
        assert_eq!(read.templates.len(), 3);
    }
}

#[test]
fn a_restart_tells_all_anew() {
    let mut encoder = Encoder::new(ExportProtocol::Ipfix, &ExportTemplate::parse(DEFAULT, false).unwrap(), 0, 1400);
    let one = Flow { fwd_packets: 1, ip_version: 4, ..Flow::default() };
    encoder.record(&View::both(&one, START_MS), &mut |_| {});
    encoder.finish(&mut |_| {});
    encoder.record(&View::both(&one, START_MS), &mut |_| {});
    encoder.restart();
    let mut read = Read::default();
    encoder.record(&View::both(&one, START_MS), &mut |ready| read.message(ready.octets));
    encoder.finish(&mut |ready| read.message(ready.octets));
    assert_eq!((read.headers.len(), read.headers[0].sequence, read.records.len()), (1, 0, 1));
}

#[test]
fn an_uptime_begins_anew_before_it_overflows() {
    let mut encoder = Encoder::new(ExportProtocol::V9, &ExportTemplate::parse(DEFAULT, false).unwrap(), 0, 1400);
    let mut read = Read::default();
    let one = Flow { fwd_packets: 1, ip_version: 4, ..Flow::default() };
    for day in 0..120 {
        let start_ms = START_MS + day * 86_400_000;
        encoder.interval(start_ms, 10_000, &mut |ready| read.message(ready.octets));
        encoder.record(&View::both(&one, start_ms), &mut |ready| read.message(ready.octets));
    }
    encoder.finish(&mut |ready| read.message(ready.octets));
    for (day, (header, record)) in (0..).zip(read.headers.iter().zip(&read.records)) {
        let boot = u64::from(header.seconds) * 1000 - u64::from(header.uptime);
        assert_eq!(boot + be(&record[&(0, 22)]), START_MS + day * 86_400_000);
    }
}

/// The whole first message, octet by octet: any change of the format shows here.
#[test]
fn a_message_of_ipfix_is_the_one_written_by_hand() {
    let one = Flow { fwd_packets: 3, fwd_octets: 180, ..https() };
    let template = ExportTemplate::parse("%IPV4_SRC_ADDR %IPV4_DST_ADDR %IN_PKTS %L7_PROTO", false).unwrap();
    let mut encoder = Encoder::new(ExportProtocol::Ipfix, &template, 0, 1400);
    let mut message = String::new();
    let mut out = |ready: Ready<'_>| message = ready.octets.iter().map(|octet| format!("{octet:02x}")).collect();
    encoder.interval(START_MS, 10_000, &mut out);
    encoder.record(&View::both(&one, START_MS), &mut out);
    encoder.finish(&mut out);
    let expected = [
        "000a 0089 6b0165e2 00000000 00000000",
        // Templates 256 and 257, four fields each, the last one of enterprise 35632 = 8b30.
        "0002 0034 0100 0004 0008 0004 000c 0004 0002 0008 8076 0002 00008b30",
        "0101 0004 001b 0010 001c 0010 0002 0008 8076 0002 00008b30",
        "0003 001e 0102 0005 0001 0095 0004 0022 0004 0023 0001 0024 0002 0025 0002",
        "0102 0011 00000000 00000001 01 000a 000a",
        "0100 0016 c0000201 c6336402 0000000000000003 0000",
    ];
    assert_eq!(message, expected.concat().replace(' ', ""));
}
