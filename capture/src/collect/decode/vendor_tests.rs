//! Exports in the forms that vendors document: each test covers a peculiarity of one vendor.

use super::tests::*;
use super::*;
use crate::collect::element::octets::mapped;
use crate::collect::record::{GivenName, InterfaceCounters, NatEvent, SentCounts};
use crate::testing as t;

/// Keeps all decoded items.
#[derive(Default)]
pub(super) struct All {
    pub(super) flows: Vec<(Imported<'static>, Option<Route>)>,
    events: Vec<(NatEvent<'static>, Vec<u8>)>,
    names: Vec<(u32, String, String)>,
    counters: Vec<InterfaceCounters>,
}

impl Take for All {
    fn flow(&mut self, _: &ExporterInfo, record: &Imported<'_>) {
        let route = record.routed.and_then(|routed| routed.read());
        self.flows.push((Imported { server_name: b"", dns_query: b"", routed: None, ..*record }, route));
    }

    fn event(&mut self, _: &ExporterInfo, event: &NatEvent<'_>) {
        self.events.push((NatEvent { user: b"", ..*event }, event.user.to_vec()));
    }

    fn name(&mut self, _: &ExporterInfo, GivenName { number: index, name, description, .. }: &GivenName<'_>) -> bool {
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        self.names.push((*index, text(name), text(description)));
        true
    }

    fn counters(&mut self, _: &ExporterInfo, counters: &InterfaceCounters) -> bool {
        self.counters.push(*counters);
        true
    }
}

pub(super) fn all(decoder: &mut Decoder, data: &[u8]) -> All {
    let mut all = All::default();
    decoder.datagram_to(HOME, NOW_MS * 1_000_000, data, &mut all);
    all
}

/// Values, each as wide as its field.
pub(super) fn row(fields: &[(u32, u16, u16)], values: &[u64]) -> Vec<u8> {
    assert_eq!(fields.len(), values.len());
    let wide = fields.iter().zip(values).map(|(&(_, _, length), value)| {
        let octets = u128::from(*value).to_be_bytes();
        octets[16 - usize::from(length)..].to_vec()
    });
    wide.flatten().collect()
}

fn session(port: u16) -> Session {
    Session { address: HOME, port, local_port: 2055, stream: false }
}

fn by(decoder: &mut Decoder, port: u16, data: &[u8]) -> Vec<Imported<'static>> {
    let mut records = Vec::new();
    decoder.datagram(session(port), NOW_MS * 1_000_000, data, &mut |_, record| {
        records.push(Imported { server_name: b"", dns_query: b"", routed: None, ..*record });
    });
    records
}

pub(super) const SHORT: [(u32, u16, u16); 4] = [(0, 8, 4), (0, 12, 4), (0, 2, 4), (0, 1, 4)];
pub(super) const TURNED: [(u32, u16, u16); 4] = [(0, 8, 4), (0, 12, 4), (0, 1, 4), (0, 2, 4)];

pub(super) fn short(packets: u64, octets: u64) -> Vec<u8> {
    row(&SHORT, &[0x0a00_0001, 0x0a00_0002, packets, octets])
}

#[test]
fn templates_are_of_a_session() {
    let mut decoder = Decoder::default();
    by(&mut decoder, 1, &ipfix(0, &[template(300, &SHORT)]));
    by(&mut decoder, 2, &ipfix(0, &[template(300, &TURNED)]));
    let first = by(&mut decoder, 1, &ipfix(0, &[set(300, &short(5, 5000))]));
    let second = by(&mut decoder, 2, &ipfix(0, &[set(300, &short(5000, 5))]));
    let sent = |records: &[Imported<'_>]| (records[0].sent[0].packets, records[0].sent[0].octets);
    assert_eq!((sent(&first), sent(&second)), ((5, 5000), (5, 5000)));
    // It is one exporter on the Fleet page; the number of its sessions is bounded.
    for port in 3..100 {
        by(&mut decoder, port, &ipfix(0, &[template(300, &SHORT)]));
    }
    let known = decoder.exporters().next().unwrap();
    assert_eq!((decoder.exporters().count(), known.templates), (1, DecodeLimits::default().sessions));
}

#[test]
fn an_exporter_whose_numbers_run_on_by_another_port_keeps_its_templates() {
    let mut decoder = Decoder::default();
    by(&mut decoder, 1, &ipfix(800_000, &[template(300, &SHORT), set(300, &short(1, 100))]));
    assert_eq!(by(&mut decoder, 9, &ipfix(800_003, &[set(300, &short(1, 100))])).len(), 1);
    assert_eq!(decoder.counts().losses.lost, 2);
    // The numbers of another session do not continue these, so its records wait for its own template.
    assert_eq!(by(&mut decoder, 7, &ipfix(3, &[set(300, &short(1, 100))])).len(), 0);
}

#[test]
fn a_selector_of_n_out_of_many_has_their_ratio() {
    let mut decoder = Decoder::default();
    let scope = [(0, 302, 4)];
    let fields = [(0, 305, 4), (0, 304, 2), (0, 309, 4), (0, 310, 4)];
    let flows = [&SHORT[..], &[(0, 302, 4)]].concat();
    let option = row(&[&scope[..], &fields].concat(), &[1, 1, 3, 1, 256]);
    let flow = row(&flows, &[0x0a00_0001, 0x0a00_0002, 1, 100, 1]);
    let before = all(&mut decoder, &ipfix(0, &[template(300, &flows), set(300, &flow)]));
    assert_eq!(before.flows[0].0.sampling, None);
    assert_eq!(decoder.exporters().next().unwrap().sampling_state, SamplingState::Expected);
    all(&mut decoder, &ipfix(1, &[options_template(400, &scope, &fields), set(400, &option)]));
    let after = all(&mut decoder, &ipfix(2, &[set(300, &flow)]));
    assert_eq!(after.flows[0].0.sampling, Some(256));
    assert_eq!(decoder.exporters().next().unwrap().sampling_state, SamplingState::Known);
    // Filtering by a property gives no sampling rate.
    all(&mut decoder, &ipfix(3, &[options_template(401, &scope, &[(0, 304, 2)]), set(401, &[0, 0, 0, 2, 0, 5])]));
    assert_eq!(decoder.exporters().next().unwrap().sampling_state, SamplingState::NotUnderstood);
}

#[test]
fn a_rate_is_of_its_interface_or_template_alone() {
    let mut decoder = Decoder::default();
    let flows = [&SHORT[..], &[(0, 10, 4)]].concat();
    let flow = |interface| row(&flows, &[0x0a00_0001, 0x0a00_0002, 1, 100, interface]);
    let by_interface = options_template(400, &[(0, 10, 4)], &[(0, 34, 4)]);
    let data = [template(300, &flows), by_interface, set(400, &row(&[(0, 10, 4), (0, 34, 4)], &[3, 50]))];
    all(&mut decoder, &ipfix(0, &data));
    let rates = all(&mut decoder, &ipfix(1, &[set(300, &[flow(3), flow(4)].concat())]));
    assert_eq!([rates.flows[0].0.sampling, rates.flows[1].0.sampling], [Some(50), None]);
    let scopes = [(0, 149, 4), (0, 145, 2)];
    let fields = [(0, 304, 2), (0, 305, 4), (0, 306, 4)];
    let option = row(&[&scopes[..], &fields].concat(), &[7, 301, 1, 1, 999]);
    all(&mut decoder, &ipfix(4, &[template(301, &SHORT), options_template(401, &scopes, &fields), set(401, &option)]));
    let rates = all(&mut decoder, &ipfix(5, &[set(301, &short(1, 100)), set(300, &flow(4))]));
    assert_eq!([rates.flows[0].0.sampling, rates.flows[1].0.sampling], [Some(1000), None]);
}

const ASA: [Field; 11] =
    elements(0, [(148, 4), (8, 4), (7, 2), (12, 4), (11, 2), (4, 1), (233, 1), (323, 8), (231, 4), (232, 4), (152, 8)]);

#[test]
fn an_event_that_tells_again_counts_once() {
    let mut decoder = Decoder::default();
    let ms = NOW_MS as u64;
    let event = |connection, event, at_ms, sent| {
        row(&ASA, &[connection, 0x0a00_0001, 4000, 0x0a00_0002, 80, 6, event, at_ms, sent, 2 * sent, ms - 60_000])
    };
    let records = [
        event(1, 5, ms - 30_000, 700),
        event(1, 2, ms - 30_000, 700),
        event(2, 2, ms - 30_000, 700),
        event(3, 5, ms - 30_000, 9),
        event(3, 2, ms - 10_000, 9),
    ];
    let read = all(&mut decoder, &ipfix(0, &[template(300, &ASA), set(300, &records.concat())]));
    let seen: Vec<_> = read
        .flows
        .iter()
        .map(|(flow, _)| (flow.sent[1].octets, flow.first_ms - NOW_MS, flow.last_ms - NOW_MS))
        .collect();
    assert_eq!(
        seen,
        [(1400, -60_000, -30_000), (1400, -60_000, -30_000), (18, -60_000, -30_000), (18, -30_000, -10_000)]
    );
    assert_eq!((decoder.counts().of(Refusal::Repeated), decoder.counts().of(Refusal::PayloadOctets)), (1, 4));
}

#[test]
fn totals_become_what_is_new() {
    let mut decoder = Decoder::default();
    let fields = [(0, 8, 4), (0, 12, 4), (0, 85, 8), (0, 86, 8), (0, 152, 8), (0, 153, 8)];
    let ms = NOW_MS as u64;
    let flow = |octets, packets, first: u64, last: u64| {
        row(&fields, &[0x0a00_0001, 0x0a00_0002, octets, packets, ms - first, ms - last])
    };
    let records = [
        flow(1000, 10, 90_000, 60_000),
        flow(1500, 15, 90_000, 30_000),
        flow(1500, 15, 90_000, 30_000),
        flow(400, 4, 20_000, 10_000),
    ];
    let read = all(&mut decoder, &ipfix(0, &[template(300, &fields), set(300, &records.concat())]));
    let seen: Vec<_> = read.flows.iter().map(|(flow, _)| (flow.sent[0].octets, NOW_MS - flow.first_ms)).collect();
    assert_eq!(seen, [(1000, 90_000), (500, 60_000), (400, 20_000)]);
    assert_eq!(decoder.counts().of(Refusal::Repeated), 1);
}

#[test]
fn an_uptime_of_another_card_is_no_restart() {
    let mut decoder = Decoder::default();
    let data = |number: u32| set(256, &v9_record(UPTIME - number, UPTIME - number));
    feed(&mut decoder, &v9_at(UPTIME, NOW, 10, &[v9_template(256, &V9_FIELDS)]));
    for number in 11..60 {
        let uptime = if number % 2 == 0 { UPTIME } else { UPTIME - 113_000 };
        assert_eq!(feed(&mut decoder, &v9_at(uptime, NOW, number, &[data(number)])).len(), 1);
    }
    assert_eq!((decoder.counts().losses.lost, decoder.counts().losses.restarts), (0, 0));
}

#[test]
fn of_two_headers_the_inner_one_is_the_flow() {
    let transport = elements(0, [(7, 2), (11, 2), (6, 1), (4, 1)]);
    let fields = [
        &elements(0, [(27, 16), (28, 16), (2, 4), (1, 4)])[..],
        &transport,
        &elements(0, [(8, 4), (12, 4)]),
        &transport,
    ]
    .concat();
    let values = [9, 8, 3, 300, 0, 0, 0, 43, 0x0a00_0001, 0x0a00_0002, 2222, 1111, 0x12, 6];
    let data = ipfix(0, &[template(300, &fields), set(300, &row(&fields, &values))]);
    let (flow, _) = all(&mut Decoder::default(), &data).flows[0];
    assert_eq!(flow.addresses, [mapped([10, 0, 0, 1]), mapped([10, 0, 0, 2])]);
    assert_eq!((flow.ports, flow.protocol, flow.sent[0].tcp_flags), ([2222, 1111], 6, 0x12));
}

#[test]
fn the_frame_of_a_section_is_read() {
    let frame = tcp_frame();
    let mut body = row(&[(0, 10, 4), (0, 14, 4), (0, 312, 2)], &[5, 6, frame.len() as u64]);
    body.push(frame.len() as u8);
    body.extend(&frame);
    let fields = [(0, 10, 4), (0, 14, 4), (0, 312, 2), (0, 315, 65_535)];
    let data = ipfix(0, &[template(300, &fields), set(300, &[body.clone(), body].concat())]);
    let read = all(&mut Decoder::default(), &data);
    let (flow, _) = read.flows[1];
    assert_eq!((flow.ports, flow.vlan, flow.sent[0].packets, flow.sent[0].octets), ([40_000, 443], 12, 1, 40));
    assert_eq!((flow.input_interface, flow.output_interface, flow.last_ms), (5, 6, NOW_MS));
    let packet = &frame[18..];
    let fields = [(0, 313, packet.len() as u16)];
    let read = all(&mut Decoder::default(), &ipfix(0, &[template(300, &fields), set(300, packet)]));
    assert_eq!(read.flows[0].0.ports, [40_000, 443]);
}

/// A sample whose agent states that it stripped this many octets of the frame, with other records before it.
fn flow_sample(number: u32, stripped: u32, others: &[u8]) -> Vec<u8> {
    let frame = tcp_frame();
    let padded = frame.len().next_multiple_of(4);
    let mut sample = words(&[number, 3, 1000, 9000, 0, 0x3fff_ffff, 7, 2]);
    sample.extend(others);
    sample.extend(words(&[1, padded as u32 + 16, 1, frame.len() as u32 + 4, stripped, frame.len() as u32]));
    sample.extend(&frame);
    sample.resize(sample.len() + padded - frame.len(), 0);
    sample
}

#[test]
fn octets_are_those_of_ip_whatever_was_stripped() {
    for stripped in [0, 4, 50, 4000] {
        let read = all(&mut Decoder::default(), &sflow(1, 1000, &[(1, flow_sample(1, stripped, &[]))]));
        assert_eq!(read.flows[0].0.sent[0].octets, 40, "{stripped}");
    }
}

#[test]
fn what_an_agent_does_not_know_is_0() {
    let switch = words(&[1001, 16, u32::MAX, 0, 33, 0]);
    let read = all(&mut Decoder::default(), &sflow(1, 1000, &[(1, flow_sample(1, 4, &switch))]));
    let (flow, _) = read.flows[0];
    assert_eq!((flow.input_interface, flow.output_interface, flow.vlan), (0, 7, 12));
    let four = words(&[2, 3, 1000, 9000, 2, 5, 6, 2, 1001, 16, u32::MAX, 0, 33, 0]);
    let four = [four, words(&[3, 32, 60, 17, 0x0a00_0001, 0x0a00_0002, 53, 999, 0, 0])].concat();
    let read = all(&mut Decoder::default(), &sflow(1, 1000, &[(1, four)]));
    assert_eq!(read.flows[0].0.vlan, 33, "the destination's");
    let unknown = words(&[2, 3, 1000, 9000, 2, 5, 6, 2, 1001, 16, u32::MAX, 0, u32::MAX, 0]);
    let unknown = [unknown, words(&[3, 32, 60, 17, 0x0a00_0001, 0x0a00_0002, 53, 999, 0, 0])].concat();
    let read = all(&mut Decoder::default(), &sflow(1, 1000, &[(1, unknown)]));
    assert_eq!(read.flows[0].0.vlan, 0);
}

#[test]
fn physical_interfaces_stand_in() {
    let fields = [&SHORT[..], &[(0, 252, 4), (0, 253, 4)]].concat();
    let record = row(&fields, &[0x0a00_0001, 0x0a00_0002, 1, 100, 11, 12]);
    let read = all(&mut Decoder::default(), &ipfix(0, &[template(300, &fields), set(300, &record)]));
    assert_eq!((read.flows[0].0.input_interface, read.flows[0].0.output_interface), (11, 12));
    let both = [&fields[..], &[(0, 10, 4)]].concat();
    let record = row(&both, &[0x0a00_0001, 0x0a00_0002, 1, 100, 11, 12, 3]);
    let read = all(&mut Decoder::default(), &ipfix(0, &[template(300, &both), set(300, &record)]));
    assert_eq!((read.flows[0].0.input_interface, read.flows[0].0.output_interface), (3, 12));
}

#[test]
fn every_sample_and_set_that_is_not_taken_has_a_cause() {
    let mut decoder = Decoder::default();
    all(&mut decoder, &sflow(1, 1000, &[(5, words(&[1, 9, 5])), (0x0123_4001, vec![0; 8]), (2, vec![0; 12])]));
    assert_eq!((decoder.counts().of(Refusal::UnknownSample), decoder.counts().counter_samples), (2, 1));
    all(&mut decoder, &ipfix(0, &[set(300, &short(1, 100))]));
    decoder.expire(NOW_MS + 60_001);
    assert_eq!(decoder.counts().of(Refusal::UnknownTemplate), 1, "nothing more came");
    all(&mut decoder, &ipfix(1, &[set(300, &short(1, 100))]));
    decoder.end();
    assert_eq!((decoder.counts().of(Refusal::UnknownTemplate), decoder.waiting_octets()), (2, 0));
    // A set shorter than its header is invalid.
    for length in 1..4 {
        let cut = [&300u16.to_be_bytes()[..], &[0, length], &[1; 20]].concat();
        all(&mut decoder, &ipfix(u32::from(length), &[cut]));
        assert_eq!(decoder.counts().of(Refusal::BadLength), u64::from(length));
    }
}

#[test]
fn counters_on_leaving_count_where_none_came() {
    let fields = [&SHORT[..], &[(0, 24, 4), (0, 23, 4)]].concat();
    let records =
        [[0, 0, 6, 600], [5, 500, 6, 600]].map(|[a, b, c, d]| row(&fields, &[0x0a00_0001, 0x0a00_0002, a, b, c, d]));
    let read = all(&mut Decoder::default(), &ipfix(0, &[template(300, &fields), set(300, &records.concat())]));
    let sent: Vec<_> = read.flows.iter().map(|(flow, _)| (flow.sent[0].packets, flow.sent[0].octets)).collect();
    assert_eq!(sent, [(6, 600), (5, 500)]);
    let procera = [(0, 8, 4), (0, 12, 4), (15_397, 3, 8), (15_397, 4, 8)];
    let record = row(&procera, &[0x0a00_0001, 0x0a00_0002, 7000, 300]);
    let read = all(&mut Decoder::default(), &ipfix(0, &[template(300, &procera), set(300, &record)]));
    assert_eq!(read.flows[0].0.sent.map(|sent| sent.octets), [300, 7000]);
}

#[test]
fn what_was_left_out_is_named() {
    let mut decoder = Decoder::default();
    let fields = [&SHORT[..], &[(0, 206, 1), (9, 12_232, 2), (0, 210, 1), (29_305, 10, 4)]].concat();
    let record = row(&fields, &[0x0a00_0001, 0x0a00_0002, 1, 100, 1, 2, 0, 4]);
    all(&mut decoder, &ipfix(0, &[template(300, &fields), set(300, &[record.clone(), record].concat())]));
    // The decoder keeps the counts of left-out elements of a template that it has forgotten.
    all(&mut decoder, &ipfix(2, &[template(300, &SHORT)]));
    let names: Vec<(String, u64)> = decoder.left_out().into_iter().collect();
    let named = [("9.12232", 2), ("isMulticast", 2), ("reverse ingressInterface", 2)];
    assert_eq!(names, named.map(|(name, count)| (name.to_owned(), count)));
}

#[test]
fn a_set_that_breaks_off_has_its_whole_records() {
    let mut decoder = Decoder::default();
    let data = ipfix(0, &[template(300, &SHORT), set(300, &[short(1, 100), short(2, 200)].concat())]);
    assert_eq!(all(&mut decoder, &data[..data.len() - 3]).flows.len(), 1);
    assert_eq!(decoder.counts().of(Refusal::Truncated), 2, "the message, and its last set");
}

#[test]
fn flags_of_yaf_are_joined_and_absurd_counts_refused() {
    let fields = [&SHORT[..], &[(6871, 14, 1), (6871, 15, 1), (6871, 16_398, 1), (6871, 16_399, 1)]].concat();
    let record = row(&fields, &[0x0a00_0001, 0x0a00_0002, 1, 100, 2, 0x18, 0x12, 1]);
    let read = all(&mut Decoder::default(), &ipfix(0, &[template(300, &fields), set(300, &record)]));
    assert_eq!(read.flows[0].0.sent.map(|sent| sent.tcp_flags), [0x1a, 0x13]);
    let mut decoder = Decoder::default();
    let mut record = v5_record(6, [1, 2], UPTIME, UPTIME);
    record[16..24].copy_from_slice(&words(&[1, 4_000_000_000]));
    assert_eq!(all(&mut decoder, &v5(0, UPTIME, 0, &[record])).flows.len(), 0);
    assert_eq!(decoder.counts().of(Refusal::Absurd), 1);
    let mut records = [1, 2].map(|_| v5_record(6, [1, 2], UPTIME, UPTIME));
    records[0][16..24].copy_from_slice(&words(&[4_009_754_625, 40]));
    records[1][16..24].copy_from_slice(&words(&[40, 40]));
    assert_eq!(all(&mut decoder, &v5(1, UPTIME, 1, &records)).flows.len(), 1);
    assert_eq!(decoder.counts().of(Refusal::Absurd), 2);
}

#[test]
fn a_sampling_rate_that_no_link_could_carry_is_absurd() {
    let fields = [&SHORT[..], &[(0, 34, 4)]].concat();
    let records: Vec<u8> = [1 << 12, 1 << 24]
        .iter()
        .flat_map(|rate| row(&fields, &[0x0a00_0001, 0x0a00_0002, 1 << 20, 1 << 30, *rate]))
        .collect();
    let mut decoder = Decoder::default();
    let read = all(&mut decoder, &ipfix(0, &[template(300, &fields), set(300, &records)]));
    assert_eq!(read.flows.iter().map(|(record, _)| record.sampling).collect::<Vec<_>>(), [Some(1 << 12)]);
    assert_eq!(decoder.counts().of(Refusal::Absurd), 1);
    let sample = |rate, length| {
        words(&[2, 3, rate, 9000, 2, 5, 6, 1, 3, 32, length, 17, 0x0a00_0001, 0x0a00_0002, 53, 999, 0, 0])
    };
    let data = sflow(1, 1000, &[(1, sample(u32::MAX, 1500)), (1, sample(u32::MAX, 1 << 19))]);
    assert_eq!(all(&mut decoder, &data).flows.len(), 1);
    assert_eq!(decoder.counts().of(Refusal::Absurd), 2);
}

#[test]
fn stations_before_the_router_take_precedence_and_zeros_say_nothing() {
    let macs = [(0, 56, 6), (0, 57, 6), (0, 80, 6), (0, 81, 6)];
    let read = |order: [usize; 4], values: [u64; 4]| {
        let fields = [&SHORT[..], &order.map(|at| macs[at])].concat();
        let values = [&[0x0a00_0001, 0x0a00_0002, 1, 100][..], &order.map(|at| values[at])].concat();
        let data = ipfix(0, &[template(300, &fields), set(300, &row(&fields, &values))]);
        let route = all(&mut Decoder::default(), &data).flows[0].1;
        route.map(|route| route.macs.map(|mac| mac[5]))
    };
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]] {
        assert_eq!(read(order, [56, 57, 80, 81]), Some([56, 80]), "{order:?}");
        assert_eq!(read(order, [0, 57, 0, 81]), Some([81, 57]), "{order:?}");
        assert_eq!(read(order, [56, 0, 80, 0]), Some([56, 80]), "{order:?}");
        assert_eq!(read(order, [0; 4]), None);
    }
}

