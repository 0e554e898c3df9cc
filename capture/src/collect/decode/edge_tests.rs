//! Rare forms of messages, and the bounds of the stored state.

use super::tests::*;
use super::vendor_tests::{SHORT, all, row, short};
use super::*;
use crate::collect::element::template::LeftOut;

#[test]
fn an_empty_set_is_passed_over() {
    let mut decoder = Decoder::default();
    let sets = [template(300, &SHORT), set(300, &[]), set(300, &short(5, 500))];
    assert_eq!(all(&mut decoder, &ipfix(0, &sets)).flows.len(), 1);
    assert_eq!(decoder.counts().causes, [0; Refusal::ALL.len()]);
}

#[test]
fn a_set_shorter_than_its_own_header_ends_the_message_with_a_cause() {
    for length in 0..4 {
        let mut decoder = Decoder::default();
        let bad = shorts(&[300, length, 7, 7]);
        let read = all(&mut decoder, &ipfix(0, &[template(300, &SHORT), set(300, &short(5, 500)), bad]));
        assert_eq!((read.flows.len(), decoder.counts().of(Refusal::BadLength)), (1, 1), "{length}");
    }
}

#[test]
fn sources_of_an_agent_are_a_kind_and_a_number() {
    // An interface and a VLAN of the same number, and another interface.
    let kinds = [(0, 3), (1, 3), (0, 4)];
    let compact = |number: u32, (kind, index): (u32, u32)| {
        (1_u32, [words(&[number, kind << 24 | index, 1000, 9000, 0, 5, 7, 1]), raw(&tcp_frame(), 0)].concat())
    };
    let expanded = |number: u32, (kind, index): (u32, u32)| {
        (3_u32, [words(&[number, kind, index, 1000, 9000, 0, 0, 5, 0, 7, 1]), raw(&tcp_frame(), 0)].concat())
    };
    type Sample<'a> = &'a dyn Fn(u32, (u32, u32)) -> (u32, Vec<u8>);
    for sample in [&compact as Sample<'_>, &expanded] {
        let mut decoder = Decoder::default();
        for round in 1..=3 {
            let samples = kinds.map(|kind| sample(round + 100_000 * (kind.0 * 10 + kind.1), kind));
            assert_eq!(all(&mut decoder, &sflow(round, 1000 * round, &samples)).flows.len(), 3);
        }
        assert_eq!(decoder.counts().samples, Default::default());
    }
}

#[test]
fn an_interval_between_packets_may_stand_alone() {
    let mut decoder = Decoder::default();
    let options = options_template(400, &[(0, 149, 4)], &[(0, 305, 4)]);
    all(&mut decoder, &ipfix(0, &[options, set(400, &words(&[7, 100]))]));
    let read = all(&mut decoder, &ipfix(0, &[template(300, &SHORT), set(300, &short(1, 100))]));
    assert_eq!(read.flows[0].0.sampling, Some(100));
}

#[test]
fn a_rate_of_v9_may_be_of_a_template() {
    let mut decoder = Decoder::default();
    let options = set(1, &shorts(&[400, 4, 8, 5, 4, 34, 4, 36, 4]));
    let templates = [v9_template(256, &V9_FIELDS), v9_template(257, &V9_FIELDS), options];
    feed(&mut decoder, &v9(0, &templates));
    feed(&mut decoder, &v9(1, &[set(400, &words(&[256, 50, 1]))]));
    let rates = [256, 257].map(|id| {
        let record = set(id, &v9_record(UPTIME, UPTIME));
        plain(feed(&mut decoder, &v9(u32::from(id), &[record])))[0].sampling
    });
    assert_eq!(rates, [Some(50), None]);
}

