//! Packets built octet by octet from the RFCs, and random templates with their records.

use super::*;
use crate::collect::element::octets::mapped;
use crate::collect::element::{PEN_NTOP, PEN_REVERSE};
use crate::collect::exporter::sequence::Losses;
use crate::collect::record::SentCounts;
use crate::testing as t;
use proptest::prelude::*;

pub(super) const HOME: Address = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];
/// Time at which datagrams are sent and received, s.
pub(super) const NOW: u32 = 1_700_000_000;
pub(super) const NOW_MS: i64 = NOW as i64 * 1000;
/// Uptime of the exporter, ms.
pub(super) const UPTIME: u32 = 5_000_000;

/// A record that borrows nothing.
pub(super) type Owned = (Imported<'static>, String, String);

pub(super) fn owned(record: &Imported<'_>) -> Owned {
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let names = (text(record.server_name), text(record.dns_query));
    (Imported { server_name: b"", dns_query: b"", routed: None, ..*record }, names.0, names.1)
}

pub(super) fn feed_at(decoder: &mut Decoder, from: Address, ms: i64, data: &[u8]) -> Vec<Owned> {
    let mut records = Vec::new();
    decoder.datagram(from, ms * 1_000_000, data, &mut |_, record| records.push(owned(record)));
    records
}

pub(super) fn feed(decoder: &mut Decoder, data: &[u8]) -> Vec<Owned> {
    feed_at(decoder, HOME, NOW_MS, data)
}

pub(super) fn plain(records: Vec<Owned>) -> Vec<Imported<'static>> {
    records.into_iter().map(|record| record.0).collect()
}

pub(super) fn set(id: u16, body: &[u8]) -> Vec<u8> {
    [&id.to_be_bytes()[..], &(body.len() as u16 + 4).to_be_bytes(), body].concat()
}

pub(super) fn v9_at(uptime: u32, seconds: u32, sequence: u32, sets: &[Vec<u8>]) -> Vec<u8> {
    let mut data = vec![0, 9, 0, sets.len() as u8];
    for word in [uptime, seconds, sequence, 7] {
        data.extend(word.to_be_bytes());
    }
    [data, sets.concat()].concat()
}

pub(super) fn v9(sequence: u32, sets: &[Vec<u8>]) -> Vec<u8> {
    v9_at(UPTIME, NOW, sequence, sets)
}

pub(super) fn ipfix(sequence: u32, sets: &[Vec<u8>]) -> Vec<u8> {
    let sets = sets.concat();
    let mut data = [&[0, 10][..], &(sets.len() as u16 + 16).to_be_bytes()].concat();
    for word in [NOW, sequence, 7] {
        data.extend(word.to_be_bytes());
    }
    [data, sets].concat()
}

pub(super) fn shorts(numbers: &[u16]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// A field of a template: enterprise, element, octets.
pub(super) type Field = (u32, u16, u16);

/// Fields of an enterprise's elements, 0 for IANA's, each with its octets.
pub(super) const fn elements<const N: usize>(pen: u32, numbers: [(u16, u16); N]) -> [Field; N] {
    let mut fields = [(pen, 0, 0); N];
    let mut at = 0;
    while at < N {
        (fields[at].1, fields[at].2) = numbers[at];
        at += 1;
    }
    fields
}

/// A template of fields, as IPFIX writes it.
pub(super) fn template(id: u16, fields: &[Field]) -> Vec<u8> {
    let mut body = shorts(&[id, fields.len() as u16]);
    body.extend(fields.iter().flat_map(|&field| ipfix_field(field)));
    set(2, &body)
}

fn ipfix_field((pen, id, length): (u32, u16, u16)) -> Vec<u8> {
    match pen {
        0 => shorts(&[id, length]),
        _ => [shorts(&[id | 0x8000, length]), pen.to_be_bytes().to_vec()].concat(),
    }
}

pub(super) fn v9_template(id: u16, fields: &[(u16, u16)]) -> Vec<u8> {
    let mut body = shorts(&[id, fields.len() as u16]);
    body.extend(fields.iter().flat_map(|&(id, length)| shorts(&[id, length])));
    set(0, &body)
}

pub(super) const V9_FIELDS: [(u16, u16); 11] =
    [(8, 4), (12, 4), (7, 2), (11, 2), (4, 1), (6, 1), (2, 4), (1, 4), (22, 4), (21, 4), (10, 2)];

pub(super) fn v9_record(first: u32, last: u32) -> Vec<u8> {
    let mut data = vec![10, 0, 0, 1, 10, 0, 0, 2];
    data.extend(shorts(&[40_000, 443]));
    data.extend([6, 0x1b]);
    for word in [12, 3400, first, last] {
        data.extend(u32::to_be_bytes(word));
    }
    data.extend(shorts(&[3]));
    data
}

fn v9_expected(first_ms: i64, last_ms: i64) -> Imported<'static> {
    Imported {
        addresses: [mapped([10, 0, 0, 1]), mapped([10, 0, 0, 2])],
        ports: [40_000, 443],
        version: 4,
        protocol: 6,
        sent: [
            SentCounts { packets: 12, octets: 3400, tcp_flags: 0x1b, ..SentCounts::default() },
            SentCounts::default(),
        ],
        first_ms,
        last_ms,
        input_interface: 3,
        ..Imported::default()
    }
}

pub(super) fn v5(sequence: u32, uptime: u32, sampling: u16, records: &[Vec<u8>]) -> Vec<u8> {
    let mut data = shorts(&[5, records.len() as u16]);
    for word in [uptime, NOW, 250_000_000, sequence] {
        data.extend(word.to_be_bytes());
    }
    data.extend([1, 2]);
    data.extend(sampling.to_be_bytes());
    [data, records.concat()].concat()
}