#[test]
fn an_icmp_type_of_zero_is_an_echo_reply() {
    let fields = [&SHORT[..], &[(0, 4, 1), (0, 7, 2), (0, 11, 2), (0, 176, 1), (0, 177, 1)]].concat();
    let read = |values: [u64; 2]| {
        let values = [&[0x0a00_0001, 0x0a00_0002, 1, 100, 1, 0, 17_549][..], &values].concat();
        let data = ipfix(0, &[template(300, &fields), set(300, &row(&fields, &values))]);
        all(&mut Decoder::default(), &data).flows[0].0.ports
    };
    // The ICMP identifier, which an ASA exports as the port, is not read as the type.
    assert_eq!(read([0, 0]), [0, 0]);
    assert_eq!(read([3, 1]), [0, 0x301]);
}

#[test]
fn a_datagram_that_comes_twice_is_stored_once() {
    let mut decoder = Decoder::default();
    let data: Vec<Vec<u8>> =
        (0..5).map(|number| v5(number, UPTIME, 0, &[v5_record(6, [1, 2], UPTIME, UPTIME)])).collect();
    let came = [0, 1, 1, 2, 0, 4, 3, 4];
    let records: usize = came.iter().map(|&at| all(&mut decoder, &data[at]).flows.len()).sum();
    let counts = decoder.counts();
    assert_eq!((records, counts.of(Refusal::Repeated)), (5, 3));
    assert_eq!((counts.losses.repeated, counts.losses.lost), (3, 0));
}