#[test]
fn a_rate_that_is_known_stays_known_when_another_template_announces_sampling() {
    let state = |decoder: &Decoder| decoder.exporters().next().unwrap().sampling_state.name();
    let again = options_template(401, &[(0, 149, 4)], &[(0, 34, 4)]);
    // A sampling rate; and a selection method that has none.
    for (fields, values, name) in
        [([(0, 34, 4), (0, 304, 2)], [100, 0], ""), ([(0, 305, 4), (0, 304, 2)], [0, 5], "not_understood")]
    {
        let mut decoder = Decoder::default();
        let option = [&words(&[7])[..], &row(&fields, &values)].concat();
        let options = options_template(400, &[(0, 149, 4)], &fields);
        all(&mut decoder, &ipfix(0, std::slice::from_ref(&options)));
        assert_eq!(state(&decoder), "expected");
        all(&mut decoder, &ipfix(0, &[set(400, &option)]));
        assert_eq!(state(&decoder), name);
        all(&mut decoder, &ipfix(1, std::slice::from_ref(&again)));
        assert_eq!(state(&decoder), name);
    }
}

#[test]
fn elements_left_out_beyond_the_bound_are_counted_together() {
    let mut left_out = LeftOut::default();
    (0..1030).for_each(|id| left_out.count((9999, id), 2));
    let named = left_out.named();
    assert_eq!((named.len(), named["other"]), (1025, 12));
}

#[test]
fn of_too_many_exporters_those_that_sent_once_go_in_turn() {
    let mut decoder = Decoder::new(DecodeLimits { exporters: 64, ..DecodeLimits::default() });
    let mut hear = |number: u8, times: u32| {
        let mut address = HOME;
        address[14] = number;
        for at in 0..times {
            feed_at(&mut decoder, address, NOW_MS + i64::from(number), &v5(at, UPTIME, 0, &[]));
        }
    };
    // 32 exporters that send often, 32 that sent once; then two more.
    (0..32).for_each(|number| hear(number, 9));
    (32..64).for_each(|number| hear(number, 1));
    hear(100, 1);
    hear(101, 1);
    let known = |number: u8| decoder.exporters().any(|known| known.info.address[14] == number);
    assert_eq!([0, 1, 31, 32, 33, 100, 101].map(known), [true, true, true, false, false, true, true]);
}

#[test]
fn a_record_may_end_after_the_whole_second_of_its_export() {
    // The header states whole seconds, the record milliseconds, as softflowd on the same host does.
    let fields = [&SHORT[..], &[(0, 152, 8), (0, 153, 8)]].concat();
    for (after, last, clamped) in [(999, 999, 0), (60_000, 60_000, 0), (60_001, 0, 1)] {
        let mut decoder = Decoder::default();
        let times = [NOW_MS - 500, NOW_MS + after].map(|ms| ms as u64);
        let record = row(&fields, &[0x0a00_0001, 0x0a00_0002, 1, 100, times[0], times[1]]);
        let read = all(&mut decoder, &ipfix(0, &[template(300, &fields), set(300, &record)]));
        assert_eq!(read.flows[0].0.last_ms - NOW_MS, last);
        assert_eq!(decoder.counts().of(Refusal::TimeClamped), clamped, "{after}");
    }
}

#[test]
fn a_record_of_counters_that_breaks_off_has_a_cause() {
    for (cut, bad) in [(0, 0), (4, 1), (20, 1)] {
        let mut decoder = Decoder::default();
        let sample = words(&[&[1, 5, 2, 2, 88][..], &[7; 22], &[2, 16, 7, 7, 7, 7]].concat());
        all(&mut decoder, &sflow(1, 1000, &[(2, sample[..sample.len() - cut].to_vec())]));
        assert_eq!(decoder.counts().of(Refusal::BadLength), bad, "{cut}");
    }
}

#[test]
fn an_interface_of_all_ones_is_unknown() {
    for (unknown, said) in [(u32::MAX, 0), (0x3fff_ffff, 0), (0x3fff_fffe, 0x3fff_fffe)] {
        let head = [1, 0, 3, 1000, 9000, 0, 0, unknown, 0, 7, 1];
        let expanded = [words(&head), raw(&tcp_frame(), 0)].concat();
        let flow = all(&mut Decoder::default(), &sflow(1, 1000, &[(3, expanded)])).flows[0].0;
        assert_eq!((flow.input_interface, flow.output_interface), (said, 7), "{unknown:x}");
    }
}