pub(super) fn v5_record(protocol: u8, ports: [u16; 2], first: u32, last: u32) -> Vec<u8> {
    let mut data = vec![10, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4];
    for word in [12, 3400, first, last] {
        data.extend(u32::to_be_bytes(word));
    }
    data.extend(shorts(&ports));
    data.extend([0, 0x1b, protocol, 0xb8]);
    data.extend([0; 8]);
    data
}

#[test]
fn netflow_v5() {
    let mut decoder = Decoder::default();
    let data = v5(
        0,
        UPTIME,
        0x4000 | 100,
        &[v5_record(6, [40_000, 443], UPTIME - 9000, UPTIME - 1000), v5_record(1, [7, 0x0800], UPTIME, UPTIME)],
    );
    let records = plain(feed(&mut decoder, &data));
    let mut tcp = Imported { output_interface: 4, sampling: Some(100), ..v9_expected(NOW_MS - 8750, NOW_MS - 750) };
    tcp.sent[0].class_of_service = 0xb8;
    assert_eq!(records[0], tcp);
    assert_eq!((records[1].ports, records[1].protocol, records.len()), ([0, 0x0800], 1, 2));
    let known = decoder.exporters().next().unwrap();
    assert_eq!((known.info.protocol, known.info.domain, known.counts.records), (Protocol::NetflowV5, 0x0102, 2));
    // The next message is 3 records further: one record was lost.
    feed(&mut decoder, &v5(3, UPTIME, 0, &[v5_record(17, [1, 2], UPTIME, UPTIME)]));
    assert_eq!(decoder.counts().losses, Losses { lost: 1, ..Losses::default() });
}

#[test]
fn an_uptime_that_wraps_is_no_jump() {
    let mut decoder = Decoder::default();
    feed(&mut decoder, &v5(0, u32::MAX - 500, 0, &[v5_record(6, [40_000, 443], u32::MAX - 900, u32::MAX - 600)]));
    let late = feed_at(
        &mut decoder,
        HOME,
        NOW_MS + 1000,
        &v5(1, 1500, 0, &[v5_record(6, [40_000, 443], u32::MAX - 499, 1000)]),
    );
    let (record, _, _) = &late[0];
    assert_eq!((record.first_ms, record.last_ms), (NOW_MS + 250 - 2000, NOW_MS + 250 - 500));
    assert_eq!(decoder.counts().losses, Losses::default());
}

#[test]
fn netflow_v9() {
    let mut decoder = Decoder::default();
    let data = v9(
        0,
        &[
            v9_template(256, &V9_FIELDS),
            // Padded to a multiple of 4.
            set(256, &[v9_record(UPTIME - 3000, UPTIME - 1000), v9_record(UPTIME - 5, UPTIME), vec![0; 2]].concat()),
        ],
    );
    let records = plain(feed(&mut decoder, &data));
    assert_eq!(records, [v9_expected(NOW_MS - 3000, NOW_MS - 1000), v9_expected(NOW_MS - 5, NOW_MS)]);
    let counts = decoder.counts();
    assert_eq!((counts.datagrams, counts.records, counts.templates), (1, 2, 1));
    assert_eq!(counts.causes, [0; Refusal::ALL.len()]);
}

#[test]
fn v9_counts_datagrams_and_sees_a_restart() {
    let mut decoder = Decoder::default();
    let data = set(256, &v9_record(UPTIME, UPTIME));
    feed(&mut decoder, &v9(10, &[v9_template(256, &V9_FIELDS), data.clone()]));
    feed(&mut decoder, &v9(13, std::slice::from_ref(&data)));
    assert_eq!(decoder.counts().losses.lost, 2);
    feed(&mut decoder, &v9(11, std::slice::from_ref(&data)));
    assert_eq!((decoder.counts().losses.lost, decoder.counts().losses.late), (1, 1));
    // After the exporter's restart, its template differs but has the same id, and records wait for the new template.
    let short = set(256, &[10, 0, 0, 9, 10, 0, 0, 8, 0, 0, 0, 5]);
    assert!(
        feed_at(&mut decoder, HOME, NOW_MS + 60_000, &v9_at(100, NOW + 60, 0, std::slice::from_ref(&short))).is_empty()
    );
    let template = v9_template(256, &[(8, 4), (12, 4), (2, 4)]);
    let records = feed_at(&mut decoder, HOME, NOW_MS + 61_000, &v9_at(1100, NOW + 61, 1, &[template, short]));
    let packets: Vec<_> = plain(records).iter().map(|record| (record.sent[0].packets, record.last_ms)).collect();
    assert_eq!(packets, [(5, NOW_MS + 60_000), (5, NOW_MS + 61_000)]);
    assert_eq!((decoder.counts().losses.lost, decoder.counts().losses.restarts), (1, 1));
}

#[test]
fn two_exporters_behind_one_address_do_not_lose_their_templates_for_ever() {
    let mut decoder = Decoder::default();
    let data = set(256, &v9_record(UPTIME, UPTIME));
    feed(&mut decoder, &v9_at(90_000_000, NOW, 1, &[v9_template(256, &V9_FIELDS)]));
    for number in 0..20 {
        feed(&mut decoder, &v9_at(90_000_000, NOW, 2 + number, std::slice::from_ref(&data)));
        let template = if number == 0 { v9_template(256, &V9_FIELDS) } else { Vec::new() };
        feed(&mut decoder, &v9_at(1_000_000, NOW, 70_000_000 + number, &[template, data.clone()]));
    }
    assert_eq!(decoder.counts().records, 40);
}