#[test]
fn a_copy_that_comes_long_after_is_stored_once() {
    for late in [70_usize, 3000] {
        let mut decoder = Decoder::default();
        feed(&mut decoder, &ipfix(0, &[template(300, &SHORT)]));
        let data = |at: usize| ipfix(at as u32, &[set(300, &short(1, 100 + at as u64))]);
        let mut records = 0;
        for at in 0..3500 + late {
            let (first, copy) = ((at < 3500).then_some(at), at.checked_sub(late));
            let both = first.into_iter().chain(copy);
            records += both.map(|at| feed(&mut decoder, &data(at)).len()).sum::<usize>();
        }
        let counts = decoder.counts();
        assert_eq!((records, counts.of(Refusal::Repeated)), (3500, 3500), "{late}");
        assert_eq!((counts.losses.lost, counts.losses.restarts), (0, 0), "{late}");
    }
}

#[test]
fn the_newer_of_two_saved_states_holds() {
    let saved = |ms: i64, fields: &[(u32, u16, u16)]| {
        let mut decoder = Decoder::default();
        feed_at(&mut decoder, HOME, ms, &ipfix(0, &[template(300, fields)]));
        decoder.save()
    };
    let (old, new) = (saved(NOW_MS, &SHORT), saved(NOW_MS + 1000, &TURNED));
    for order in [[&old, &new], [&new, &old]] {
        let mut decoder = Decoder::default();
        order.iter().for_each(|saved| decoder.restore(saved).unwrap());
        let records = feed_at(&mut decoder, HOME, NOW_MS + 2000, &ipfix(0, &[set(300, &short(5000, 5))]));
        assert_eq!(plain(records)[0].sent[0].packets, 5);
    }
}

