use super::*;
use crate::collect::element::routed::{Route, Routed};
use crate::collect::record::SentCounts;
use crate::packet::tcp;
use crate::proto;
use crate::proto::flow_message::Body;
use crate::publish::encode::BatchEncoder;
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
    published(&table.take(), &mut EncodedRoutes::default())
}

/// As generated code reads them.
fn published(all: &[Flows], routes: &mut EncodedRoutes) -> Vec<(i64, Vec<proto::Flow>)> {
    let mut read = |record| encoded_with(&record, routes);
    all.iter().map(|flows| (flows.start_ms, flows.records().map(&mut read).collect())).collect()
}

fn encoded_with(record: &CollectedRecord<'_>, routes: &mut EncodedRoutes) -> proto::Flow {
    let mut batch = BatchEncoder::default();
    record.encode(&mut batch, routes);
    decoded(batch)
}

fn encoded(record: &CollectedRecord<'_>) -> proto::Flow {
    encoded_with(record, &mut EncodedRoutes::default())
}

fn decoded(mut batch: BatchEncoder) -> proto::Flow {
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
    assert_eq!(table.add((&mapped(9), 0), &record), Volume { packets: 601, octets: 60_100 });
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
    // The class of service of an end that sent nothing is not used.
    both.sent[1].class_of_service = 0x14;
    table.add((&mapped(9), 0), &both);
    table.add((&mapped(9), 0), &of(0x28, question));
    table.add((&mapped(9), 0), &of(0x2b, answer(&imported(4, 400, OPEN, OPEN + 900))));
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
        records.iter().for_each(|record| _ = table.add((&mapped(9), 0), record));
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
    table.add((&mapped(9), 0), &scan);
    let flow = only(&mut table);
    assert_eq!((flow.src_port, flow.initiator_guess, flow.fwd_tcp_syn), (443, false, 1));
    let known = Imported { initiator_known: true, ..answer(&imported(1, 40, OPEN, OPEN)) };
    table.add((&mapped(9), 0), &known);
    let flow = only(&mut table);
    assert_eq!((flow.src_port, flow.initiator_guess, flow.fwd_packets), (443, false, 1));
    // If the initiator is not known, an end with a server's port is the destination even if only it sent packets.
    table.add((&mapped(9), 0), &answer(&imported(3, 120, OPEN, OPEN)));
    let flow = only(&mut table);
    assert_eq!((flow.dst_port, flow.initiator_guess, flow.fwd_packets, flow.rev_packets), (443, true, 0, 3));
}

#[test]
fn sampled_counts_are_scaled_and_say_so() {
    let mut table = Table::new(OPTIONS, OPEN);
    table.add((&mapped(9), 0), &Imported { sampling: Some(1000), ..imported(3, 4500, OPEN, OPEN) });
    let flow = only(&mut table);
    assert_eq!((flow.fwd_packets, flow.fwd_octets, flow.sampling_rate), (3000, 4_500_000, 1000));
    // Records with different sampling rates stay separate.
    table.add((&mapped(9), 0), &Imported { sampling: Some(1000), ..imported(3, 4500, OPEN, OPEN) });
    table.add((&mapped(9), 0), &imported(3, 4500, OPEN, OPEN));
    let mut rates: Vec<_> = taken(&mut table)[0].1.iter().map(|flow| (flow.sampling_rate, flow.fwd_packets)).collect();
    rates.sort_unstable();
    assert_eq!(rates, [(0, 3), (1000, 3000)]);
}

#[test]
fn exporters_are_told_apart_and_flags_are_at_the_ends() {
    let mut table = Table::new(OPTIONS, OPEN);
    let mut record = imported(30, 3000, OPEN - 20_000, OPEN + 1);
    record.sent[0].tcp_flags = tcp::SYN | tcp::ACK | tcp::FIN;
    table.add((&mapped(8), 0), &record);
    table.add((&mapped(9), 0), &record);
    let all = taken(&mut table);
    assert_eq!(all.iter().map(|(_, flows)| flows.len()).collect::<Vec<_>>(), [2, 2, 2]);
    let flags = |flow: &proto::Flow| (flow.fwd_tcp_syn, flow.fwd_tcp_fin);
    let flags: Vec<_> = all.iter().map(|(_, flows)| flags(&flows[0])).collect();
    assert_eq!(flags, [(1, 0), (0, 0), (0, 1)]);
}