fn biflow_fields() -> Vec<Field> {
    let forward = elements(0, [(27, 16), (28, 16), (7, 2), (11, 2), (4, 1), (2, 8), (1, 4)]);
    [&forward[..], &elements(PEN_REVERSE, [(2, 4), (1, 2)]), &elements(0, [(152, 8)])].concat()
}

fn six(last: u8) -> Address {
    [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]
}

fn ipfix_record(packets: u64, first_ms: i64) -> Vec<u8> {
    let mut data = [six(1), six(2)].concat();
    data.extend(shorts(&[50_000, 53]));
    data.push(17);
    data.extend(packets.to_be_bytes());
    data.extend(800u32.to_be_bytes());
    data.extend(3u32.to_be_bytes());
    data.extend(400u16.to_be_bytes());
    data.extend(first_ms.to_be_bytes());
    data
}

#[test]
fn ipfix_biflow_with_lengths_reduced() {
    let mut decoder = Decoder::default();
    let data = ipfix(0, &[template(300, &biflow_fields()), set(300, &ipfix_record(4, NOW_MS - 70))]);
    let expected = Imported {
        addresses: [six(1), six(2)],
        ports: [50_000, 53],
        version: 6,
        protocol: 17,
        sent: [
            SentCounts { packets: 4, octets: 800, ..SentCounts::default() },
            SentCounts { packets: 3, octets: 400, ..SentCounts::default() },
        ],
        first_ms: NOW_MS - 70,
        last_ms: NOW_MS - 70,
        ..Imported::default()
    };
    assert_eq!(plain(feed(&mut decoder, &data)), [expected]);
    assert_eq!(decoder.exporters().next().unwrap().info.protocol, Protocol::Ipfix);
    // Sequence numbers count records, not messages.
    let two = set(300, &[ipfix_record(1, NOW_MS), ipfix_record(2, NOW_MS)].concat());
    feed(&mut decoder, &ipfix(1, std::slice::from_ref(&two)));
    feed(&mut decoder, &ipfix(10, &[two]));
    assert_eq!(decoder.counts().losses.lost, 7);
}

#[test]
fn the_direction_of_a_biflow_turns_it() {
    let fields = [(0, 8, 4), (0, 12, 4), (0, 7, 2), (0, 11, 2), (0, 4, 1), (0, 1, 4), (29_305, 1, 4), (0, 239, 1)];
    let record = |direction: u8| {
        let mut data = vec![10, 0, 0, 1, 10, 0, 0, 2, 0, 80, 200, 0, 6, 0, 0, 0, 10, 0, 0, 0, 20];
        data.push(direction);
        data
    };
    let data = [record(0), record(1), record(2)].concat();
    let records = plain(feed(&mut Decoder::default(), &ipfix(0, &[template(300, &fields), set(300, &data)])));
    let seen: Vec<_> = records
        .iter()
        .map(|record| (record.addresses[0][15], record.ports[0], record.sent[0].octets, record.initiator_known))
        .collect();
    assert_eq!(seen, [(1, 80, 10, false), (1, 80, 10, true), (2, 51_200, 20, true)]);
}

#[test]
fn variable_length_and_ntops_elements() {
    let fields = [
        &elements(PEN_NTOP, [(188, 65_535)])[..],
        &elements(0, [(8, 4), (371, 65_535), (12, 4), (4, 1), (2, 4), (24, 4)]),
        &elements(PEN_NTOP, [(118, 2), (123, 4), (124, 4), (205, 20), (109, 4), (112, 4)]),
    ]
    .concat();
    let mut data = vec![9];
    data.extend(b"weir.test");
    data.extend([10, 0, 0, 1]);
    data.extend([255, 1, 44]);
    data.extend([b'u'; 300]);
    data.extend([10, 0, 0, 2, 6, 0, 0, 0, 5, 0, 0, 0, 4, 0, 91, 0, 0, 0, 3, 0, 0, 0, 4]);
    data.extend(b"example.test\0\0\0\0\0\0\0\0");
    data.extend([0, 0, 0, 2, 0, 0, 0, 1]);
    let mut decoder = Decoder::default();
    let records = feed(&mut decoder, &ipfix(0, &[template(300, &fields), set(300, &[data.clone(), data].concat())]));
    assert_eq!(records.len(), 2);
    let (record, server_name, dns_query) = &records[1];
    assert_eq!((server_name.as_str(), dns_query.as_str()), ("weir.test", "example.test"));
    // Both halves of the round trip, and counts of both directions; in a template of nProbe, OUT_PKTS counts the
    // destination's packets.
    assert_eq!((record.handshake_rtt_us, record.application_id, record.initiator_known), (14_000, 91, true));
    assert_eq!((record.sent[0].packets, record.sent[1].packets), (5, 4));
    assert_eq!((record.sent[0].retransmissions, record.sent[1].out_of_order), (2, 1));
    assert_eq!(decoder.counts().causes, [0; Refusal::ALL.len()]);
}

/// One record of the fields' values, each as wide as it is.
pub(super) fn one(fields: &[(u32, u16, u16)], values: &[u64]) -> Imported<'static> {
    let mut all = vec![(0, 8, 4), (0, 12, 4)];
    all.extend(fields);
    let mut data = vec![10, 0, 0, 1, 10, 0, 0, 2];
    for (&(_, _, length), value) in fields.iter().zip(values) {
        data.extend(&value.to_be_bytes()[8 - usize::from(length)..]);
    }
    plain(feed(&mut Decoder::default(), &ipfix(0, &[template(300, &all), set(300, &data)])))[0]
}

