use super::record::{Events, Record};
use super::*;
use crate::packet::{Frame, LinkType, parse};
use crate::testing as t;

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [198, 51, 100, 7];
/// An interval's start, ns.
const START: i64 = 1_600_000_000_000_000_000;
const SECOND: i64 = 1_000_000_000;

fn options() -> MeterOptions {
    MeterOptions {
        interval: IntervalLength::default(),
        flow_memory: 1000 * FLOW_COST,
        max_records: 1000,
        idle_ms: 60_000,
        datagrams: 1000,
        local_networks: vec!["10.0.0.0/8".parse().unwrap()],
        filters: Arc::default(),
        applications: AppOptions::default(),
    }
}

fn feed(meter: &mut Meter, time_ns: i64, ip: &[u8]) {
    let frame = Frame { time_ns, link: LinkType::RawIp, data: ip, length: ip.len() as u32, vlan: None };
    meter.clock(time_ns);
    let packet = &mut parse(&frame);
    meter.packets(&mut [Arrival { packet, time_ns, exclude: None, layer3: ip, checksum: None }]);
}

fn udp(src: [u8; 4], dst: [u8; 4], ports: (u16, u16)) -> Vec<u8> {
    t::ipv4(src, dst, 17, &t::udp(ports, b"12345678"))
}

fn segment(forward: bool, flags: u8, sequence: u32, acknowledgement: u32) -> Vec<u8> {
    let (src, dst, ports) = if forward { (A, B, (40000, 80)) } else { (B, A, (80, 40000)) };
    t::ipv4(src, dst, 6, &t::tcp(ports, flags, sequence, acknowledgement, b""))
}

fn finish(mut meter: Meter) -> Vec<ClosedInterval> {
    meter.finish(START);
    let closed = meter.take_closed();
    for interval in &closed {
        let records: Volume = interval.records.iter().map(|record| record.volume()).sum();
        let overflow: Volume = interval.overflow.iter().map(|record| record.volume).sum();
        let causes: Volume = interval.tally.not_metered.iter().copied().sum();
        let Tally { captured, carried_in, carried_out, .. } = interval.tally;
        assert_eq!(records + overflow + causes + carried_out, captured + carried_in);
    }
    closed
}

fn records(interval: &ClosedInterval) -> Vec<Record<'_>> {
    interval.records.iter().collect()
}

fn packets(closed: &[ClosedInterval]) -> Vec<u64> {
    closed.iter().map(|interval| interval.tally.captured.packets).collect()
}

#[test]
fn both_directions_are_one_record_of_the_one_seen_first() {
    let mut meter = Meter::new(options()).unwrap();
    feed(&mut meter, START + 1_000_000, &udp(B, A, (53, 5353)));
    feed(&mut meter, START + 5_000_000, &udp(A, B, (5353, 53)));
    let closed = finish(meter);
    let [record] = &records(&closed[0])[..] else { panic!("{closed:?}") };
    assert!(record.initiator.guess);
    assert_eq!((record.forward().packets, record.forward().octets, record.reverse().packets), (1, 36, 1));
    assert_eq!(record.key.source_port(record.initiator.end), 53);
    assert_eq!(record.last_ms - record.first_ms, 4);
}

#[test]
fn the_class_of_service_is_that_of_the_first_packet_of_each_end_in_the_interval() {
    let six = |src, dst| t::ipv6(src, dst, 17, &t::udp((7, 7), b"12345678"));
    for (there, back) in [(udp(A, B, (5353, 53)), udp(B, A, (53, 5353))), (six(1, 2), six(2, 1))] {
        let mut meter = Meter::new(options()).unwrap();
        let mut send = |after_ms: i64, class: u8, packet: &[u8]| {
            feed(&mut meter, START + after_ms * 1_000_000, &t::classified(class, packet.to_vec()));
        };
        send(1, 0xb8, &there);
        send(2, 0, &back);
        send(3, 0x28, &there);
        send(4, 0x2b, &back);
        send(10_001, 0, &there);
        send(10_002, 0xff, &back);
        let closed = finish(meter);
        let classes = |record: &Record<'_>| [record.forward(), record.reverse()].map(|sent| sent.class_of_service);
        let classes: Vec<_> = closed.iter().map(|interval| classes(&records(interval)[0])).collect();
        assert_eq!(classes, [[0xb8, 0], [0, 0xff]]);
    }
}