#[test]
fn flags_are_those_that_were_sent() {
    for (flags, expected) in [(0, (0, 0)), (tcp::FIN, (1, 0)), (tcp::RST | tcp::ACK, (0, 1))] {
        let mut table = Table::new(OPTIONS, OPEN);
        let mut record = imported(3, 300, OPEN, OPEN + 1);
        record.sent[0].tcp_flags = flags;
        table.add((&mapped(9), 0), &record);
        let flow = only(&mut table);
        assert_eq!((flow.fwd_tcp_fin, flow.fwd_tcp_rst), expected);
    }
}

#[test]
fn who_began_first_is_the_source_whichever_record_comes_first() {
    let question = |ms: i64| Imported { ports: [40_000, 50_000], ..imported(5, 500, OPEN + ms, OPEN + 900) };
    // A later record of the client arrives before its first one.
    let records = [question(10), answer(&question(5)), question(0)];
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let mut table = Table::new(OPTIONS, OPEN);
        order.iter().for_each(|&at| _ = table.add((&mapped(9), 0), &records[at]));
        let flow = only(&mut table);
        assert_eq!((flow.src_port, flow.fwd_packets, flow.rev_packets), (40_000, 10, 5), "{order:?}");
    }
}

#[test]
fn what_further_records_say_is_added() {
    let mut table = Table::new(OPTIONS, OPEN);
    let mut first = imported(3, 300, OPEN, OPEN);
    (first.sent[0].retransmissions, first.sent[0].out_of_order) = (1, 4);
    let mut second = Imported { server_name: b"example.org", dns_query: b"example.net", ..first };
    (second.sent[0].retransmissions, second.sent[0].out_of_order) = (2, 5);
    table.add((&mapped(9), 0), &first);
    table.add((&mapped(9), 0), &second);
    table.add((&mapped(9), 0), &Imported { server_name: b"example.com", ..first });
    let flow = only(&mut table);
    let counts = (flow.fwd_tcp_retransmissions, flow.fwd_tcp_out_of_order);
    assert_eq!((counts, &*flow.server_name, &*flow.dns_query), ((4, 13), "example.org", "example.net"));
}

#[test]
fn sub_agents_of_one_exporter_are_told_apart() {
    let mut table = Table::new(OPTIONS, OPEN);
    for (sub_agent, input_interface) in [(1, 5), (2, 6), (2, 6)] {
        table.add((&mapped(9), sub_agent), &Imported { input_interface, ..imported(3, 300, OPEN, OPEN) });
    }
    let all = taken(&mut table).remove(0).1;
    let mut seen: Vec<_> = all.iter().map(|flow| (flow.input_interface, flow.fwd_packets)).collect();
    seen.sort_unstable();
    assert_eq!(seen, [(5, 3), (6, 6)]);
    assert!(all.iter().all(|flow| flow.exporter_addr == [192, 0, 2, 9]));
}