#[test]
fn which_counter_is_whose() {
    let sent = |fields: &[(u32, u16, u16)]| {
        let values: Vec<u64> = (1..=fields.len() as u64).collect();
        let record = one(fields, &values);
        [record.sent[0].packets, record.sent[0].octets, record.sent[1].packets, record.sent[1].octets]
    };
    assert_eq!(sent(&[(0, 86, 4), (0, 85, 4)]), [1, 2, 0, 0], "totals alone");
    assert_eq!(sent(&[(0, 86, 4), (0, 85, 4), (0, 2, 4), (0, 1, 4)]), [3, 4, 0, 0], "totals beside deltas");
    assert_eq!(sent(&[(0, 24, 4), (0, 23, 4)]), [1, 2, 0, 0], "counted on leaving alone");
    assert_eq!(sent(&[(0, 2, 4), (0, 1, 4), (0, 24, 4), (0, 23, 4)]), [1, 2, 0, 0], "counted on coming and leaving");
    assert_eq!(sent(&[(0, 2, 4), (0, 1, 4), (0, 24, 4), (0, 23, 4), (35_632, 118, 2)]), [1, 2, 3, 4], "nProbe");
    assert_eq!(sent(&[(0, 298, 4), (0, 231, 4), (0, 299, 4), (0, 232, 4)]), [1, 2, 3, 4], "a firewall");
    assert_eq!(sent(&[(0, 2, 4), (0, 352, 8)]), [1, 0, 0, 0], "layer 2 is not layer 3");
}

#[test]
fn which_class_of_service_is_whose() {
    let sent = |fields: &[(u32, u16, u16)]| {
        let all = [&[(0, 2, 4), (29_305, 2, 4)], fields].concat();
        let record = one(&all, &[1, 1, 0xb8, 0x2b, 9]);
        record.sent.map(|sent| sent.class_of_service)
    };
    assert_eq!(sent(&[(0, 5, 1)]), [0xb8, 0]);
    assert_eq!(sent(&[(0, 5, 1), (29_305, 5, 1)]), [0xb8, 0x2b], "a biflow");
    assert_eq!(sent(&[(0, 5, 1), (0, 55, 1)]), [0xb8, 0], "as it was on leaving");
    assert_eq!(sent(&[(0, 5, 1), (0, 55, 1), (35_632, 118, 2)]), [0xb8, 0x2b], "nProbe");
    assert_eq!(sent(&[(0, 55, 1), (29_305, 5, 1), (35_632, 118, 2)]), [0, 0x2b], "nProbe, with a reverse element");
}

#[test]
fn every_clock() {
    let times = |fields: &[(u32, u16, u16)], values: &[u64]| {
        let all = [fields, &[(0, 2, 4)]].concat();
        let record = one(&all, &[values, &[1]].concat());
        (record.first_ms - NOW_MS, record.last_ms - NOW_MS)
    };
    let now = u64::from(NOW);
    let ntp = |ms: i64| {
        let ms = (NOW_MS + ms) as u64;
        (ms / 1000 + 2_208_988_800) << 32 | ((ms % 1000) << 32).div_ceil(1000)
    };
    assert_eq!(times(&[(0, 150, 4), (0, 151, 4)], &[now - 9, now - 2]), (-9000, -2000));
    assert_eq!(times(&[(0, 152, 8), (0, 153, 8)], &[now * 1000 - 1234, now * 1000 - 234]), (-1234, -234));
    assert_eq!(times(&[(0, 154, 8), (0, 155, 8)], &[ntp(-1234), ntp(-1)]), (-1234, -1));
    assert_eq!(times(&[(0, 156, 8), (0, 157, 8)], &[ntp(-77), ntp(0)]), (-77, 0));
    assert_eq!(times(&[(0, 158, 4), (0, 159, 4)], &[2_000_000, 500_000]), (-2000, -500));
    assert_eq!(times(&[(0, 150, 4), (0, 152, 8)], &[now - 9, now * 1000 - 8765]), (-8765, -8765));
    assert_eq!(times(&[(0, 152, 8), (0, 161, 4)], &[now * 1000 - 5000, 4000]), (-5000, -1000));
    assert_eq!(times(&[(0, 323, 8)], &[now * 1000 - 5000]), (-5000, -5000));
    assert_eq!(times(&[], &[]), (0, 0));
    let boot = now * 1000 - 10_000_000;
    assert_eq!(times(&[(0, 160, 8), (0, 22, 4), (0, 21, 4)], &[boot, 9_000_000, 9_900_000]), (-1_000_000, -100_000));
    assert_eq!(times(&[(0, 22, 4), (0, 21, 4)], &[9_000_000, 9_900_000]), (-900_000, 0), "uptime of an unknown boot");
}

#[test]
fn impossible_times_are_mended_and_counted() {
    let fields = [(0, 8, 4), (0, 12, 4), (0, 2, 4), (0, 152, 8), (0, 153, 8)];
    let mut data = Vec::new();
    let pairs =
        [(5, 9), (NOW_MS + 90_000_000, NOW_MS + 90_000_001), (NOW_MS - 10, NOW_MS - 20), (NOW_MS - 20, NOW_MS - 10)];
    for (first, last) in pairs {
        data.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0, 1]);
        data.extend(i64::to_be_bytes(first));
        data.extend(i64::to_be_bytes(last));
    }
    let mut decoder = Decoder::default();
    let message = ipfix(0, &[template(300, &fields), set(300, &data)]);
    let again = ipfix(4, &[set(300, &data)]);
    let times = |records: Vec<Owned>, from: i64| -> Vec<_> {
        plain(records).iter().map(|record| (record.first_ms - from, record.last_ms - from)).collect()
    };
    assert_eq!(times(feed(&mut decoder, &message), NOW_MS), [(0, 0), (0, 0), (-20, -20), (-20, -10)]);
    assert_eq!(decoder.counts().of(Refusal::TimeClamped), 3);
    // An exporter's clock that is two days off.
    let received = NOW_MS + 2 * 86_400_000;
    assert_eq!(times(feed_at(&mut decoder, HOME, received, &again), received)[3], (-20, -10));
    assert_eq!(decoder.counts().of(Refusal::ClockOff), 1);
}