#[test]
fn the_sender_of_the_syn_is_the_initiator() {
    // The SYN comes first; its answer comes first; a SYN comes after the initiator was guessed from a segment of the
    // other end.
    for packets in [
        vec![segment(true, t::SYN, 1, 0), segment(false, t::SYN | t::ACK, 9, 2)],
        vec![segment(false, t::SYN | t::ACK, 9, 2), segment(true, t::ACK, 2, 10)],
        vec![segment(false, t::ACK, 9, 2), segment(true, t::SYN, 1, 0)],
    ] {
        let mut meter = Meter::new(options()).unwrap();
        for (at, packet) in packets.iter().enumerate() {
            feed(&mut meter, START + at as i64, packet);
        }
        let closed = finish(meter);
        let record = closed[0].records.get(0);
        assert!(!record.initiator.guess);
        assert_eq!(record.key.source_port(record.initiator.end), 40000);
        assert_eq!((record.forward().packets, record.reverse().packets), (1, 1));
    }
}

/// The VLAN is part of a flow: the same addresses in another one may be other hosts.
#[test]
fn each_direction_in_a_vlan_of_its_own_is_a_record_of_the_same_initiator() {
    let mut meter = Meter::new(options()).unwrap();
    for (at, (vlan, packet)) in
        [(7, segment(true, t::SYN, 100, 0)), (8, segment(false, t::SYN | t::ACK, 500, 101))].iter().enumerate()
    {
        let (length, time_ns) = (packet.len() as u32, START + at as i64);
        let frame = Frame { time_ns, link: LinkType::RawIp, data: packet, length, vlan: Some(*vlan) };
        meter.clock(time_ns);
        let read = &mut parse(&frame);
        meter.packets(&mut [Arrival { packet: read, time_ns, exclude: None, layer3: packet, checksum: None }]);
    }
    let closed = finish(meter);
    let of = |record: &Record<'_>| {
        let (vlan, port) = (record.key.vlan, record.key.source_port(record.initiator.end));
        (vlan, port, record.forward().packets, record.reverse().packets)
    };
    assert_eq!(records(&closed[0]).iter().map(of).collect::<Vec<_>>(), [(7, 40000, 1, 0), (8, 40000, 0, 1)]);
}

/// A SYN with sequence number 100, a SYN-ACK that acknowledges `acknowledged`, and the ACK, within 2.5 ms.
fn feed_handshake(meter: &mut Meter, acknowledged: u32) {
    feed(meter, START, &segment(true, t::SYN, 100, 0));
    feed(meter, START + 1_000_000, &segment(false, t::SYN | t::ACK, 500, acknowledged));
    feed(meter, START + 2_500_000, &segment(true, t::ACK, 101, 501));
}

#[test]
fn flags_are_counted_and_the_handshake_is_timed() {
    let mut meter = Meter::new(options()).unwrap();
    feed_handshake(&mut meter, 101);
    feed(&mut meter, START + 3_000_000, &segment(true, t::FIN | t::ACK, 101, 501));
    feed(&mut meter, START + 4_000_000, &segment(false, t::FIN | t::ACK, 501, 102));
    feed(&mut meter, START + 5_000_000, &segment(false, t::RST, 502, 0));
    let closed = finish(meter);
    let record = closed[0].records.get(0);
    assert_eq!(record.handshake_rtt_us, 2500);
    let (fwd, rev) = (record.forward(), record.reverse());
    assert_eq!((fwd.events.syn, fwd.events.synack, fwd.events.fin, fwd.events.rst), (1, 0, 1, 0));
    assert_eq!((rev.events.syn, rev.events.synack, rev.events.fin, rev.events.rst), (0, 1, 1, 1));
}

#[test]
fn an_acknowledgement_of_something_else_times_nothing() {
    let mut meter = Meter::new(options()).unwrap();
    feed_handshake(&mut meter, 77);
    assert_eq!(finish(meter)[0].records.get(0).handshake_rtt_us, 0);
}