#[test]
fn memory_that_is_given_back_has_nothing_of_before_and_is_bounded() {
    let mut table = Table::new(TableOptions { max_entries: 4, ..OPTIONS }, OPEN);
    for round in 1..=9 {
        let record = imported(7 * round, 70, OPEN - 25_000, OPEN);
        for exporter in [8, 9] {
            table.add((&mapped(exporter), 0), &record);
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
    for (first, last) in [(i64::MIN, i64::MIN), (i64::MAX, i64::MAX), (i64::MIN, i64::MAX), (OPEN + hour, OPEN + hour)]
    {
        let volume = table.add((&mapped(9), 0), &imported(7, 70, first, last));
        assert_eq!(volume, Volume { packets: 7, octets: 70 });
    }
    let all = taken(&mut table);
    assert_eq!((all[0].0, all.last().unwrap().0), (OPEN - hour, OPEN));
    let packets: u64 = all.iter().flat_map(|(_, flows)| flows).map(|flow| flow.fwd_packets).sum();
    assert_eq!(packets, 28);
    assert_eq!(table.clamped(), Clamped { future: 3, old: 2 });
}

/// A record of NetFlow v5: next hop 192.0.2.9, AS 64500 and 64501, prefixes of 24 and 16 bits.
static SAID: [u8; 48] = {
    let mut record = [0; 48];
    [record[8], record[10], record[11]] = [192, 2, 9];
    [record[40], record[41], record[42], record[43], record[44], record[45]] = [0xfb, 0xf4, 0xfb, 0xf5, 24, 16];
    record
};

#[test]
fn what_the_router_said_is_the_sources() {
    let routed = Some(Routed::Netflow5(&SAID));
    let mut table = Table::new(OPTIONS, OPEN);
    let question = Imported { routed, ..imported(5, 500, OPEN, OPEN) };
    table.add((&mapped(9), 0), &question);
    let said = only(&mut table).routed.unwrap();
    assert_eq!(
        (said.src_as, said.dst_as, said.src_prefix_length, said.next_hop),
        (64500, 64501, 24, vec![192, 0, 2, 9])
    );
    // In an answer that arrives first, the routing data is from the view of its own source, which is the flow's
    // destination.
    let mut answered = answer(&question);
    answered.sent[0].tcp_flags = tcp::SYN | tcp::ACK;
    table.add((&mapped(9), 0), &answered);
    table.add((&mapped(9), 0), &Imported { routed: None, initiator_known: true, ..imported(5, 500, OPEN, OPEN) });
    let flow = only(&mut table);
    let said = flow.routed.unwrap();
    assert_eq!((flow.src_port, said.src_as, said.dst_as, said.src_prefix_length), (40_000, 64501, 64500, 16));
    // A record over several intervals has its routing data in each part; a record without routing data has none.
    table.add((&mapped(9), 0), &Imported { routed, ..imported(5, 500, OPEN - 20_000, OPEN) });
    assert!(taken(&mut table).iter().all(|(_, flows)| flows[0].routed.is_some()));
    table.add((&mapped(9), 0), &imported(5, 500, OPEN, OPEN));
    assert_eq!(only(&mut table).routed, None);
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
            sums += table.add((&mapped(9), 0), &Imported { sampling, ..record });
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

#[test]
fn the_last_packet_may_be_the_first_of_the_next_interval() {
    let mut table = Table::new(OPTIONS, OPEN);
    table.add((&mapped(9), 0), &imported(2, 200, OPEN - 10_000, OPEN));
    let packets: Vec<_> = taken(&mut table).iter().map(|(start, flows)| (start - OPEN, flows[0].fwd_packets)).collect();
    assert_eq!(packets, [(-10_000, 1), (0, 1)]);
    // The last moment of the open interval is not after it.
    table.add((&mapped(9), 0), &imported(1, 100, OPEN, OPEN + 9_999));
    assert_eq!(table.clamped(), Clamped::default());
    table.add((&mapped(9), 0), &imported(1, 100, OPEN, OPEN + 10_000));
    assert_eq!(table.clamped(), Clamped { future: 1, old: 0 });
}

#[test]
fn without_a_service_who_began_is_told_by_time_then_by_port_then_by_who_sent() {
    let of = |ports: [u16; 2], first_ms| Imported { ports, ..imported(5, 500, first_ms, OPEN + 900) };
    let source = |records: &[Imported<'static>]| {
        let mut table = Table::new(OPTIONS, OPEN);
        records.iter().for_each(|record| _ = table.add((&mapped(9), 0), record));
        let flow = only(&mut table);
        assert!(flow.initiator_guess);
        (flow.src_addr[3], flow.fwd_packets, flow.rev_packets)
    };
    for ports in [[40_000, 50_000], [50_000, 40_000]] {
        let (early, late) = (of(ports, OPEN), of(ports, OPEN + 3));
        assert_eq!(source(&[early, answer(&late)]), (1, 5, 5));
        assert_eq!(source(&[late, answer(&early)]), (2, 5, 5));
        // With one direction only, its sender is the source.
        assert_eq!(source(&[early]), (1, 5, 0));
        assert_eq!(source(&[answer(&early)]), (2, 5, 0));
    }
    // If both begin at the same moment, the end with the higher port is the client.
    let lower = of([40_000, 50_000], OPEN);
    assert_eq!(source(&[lower, answer(&lower)]), (2, 5, 5));
    let higher = of([50_000, 40_000], OPEN);
    assert_eq!(source(&[higher, answer(&higher)]), (1, 5, 5));
}

#[test]
fn both_ways_of_one_record_are_of_their_ends_whichever_end_it_is_of() {
    let both = |record: Imported<'static>| {
        let sent =
            [(3, 300), (2, 2000)].map(|(packets, octets)| SentCounts { packets, octets, ..SentCounts::default() });
        Imported { sent, initiator_known: true, ..record }
    };
    for (record, source) in [(imported(0, 0, OPEN, OPEN), 1), (answer(&imported(0, 0, OPEN, OPEN)), 2)] {
        let mut table = Table::new(OPTIONS, OPEN);
        table.add((&mapped(9), 0), &both(record));
        let flow = only(&mut table);
        assert_eq!(flow.src_addr, [192, 0, 2, source]);
        assert_eq!((flow.fwd_packets, flow.fwd_octets, flow.rev_packets, flow.rev_octets), (3, 300, 2, 2000));
    }
}

#[test]
fn long_names_are_published_whole() {
    let (server, query) = ([b's'; 255], [b'q'; 255]);
    let mut table = Table::new(OPTIONS, OPEN);
    table.add((&mapped(9), 0), &Imported { server_name: &server, dns_query: &query, ..imported(1, 100, OPEN, OPEN) });
    let flow = only(&mut table);
    assert_eq!((flow.server_name.len(), flow.dns_query.len()), (255, 255));
}

#[test]
fn directions_and_stations_are_as_the_router_says() {
    let said = |direction| Route {
        direction,
        macs: [[0x02, 0x10, 0x20, 0x30, 0x40, 0x50], [0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54]],
        ..Route::default()
    };
    let direction = |direction| message(&said(direction)).flow_direction;
    assert_eq!([Some(0), Some(1), Some(7), None].map(direction), [1, 2, 0, 0]);
    let message = message(&said(None));
    assert_eq!((message.src_mac, message.dst_mac), (0x0210_2030_4050, 0xfedc_ba98_7654));
}

#[test]
fn next_hops_are_those_of_the_initiators_packets() {
    let record = |last: u8, as_number: u8| {
        let mut record = [0; 48];
        [record[8], record[10], record[11], record[41], record[43]] = [192, 2, last, as_number, 99];
        record
    };
    let (asked, answered) = (record(1, 1), record(2, 2));
    let question = Imported { initiator_known: true, ..imported(5, 500, OPEN, OPEN) };
    let asking = Imported { routed: Some(Routed::Netflow5(&asked)), ..question };
    let answering = Imported { routed: Some(Routed::Netflow5(&answered)), initiator_known: false, ..answer(&question) };
    let silent = Imported { routed: None, ..answering };
    let route = |records: &[Imported<'_>]| {
        let mut table = Table::new(OPTIONS, OPEN);
        for record in records {
            table.add((&mapped(9), 0), record);
        }
        let routed = only(&mut table).routed.unwrap();
        (routed.src_as, routed.dst_as, routed.next_hop.last().copied())
    };
    assert_eq!(route(&[asking, answering]), (1, 99, Some(1)));
    assert_eq!(route(&[answering, asking]), (1, 99, Some(1)));
    assert_eq!(route(&[silent, asking]), (1, 99, Some(1)));
    // The answer's next hop is used only if there is no record of the question, because it is not that of the
    // question's packets.
    assert_eq!(route(&[question, answering]), (99, 2, None));
    let alone = Imported { ports: [443, 40_000], ..answering };
    assert_eq!(route(&[alone]), (99, 2, Some(2)));
    // If an exporter states the ends in reverse (IE 239), its routing data is reversed too.
    let mut both = Imported { turned: true, ..asking };
    both.sent[1] = both.sent[0];
    assert_eq!(route(&[both]), (99, 1, None));
}

#[test]
fn every_field_of_a_route_changes_its_hash() {
    let hasher = RandomState::default();
    let changes: [fn(&mut Route); 24] = [
        |route| route.autonomous_systems[0] = 1,
        |route| route.autonomous_systems[1] = 1,
        |route| route.adjacent[0] = 1,
        |route| route.adjacent[1] = 1,
        |route| route.next_hop[15] = 1,
        |route| route.bgp_next_hop[15] = 1,
        |route| route.prefix_lengths[0] = 1,
        |route| route.prefix_lengths[1] = 1,
        |route| route.vrf[0] = 1,
        |route| route.vrf[1] = 1,
        |route| route.direction = Some(0),
        |route| route.end_reason = 1,
        |route| route.forwarding_status = 1,
        |route| route.mpls_top_label = 1,
        |route| route.ttl[0] = 1,
        |route| route.ttl[1] = 1,
        |route| route.macs[0][5] = 1,
        |route| route.macs[1][5] = 1,
        |route| route.translated[0][15] = 1,
        |route| route.translated[1][15] = 1,
        |route| route.translated_ports[0] = 1,
        |route| route.translated_ports[1] = 1,
        |route| route.observation_point = 1,
        |_| {},
    ];
    let hashes = changes.map(|change| {
        let mut route = Route::default();
        change(&mut route);
        hasher.hash_one(route)
    });
    assert_eq!(hashes.iter().collect::<std::collections::HashSet<_>>().len(), changes.len());
}

/// A route as it is read from a batch.
fn message(route: &Route) -> proto::Routed {
    let mut batch = BatchEncoder::default();
    batch.record(route::ROOM, |batch| batch.nested::<66>(|batch| route::fields(route, batch)));
    decoded(batch).routed.unwrap()
}

#[test]
fn a_route_of_the_largest_values_is_published_whole() {
    let six = |last| [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, last];
    let (one, two) = (u32::MAX - 1, u32::MAX);
    let route = Route {
        autonomous_systems: [one, two],
        adjacent: [one, two],
        next_hop: six(1),
        bgp_next_hop: six(2),
        prefix_lengths: [254, 255],
        vrf: [one, two],
        direction: Some(1),
        end_reason: 253,
        forwarding_status: 252,
        mpls_top_label: u32::MAX - 2,
        ttl: [250, 251],
        macs: [[0xff; 6], [0xfe; 6]],
        translated: [six(3), six(4)],
        translated_ports: [65_534, 65_535],
        observation_point: u32::MAX - 3,
    };
    let expected = proto::Routed {
        src_as: one,
        dst_as: two,
        next_hop: six(1).to_vec(),
        bgp_next_hop: six(2).to_vec(),
        src_prefix_length: 254,
        dst_prefix_length: 255,
        ingress_vrf: one,
        egress_vrf: two,
        flow_direction: 2,
        flow_end_reason: 253,
        forwarding_status: 252,
        mpls_top_label: u32::MAX - 2,
        min_ttl: 250,
        max_ttl: 251,
        src_mac: 0xffff_ffff_ffff,
        dst_mac: 0xfefe_fefe_fefe,
        post_nat_src_addr: six(3).to_vec(),
        post_nat_dst_addr: six(4).to_vec(),
        post_nat_src_port: 65_534,
        post_nat_dst_port: 65_535,
        observation_point: u32::MAX - 3,
        src_adjacent_as: one,
        dst_adjacent_as: two,
    };
    assert_eq!(message(&route), expected);
}

/// The route that a router states with this number.
fn stated(number: u16) -> [u8; 48] {
    let mut said = SAID;
    said[40..42].copy_from_slice(&number.to_be_bytes());
    said
}

proptest! {
    #[test]
    fn a_route_encoded_before_is_published_as_if_it_were_the_first(
        // Numbers of routes seen from each end, by hand-over and flow; 0 for none. Few, so that flows share them.
        hand_overs in prop::collection::vec(prop::collection::vec(([0..5_u16, 0..5_u16], any::<bool>()), 1..20), 1..4),
    ) {
        let mut table = Table::new(OPTIONS, OPEN);
        let mut routes = EncodedRoutes::default();
        for flows in &hand_overs {
            for (port, &(numbers, answered)) in (40_000..).zip(flows) {
                let said = numbers.map(stated);
                let routed = [0, 1].map(|end| Some(Routed::Netflow5(&said[end])).filter(|_| numbers[end] > 0));
                let question = imported(30, 3000, OPEN - 20_000, OPEN);
                let question = Imported { ports: [port, 443], initiator_known: answered, ..question };
                if answered || numbers[1] == 0 {
                    table.add((&mapped(9), 0), &Imported { routed: routed[0], ..question });
                }
                if answered || numbers[1] > 0 {
                    table.add((&mapped(9), 0), &Imported { routed: routed[1], initiator_known: false, ..answer(&question) });
                }
            }
            let taken = table.take();
            let alone = |flows: &Flows| flows.records().map(|record| encoded(&record)).collect();
            let expected: Vec<(i64, Vec<_>)> = taken.iter().map(|flows| (flows.start_ms, alone(flows))).collect();
            prop_assert_eq!(published(&taken, &mut routes), expected);
        }
    }
}

#[test]
fn a_table_filled_by_long_flows_keeps_the_open_interval_whole() {
    let mut table = Table::new(OPTIONS, OPEN);
    let question = imported(5, 500, OPEN, OPEN);
    table.add((&mapped(9), 0), &question);
    let mut sum = 0;
    for port in 1..4000 {
        let routed = Some(Routed::Netflow5(&SAID));
        let long = Imported { ports: [port, 443], routed, ..imported(3600, 360_000, OPEN - 3_590_000, OPEN - 1) };
        sum += table.add((&mapped(8), 0), &long).packets;
        if table.is_full() {
            for flows in table.take_full() {
                assert!(flows.start_ms < OPEN, "it was closed");
                sum -= flows.records().flat_map(|record| record.sent()).map(|sent| sent.packets).sum::<u64>();
            }
            assert_eq!(table.entries(), 1);
        }
    }
    table.add((&mapped(9), 0), &answer(&question));
    let all = taken(&mut table);
    let (_, open) = all.last().unwrap();
    assert_eq!((open.len(), open[0].fwd_packets > 0, open[0].rev_packets > 0), (1, true, true));
    let late = all.iter().filter(|(start, _)| *start < OPEN).flat_map(|(_, flows)| flows);
    assert_eq!(late.map(|flow| flow.fwd_packets).sum::<u64>(), sum);
}

#[test]
fn an_open_interval_that_fills_the_table_is_handed_over() {
    let mut table = Table::new(OPTIONS, OPEN);
    let mut port = 0;
    while !table.is_full() {
        port += 1;
        table.add(
            (&mapped(9), 0),
            &Imported { ports: [port, 443], ..imported(5, 500, OPEN - i64::from(port < 9), OPEN) },
        );
    }
    let starts: Vec<_> = table.take_full().iter().map(|flows| flows.start_ms).collect();
    assert_eq!((starts, table.entries()), (vec![OPEN - 10_000, OPEN], 0));
}

#[test]
fn flows_keep_their_routes_when_others_are_forgotten() {
    let mut table = Table::new(TableOptions { max_entries: 100, ..OPTIONS }, OPEN);
    let add = |table: &mut Table, port: u16, number: u16| {
        let (said, answered) = (stated(number), stated(number + 100));
        let question = Imported { ports: [port, 443], initiator_known: true, ..imported(30, 3000, OPEN - 5000, OPEN) };
        table.add((&mapped(9), 0), &Imported { routed: Some(Routed::Netflow5(&said)), ..question });
        let six = Imported { version: 6, routed: Some(Routed::Netflow5(&answered)), ..question };
        table.add((&mapped(9), 0), &six);
    };
    (1..=20).for_each(|number| add(&mut table, number, number));
    (21..=50).for_each(|number| add(&mut table, 1, number));
    assert!(table.is_full() && table.forget_routes() && !table.is_full());
    add(&mut table, 21, 45);
    let all = taken(&mut table);
    assert_eq!(all.len(), 2);
    for (_, flows) in &all {
        let of = |flow: &proto::Flow| (flow.ip_version, flow.src_port, flow.routed.as_ref().unwrap().src_as);
        let expected = |version| {
            let added = if version == 4 { 0 } else { 100 };
            (1..=20).map(move |number| (version, number, number + added)).chain([(version, 21, 45 + added)])
        };
        let told: Vec<_> = flows.iter().map(of).collect();
        assert_eq!(told, expected(4).chain(expected(6)).collect::<Vec<_>>());
    }
}

#[test]
fn routes_of_flows_fill_a_table_until_it_is_handed_over() {
    let mut table = Table::new(TableOptions { max_entries: 100, ..OPTIONS }, OPEN);
    let mut number = 0;
    while !table.is_full() {
        number += 1;
        let [said, answered] = [number, number + 1000].map(stated);
        let question = Imported { ports: [number, 443], ..imported(5, 500, OPEN, OPEN) };
        table.add((&mapped(9), 0), &Imported { routed: Some(Routed::Netflow5(&said)), ..question });
        table.add((&mapped(9), 0), &Imported { routed: Some(Routed::Netflow5(&answered)), ..answer(&question) });
    }
    assert_eq!(number, 50, "each flow has two routes");
    assert!(!table.forget_routes() && table.is_full());
    assert_eq!(table.take_full().iter().map(Flows::len).sum::<usize>(), 50);
    assert!(!table.is_full());
}

#[test]
fn many_routes_of_one_flow_are_bounded() {
    let mut table = Table::new(TableOptions { max_entries: 100, ..OPTIONS }, OPEN);
    let mut records = 0;
    while !table.is_full() {
        let said = stated(u16::try_from(records + 1).unwrap());
        let routed = Some(Routed::Netflow5(&said));
        table.add((&mapped(9), 0), &Imported { routed, ..imported(1, 100, OPEN, OPEN) });
        records += 1;
    }
    assert_eq!(records, 100);
    assert_eq!(only(&mut table).routed.unwrap().src_as, 1);
    assert!(!table.is_full());
    // The flow keeps the first one: the others leave room.
    let mut number = 0;
    while number < 1000 {
        let said = stated(500 + number);
        let routed = Some(Routed::Netflow5(&said));
        table.add((&mapped(9), 0), &Imported { routed, ..imported(1, 100, OPEN, OPEN) });
        assert!(!table.is_full() || table.forget_routes());
        number += 1;
    }
    assert_eq!(only(&mut table).routed.unwrap().src_as, 500);
    // Routing data in which every field is zero is not published.
    table.add((&mapped(9), 0), &Imported { routed: Some(Routed::Netflow5(&[0; 48])), ..imported(1, 100, OPEN, OPEN) });
    assert_eq!(only(&mut table).routed, None);
}