#[test]
fn icmp_is_in_the_destination_port() {
    assert_eq!(one(&[(0, 4, 1), (0, 2, 4), (0, 32, 2)], &[1, 1, 0x0301]).ports, [0, 0x0301]);
    assert_eq!(one(&[(0, 4, 1), (0, 2, 4), (0, 11, 2)], &[1, 1, 0x0800]).ports, [0, 0x0800]);
    assert_eq!(one(&[(0, 4, 1), (0, 2, 4), (0, 178, 1), (0, 179, 1)], &[58, 1, 3, 4]).ports, [0, 0x0304]);
    assert_eq!(one(&[(0, 4, 1), (0, 2, 4), (0, 32, 2), (0, 11, 2)], &[6, 1, 0x0301, 80]).ports, [0, 80]);
}

/// An options template of scopes and other fields, as IPFIX writes it.
pub(super) fn options_template(id: u16, scopes: &[(u32, u16, u16)], others: &[(u32, u16, u16)]) -> Vec<u8> {
    let mut body = shorts(&[id, (scopes.len() + others.len()) as u16, scopes.len() as u16]);
    body.extend(scopes.iter().chain(others).flat_map(|&field| ipfix_field(field)));
    set(3, &body)
}

#[test]
fn sampling_by_options() {
    let mut decoder = Decoder::default();
    let flows = [(0, 8, 4), (0, 12, 4), (0, 2, 4), (0, 48, 1), (0, 10, 4)];
    let flow = |sampler: u8, interface: u8| vec![10, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0, 1, sampler, 0, 0, 0, interface];
    let number = std::cell::Cell::new(0);
    let rates = |decoder: &mut Decoder, flow: Vec<u8>| {
        number.set(number.get() + 1);
        plain(feed(decoder, &ipfix(number.get(), &[set(300, &flow)])))[0].sampling
    };
    feed(&mut decoder, &ipfix(0, &[template(300, &flows)]));
    assert_eq!(rates(&mut decoder, flow(3, 1)), None);
    feed(
        &mut decoder,
        &ipfix(
            0,
            &[
                options_template(400, &[(0, 149, 4)], &[(0, 48, 1), (0, 50, 4)]),
                set(400, &[0, 0, 0, 7, 3, 0, 0, 3, 232]),
            ],
        ),
    );
    assert_eq!((rates(&mut decoder, flow(3, 1)), rates(&mut decoder, flow(4, 1))), (Some(1000), None));
    feed(
        &mut decoder,
        &ipfix(
            0,
            &[
                options_template(401, &[(0, 144, 4)], &[(0, 305, 4), (0, 306, 4)]),
                set(401, &[0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 99]),
            ],
        ),
    );
    assert_eq!((rates(&mut decoder, flow(3, 1)), rates(&mut decoder, flow(4, 1))), (Some(1000), Some(100)));
    assert_eq!(decoder.counts().options, 2);
}

#[test]
fn sampling_of_v9_by_interface_and_by_a_sampler_nobody_names() {
    let options = |id: u16, scope: u16, option: u16| set(1, &shorts(&[id, 4, 8, scope, 4, option, 4, 36, 4]));
    let mut decoder = Decoder::default();
    let rate =
        |decoder: &mut Decoder| plain(feed(decoder, &v9(0, &[set(256, &v9_record(UPTIME, UPTIME))])))[0].sampling;
    feed(&mut decoder, &v9(0, &[v9_template(256, &V9_FIELDS), options(400, 2, 34)]));
    feed(&mut decoder, &v9(0, &[set(400, &[0, 0, 0, 3, 0, 0, 0, 50, 0, 0, 0, 1])]));
    assert_eq!(rate(&mut decoder), Some(50));
    let mut decoder = Decoder::default();
    let named = set(1, &shorts(&[400, 4, 8, 1, 4, 48, 4, 50, 4]));
    feed(&mut decoder, &v9(0, &[v9_template(256, &V9_FIELDS), named]));
    feed(&mut decoder, &v9(0, &[set(400, &[0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 20])]));
    assert_eq!(rate(&mut decoder), Some(20), "of the only sampler there is");
}

#[test]
fn a_template_may_change_and_be_withdrawn() {
    let mut decoder = Decoder::default();
    let short = [(0, 8, 4), (0, 12, 4), (0, 2, 4)];
    let turned = [(0, 12, 4), (0, 8, 4), (0, 2, 4)];
    let data = set(300, &[10, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0, 9]);
    let source = |records: Vec<Owned>| plain(records)[0].addresses[0][15];
    assert_eq!(source(feed(&mut decoder, &ipfix(0, &[template(300, &short), data.clone()]))), 1);
    assert_eq!(source(feed(&mut decoder, &ipfix(1, &[template(300, &turned), data.clone()]))), 2);
    assert_eq!(decoder.counts().templates, 2);
    feed(&mut decoder, &ipfix(2, &[set(2, &shorts(&[300, 0]))]));
    assert!(feed(&mut decoder, &ipfix(2, std::slice::from_ref(&data))).is_empty());
    assert_eq!(feed(&mut decoder, &ipfix(3, &[template(300, &short)])).len(), 1, "it waited");
    feed(&mut decoder, &ipfix(3, &[set(2, &shorts(&[2, 0]))]));
    assert!(feed(&mut decoder, &ipfix(3, &[data])).is_empty());
}