#[test]
fn events_of_translation_are_handed_over() {
    let mut decoder = Decoder::default();
    let fields = elements(
        0,
        [(8, 4), (225, 4), (7, 2), (227, 2), (234, 4), (4, 1), (230, 1), (323, 8), (361, 2), (362, 2), (371, 4)],
    );
    let user = u64::from(u32::from_be_bytes(*b"anna"));
    let values = [0x0a00_0001, 0xc633_6401, 4000, 5000, 9, 17, 4, NOW_MS as u64 - 7, 1024, 2047, user];
    let read = all(&mut decoder, &ipfix(0, &[template(300, &fields), set(300, &row(&fields, &values))]));
    let none = Address::default();
    let expected = NatEvent {
        nat_event: 4,
        time_ms: NOW_MS - 7,
        protocol: 17,
        addresses: [mapped([10, 0, 0, 1]), none],
        translated: [mapped([198, 51, 100, 1]), none],
        ports: [4000, 0],
        translated_ports: [5000, 0],
        port_block: [1024, 2047],
        vrf: [9, 0],
        ..NatEvent::default()
    };
    assert_eq!(read.events, [(expected, b"anna".to_vec())]);
    assert_eq!((decoder.counts().events, decoder.counts().records), (1, 0));
}

#[test]
fn the_end_of_a_connection_is_an_event_and_a_flow() {
    let mut decoder = Decoder::default();
    let fields = [(0, 8, 4), (0, 12, 4), (0, 225, 4), (0, 233, 1), (0, 323, 8), (0, 231, 4), (0, 232, 4)];
    let ends = |event: u64, octets: u64| {
        row(&fields, &[0x0a00_0001, 0x0a00_0002, 0xc633_6401, event, NOW_MS as u64, octets, octets])
    };
    let rows = [ends(1, 0), ends(5, 40), ends(2, 900), ends(3, 0)].concat();
    let read = all(&mut decoder, &ipfix(0, &[template(300, &fields), set(300, &rows)]));
    let events: Vec<u8> = read.events.iter().map(|(event, _)| event.firewall_event).collect();
    // The update of a connection is a flow only, not an event.
    assert_eq!(events, [1, 2, 3]);
    assert!(decoder.counts().records >= 1);
    assert_eq!(decoder.counts().events, 3);
}

