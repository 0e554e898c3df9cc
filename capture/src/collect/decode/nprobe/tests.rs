//! Messages as nProbe, netflow2ng and our own export write them.

use super::left_out::{LONGEST_NAME, MOST_NAMES};
use super::*;
use crate::collect::decode::Decoder;
use crate::collect::element::octets::mapped;
use crate::collect::record::SentCounts;
use crate::export::elements::{ExportTemplate, View};
use crate::export::nprobe_json::JsonForm;
use crate::proto;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use proptest::prelude::*;
use std::io::Write as _;

const HOME: Address = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];
const NOW_MS: i64 = 1_700_000_000_000;

/// The exporter, and an owned record with its names.
type Owned = (ExporterInfo, Imported<'static>, String, String);

fn owned(info: &ExporterInfo, record: &Imported<'_>) -> Owned {
    let text = |octets: &[u8]| String::from_utf8(octets.to_vec()).unwrap();
    let names = (text(record.server_name), text(record.dns_query));
    (*info, Imported { server_name: b"", dns_query: b"", routed: None, ..*record }, names.0, names.1)
}

fn json(decoder: &mut Decoder, data: &str) -> Vec<Owned> {
    let mut all = Vec::new();
    decoder.nprobe_json(HOME, NOW_MS * 1_000_000, data.as_bytes(), &mut |info, record| all.push(owned(info, record)));
    all
}

fn zmq(decoder: &mut Decoder, header: &[u8], payload: &[u8]) -> Vec<Owned> {
    let mut all = Vec::new();
    let mut take = |info: &ExporterInfo, record: &Imported<'_>| all.push(owned(info, record));
    decoder.nprobe_zmq(HOME, NOW_MS * 1_000_000, [header, payload], &mut take);
    all
}

fn one(data: &str) -> Owned {
    let mut decoder = Decoder::default();
    let all = json(&mut decoder, data);
    assert_eq!((all.len(), decoder.counts().causes.iter().sum::<u64>()), (1, 0), "{data}");
    all.into_iter().next().unwrap()
}

fn cause(decoder: &Decoder, cause: Refusal) -> u64 {
    decoder.counts().of(cause)
}

/// A record of a TCP connection, with names for keys.
const NAMED: &str = r#"{"IPV4_SRC_ADDR":"10.0.0.1","IPV4_DST_ADDR":"10.0.0.2","L4_SRC_PORT":40000,"L4_DST_PORT":443,
    "PROTOCOL":6,"IN_PKTS":3,"IN_BYTES":300,"OUT_PKTS":2,"OUT_BYTES":2000,"FIRST_SWITCHED":1699999990,
    "LAST_SWITCHED":1699999999,"CLIENT_TCP_FLAGS":2,"SERVER_TCP_FLAGS":18,"TCP_FLAGS":18,"L7_PROTO":"91.178",
    "CLIENT_NW_LATENCY_MS":1.5,"SERVER_NW_LATENCY_MS":"0.25","TLS_SERVER_NAME":"example.org","SRC_VLAN":7}"#;

fn expected() -> Imported<'static> {
    let sent = |packets, octets, tcp_flags| SentCounts { packets, octets, tcp_flags, ..SentCounts::default() };
    Imported {
        addresses: [mapped([10, 0, 0, 1]), mapped([10, 0, 0, 2])],
        ports: [40_000, 443],
        version: 4,
        protocol: 6,
        vlan: 7,
        sent: [sent(3, 300, 2), sent(2, 2000, 18)],
        first_ms: NOW_MS - 10_000,
        last_ms: NOW_MS - 1000,
        initiator_known: true,
        application_id: 178,
        handshake_rtt_us: 3500,
        ..Imported::default()
    }
}

#[test]
fn names_and_numbers_are_read_alike() {
    let (info, record, server, _) = one(NAMED);
    assert_eq!((info.address, info.protocol, record, &server[..]), (HOME, Protocol::Nprobe, expected(), "example.org"));
    let numbered = r#"{"8":"10.0.0.1","12":167772162,"7":"40000","11":443,"4":"6","2":3,"1":300,"24":2,"23":2000,
        "152":1699999990000,"153":"1699999999000","22":1,"21":1,"35632.78":2,"57551":18,"35632.118":178,
        "35632.123":1.5,"57596":0.25,"35632.188":"example.org","58":7}"#;
    let (_, record, server, _) = one(numbered);
    assert_eq!((record, &server[..]), (expected(), "example.org"));
}