#[test]
fn records_wait_for_their_template_within_bounds() {
    let limits = DecodeLimits { waiting_octets: 100, waiting_ms: 1000, ..DecodeLimits::default() };
    let mut decoder = Decoder::new(limits);
    let short = [(0, 8, 4), (0, 12, 4), (0, 2, 4)];
    let flow = |packets: u8| set(300, &[10, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0, packets]);
    for packets in 1..=10 {
        feed(&mut decoder, &ipfix(0, &[flow(packets)]));
        assert!(decoder.waiting_octets() <= 100);
    }
    assert_eq!(decoder.counts().of(Refusal::UnknownTemplate), 2);
    let records = plain(feed(&mut decoder, &ipfix(0, &[template(300, &short)])));
    let packets: Vec<_> = records.iter().map(|record| record.sent[0].packets).collect();
    assert_eq!(packets, (3..=10).collect::<Vec<_>>());
    assert_eq!(decoder.waiting_octets(), 0);
    feed(&mut decoder, &ipfix(0, &[set(301, &[0; 40])]));
    feed_at(&mut decoder, HOME, NOW_MS + 1001, &ipfix(0, &[]));
    assert_eq!((decoder.waiting_octets(), decoder.counts().of(Refusal::UnknownTemplate)), (0, 3));
    feed(&mut decoder, &ipfix(0, &[set(301, &[0; 101])]));
    assert_eq!(decoder.counts().of(Refusal::UnknownTemplate), 4, "too long to wait");
}

#[test]
fn floods_are_bounded() {
    let limits = DecodeLimits { exporters: 40, templates: 10, fields: 5, options: 10, ..DecodeLimits::default() };
    let mut decoder = Decoder::new(limits);
    let short = [(0, 8, 4), (0, 12, 4), (0, 2, 4)];
    for id in 256..400 {
        feed_at(&mut decoder, HOME, NOW_MS + i64::from(id), &ipfix(0, &[template(id, &short)]));
    }
    let known = decoder.exporters().next().unwrap();
    assert_eq!((known.templates, known.counts.of(Refusal::TemplatesForgotten)), (10, 134));
    feed(&mut decoder, &ipfix(0, &[template(300, &[(0, 1, 4); 6])]));
    assert_eq!(decoder.counts().of(Refusal::BadTemplate), 1);
    let options = options_template(400, &[(0, 149, 4)], &[(0, 48, 1), (0, 50, 4)]);
    let many: Vec<u8> = (0..=255).flat_map(|sampler| [0, 0, 0, 7, sampler, 0, 0, 0, 2]).collect();
    feed(&mut decoder, &ipfix(0, &[options, set(400, &many)]));
    assert_eq!(decoder.counts().of(Refusal::OptionsForgotten), 246);
    // The decoder does not forget an exporter that sends often in favour of many that send once.
    for from in 0..1000u16 {
        let mut address = HOME;
        address[12..14].copy_from_slice(&from.to_be_bytes());
        feed_at(&mut decoder, address, NOW_MS + 500, &v5(0, UPTIME, 0, &[]));
    }
    assert_eq!(decoder.exporters().count(), 40);
    assert_eq!(decoder.counts().of(Refusal::ExportersForgotten), 961);
    assert!(decoder.exporters().any(|known| known.info.protocol == Protocol::Ipfix));
    assert_eq!(decoder.counts().datagrams, 1000 + 146);
}

#[test]
fn templates_that_no_record_could_have() {
    let mut decoder = Decoder::default();
    for bad in [
        template(255, &[(0, 8, 4)]),
        template(300, &[(0, 8, 0)]),
        template(300, &[(0, 8, 4), (0, 82, 65_534)]),
        set(2, &shorts(&[300, 5, 8, 4])),
        options_template(300, &[(0, 149, 4); 2], &[])[..14].to_vec(),
    ] {
        let before = decoder.counts().of(Refusal::BadTemplate) + decoder.counts().of(Refusal::Truncated);
        feed(&mut decoder, &ipfix(0, std::slice::from_ref(&bad)));
        let after = decoder.counts().of(Refusal::BadTemplate) + decoder.counts().of(Refusal::Truncated);
        assert_eq!(after, before + 1, "{bad:?}");
    }
    assert_eq!(decoder.exporters().next().unwrap().templates, 0);
}

pub(super) fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// An sFlow datagram of samples (format, octets).
pub(super) fn sflow(sequence: u32, uptime: u32, samples: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut data = words(&[5, 1, 0xc000_0205, 0, sequence, uptime, samples.len() as u32]);
    for (format, sample) in samples {
        data.extend(words(&[*format, sample.len() as u32]));
        data.extend(sample);
    }
    data
}

/// A flow sample's raw packet header record; the sample omits the last `more` octets of the frame.
pub(super) fn raw(frame: &[u8], more: u32) -> Vec<u8> {
    let padded = frame.len().next_multiple_of(4);
    let mut record = words(&[1, padded as u32 + 16, 1, frame.len() as u32 + more + 4, 4, frame.len() as u32]);
    record.extend(frame);
    record.resize(24 + padded, 0);
    record
}

pub(super) fn tcp_frame() -> Vec<u8> {
    t::frame(
        0x8100,
        &t::tagged(
            12,
            0x0800,
            &t::classified(0x28, t::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 6, &t::tcp((40_000, 443), t::SYN, 1, 2, b""))),
        ),
    )
}