#[test]
fn the_clock_of_events_is_ours() {
    let mut decoder = Decoder::default();
    let fields = [(0, 8, 4), (0, 225, 4), (0, 230, 1), (0, 323, 8)];
    let at = |ms: i64| row(&fields, &[0x0a00_0001, 0xc633_6401, 4, ms as u64]);
    let year = 365 * 86_400_000;
    // An event ten seconds before the export, by a clock that is a year behind; and an impossible time.
    let mut message =
        ipfix(0, &[template(300, &fields), set(300, &[at(NOW_MS - year - 10_000), at(NOW_MS + year)].concat())]);
    message[4..8].copy_from_slice(&(((NOW_MS - year) / 1000) as u32).to_be_bytes());
    let times: Vec<i64> = all(&mut decoder, &message).events.iter().map(|(event, _)| event.time_ms - NOW_MS).collect();
    assert!(times.iter().zip([-10_000, 0]).all(|(is, should)| (is - should).abs() <= 1000), "{times:?}");
    assert_eq!(decoder.counts().of(Refusal::TimeClamped), 1);
}

#[test]
fn vrfs_are_named() {
    let mut decoder = Decoder::default();
    let options = options_template(401, &[(0, 234, 4)], &[(0, 236, 8)]);
    let read = all(&mut decoder, &ipfix(0, &[options, set(401, b"\0\0\0\x07customer")]));
    assert_eq!(read.names, [(7, "customer".to_owned(), String::new())]);
}