#[test]
fn ping_is_one_biflow_whichever_side_is_seen_first() {
    for reply_first in [false, true] {
        let mut packets = [t::ipv4(A, B, 1, &t::icmp(8, 0, b"")), t::ipv4(B, A, 1, &t::icmp(0, 0, b""))];
        if reply_first {
            packets.reverse();
        }
        let mut meter = Meter::new(options()).unwrap();
        packets.iter().for_each(|packet| feed(&mut meter, START, packet));
        let closed = finish(meter);
        let [record] = &records(&closed[0])[..] else { panic!("{closed:?}") };
        let source = usize::from(record.initiator.end);
        assert_eq!(record.key.addresses[source][12..], A);
        assert_eq!((record.key.source_port(record.initiator.end), record.key.ports[1 - source]), (0, 8 * 256));
    }
}

#[test]
fn icmp_errors_that_quote_udp_are_counted_apart() {
    let mut meter = Meter::new(options()).unwrap();
    let mut refused = |quoted: &[u8]| feed(&mut meter, START, &t::ipv4(B, A, 1, &t::icmp(3, 3, quoted)));
    refused(&t::ipv4(A, B, 6, &t::tcp((1234, 80), t::SYN, 7, 0, b"")));
    (0..9).for_each(|_| refused(&udp(A, B, (1234, 53))));
    refused(b"");
    let closed = finish(meter);
    let [record] = &records(&closed[0])[..] else { panic!("{closed:?}") };
    let events = record.forward().events;
    assert_eq!((events.icmp_errors, events.icmp_errors_udp), (11, 9));
    assert_eq!(record.reverse().events, Events::default());
    assert_eq!(record.quoted.unwrap().protocol, 6, "the first one");
}

#[test]
fn intervals_close_after_their_grace_and_late_packets_stay_counted() {
    let mut meter = Meter::new(options()).unwrap();
    feed(&mut meter, START, &udp(A, B, (1, 2)));
    // A packet of the next interval, within the grace of the first: both intervals are open.
    feed(&mut meter, START + 10 * SECOND + 100_000_000, &udp(A, B, (1, 2)));
    feed(&mut meter, START + 9 * SECOND, &udp(A, B, (1, 2)));
    assert!(meter.take_closed().is_empty());
    // The grace is over.
    feed(&mut meter, START + 10 * SECOND + 200_000_000, &udp(A, B, (1, 2)));
    let first = meter.take_closed();
    assert_eq!(packets(&first), [2]);
    assert_eq!(first[0].tally.late, Volume::default());
    // Older than the open interval: clamped into it.
    feed(&mut meter, START + 9 * SECOND, &udp(A, B, (1, 2)));
    let second = finish(meter);
    assert_eq!(packets(&second), [3]);
    assert_eq!(second[0].tally.late.packets, 1);
    let record = second[0].records.get(0);
    assert!(record.first_ms < (second[0].start_ms as i64));
    assert_eq!(record.volume().packets, 3);
}

/// Both intervals are open meanwhile.
#[test]
fn a_flow_that_begins_during_the_grace_of_the_interval_before_begins_when_it_did() {
    let mut meter = Meter::new(options()).unwrap();
    feed(&mut meter, START, &udp(A, B, (1, 2)));
    feed(&mut meter, START + 10 * SECOND + 100_000_000, &udp(A, B, (3, 4)));
    assert!(meter.take_closed().is_empty());
    let closed = finish(meter);
    let record = closed[1].records.get(0);
    let began_ms = START / 1_000_000 + 10_100;
    assert_eq!([record.start_ms, record.first_ms, record.last_ms], [began_ms; 3]);
}

#[test]
fn a_packet_may_be_late_by_any_time() {
    const DAY: i64 = 86_400 * SECOND;
    for days in [1, 12, 13, 60, 10_000] {
        let mut meter = Meter::new(options()).unwrap();
        feed(&mut meter, START + SECOND, &udp(A, B, (1, 2)));
        feed(&mut meter, START - days * DAY, &udp(A, B, (1, 2)));
        let closed = finish(meter);
        assert_eq!(packets(&closed), [2]);
        let record = closed[0].records.get(0);
        let off = record.first_ms - (START - days * DAY) / 1_000_000;
        assert!((0..if days < 13 { 1 } else { 4096 }).contains(&off), "{days} days late, and {off} ms off");
        assert_eq!(record.last_ms, (START + SECOND) / 1_000_000);
    }
}