#[test]
fn sflow_samples() {
    let mut decoder = Decoder::default();
    let flow = [words(&[1, 3, 1000, 9000, 0, 5, 0x4000_0001, 1]), raw(&tcp_frame(), 0)].concat();
    let expanded = [words(&[1, 0, 9, 512, 9000, 0, 0, 5, 0, 6, 1]), raw(&tcp_frame(), 0)].concat();
    let four = words(&[2, 3, 1000, 9000, 2, 5, 6, 1, 3, 32, 60, 17, 0x0a00_0001, 0x0a00_0002, 53, 999, 0, 0xb8]);
    let arp = [words(&[3, 3, 1000, 9000, 7, 5, 6, 1]), raw(&t::frame(0x0806, &[0; 28]), 0)].concat();
    let data = sflow(1, 1000, &[(1, flow), (2, vec![0; 12]), (3, expanded), (1, four), (1, arp)]);
    let records = plain(feed(&mut decoder, &data));
    let expected = Imported {
        sent: [
            SentCounts { packets: 1, octets: 40, tcp_flags: t::SYN, class_of_service: 0x28, ..SentCounts::default() },
            SentCounts::default(),
        ],
        vlan: 12,
        sampling: Some(1000),
        input_interface: 5,
        ..v9_expected(NOW_MS, NOW_MS)
    };
    assert_eq!(records[0], expected);
    assert_eq!(records[1], Imported { sampling: Some(512), output_interface: 6, ..expected });
    assert_eq!((records[2].ports, records[2].sent[0].octets, records[2].protocol), ([53, 999], 60, 17));
    assert_eq!(records[2].sent[0].class_of_service, 0xb8);
    let counts = decoder.counts();
    assert_eq!(
        (counts.records, counts.counter_samples, counts.of(Refusal::NotIp), counts.exporter_drops),
        (3, 1, 1, 7)
    );
    let known = decoder.exporters().next().unwrap();
    assert_eq!((known.info.protocol, known.info.agent), (Protocol::Sflow, mapped([192, 0, 2, 5])));
    // Two datagrams and four samples of that source never arrived.
    let later = [words(&[8, 3, 1000, 9000, 7, 5, 6, 1]), raw(&tcp_frame(), 0)].concat();
    feed(&mut decoder, &sflow(4, 2000, &[(1, later)]));
    assert_eq!((decoder.counts().losses.lost, decoder.counts().samples.lost), (2, 4));
    // The agent restarts.
    let anew = [words(&[1, 3, 1000, 9000, 0, 5, 6, 1]), raw(&tcp_frame(), 0)].concat();
    feed_at(&mut decoder, HOME, NOW_MS + 400_000, &sflow(1, 10, &[(1, anew)]));
    let counts = decoder.counts();
    assert_eq!(counts.losses.restarts, 1, "it booted after it was last heard");
}

#[test]
fn a_restored_decoder_goes_on() {
    let mut decoder = Decoder::default();
    let options = options_template(400, &[(0, 149, 4)], &[(0, 34, 4)]);
    feed(&mut decoder, &ipfix(0, &[template(300, &biflow_fields()), options, set(400, &[0, 0, 0, 7, 0, 0, 0, 10])]));
    feed(&mut decoder, &v9(5, &[v9_template(256, &V9_FIELDS)]));
    feed(&mut decoder, &sflow(1, 1000, &[]));
    let saved = decoder.save();
    assert!(String::from_utf8(saved.clone()).unwrap().contains("\"192.0.2.1\""));
    let mut restored = Decoder::default();
    restored.restore(&saved).unwrap();
    assert_eq!(restored.save(), saved);
    let records = plain(feed(&mut restored, &ipfix(4, &[set(300, &ipfix_record(4, NOW_MS))])));
    assert_eq!((records[0].sent[0].packets, records[0].sampling), (4, Some(10)));
    assert_eq!(feed(&mut restored, &v9(6, &[set(256, &v9_record(UPTIME, UPTIME))])).len(), 1);
    assert_eq!(restored.counts().losses.lost, 3, "since it was saved");
    let text = String::from_utf8(saved).unwrap();
    for rubbish in [
        "",
        "{}",
        "[]",
        &text[..text.len() / 2],
        &text.replace("exporters 2", "exporters 3"),
        &text.replace("300,", "3,"),
        &text.replace("ipfix", "rip"),
    ] {
        let mut fresh = Decoder::default();
        fresh.restore(rubbish.as_bytes()).unwrap_err();
        assert_eq!(fresh.exporters().count(), 0);
    }
}

#[test]
fn messages_are_found_in_a_stream() {
    let message = ipfix(0, &[template(300, &biflow_fields())]);
    for end in 0..message.len() {
        assert_eq!(message_octets(&message[..end]), Ok(None));
    }
    assert_eq!(message_octets(&[message.clone(), vec![1, 2, 3]].concat()), Ok(Some(message.len())));
    assert_eq!(message_octets(b"GET / HTTP/1.1"), Err(Refusal::UnknownVersion));
    assert_eq!(message_octets(&[0, 10, 0, 3]), Err(Refusal::BadLength));
}

#[test]
fn what_is_cut_anywhere_gives_the_records_before_the_cut() {
    let two = |one: Vec<u8>| [one.clone(), one].concat();
    let flow = [words(&[1, 3, 1000, 9000, 0, 5, 6, 1]), raw(&tcp_frame(), 0)].concat();
    let whole = [
        v5(0, UPTIME, 0, &[v5_record(6, [1, 2], UPTIME, UPTIME), v5_record(6, [3, 4], UPTIME, UPTIME)]),
        v9(
            0,
            &[
                v9_template(256, &V9_FIELDS),
                set(256, &two(v9_record(UPTIME, UPTIME))),
                set(256, &v9_record(UPTIME, UPTIME)),
            ],
        ),
        ipfix(
            0,
            &[
                template(300, &biflow_fields()),
                set(300, &two(ipfix_record(4, NOW_MS))),
                set(300, &ipfix_record(4, NOW_MS)),
            ],
        ),
        sflow(1, 1000, &[(1, flow.clone()), (1, flow)]),
    ];
    for data in whole {
        let all = feed(&mut Decoder::default(), &data);
        let mut most = 0;
        for end in 0..data.len() {
            let mut decoder = Decoder::default();
            let cut = feed(&mut decoder, &data[..end]);
            assert_eq!(cut, all[..cut.len()], "{end} octets of {data:?}");
            assert!(cut.len() >= most && cut.len() <= all.len());
            most = cut.len();
        }
        assert!(most < all.len());
    }
}