#[test]
fn interfaces_are_named_and_counted() {
    let mut decoder = Decoder::default();
    let options = options_template(400, &[(0, 10, 4)], &[(0, 82, 8), (0, 83, 8)]);
    let option = [&[0, 0, 0, 5][..], b"eth5\0\0\0\0uplink\0\0"].concat();
    let read = all(&mut decoder, &ipfix(0, &[options, set(400, &option)]));
    assert_eq!(read.names, [(5, "eth5".to_owned(), "uplink".to_owned())]);
    let interface = words(&[5, 6, 0, 1_000_000, 1, 3, 1, 2, 10, 20, 30, 4, 5, 6, 0, 77, 1, 2, 3, 8, 9, 0]);
    let sample = [words(&[1, 5, 1, 1, interface.len() as u32]), interface].concat();
    let read = all(&mut decoder, &sflow(1, 1000, &[(2, sample)]));
    let expected = InterfaceCounters {
        index: 5,
        speed: 1_000_000,
        status: 3,
        octets: [(1 << 32) + 2, 77],
        packets: [60, 6],
        discards: [4, 8],
        errors: [5, 9],
    };
    assert_eq!(read.counters, [expected]);
}

#[test]
fn what_a_router_says_is_read_when_it_is_asked_for() {
    let said = elements(
        0,
        [(16, 4), (17, 4), (15, 4), (9, 1), (13, 1), (234, 4), (61, 1), (136, 1), (89, 1), (70, 3), (52, 1), (56, 6)],
    );
    let fields = [&[(0, 371, 65_535)][..], &SHORT, &said].concat();
    let values = [64_500, 64_501, 0xc000_0209, 24, 16, 77, 1, 3, 64, 0x12345f, 63, 0x0200_0000_0001];
    let record = [b"\x03abc".to_vec(), short(1, 100), row(&said, &values)].concat();
    let read = all(
        &mut Decoder::default(),
        &ipfix(0, &[template(300, &fields), set(300, &[record.clone(), record].concat())]),
    );
    let expected = Route {
        autonomous_systems: [64_500, 64_501],
        next_hop: mapped([192, 0, 2, 9]),
        prefix_lengths: [24, 16],
        vrf: [77, 0],
        direction: Some(1),
        end_reason: 3,
        forwarding_status: 64,
        mpls_top_label: 0x12345,
        ttl: [63, 0],
        macs: [[2, 0, 0, 0, 0, 1], [0; 6]],
        ..Route::default()
    };
    assert_eq!(read.flows[1].1, Some(expected));
    let read = all(&mut Decoder::default(), &ipfix(0, &[template(300, &SHORT), set(300, &short(1, 100))]));
    assert_eq!(read.flows[0].1, None, "nothing was said");
    let router = words(&[1002, 16, 1, 0xc000_0209, 24, 16]);
    let gateway = words(&[1003, 36, 1, 0xc000_020a, 64_499, 64_500, 64_502, 1, 2, 2, 64_503]);
    let gateway = [gateway, words(&[64_504])].concat();
    let gateway = [words(&[1003, 40]), gateway[8..].to_vec()].concat();
    let mut sample = words(&[1, 3, 1000, 9000, 0, 5, 6, 3]);
    sample.extend([router, gateway].concat());
    sample.extend(raw(&tcp_frame(), 0));
    let read = all(&mut Decoder::default(), &sflow(1, 1000, &[(1, sample)]));
    let route = read.flows[0].1.unwrap();
    assert_eq!((route.autonomous_systems, route.adjacent), ([64_500, 64_504], [64_502, 64_503]));
    assert_eq!((route.next_hop, route.bgp_next_hop), (mapped([192, 0, 2, 9]), mapped([192, 0, 2, 10])));
    assert_eq!((route.prefix_lengths, route.macs[1]), ([24, 16], [2, 0, 0, 0, 0, 1]));
}

#[test]
fn sources_of_an_agent_count_their_samples_apart() {
    let mut decoder = Decoder::default();
    let sample = |number: u32, source: u32| {
        let sample = words(&[number, source, 1000, 9000, 0, 5, 7, 1]);
        (1, [sample, raw(&tcp_frame(), 0)].concat())
    };
    let samples = [sample(1, 3), sample(70_000, 4), sample(2, 3), sample(70_001, 4)];
    assert_eq!(all(&mut decoder, &sflow(1, 1000, &samples)).flows.len(), 4);
    assert_eq!(decoder.counts().samples, Default::default());
    all(&mut decoder, &sflow(2, 2000, &[sample(5, 3), sample(70_002, 4)]));
    assert_eq!(decoder.counts().samples.lost, 2);
}

