//! Running totals and repeated events: no count is stored twice, and counts that are not stored have a
//! cause of refusal.

use super::tests::*;
use super::vendor_tests::{All, row};
use super::*;
use crate::collect::element::octets::mapped;

const FIELDS: [(u32, u16, u16); 7] =
    [(0, 8, 4), (0, 12, 4), (0, 86, 8), (0, 85, 8), (0, 152, 8), (0, 153, 8), (0, 136, 1)];
const ACTIVE: u64 = 2;
const ENDED: u64 = 1;

/// An exporter of running totals.
struct Totals {
    home: Session,
    number: u32,
    /// How far the host's clock is ahead of the exporter's, ms.
    host_ahead_ms: i64,
}

impl Totals {
    fn new(last: u8, decoder: &mut Decoder) -> Totals {
        let home = Session { port: 9, ..Session::from(mapped([192, 0, 2, last])) };
        Totals { home, number: 0, host_ahead_ms: 0 }.announced(decoder)
    }

    fn announced(mut self, decoder: &mut Decoder) -> Totals {
        self.send(decoder, NOW_MS, &[template(300, &FIELDS)], 0);
        self
    }

    /// Sends a message; returns the packets of its flows.
    fn send(&mut self, decoder: &mut Decoder, ms: i64, sets: &[Vec<u8>], records: u32) -> u64 {
        let mut data = ipfix(self.number, sets);
        data[4..8].copy_from_slice(&((ms / 1000) as u32).to_be_bytes());
        self.number += records;
        let mut read = All::default();
        decoder.datagram_to(self.home, (ms + self.host_ahead_ms) * 1_000_000, &data, &mut read);
        read.flows.iter().map(|(flow, _)| flow.sent[0].packets).sum()
    }

    /// Reports the totals of these flows, which all began at the same time; returns the packets that are new to the
    /// decoder.
    fn report(
        &mut self,
        decoder: &mut Decoder,
        flows: std::ops::Range<u64>,
        packets: u64,
        [began, now]: [i64; 2],
        reason: u64,
    ) -> u64 {
        let record = |flow| {
            let values = [flow, 7, packets, 100 * packets, (NOW_MS + began) as u64, (NOW_MS + now) as u64, reason];
            row(&FIELDS, &values)
        };
        let all: Vec<Vec<u8>> = flows.map(record).collect();
        let sent =
            all.chunks(60).map(|some| self.send(decoder, NOW_MS + now, &[set(300, &some.concat())], some.len() as u32));
        sent.sum()
    }
}

#[test]
fn an_exporter_of_many_flows_counts_each_once() {
    let mut decoder = Decoder::default();
    let mut exporter = Totals::new(1, &mut decoder);
    let packets: u64 =
        (1..=3).map(|at| exporter.report(&mut decoder, 0..70_020, 10 * at, [-5000, 1000 * at as i64], ACTIVE)).sum();
    assert_eq!((packets, decoder.counts().records), (70_020 * 30, 70_020 * 3));
}

#[test]
fn flows_of_another_exporter_push_none_out() {
    let mut decoder = Decoder::default();
    let (mut one, mut other) = (Totals::new(1, &mut decoder), Totals::new(2, &mut decoder));
    let mut packets = 0;
    for at in 1..=4 {
        packets += one.report(&mut decoder, 0..60, 1000 * at, [-5000, 1000 * at as i64], ACTIVE);
        other.report(&mut decoder, 66_000 * at..66_000 * (at + 1), 1, [-5000, 1000 * at as i64], ACTIVE);
    }
    assert_eq!(packets, 60 * 4000);
}

#[test]
fn what_an_earlier_run_may_have_counted_is_the_base_of_later_totals() {
    let mut decoder = Decoder::default();
    let mut exporter = Totals::new(1, &mut decoder);
    assert_eq!(exporter.report(&mut decoder, 0..60, 1000, [-5000, 1000], ACTIVE), 60_000);
    let mut restarted = Decoder::default();
    restarted.restore(&decoder.save()).unwrap();
    assert_eq!(exporter.report(&mut restarted, 0..60, 1100, [-5000, 3000], ACTIVE), 0);
    assert_eq!(restarted.counts().of(Refusal::MayBeRepeated), 60);
    assert_eq!(exporter.report(&mut restarted, 0..60, 1250, [-5000, 6000], ACTIVE), 60 * 150);
    assert_eq!(exporter.report(&mut restarted, 100..160, 7, [5000, 7000], ACTIVE), 60 * 7, "begun since");
    // An exporter that no run has received data from.
    let mut new = Totals::new(3, &mut restarted);
    assert_eq!(new.report(&mut restarted, 0..60, 1000, [-5000, 1000], ACTIVE), 60_000);
}