/// A field of a random template: element, octets, value.
fn field() -> impl Strategy<Value = ((u32, u16), u16, u64)> {
    let ids = prop::sample::select(vec![
        (0, 7),
        (0, 11),
        (0, 4),
        (0, 6),
        (0, 1),
        (0, 2),
        (0, 10),
        (0, 14),
        (0, 58),
        (29_305, 1),
        (29_305, 2),
        (29_305, 6),
        (35_632, 109),
        (35_632, 118),
        (0, 5),
        (29_305, 5),
        (0, 61),
        (9, 12_232),
        (35_632, 188),
        (0, 371),
        (35_632, 205),
    ]);
    (ids, 1u16..=8, any::<u64>())
}

/// Whether an element is text, of variable length here.
fn is_text((pen, id): (u32, u16)) -> bool {
    matches!((pen, id), (35_632, 188 | 205) | (0, 371))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn what_was_encoded_is_decoded(fields in prop::collection::vec(field(), 1..24), at in any::<prop::sample::Index>(), rows in 1usize..5, padding in 0usize..4) {
        let mut seen = std::collections::HashSet::new();
        let mut fields: Vec<_> = fields.into_iter().filter(|(id, ..)| seen.insert(*id)).collect();
        fields.insert(at.index(fields.len() + 1), ((0, 8), 4, 0x0a00_0001));
        fields.insert(at.index(fields.len() + 1), ((0, 12), 4, 0x0a00_0002));
        let mut data = Vec::new();
        let mut expected = Vec::new();
        let mut absurd = 0;
        for row in 0..rows as u64 {
            let mut record = Imported { addresses: [mapped([10, 0, 0, 1]), mapped([10, 0, 0, 2])], version: 4, first_ms: NOW_MS, last_ms: NOW_MS, ..Imported::default() };
            let (mut server_name, mut dns_query) = (String::new(), String::new());
            for &(id, length, value) in &fields {
                if is_text(id) {
                    let text: String = (0..(value.wrapping_add(row) % 300)).map(|at| char::from(b'a' + (at % 26) as u8)).collect();
                    if text.len() < 255 && value % 2 == 0 { data.push(text.len() as u8) } else { data.push(255); data.extend((text.len() as u16).to_be_bytes()) }
                    data.extend(text.as_bytes());
                    match id { (_, 188) => server_name = text, (_, 205) => dns_query = text, _ => {} }
                    continue;
                }
                let value = if id.1 == 8 || id.1 == 12 { value } else { value.wrapping_add(row) & (u64::MAX >> (64 - 8 * u32::from(length))) };
                data.extend(&value.to_be_bytes()[8 - usize::from(length)..]);
                let saturated = u32::try_from(value).unwrap_or(u32::MAX);
                match id {
                    (0, 7) => record.ports[0] = value as u16,
                    (0, 11) => record.ports[1] = value as u16,
                    (0, 4) => record.protocol = value as u8,
                    (0, 5) => record.sent[0].class_of_service = value as u8,
                    (0, 6) => record.sent[0].tcp_flags = value as u8,
                    (0, 1) => record.sent[0].octets = value,
                    (0, 2) => record.sent[0].packets = value,
                    (0, 10) => record.input_interface = saturated,
                    (0, 14) => record.output_interface = saturated,
                    (0, 58) => record.vlan = value as u16 & 0xfff,
                    (29_305, 1) => record.sent[1].octets = value,
                    (29_305, 2) => record.sent[1].packets = value,
                    (29_305, 5) => record.sent[1].class_of_service = value as u8,
                    (29_305, 6) => record.sent[1].tcp_flags = value as u8,
                    (35_632, 109) => record.sent[0].retransmissions = saturated,
                    (35_632, 118) => record.application_id = u16::try_from(value).unwrap_or(0),
                    _ => {}
                }
            }
            if matches!(record.protocol, 1 | 58) { record.ports[0] = 0 }
            let reverse = seen.contains(&(29_305, 1)) || seen.contains(&(29_305, 2));
            record.initiator_known = reverse && seen.iter().any(|id| id.0 == 35_632);
            let many = |sent: &SentCounts| sent.packets.max(sent.octets) >= 1 << 48;
            let longer = |sent: &SentCounts| sent.packets > 0 && sent.octets >= sent.packets.saturating_add(1).saturating_mul(1 << 20);
            let shorter = |sent: &SentCounts| sent.octets > 0 && sent.octets < sent.packets;
            if record.sent.iter().any(|sent| many(sent) || longer(sent) || shorter(sent)) {
                absurd += 1;
            } else if record.sent.iter().any(|sent| sent.packets > 0 || sent.octets > 0) {
                expected.push((record, server_name, dns_query));
            }
        }
        // Padding is always shorter than the shortest record.
        data.extend(vec![0; padding]);
        let described: Vec<_> = fields.iter().map(|&((pen, id), length, _)| (pen, id, if is_text((pen, id)) { 65_535 } else { length })).collect();
        let mut decoder = Decoder::default();
        let records = feed(&mut decoder, &ipfix(0, &[template(300, &described), set(300, &data)]));
        prop_assert_eq!(records, expected);
        let counts = decoder.counts();
        prop_assert_eq!(counts.of(Refusal::Absurd), absurd);
        prop_assert_eq!(counts.records + counts.of(Refusal::Empty) + absurd, rows as u64);
    }
}