#[test]
fn a_rate_follows_the_pool_where_the_agent_drops_samples() {
    let mut decoder = Decoder::default();
    let mut rates = |from: u32, drops_each: u32| -> Vec<Option<u32>> {
        let numbers = (from..from + 1200).map(|number| {
            let counts = [number, 3, 1000, number * (1000 + 1000 * drops_each), number * drops_each, 5, 7, 1];
            let sample = [words(&counts), raw(&tcp_frame(), 0)].concat();
            let ms = NOW_MS + i64::from(number) * 20;
            feed_at(&mut decoder, HOME, ms, &sflow(number, 1000 + number * 20, &[(1, sample)]))
        });
        plain(numbers.flatten().collect()).iter().map(|record| record.sampling).collect()
    };
    let with_drops = rates(1, 1);
    assert_eq!((with_drops[0], with_drops[1199]), (Some(1000), Some(2000)));
    // The decoder ignores a counter of drops that decreased.
    let without = rates(2000, 0);
    assert_eq!(without[1199], Some(1000));
}

#[test]
fn ports_of_one_protocol_alone_are_ports() {
    let fields = [&SHORT[..], &[(0, 4, 1), (0, 180, 2), (0, 181, 2), (0, 182, 2), (0, 183, 2)]].concat();
    let udp = row(&fields, &[0x0a00_0001, 0x0a00_0002, 1, 100, 17, 4000, 53, 0, 0]);
    let tcp = row(&fields, &[0x0a00_0001, 0x0a00_0002, 1, 100, 6, 0, 0, 5000, 443]);
    let read = all(&mut Decoder::default(), &ipfix(0, &[template(300, &fields), set(300, &[udp, tcp].concat())]));
    assert_eq!([read.flows[0].0.ports, read.flows[1].0.ports], [[4000, 53], [5000, 443]]);
}

#[test]
fn a_boot_that_an_option_states_is_what_uptimes_count_from() {
    let mut decoder = Decoder::default();
    let fields = [&SHORT[..], &[(0, 22, 4), (0, 21, 4)]].concat();
    let flow = row(&fields, &[0x0a00_0001, 0x0a00_0002, 1, 100, 5000, 65_000]);
    let boot = row(&[(0, 144, 4), (0, 160, 8)], &[1, NOW_MS as u64 - 70_000]);
    let options = [options_template(400, &[(0, 144, 4)], &[(0, 160, 8)]), set(400, &boot)];
    all(&mut decoder, &ipfix(0, &options));
    let read = all(&mut decoder, &ipfix(1, &[template(300, &fields), set(300, &flow)]));
    assert_eq!((read.flows[0].0.first_ms - NOW_MS, read.flows[0].0.last_ms - NOW_MS), (-65_000, -5000));
}

#[test]
fn a_header_that_was_cut_has_the_octets_of_its_ip_whatever_was_stripped() {
    // 54 octets of an IP packet of 1,344 octets were captured, and the agent declares the rest as stripped.
    let mut frame = tcp_frame()[..12].to_vec();
    let whole = tcp_frame();
    frame.extend(&whole[16..]);
    frame[16..18].copy_from_slice(&1344u16.to_be_bytes());
    let padded = frame.len().next_multiple_of(4);
    let mut sample = words(&[1, 3, 1000, 9000, 0, 5, 7, 1, 1, padded as u32 + 16, 1, 1362, 1308, frame.len() as u32]);
    sample.extend(&frame);
    sample.resize(sample.len() + padded - frame.len(), 0);
    let read = all(&mut Decoder::default(), &sflow(1, 1000, &[(1, sample)]));
    assert_eq!(read.flows[0].0.sent[0].octets, 1344);
}

#[test]
fn structured_data_is_read_over() {
    // basicList, subTemplateList, subTemplateMultiList (RFC 6313), with addresses and counters within.
    let fields = [(0, 291, 65_535), (0, 8, 4), (0, 293, 65_535), (0, 12, 4), (0, 292, 65_535), (0, 2, 4), (0, 1, 4)];
    let list = [&[255, 0, 8, 0][..], &shorts(&[8, 4]), &[9, 9, 9]].concat();
    let record = [list.clone(), vec![10, 0, 0, 1], vec![3, 255, 1, 0], vec![10, 0, 0, 2], vec![0], words(&[7, 700])];
    let record = record.concat();
    let read = all(
        &mut Decoder::default(),
        &ipfix(0, &[template(300, &fields), set(300, &[record.clone(), record].concat())]),
    );
    let sent = SentCounts { packets: 7, octets: 700, ..SentCounts::default() };
    assert_eq!(read.flows.len(), 2);
    assert_eq!((read.flows[1].0.sent[0], read.flows[1].0.addresses[0]), (sent, mapped([10, 0, 0, 1])));
}

#[test]
fn an_agent_of_ipv6_and_frames_of_frame_relay_are_read() {
    let packet = t::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 17, &t::udp((53, 999), &[0; 8]));
    // Address, control, and the protocol identifier for IP (RFC 2427).
    let frame = [&[0x18, 0x41, 0x03, 0xcc][..], &packet].concat();
    let padded = frame.len().next_multiple_of(4);
    let mut sample =
        words(&[1, 3, 1000, 9000, 0, 5, 7, 1, 1, padded as u32 + 16, 5, frame.len() as u32, 0, frame.len() as u32]);
    sample.extend(&frame);
    sample.resize(sample.len() + padded - frame.len(), 0);
    let agent = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    let mut data = [words(&[5, 2]), agent.to_vec(), words(&[0, 1, 1000, 1, 1, sample.len() as u32])].concat();
    data.extend(&sample);
    let mut decoder = Decoder::default();
    let read = all(&mut decoder, &data);
    let flow = read.flows[0].0;
    assert_eq!((flow.addresses[0], flow.ports, flow.protocol), (mapped([10, 0, 0, 1]), [53, 999], 17));
    assert_eq!(decoder.exporters().next().unwrap().info.speaker(), &agent);
}