fn narrow(flows: usize, all_flows: usize) -> Decoder {
    Decoder::new(DecodeLimits { flows, all_flows, ..DecodeLimits::default() })
}

#[test]
fn totals_of_forgotten_flows_are_not_counted_again() {
    let mut decoder = narrow(200, 10_000);
    let mut exporter = Totals::new(1, &mut decoder);
    let first = exporter.report(&mut decoder, 0..1000, 10, [-5000, 1000], ACTIVE);
    let second = exporter.report(&mut decoder, 0..1000, 15, [-5000, 2000], ACTIVE);
    let counts = decoder.counts();
    let forgotten = counts.of(Refusal::TotalsForgotten);
    assert!(first + second <= 15_000, "{first} {second}");
    assert_eq!(counts.records + counts.of(Refusal::MayBeRepeated), 2000);
    assert!(counts.of(Refusal::MayBeRepeated) > 0 && forgotten >= 1700, "{forgotten}");
    let again = exporter.report(&mut decoder, 990..1000, 17, [-5000, 3000], ACTIVE);
    assert_eq!(again, 20, "from the base");
    assert_eq!(
        exporter.report(&mut decoder, 5000..5010, 4, [2500, 3000], ACTIVE),
        40,
        "begun later than all forgotten"
    );
}

#[test]
fn flows_that_ended_make_room_and_leave_no_doubt() {
    let mut decoder = narrow(200, 10_000);
    let mut exporter = Totals::new(1, &mut decoder);
    let packets: u64 =
        (0..20).map(|at| exporter.report(&mut decoder, 100 * at..100 * (at + 1), 10, [-5000, 1000], ENDED)).sum();
    assert_eq!(packets, 20_000);
    let counts = decoder.counts();
    assert_eq!((counts.of(Refusal::TotalsForgotten), counts.of(Refusal::MayBeRepeated)), (0, 0));
}

#[test]
fn where_too_many_are_kept_the_exporter_with_most_drops_some() {
    let mut decoder = narrow(1000, 1200);
    let (mut small, mut large) = (Totals::new(1, &mut decoder), Totals::new(2, &mut decoder));
    // Exporters that sent few datagrams would drop theirs first.
    (0..9).for_each(|_| _ = small.report(&mut decoder, 0..60, 10, [-5000, 1000], ACTIVE));
    let mut third = Totals::new(3, &mut decoder);
    (0..9).for_each(|_| _ = third.report(&mut decoder, 0..60, 10, [-5000, 1000], ACTIVE));
    large.report(&mut decoder, 0..900, 10, [-5000, 1000], ACTIVE);
    third.report(&mut decoder, 0..600, 10, [-5000, 1000], ACTIVE);
    assert_eq!(small.report(&mut decoder, 0..60, 25, [-5000, 2000], ACTIVE), 60 * 15);
    assert_eq!(third.report(&mut decoder, 0..600, 25, [-5000, 2000], ACTIVE), 600 * 15);
    assert!(decoder.counts().of(Refusal::TotalsForgotten) >= 400);
}

#[test]
fn a_total_that_comes_late_counts_nothing() {
    let mut decoder = Decoder::default();
    let mut exporter = Totals::new(1, &mut decoder);
    let sent = [(10, 1000), (30, 3000), (20, 2000), (40, 4000)];
    let packets: Vec<u64> =
        sent.iter().map(|&(packets, at)| exporter.report(&mut decoder, 0..1, packets, [-5000, at], ACTIVE)).collect();
    assert_eq!((packets, decoder.counts().of(Refusal::Repeated)), (vec![10, 20, 0, 10], 1));
}

#[test]
fn a_session_made_anew_carries_on() {
    for stream in [true, false] {
        let mut decoder = Decoder::default();
        let home = Session { port: 9, stream, ..Session::from(HOME) };
        let mut exporter = Totals { home, number: 0, host_ahead_ms: 0 }.announced(&mut decoder);
        exporter.report(&mut decoder, 0..60, 10, [-5000, 1000], ACTIVE);
        exporter.home.port = 10;
        if !stream {
            // A number so far ahead that the decoder cannot recognise the same session by it.
            exporter.number += 5000;
        }
        exporter = exporter.announced(&mut decoder);
        let more = if stream { 60 * 5 } else { 0 };
        assert_eq!(exporter.report(&mut decoder, 0..60, 15, [-5000, 2000], ACTIVE), more, "{stream}");
        assert_eq!(decoder.counts().of(Refusal::MayBeRepeated), if stream { 0 } else { 60 });
        assert_eq!(exporter.report(&mut decoder, 0..60, 20, [-5000, 3000], ACTIVE), 60 * 5);
    }
}