#[test]
fn times_are_seconds_milliseconds_or_those_of_arrival() {
    let times = |text: &str| {
        let record = one(&format!(r#"{{"8":"10.0.0.1","12":"10.0.0.2","1":9,"2":1{text}}}"#)).1;
        (record.first_ms - NOW_MS, record.last_ms - NOW_MS)
    };
    assert_eq!(times(""), (0, 0));
    assert_eq!(times(r#","22":1699999990,"21":1699999995"#), (-10_000, -5000));
    assert_eq!(times(r#","22":1699999990123,"21":1699999995456"#), (-9877, -4544));
    assert_eq!(times(r#","154":1699999990123456,"155":1699999995456789"#), (-9877, -4544));
    assert_eq!(times(r#","150":"1699999990","151":"1699999995""#), (-10_000, -5000));
    assert_eq!(times(r#","156":1699999990123456789,"157":1699999995456789012"#), (-9877, -4544));
    assert_eq!(times(r#","22":0,"21":0"#), (0, 0));
    assert_eq!(times(r#","21":1699999995,"161":4000"#), (-9000, -5000));
    // The decoder replaces impossible times by the time of arrival, and counts them.
    let mut decoder = Decoder::default();
    let read = json(&mut decoder, r#"{"8":"10.0.0.1","12":"10.0.0.2","1":9,"22":100,"21":200}"#);
    assert_eq!((read[0].1.last_ms, cause(&decoder, Refusal::TimeClamped)), (NOW_MS, 1));
}

#[test]
fn a_message_is_an_object_an_array_or_lines() {
    let small = r#"{"8":"10.0.0.1","12":"10.0.0.2","1":9}"#;
    for (text, records) in [
        (format!(" {small}\r\n"), 1),
        (format!("{small}\0"), 1),
        (format!("[{small},{small}]"), 2),
        (format!("{small}\n{small}\r\n\n{small}"), 3),
        (small.replace(',', ",\n"), 1),
        ("[]".to_owned(), 0),
    ] {
        let mut decoder = Decoder::default();
        assert_eq!(json(&mut decoder, &text).len(), records, "{text}");
        assert_eq!(decoder.counts().causes.iter().sum::<u64>(), 0, "{text}");
    }
}

#[test]
fn what_is_no_json_costs_itself_alone() {
    let small = r#"{"8":"10.0.0.1","12":"10.0.0.2","1":9}"#;
    for (text, records) in [
        (String::new(), 0),
        ("no".to_owned(), 0),
        ("1".to_owned(), 0),
        (format!("{small}\n{{\"8\":\n{small}"), 2),
        (format!("[{small},{small}"), 2),
        (format!("[{small},[{small}]]"), 1),
        (format!("{small} rest"), 1),
        (format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)), 0),
        ("{\"8\":\"\u{0}\"}".to_owned(), 0),
    ] {
        let mut decoder = Decoder::default();
        assert_eq!(json(&mut decoder, &text).len(), records, "{text:.80}");
        assert_eq!(cause(&decoder, Refusal::BadJson), 1, "{text:.80}");
    }
}

#[test]
fn values_that_cannot_be_are_left_out_and_counted() {
    let mut decoder = Decoder::default();
    let deep = ["[".repeat(100_000), "]".repeat(100_000)].concat();
    assert!(json(&mut decoder, &format!(r#"{{"8":{deep},"x":{deep}}}"#)).is_empty());
    assert_eq!((cause(&decoder, Refusal::BadValue), cause(&decoder, Refusal::NoAddress)), (1, 1));
    let mut decoder = Decoder::default();
    let text = r#"{"8":"10.0.0.1","12":"10.0.0.2","1":9,"7":70000,"11":-1,"4":"tcp","58":5000,"2":[1,{"a":2}],
        "10":true,"14":null,"35632.188":7,"130":"nobody","35632.124":-2.5}"#;
    let read = json(&mut decoder, text);
    let expected = Imported {
        addresses: [mapped([10, 0, 0, 1]), mapped([10, 0, 0, 2])],
        version: 4,
        sent: [SentCounts { octets: 9, ..SentCounts::default() }, SentCounts::default()],
        first_ms: NOW_MS,
        last_ms: NOW_MS,
        ..Imported::default()
    };
    assert_eq!((read[0].1, cause(&decoder, Refusal::BadValue)), (expected, 9));
    json(&mut decoder, r#"{"8":"10.0.0.1","1":9}"#);
    json(&mut decoder, r#"{"8":"10.0.0.1","12":"10.0.0.2"}"#);
    assert_eq!((cause(&decoder, Refusal::NoAddress), cause(&decoder, Refusal::Empty)), (1, 1));
}

#[test]
fn the_exporter_is_who_the_record_names() {
    let of = |text: &str| one(&format!(r#"{{"8":"10.0.0.1","12":"10.0.0.2","1":9{text}}}"#)).0.address;
    assert_eq!(of(""), HOME);
    assert_eq!(of(r#","130":"192.0.2.9","NPROBE_IPV4_ADDRESS":"192.0.2.8""#), mapped([192, 0, 2, 9]));
    assert_eq!(of(r#","35632.471":"192.0.2.8","130":"0.0.0.0","131":"::""#), mapped([192, 0, 2, 8]));
    assert_eq!(of(r#","EXPORTER_IPV6_ADDRESS":"2001:db8::7""#)[..4], [0x20, 1, 0x0d, 0xb8]);
}

#[test]
fn addresses_of_the_other_version_may_be_there_empty() {
    let four = one(r#"{"8":"10.0.0.1","12":"10.0.0.2","27":"::","28":"::","1":9}"#).1;
    assert_eq!((four.version, four.addresses[1]), (4, mapped([10, 0, 0, 2])));
    let six = one(r#"{"8":"0.0.0.0","12":"0.0.0.0","27":"2001:db8::1","28":"2001:db8::2","1":9,"2":1}"#).1;
    assert_eq!((six.version, six.addresses[0][0], six.addresses[1][15]), (6, 0x20, 2));
    assert_eq!(one(r#"{"8":"2001:db8::1","12":"2001:db8::2","1":9}"#).1.version, 6);
}

#[test]
fn elements_without_a_place_are_counted_by_name_within_a_bound() {
    let mut decoder = Decoder::default();
    json(&mut decoder, r#"{"8":"10.0.0.1","12":"10.0.0.2","1":9,"SRC_AS":1,"62":2,"35632.9":3,"x":{"y":[1]}}"#);
    let left = |decoder: &Decoder| decoder.nprobes().left_out;
    let counted = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 1)).collect::<Vec<_>>();
    assert_eq!(left(&decoder), counted(&["35632.9", "62", "SRC_AS", "x"]));
    for number in 0..1000 {
        json(&mut decoder, &format!(r#"{{"{}{number}":1}}"#, "é".repeat(50)));
    }
    let all = left(&decoder);
    assert!(all.iter().all(|(name, _)| name.len() <= LONGEST_NAME));
    assert_eq!((all.len() <= MOST_NAMES + 2, all.iter().map(|(_, count)| count).sum::<u64>()), (true, 1004));
    for number in 0..300 {
        json(&mut decoder, &format!(r#"{{"name{number}":1}}"#));
    }
    let all = left(&decoder);
    let others = all.iter().find(|(name, _)| name == "other").unwrap();
    assert!(others.1 >= 300 - MOST_NAMES as u64, "{others:?}");
    assert_eq!(all.iter().map(|(_, count)| count).sum::<u64>(), 1304);
}

fn header(version: u8, source: u8, number: u32) -> Vec<u8> {
    let mut header = b"flow\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    header.extend([version, source, 0, 0]);
    header.extend(number.to_be_bytes());
    header
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_payload_may_be_compressed_to_a_hundredth() {
    let mut decoder = Decoder::default();
    let text = format!("[{NAMED}{}]", " ".repeat(1 << 20));
    let payload = [&[0][..], &zlib(text.as_bytes())].concat();
    assert!(payload.len() * 100 < text.len());
    let records = zmq(&mut decoder, &header(2, 1, 1), &payload);
    assert_eq!((records.len(), cause(&decoder, Refusal::BadCompression)), (1, 0));
}

/// A record as nDPI serializes it.
fn tlv() -> Vec<u8> {
    let mut data = vec![1, 1, 0x24, 8, 10, 0, 0, 1, 0x2b, 12, 0, 8];
    data.extend(b"10.0.0.2");
    data.extend([0x22, 4, 6, 0x23, 1, 1, 44, 0x22, 2, 3]);
    // Element 57472 + 188; element 35632.124, given by name; and a list.
    data.extend([0x3b, 0xe1, 0x3c, 0, 11]);
    data.extend(b"example.org");
    data.extend([0xba, 0, 9]);
    data.extend(b"35632.124");
    data.extend(1.5f32.to_le_bytes());
    data.extend([0x2e, 99, END]);
    data
}

const END: u8 = 1;

#[test]
fn every_version_of_headers_is_read() {
    let payload = br#"[{"8":"10.0.0.1","12":"10.0.0.2","1":9}]"#;
    let legacy = [&b"flow"[..], &[0; 28], &[0, 0, 0, 0], &[0; 4]].concat();
    let long = [&header(2, 0, 7)[..], &[1, 2, 0, 0]].concat();
    let flags = |flags: u8| {
        let mut header = header(4, flags, 0);
        header[20..].fill(0);
        [&header[..], &[0; 4], &7u32.to_be_bytes(), &0x0102_0304u32.to_be_bytes()].concat()
    };
    let small = [&[0][..], &zlib(payload)].concat();
    for (header, payload, domain) in [
        (legacy, &payload[..], 0),
        (header(1, 5, 7), payload, 0),
        (header(2, 5, 7), payload, 5),
        (header(2, 5, 7), &small, 5),
        (header(3, 5, 7), &tlv(), 5),
        (long, &small, 0x0201),
        (flags(0), payload, 0x0102_0304),
        (flags(4), &zlib(payload), 0x0102_0304),
        (flags(4), &small, 0x0102_0304),
        (flags(2), &tlv(), 0x0102_0304),
        (flags(6), &zlib(&tlv()), 0x0102_0304),
    ] {
        let mut decoder = Decoder::default();
        let read = zmq(&mut decoder, &header, payload);
        assert_eq!(decoder.counts().causes.iter().sum::<u64>(), 0, "{header:?}");
        assert_eq!((read.len(), read[0].0.domain, read[0].1.addresses[1]), (1, domain, mapped([10, 0, 0, 2])));
        assert_eq!(decoder.nprobes().topics[ZmqTopic::Flow as usize], 1);
    }
}

#[test]
fn serialized_records_say_what_json_says() {
    let mut decoder = Decoder::default();
    let data = tlv();
    let read = zmq(&mut decoder, &header(3, 0, 1), &[&data[..], &data[2..]].concat());
    assert_eq!(read.len(), 2);
    let (_, record, server, _) = &read[1];
    assert_eq!((record.protocol, record.sent[0].octets, record.sent[0].packets), (6, 300, 3));
    assert_eq!((record.handshake_rtt_us, &server[..]), (3000, "example.org"));
    assert_eq!(decoder.nprobes().left_out, [("99".to_owned(), 2)]);
    // Signed numbers of one to eight octets: 5 packets, 300 octets, an impossible port.
    let signed = [
        &[
            1, 1, 0x24, 8, 10, 0, 0, 1, 0x24, 12, 10, 0, 0, 2, 0x26, 2, 5, 0x27, 1, 1, 44, 0x28, 7, 0xff, 0xff, 0xff,
            0xff,
        ][..],
        &[0x29, 11, 0, 0, 0, 0, 0, 0, 1, 187, END],
    ]
    .concat();
    let mut decoder = Decoder::default();
    let read = zmq(&mut decoder, &header(3, 0, 1), &signed);
    let record = &read[0].1;
    assert_eq!((record.sent[0].packets, record.sent[0].octets, record.ports), (5, 300, [0, 443]));
    assert_eq!(cause(&decoder, Refusal::BadValue), 1);
    let wider =
        [1, 1, 0x24, 8, 10, 0, 0, 1, 0x24, 12, 10, 0, 0, 2, 0x26, 2, 5, 0x28, 1, 0, 1, 0x11, 0x70, 0x26, 7, 0x9c, END];
    let mut decoder = Decoder::default();
    let record = &zmq(&mut decoder, &header(3, 0, 1), &wider)[0].1;
    assert_eq!((record.sent[0].octets, record.ports, cause(&decoder, Refusal::BadValue)), (70_000, [0, 0], 1));
    // Wherever the record is cut, it is not decoded but counted.
    for end in 0..data.len() {
        let mut decoder = Decoder::default();
        assert!(zmq(&mut decoder, &header(3, 0, 1), &data[..end]).is_empty());
        let refused: u64 = decoder.counts().causes.iter().sum();
        assert_eq!(refused, u64::from(end != 2), "{end}");
    }
}

#[test]
fn gaps_are_messages_lost_and_lower_numbers_a_restart() {
    let mut decoder = Decoder::default();
    let mut hear = |source, number| _ = zmq(&mut decoder, &header(2, source, number), b"[]");
    (0..10).for_each(|number| hear(1, number));
    hear(1, 13);
    hear(2, 500);
    hear(2, 501);
    (0..5).for_each(|number| hear(1, number));
    hear(1, 6);
    let losses = decoder.counts().losses;
    assert_eq!((losses.lost, losses.restarts), (4, 1));
}

#[test]
fn other_topics_are_counted_and_bad_frames_too() {
    let mut decoder = Decoder::default();
    for topic in [&b"event"[..], b"counter", b"template", b"option", b"hello", b"listening-ports", b"snmp-ifaces", b"x"]
    {
        let mut header = header(2, 0, 0);
        header[..16].fill(0);
        header[..topic.len()].copy_from_slice(topic);
        assert!(zmq(&mut decoder, &header, b"{}").is_empty());
    }
    assert_eq!(decoder.nprobes().topics, [0, 1, 1, 1, 1, 1, 1, 1, 1]);
    for (frame, why) in [
        (&b""[..], Refusal::BadLength),
        (&[0; 23], Refusal::BadLength),
        (&header(9, 0, 0), Refusal::UnknownVersion),
        (&header(4, 0, 0), Refusal::UnknownVersion),
    ] {
        let before = cause(&decoder, why);
        assert!(zmq(&mut decoder, frame, b"[]").is_empty());
        assert_eq!(cause(&decoder, why), before + 1);
    }
    // A serialized payload begins with a 0 only if it is compressed.
    assert!(zmq(&mut decoder, &header(3, 0, 0), &[&[0][..], &tlv()].concat()).is_empty());
    let causes = [Refusal::UnknownVersion, Refusal::BadCompression].map(|why| cause(&decoder, why));
    assert_eq!(causes, [3, 0]);
    let bomb = [&[0][..], &zlib(&vec![b' '; MOST_OCTETS + 1])].concat();
    for payload in [&[0, 1, 2, 3][..], &[0], &bomb, &bomb[..100]] {
        let before = cause(&decoder, Refusal::BadCompression);
        assert!(zmq(&mut decoder, &header(2, 0, 0), payload).is_empty());
        assert_eq!(cause(&decoder, Refusal::BadCompression), before + 1);
    }
    assert!(decoder.nprobe.inflated.capacity() <= 2 * MOST_OCTETS);
    assert_eq!(cause(&decoder, Refusal::BadJson), 0);
}

#[test]
fn events_tell_what_an_nprobe_dropped() {
    let mut decoder = Decoder::default();
    let mut head = header(2, 0, 0);
    head[..16].fill(0);
    head[..5].copy_from_slice(b"event");
    let mut tell = |text: String| {
        zmq(&mut decoder, &head, text.as_bytes());
        (
            decoder.counts().exporter_drops,
            decoder.counts().exporter_records_dropped,
            decoder.counts().of(Refusal::BadJson),
        )
    };
    let event = |packets: u64, flows: u64| {
        format!(r#"{{"packet_drops":{packets},"drops":{{"export_queue_full":{flows},"elk_flow_drops":9}},"x":[]}}"#)
    };
    // Counts before the first event are not reported; an nProbe that restarts counts from 0.
    assert_eq!(tell(event(100, 7)), (0, 0, 0));
    assert_eq!(tell(event(130, 9)), (30, 2, 0));
    assert_eq!(tell(event(5, 0)), (30, 2, 0));
    assert_eq!(tell(event(6, 1)), (31, 3, 0));
    assert_eq!(tell("{\"packet_drops\":".to_owned()), (31, 3, 1));
    assert_eq!(tell("{}".to_owned()), (31, 3, 1));
}

fn flow() -> impl Strategy<Value = proto::Flow> {
    let address = prop_oneof![prop::collection::vec(any::<u8>(), 4), prop::collection::vec(any::<u8>(), 16)];
    let address = (address.clone(), any::<[u8; 16]>());
    let counts = (1..1u64 << 20, 0..1u64 << 20, 1..1u64 << 20, 0..1u64 << 20, 0..1u32 << 30);
    let name = prop_oneof![Just(String::new()), "[a-z\"\\\\é]{1,30}"];
    (address, any::<[u16; 2]>(), 0..=255u32, counts, (0..4095u32, any::<u32>(), name.clone(), name), 0..20_000i64)
        .prop_map(
            |((src, dst), ports, protocol, (fwd, rev, octets, back, rtt), (vlan, interface, server, query), lasted)| {
                let icmp = matches!(protocol, 1 | 58);
                proto::Flow {
                    ip_version: if src.len() == 4 { 4 } else { 6 },
                    dst_addr: dst[..src.len()].to_vec(),
                    src_addr: src,
                    src_port: if icmp { 0 } else { ports[0].into() },
                    dst_port: ports[1].into(),
                    protocol,
                    vlan,
                    fwd_packets: fwd,
                    rev_packets: rev,
                    fwd_octets: fwd + octets,
                    rev_octets: rev + back,
                    first_seen_offset_ms: -lasted,
                    last_seen_offset_ms: lasted as u64,
                    tcp_handshake_rtt_us: rtt,
                    fwd_class_of_service: u32::from(ports[0] & 0xff),
                    rev_class_of_service: u32::from(ports[1] & 0xff),
                    fwd_tcp_retransmissions: fwd % 7,
                    rev_tcp_out_of_order: rev % 5,
                    application_id: u32::from(ports[0]),
                    input_interface: interface,
                    server_name: server,
                    dns_query: query,
                    ..proto::Flow::default()
                }
            },
        )
}

proptest! {
    /// The collector reads the agent's own exports back as the same records.
    #[test]
    fn our_own_export_is_read_as_it_was(flows in prop::collection::vec(flow(), 1..5), labels in any::<bool>()) {
        let template = "@NTOPNG@ %SRC_TOS %DST_TOS %FLOW_START_MILLISECONDS %FLOW_END_MILLISECONDS";
        let form = JsonForm::new(ExportTemplate::parse(template, true).unwrap(), labels);
        let mut text = Vec::new();
        for flow in &flows {
            form.write(&View::both(flow, NOW_MS as u64), &mut text);
            text.push(b'\n');
        }
        let mut decoder = Decoder::default();
        let read = json(&mut decoder, std::str::from_utf8(&text).unwrap());
        prop_assert_eq!(decoder.counts().causes.iter().sum::<u64>(), 0);
        prop_assert_eq!(read.len(), flows.len());
        for (flow, (info, record, server, query)) in flows.iter().zip(read) {
            let view = View::both(flow, NOW_MS as u64);
            prop_assert_eq!(info.address, HOME);
            let octets = |address: &Address| crate::packet::shortest(address).to_vec();
            if record.version == 4 || flow.ip_version == 6 {
                prop_assert_eq!(octets(&record.addresses[0]), flow.src_addr.clone());
                prop_assert_eq!(octets(&record.addresses[1]), flow.dst_addr.clone());
            }
            prop_assert_eq!((record.ports, record.protocol, record.vlan), (view.ports, view.protocol, view.vlan));
            for way in 0..2 {
                let sent = record.sent[way];
                let all = (sent.packets, sent.octets, sent.tcp_flags);
                prop_assert_eq!(all, (view.packets[way], view.octets[way], view.flags[way]));
                prop_assert_eq!(sent.class_of_service, view.class_of_service[way]);
                let more = (u64::from(sent.retransmissions), u64::from(sent.out_of_order));
                prop_assert_eq!(more, (view.retransmissions[way], view.out_of_order[way]));
            }
            prop_assert_eq!([record.first_ms, record.last_ms].map(|ms| ms as u64), view.seen_ms);
            prop_assert_eq!((record.handshake_rtt_us, record.application_id), (view.rtt_us, view.application));
            prop_assert_eq!((server, query), (flow.server_name.clone(), flow.dns_query.clone()));
            prop_assert_eq!((record.input_interface, record.sampling), (flow.input_interface, Some(1)));
        }
    }

    #[test]
    fn nothing_that_comes_ends_it(frame in prop::collection::vec(any::<u8>(), 0..50), data in prop::collection::vec(any::<u8>(), 0..200), version in 0..5u8) {
        let mut decoder = Decoder::default();
        zmq(&mut decoder, &frame, &data);
        zmq(&mut decoder, &header(version, 0, 3), &data);
        zmq(&mut decoder, &header(version, 0, 3), &[&[1, 1][..], &data].concat());
        decoder.nprobe_json(HOME, 0, &data, &mut |_, _| {});
        prop_assert!(decoder.counts().datagrams == 4);
    }
}