#[test]
fn a_rate_may_be_told_as_a_probability() {
    let fields = [(0, 302, 4), (0, 304, 2), (0, 311, 4)];
    let flows = [&SHORT[..], &[(0, 302, 4)]].concat();
    let rate = |probability: f32| {
        let mut decoder = Decoder::default();
        let option = row(&fields, &[1, 4, u64::from(probability.to_bits())]);
        let flow = row(&flows, &[0x0a00_0001, 0x0a00_0002, 1, 100, 1]);
        all(&mut decoder, &ipfix(0, &[options_template(400, &fields[..1], &fields[1..]), set(400, &option)]));
        let read = all(&mut decoder, &ipfix(0, &[template(300, &flows), set(300, &flow)]));
        (read.flows[0].0.sampling, decoder.exporters().next().unwrap().sampling_state.name())
    };
    assert_eq!(rate(0.001).0, Some(1000));
    assert_eq!(rate(0.25).0, Some(4));
    assert_eq!(rate(1.0).0, Some(1));
    for no_probability in [0.0, -0.5, 1.5, f32::NAN] {
        assert_eq!(rate(no_probability).0, None, "{no_probability}");
    }
    // A probability in eight octets.
    let wide = [(0, 302, 4), (0, 304, 2), (0, 311, 8)];
    let mut decoder = Decoder::default();
    let option = row(&wide, &[1, 4, 0.01f64.to_bits()]);
    let flow = row(&flows, &[0x0a00_0001, 0x0a00_0002, 1, 100, 1]);
    all(&mut decoder, &ipfix(0, &[options_template(400, &wide[..1], &wide[1..]), set(400, &option)]));
    let read = all(&mut decoder, &ipfix(0, &[template(300, &flows), set(300, &flow)]));
    assert_eq!(read.flows[0].0.sampling, Some(100));
}

#[test]
fn neighbouring_systems_are_kept_with_their_ends() {
    let fields = [&SHORT[..], &[(0, 128, 4), (0, 129, 4)]].concat();
    let record = row(&fields, &[0x0a00_0001, 0x0a00_0002, 1, 100, 64_502, 64_503]);
    let read = all(&mut Decoder::default(), &ipfix(0, &[template(300, &fields), set(300, &record)]));
    // bgpNextAdjacentAsNumber belongs to the destination, bgpPrevAdjacentAsNumber to the source.
    assert_eq!(read.flows[0].1.unwrap().adjacent, [64_503, 64_502]);
}

#[test]
fn names_and_applications_of_ntops_elements_and_locators_are_read() {
    let named = |fields: &[(u32, u16, u16)], octets: &[u8]| {
        let fields = [&SHORT[..], fields].concat();
        let record = [short(1, 100), octets.to_vec()].concat();
        let read = feed(&mut Decoder::default(), &ipfix(0, &[template(300, &fields), set(300, &record)]));
        (read[0].0.application_id, read[0].1.clone())
    };
    // applicationId (RFC 6759): the engine of a private enterprise, ntop's enterprise number, and nDPI's application
    // number.
    let tag = [(0, 95, 9)];
    assert_eq!(named(&tag, &[20, 0, 0, 0x8b, 0x30, 0, 0, 0, 126]).0, 126);
    assert_eq!(named(&tag, &[20, 0, 0, 0, 9, 0, 0, 0, 126]).0, 0, "of another enterprise");
    assert_eq!(named(&tag, &[3, 0, 0, 0x8b, 0x30, 0, 0, 0, 126]).0, 0, "of another engine");
    // HTTP_URL, of variable length.
    assert_eq!(named(&[(35_632, 180, 65_535)], b"\x14http://example.org/x").1, "example.org");
}

#[test]
fn a_host_is_what_stands_between_scheme_and_path() {
    use crate::collect::element::values::host;
    for (locator, name) in [
        ("http://example.org:80/path", "example.org"),
        ("example.org/path://x", "x"),
        ("example.org/path", "example.org"),
        ("https://example.org", "example.org"),
        ("/path", ""),
    ] {
        assert_eq!(host(locator.as_bytes()), name.as_bytes(), "{locator}");
    }
}

#[test]
fn a_length_of_three_octets_that_breaks_off_is_no_length_of_one() {
    let fields = [&SHORT[..], &[(0, 371, 65_535)]].concat();
    let mut decoder = Decoder::default();
    // 255 means that two octets of length follow, but there is only one.
    let record = [short(1, 100), vec![255, 0]].concat();
    assert_eq!(all(&mut decoder, &ipfix(0, &[template(300, &fields), set(300, &record)])).flows.len(), 0);
    let record = [short(1, 100), vec![255, 0, 2, b'a', b'b']].concat();
    assert_eq!(all(&mut decoder, &ipfix(1, &[set(300, &record)])).flows.len(), 1);
}

#[test]
fn an_address_of_another_length_is_not_read_as_one() {
    let fields = [(0, 8, 65_535), (0, 12, 4), (0, 2, 4), (0, 1, 4)];
    let rest = row(&SHORT[1..], &[0x0a00_0002, 1, 100]);
    let mut decoder = Decoder::default();
    let whole = [vec![4, 10, 0, 0, 1], rest.clone()].concat();
    let short = [vec![3, 10, 0, 0], rest].concat();
    let read = all(&mut decoder, &ipfix(0, &[template(300, &fields), set(300, &[whole, short].concat())]));
    let sources: Vec<_> = read.flows.iter().map(|(flow, _)| flow.addresses[0]).collect();
    assert_eq!(sources[0], mapped([10, 0, 0, 1]));
    assert!(sources[1..].iter().all(|source| *source == mapped([0, 0, 0, 0])), "{sources:?}");
}

#[test]
fn octets_of_the_answer_alone_make_a_flow_of_two_ways() {
    // Counters before and after a middlebox, in a template of ntop that has the answer's octets but not its packets.
    let fields = [&SHORT[..], &[(29_305, 1, 4), (0, 23, 4), (0, 24, 4), (35_632, 123, 4)]].concat();
    let record = row(&fields, &[0x0a00_0001, 0x0a00_0002, 5, 500, 700, 900, 9, 0]);
    let read = all(&mut Decoder::default(), &ipfix(0, &[template(300, &fields), set(300, &record)]));
    let sent = read.flows[0].0.sent;
    assert_eq!((sent[0].octets, sent[1].octets, sent[1].packets), (500, 700, 0));
}