#[test]
fn a_flow_keeps_the_name_that_it_asked_for() {
    let asked = [&[0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"\x07example\0\0\x01\0\x01"].concat();
    let mut meter = Meter::new(options()).unwrap();
    for (after, payload) in [(0, &asked[..]), (11 * SECOND, b"12345678"), (22 * SECOND, b"12345678")] {
        feed(&mut meter, START + after, &t::ipv4(A, B, 17, &t::udp((5353, 53), payload)));
    }
    let closed = finish(meter);
    let names = closed.iter().map(|interval| records(interval).iter().filter_map(|record| record.name).count());
    assert_eq!(names.collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn a_flow_keeps_its_start_until_it_is_idle() {
    let mut meter = Meter::new(options()).unwrap();
    for at in [0, 15, 74, 135] {
        feed(&mut meter, START + at * SECOND, &udp(A, B, (1, 2)));
    }
    let closed = finish(meter);
    let ages: Vec<i64> = closed
        .iter()
        .flat_map(|interval| interval.records.iter())
        .map(|record| (record.first_ms - record.start_ms) / 1000)
        .collect();
    // 61 s pass before the last packet, which therefore begins another flow.
    assert_eq!(ages, [0, 15, 74, 0]);
    assert_eq!(closed.iter().map(|interval| interval.tally.flows).sum::<u64>(), 2);
}

#[test]
fn empty_intervals_are_closed_and_holes_passed_over() {
    let mut meter = Meter::new(options()).unwrap();
    feed(&mut meter, START, &udp(A, B, (1, 2)));
    feed(&mut meter, START + 35 * SECOND, &udp(A, B, (1, 2)));
    assert_eq!(packets(&meter.take_closed()), [1, 0, 0]);
    feed(&mut meter, START + 3601 * SECOND, &udp(A, B, (1, 2)));
    let closed = meter.take_closed();
    assert_eq!(packets(&closed), [1]);
    let last = finish(meter);
    assert_eq!((packets(&last), last[0].skipped), (vec![1], 3600 / 10 - 4));
    assert_eq!(last[0].start_ms as i64 * 1_000_000, START + 3600 * SECOND);
}

#[test]
fn sixty_empty_intervals_are_closed_one_by_one() {
    for (gap, closings, skipped) in [(61, 61, 0), (62, 1, 61)] {
        let mut meter = Meter::new(options()).unwrap();
        feed(&mut meter, START, &udp(A, B, (1, 2)));
        feed(&mut meter, START + (gap * 10 + 1) * SECOND, &udp(A, B, (1, 2)));
        assert_eq!(meter.take_closed().len(), closings, "gap {gap}");
        assert_eq!(finish(meter)[0].skipped, skipped);
    }
}

#[test]
fn the_interval_after_the_open_one_is_never_passed_over() {
    let mut meter = Meter::new(options()).unwrap();
    feed(&mut meter, START + 9 * SECOND, &udp(A, B, (1, 2)));
    feed(&mut meter, START + 10 * SECOND + 1, &udp(A, B, (1, 2)));
    feed(&mut meter, START + 36_001 * SECOND, &udp(A, B, (1, 2)));
    assert_eq!(packets(&meter.take_closed()), [1, 1]);
    assert_eq!(finish(meter)[0].skipped, 3598);
}

#[test]
fn a_worker_without_packets_closes_all_the_same() {
    let mut meter = Meter::new(options()).unwrap();
    meter.open_at(START);
    assert!(!meter.clock(START + 10 * SECOND + 199_999_999));
    assert!(meter.clock(START + 10 * SECOND + 200_000_000));
    assert_eq!(packets(&meter.take_closed()), [0]);
    assert_eq!(packets(&finish(meter)), [0]);
}

#[test]
fn past_the_bound_on_records_flows_go_into_overflow_records() {
    let mut meter = Meter::new(MeterOptions { max_records: 2, ..options() }).unwrap();
    for port in 1..=50 {
        feed(&mut meter, START + i64::from(port), &udp(A, [198, 51, 100, port as u8], (port, 53)));
    }
    feed(&mut meter, START + 100, &udp(A, [198, 51, 100, 1], (1, 53)));
    let closed = finish(meter);
    assert_eq!(closed[0].records.len(), 2);
    // A flow that already has a record is still counted in that record.
    assert_eq!(closed[0].records.get(0).volume().packets, 2);
    let of_source =
        closed[0].overflow.iter().find(|record| matches!(record.key, overflow::OverflowKey::Source(..))).unwrap();
    assert!(of_source.volume.packets >= 47, "{:?}", closed[0].overflow);
    assert!((35.0..60.0).contains(&of_source.distinct.estimate()), "{}", of_source.distinct.estimate());
}

#[test]
fn past_the_bound_on_flows_new_ones_overflow_until_old_ones_are_idle() {
    let mut meter = Meter::new(MeterOptions { flow_memory: 2 * FLOW_COST, ..options() }).unwrap();
    for port in 1..=3 {
        feed(&mut meter, START, &udp(A, B, (port, 53)));
    }
    assert_eq!(meter.load(), (2, 2));
    meter.clock(START + 200 * SECOND);
    feed(&mut meter, START + 200 * SECOND, &udp(A, B, (9, 53)));
    meter.clock(START + 300 * SECOND);
    let closed = finish(meter);
    assert_eq!(closed[0].overflow.iter().map(|record| record.volume.packets).sum::<u64>(), 1);
    assert!(closed.iter().any(|interval| interval.start_ms as i64 > START / 1_000_000 && interval.records.len() == 1));
}

#[test]
fn whichever_gathers_more_has_the_record() {
    let mut meter = Meter::new(MeterOptions { max_records: 1, ..options() }).unwrap();
    feed(&mut meter, START, &udp(A, B, (1, 1)));
    for number in 0..200u8 {
        // Many sources that send SYNs to one port of a destination; one source that sends to many destinations; and
        // other packets.
        feed(&mut meter, START, &t::ipv4([192, 0, 2, number], B, 6, &t::tcp((7, 80), t::SYN, 1, 0, b"")));
        feed(
            &mut meter,
            START,
            &t::ipv4([203, 0, 113, 1], [198, 18, 0, number], 6, &t::tcp((7, 22), t::ACK, 1, 1, b"")),
        );
        feed(&mut meter, START, &udp([198, 19, 1, number], [10, 9, number, 1], (1, 1000 + u16::from(number))));
    }
    let closed = finish(meter);
    let of = |want: &dyn Fn(&overflow::OverflowKey) -> bool| {
        closed[0]
            .overflow
            .iter()
            .filter(|record| want(&record.key))
            .map(|record| (record.volume.packets, record.syn))
            .next()
    };
    let kind = overflow::OverflowKind { protocol: 6, version: 4 };
    let mapped = |v4: [u8; 4]| std::net::Ipv4Addr::from(v4).to_ipv6_mapped().octets();
    let (packets, syn) = of(&|key| *key == overflow::OverflowKey::Destination(mapped(B), kind, 80)).unwrap();
    assert!(packets >= 199 && syn == packets, "{packets} {syn}");
    assert!(of(&|key| *key == overflow::OverflowKey::Source(mapped([203, 0, 113, 1]), kind, 22)).unwrap().0 >= 199);
    let udp = overflow::OverflowKind { protocol: 17, version: 4 };
    // A sketch may count two of these flows as one, and give that one a record.
    let (packets, syn) = of(&|key| *key == overflow::OverflowKey::Direction(udp, true)).unwrap();
    assert!(packets >= 190 && syn == 0, "{packets} {syn}");
}

#[test]
fn the_overflow_table_is_of_fixed_size() {
    let mut overflow = Overflow::new(Vec::new());
    let mut packet =
        parse(&Frame { time_ns: 0, link: LinkType::RawIp, data: &udp(A, B, (1, 2)), length: 36, vlan: None })
            .ip
            .unwrap();
    for number in 0..20_000u32 {
        packet.src[12..].copy_from_slice(&number.to_be_bytes());
        packet.dst[12..].copy_from_slice(&(!number).to_be_bytes());
        for _ in 0..4 {
            overflow.add(&packet, Volume::one(36), 0);
        }
    }
    let records = overflow.take();
    assert!(records.len() <= 4096 + 2, "{}", records.len());
    assert_eq!(records.iter().map(|record| record.volume.packets).sum::<u64>(), 80_000);
    assert!(overflow.take().is_empty());
}

/// A UDP datagram of three fragments.
fn three_fragments(id: u16) -> [Vec<u8>; 3] {
    let datagram = t::udp((1000, 53), &[7; 56]);
    [(0x2000, 0..24), (0x2003, 24..48), (0x0006, 48..64)].map(|(place, part)| {
        let mut packet = t::ipv4_with(A, B, 17, &[], place, &datagram[part]);
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        packet
    })
}

#[test]
fn fragments_are_packets_of_their_flow_in_any_order() {
    let order = |of: [usize; 3], id| of.map(|at| three_fragments(id)[at].clone());
    for (id, of) in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]].into_iter().enumerate() {
        let mut meter = Meter::new(options()).unwrap();
        for (at, packet) in order(of, id as u16).iter().enumerate() {
            feed(&mut meter, START + at as i64 * 1_000_000, packet);
        }
        let closed = finish(meter);
        let [record] = &records(&closed[0])[..] else { panic!("{closed:?}") };
        assert_eq!((record.key.source_port(record.initiator.end), record.forward().packets), (1000, 3), "{of:?}");
        assert_eq!((record.forward().octets, record.last_ms - record.first_ms), (64 + 3 * 20, 2), "{of:?}");
        let tally = closed[0].tally;
        assert_eq!((tally.flows, tally.datagrams, tally.layer4_octets), (1, 1, 64), "{of:?}");
        let first_at = of.iter().position(|&at| at == 0).unwrap() as u64;
        assert_eq!((closed[0].fragments.joined.packets, closed[0].fragments.waited.packets), (2, first_at), "{of:?}");
    }
}

#[test]
fn fragments_are_carried_over_a_close_and_given_up_in_the_end() {
    let mut meter = Meter::new(options()).unwrap();
    let [first, second, third] = three_fragments(1);
    feed(&mut meter, START, &second);
    feed(&mut meter, START + 11 * SECOND, &third);
    feed(&mut meter, START + 11 * SECOND, &first);
    // Its first fragment never comes.
    let [_, orphan, _] = three_fragments(2);
    feed(&mut meter, START + 12 * SECOND, &orphan);
    feed(&mut meter, START + 50 * SECOND, &udp(A, B, (1, 2)));
    let closed = finish(meter);
    let carried: Vec<(u64, u64)> =
        closed.iter().map(|of| (of.tally.carried_in.packets, of.tally.carried_out.packets)).collect();
    assert_eq!(carried[..3], [(0, 1), (1, 1), (1, 1)]);
    assert_eq!(carried.last(), Some(&(0, 0)));
    let ports: Vec<(u16, u32)> = closed
        .iter()
        .flat_map(|of| of.records.iter())
        .map(|of| (of.key.source_port(of.initiator.end), of.forward().packets))
        .collect();
    assert_eq!(ports, [(1000, 3), (0, 1), (1, 1)]);
    assert_eq!(closed.iter().map(|of| of.fragments.timed_out.packets).sum::<u64>(), 1);
}

#[test]
fn an_id_that_is_used_again_is_another_datagram() {
    let mut meter = Meter::new(options()).unwrap();
    for packet in &three_fragments(1) {
        feed(&mut meter, START, packet);
    }
    let other = t::udp((2000, 53), &[7; 56]);
    for (place, part) in [(0x0003, 24..64), (0x2000, 0..24)] {
        let mut packet = t::ipv4_with(A, B, 17, &[], place, &other[part]);
        packet[4..6].copy_from_slice(&1u16.to_be_bytes());
        feed(&mut meter, START + 2 * SECOND, &packet);
    }
    let closed = finish(meter);
    let packets: Vec<u32> = records(&closed[0]).iter().map(|record| record.forward().packets).collect();
    assert_eq!(packets, [3, 2]);
}

#[test]
fn a_record_that_is_full_is_followed_by_another_one() {
    let mut meter = Meter::new(options()).unwrap();
    for _ in 0..100_000 {
        feed(&mut meter, START, &segment(true, t::SYN, 1, 0));
    }
    let closed = finish(meter);
    let syn: Vec<u16> = records(&closed[0]).iter().map(|record| record.forward().events.syn).collect();
    assert_eq!((syn, closed[0].tally.flows), (vec![65_535, 34_465], 1));
}

#[test]
fn retransmissions_are_counted_in_their_direction() {
    let data = |forward: bool, sequence, payload: &[u8]| {
        let (src, dst, ports) = if forward { (A, B, (40000, 80)) } else { (B, A, (80, 40000)) };
        t::ipv4(src, dst, 6, &t::tcp(ports, t::ACK, sequence, 1, payload))
    };
    let mut meter = Meter::new(options()).unwrap();
    for (forward, sequence) in [(true, 100), (true, 110), (true, 110), (false, 5), (false, 25), (false, 15)] {
        feed(&mut meter, START, &data(forward, sequence, b"0123456789"));
    }
    let closed = finish(meter);
    let record = closed[0].records.get(0);
    let (there, back) = (record.forward().events, record.reverse().events);
    assert_eq!((there.retransmissions, there.out_of_order), (1, 0));
    assert_eq!((back.retransmissions, back.out_of_order), (0, 1));
}

#[test]
fn a_flow_is_over_however_far_time_jumps() {
    // After this jump, the low bits of the interval number that flows keep are the same again, but times in 32 bits are
    // not.
    let jump = 4 * (1 << 16) * 10 * SECOND;
    let closed_after = |times: &[i64]| {
        let mut meter = Meter::new(options()).unwrap();
        for &time_ns in times {
            feed(&mut meter, time_ns, &udp(A, B, (1, 2)));
        }
        finish(meter)
    };
    let closed = closed_after(&[START, START + jump]);
    assert_eq!(closed.iter().map(|of| of.tally.flows).sum::<u64>(), 2);
    // A packet from long ago is late; it makes its flow neither older nor idle.
    let closed = closed_after(&[START, START - jump, START + SECOND, START + jump]);
    assert_eq!(closed.iter().map(|of| of.tally.flows).sum::<u64>(), 2);
    assert_eq!((closed[0].records.len(), closed[0].tally.late.packets), (1, 1));
}

#[test]
fn a_jump_within_a_batch_is_a_jump() {
    let mut meter = Meter::new(options()).unwrap();
    let data = udp(A, B, (1, 2));
    feed(&mut meter, START, &data);
    let jump = 4 * (1 << 16) * 10 * SECOND;
    meter.clock(START + jump);
    let frame = Frame { time_ns: START, link: LinkType::RawIp, data: &data, length: data.len() as u32, vlan: None };
    let mut packets = [parse(&frame); 2];
    let times = [START + jump, START + SECOND];
    let of = |(packet, time_ns)| Arrival { packet, time_ns, exclude: None, layer3: &data, checksum: None };
    meter.packets(&mut packets.iter_mut().zip(times).map(of).collect::<Vec<_>>());
    let closed = finish(meter);
    assert_eq!(closed.iter().map(|of| of.tally.flows).sum::<u64>(), 2);
    assert_eq!(closed.iter().map(|of| of.tally.late.packets).sum::<u64>(), 1);
}

#[test]
fn a_first_fragment_of_an_older_interval_is_carried_to_what_waits_for_it() {
    let mut meter = Meter::new(options()).unwrap();
    let [first, second, third] = three_fragments(1);
    feed(&mut meter, START, &udp(A, B, (1, 2)));
    feed(&mut meter, START + 10 * SECOND + 1, &second);
    feed(&mut meter, START + 10 * SECOND - 1, &first);
    feed(&mut meter, START + 10 * SECOND + 2, &third);
    let closed = finish(meter);
    let of = |interval: &ClosedInterval| (interval.tally.captured.packets, interval.tally.carried_out.packets);
    assert_eq!(closed.iter().map(of).collect::<Vec<_>>(), [(2, 1), (2, 0)]);
    assert_eq!((records(&closed[1]).len(), records(&closed[1])[0].forward().packets), (1, 3));
}