#[test]
fn totals_of_a_forgotten_exporter_are_not_counted_again() {
    let mut decoder = Decoder::new(DecodeLimits { exporters: 1, ..DecodeLimits::default() });
    let mut one = Totals::new(1, &mut decoder);
    assert_eq!(one.report(&mut decoder, 0..60, 10, [-5000, 1000], ACTIVE), 600);
    Totals::new(2, &mut decoder);
    one = one.announced(&mut decoder);
    assert_eq!(one.report(&mut decoder, 0..60, 15, [-5000, 2000], ACTIVE), 0);
    assert_eq!(one.report(&mut decoder, 0..60, 18, [-5000, 3000], ACTIVE), 180);
    assert_eq!(decoder.counts().of(Refusal::MayBeRepeated), 60);
}

#[test]
fn totals_are_known_or_not_whatever_the_hosts_clock_is_set_to() {
    const YEARS_MS: i64 = 10 * 365 * 86_400_000;
    for wrong_ms in [-YEARS_MS, -5_000_000, -2000, 2000, 5_000_000, YEARS_MS] {
        let mut decoder = Decoder::default();
        let mut exporter = Totals::new(1, &mut decoder);
        exporter.report(&mut decoder, 0..60, 1000, [-5000, 1000], ACTIVE);
        let mut restarted = Decoder::default();
        restarted.restore(&decoder.save()).unwrap();
        // The clock is wrong when the collector starts, and is set right later.
        exporter.host_ahead_ms = wrong_ms;
        exporter = exporter.announced(&mut restarted);
        restarted.clock_set(-wrong_ms);
        exporter.host_ahead_ms = 0;
        let before = exporter.report(&mut restarted, 0..60, 1100, [-5000, 6000], ACTIVE);
        let after = exporter.report(&mut restarted, 100..160, 7, [10_000, 12_000], ACTIVE);
        assert_eq!((before, after), (0, 60 * 7), "{wrong_ms}");
    }
}

#[test]
fn totals_of_forgotten_flows_are_known_to_be_so_whatever_the_hosts_clock_is_set_to() {
    const YEARS_MS: i64 = 10 * 365 * 86_400_000;
    for wrong_ms in [-YEARS_MS, YEARS_MS] {
        let mut decoder = narrow(200, 10_000);
        let mut exporter = Totals::new(1, &mut decoder);
        exporter.host_ahead_ms = wrong_ms;
        exporter.report(&mut decoder, 0..1000, 10, [-5000, 1000], ACTIVE);
        decoder.clock_set(-wrong_ms);
        exporter.host_ahead_ms = 0;
        let before = exporter.report(&mut decoder, 0..100, 15, [-5000, 2000], ACTIVE);
        let after = exporter.report(&mut decoder, 5000..5010, 4, [2500, 3000], ACTIVE);
        assert_eq!((before, after), (0, 40), "{wrong_ms}");
    }
}

#[test]
fn an_event_that_is_reported_again_counts_once_though_its_exporters_clock_is_wrong() {
    // A firewall's update and end of one connection: the same counts at the same time, in two datagrams.
    let fields = [(0, 148, 4), (0, 8, 4), (0, 12, 4), (0, 233, 1), (0, 231, 4), (0, 232, 4), (0, 152, 8), (0, 323, 8)];
    for wrong_ms in [0, 2 * 3_600_000, -10 * 365 * 86_400_000] {
        let mut decoder = Decoder::default();
        let mut packets = 0;
        let home = Session { port: 9, ..Session::from(HOME) };
        for (number, event) in [(0, 5), (1, 2)] {
            let times = [NOW_MS - 5000 + wrong_ms, NOW_MS - 1000 + wrong_ms].map(|ms| ms as u64);
            let record = row(&fields, &[7, 0x0a00_0001, 0x0a00_0002, event, 500, 300, times[0], times[1]]);
            let mut data = ipfix(number, &[template(300, &fields), set(300, &record)]);
            data[4..8].copy_from_slice(&(((NOW_MS + wrong_ms) / 1000) as u32).to_be_bytes());
            let mut read = All::default();
            let arrived_ms = NOW_MS + 3 + 40 * i64::from(number);
            decoder.datagram_to(home, arrived_ms * 1_000_000, &data, &mut read);
            packets += read.flows.iter().map(|(flow, _)| flow.sent[0].octets + flow.sent[1].octets).sum::<u64>();
        }
        assert_eq!(packets, 800, "{wrong_ms}");
    }
}
