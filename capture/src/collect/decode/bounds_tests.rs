//! The effect that one sender can have on others, and the state that survives a restart.

use super::tests::*;
use super::vendor_tests::{SHORT, TURNED, all, row, short};
use super::*;
use crate::collect::element::octets::mapped;
use crate::collect::states::States;

const STRANGER: [u8; 4] = [203, 0, 113, 9];

fn hostile(decoder: &mut Decoder, data: &[u8]) {
    feed_at(decoder, mapped(STRANGER), NOW_MS, data);
}

#[test]
fn samples_lost_while_the_collector_restarts_are_reported() {
    let sample = |number: u32| {
        let flow = [words(&[number, 3, 1000, 9000, 0, 5, 7, 1]), raw(&tcp_frame(), 0)].concat();
        sflow(number, 1000 * number, &[(1, flow)])
    };
    let mut before = Decoder::default();
    (1..=10).for_each(|number| _ = feed(&mut before, &sample(number)));
    let mut after = Decoder::default();
    after.restore(&before.save()).unwrap();
    // The exporter sends sixteen samples between the save and the restore.
    feed_at(&mut after, HOME, NOW_MS + 1000, &sample(27));
    assert_eq!((after.counts().samples.lost, after.counts().losses.lost), (16, 16));
    // The newer of two saved states counts, whichever is restored last.
    for order in [[&before, &after], [&after, &before]] {
        let mut decoder = Decoder::default();
        order.into_iter().for_each(|state| decoder.restore(&state.save()).unwrap());
        feed(&mut decoder, &sample(28));
        assert_eq!(decoder.counts().samples.lost, 0);
    }
}

#[test]
fn a_sender_whose_sets_wait_displaces_its_own_alone() {
    for octets in [1, 100, 3000] {
        let limits = DecodeLimits { waiting_octets: 300_000, ..DecodeLimits::default() };
        let mut decoder = Decoder::new(limits);
        for packets in 1..=20 {
            feed(&mut decoder, &ipfix(0, &[set(300, &short(packets, 1000))]));
        }
        for number in 0..5000 {
            hostile(&mut decoder, &ipfix(number, &[set(999, &vec![0; octets])]));
            assert!(decoder.waiting_octets() <= 300_000);
        }
        assert_eq!(feed(&mut decoder, &ipfix(0, &[template(300, &SHORT)])).len(), 20, "{octets}");
        assert!(decoder.counts().of(Refusal::UnknownTemplate) > 0, "{octets}: all found room");
    }
}

#[test]
fn a_set_without_records_does_not_wait() {
    let mut decoder = Decoder::default();
    feed(&mut decoder, &ipfix(0, &[set(300, &short(5, 500))]));
    (0..50).for_each(|at| hostile(&mut decoder, &ipfix(at, &vec![set(999, &[]); 100])));
    assert_eq!(feed(&mut decoder, &ipfix(0, &[template(300, &SHORT)])).len(), 1);
    assert_eq!(decoder.counts().causes, [0; Refusal::ALL.len()]);
}

#[test]
fn each_template_reads_the_sets_that_waited_for_it_in_their_order() {
    let mut decoder = Decoder::default();
    for packets in 1..=6 {
        let id = if packets % 2 == 0 { 300 } else { 301 };
        feed(&mut decoder, &ipfix(0, &[set(id, &short(packets, 1000))]));
    }
    let packets = |records: Vec<Owned>| plain(records).iter().map(|record| record.sent[0].packets).collect::<Vec<_>>();
    assert_eq!(packets(feed(&mut decoder, &ipfix(0, &[template(301, &SHORT)]))), [1, 3, 5]);
    assert_eq!(packets(feed(&mut decoder, &ipfix(0, &[template(300, &SHORT)]))), [2, 4, 6]);
    assert_eq!(decoder.waiting_octets(), 0);
}

#[test]
fn an_exporter_that_sends_from_another_port_shares_its_templates() {
    let mut decoder = Decoder::default();
    let from = |port: u16| Session { address: HOME, port, local_port: 2055, stream: false };
    let mut send = |port: u16, data: &[u8]| {
        let mut records = 0;
        decoder.datagram(from(port), NOW_MS * 1_000_000, data, &mut |_, _| records += 1);
        records
    };
    let fields = [(0, 8, 4), (0, 12, 4), (0, 2, 4), (9999, 1, 4)];
    send(1, &ipfix(5000, &[template(300, &fields), set(300, &short(5, 500))]));
    send(2, &ipfix(5001, &[]));
    assert_eq!(send(2, &ipfix(5001, &[set(300, &short(6, 600))])), 1);
    let talks = &decoder.exporters.slot(0).talks;
    assert_eq!(talks.len(), 2);
    assert!(talks[0].templates.is_shared_with(&talks[1].templates));
    assert_eq!(decoder.left_out().values().copied().collect::<Vec<_>>(), [2], "each record counts once");
}

#[test]
fn fields_without_octets_say_nothing() {
    let mut decoder = Decoder::default();
    let fields = [(0, 8, 4), (0, 12, 4), (0, 2, 4), (0, 16, 4), (0, 16, 0), (0, 9999, 0)];
    let record = row(&fields, &[0x0a00_0001, 0x0a00_0002, 5, 65_001, 0, 0]);
    let read = all(&mut decoder, &ipfix(0, &[template(300, &fields), set(300, &record)]));
    assert_eq!(read.flows[0].1.unwrap().autonomous_systems, [65_001, 0]);
    assert!(decoder.left_out().is_empty());
}

#[test]
fn a_record_that_its_sampling_rate_makes_absurd_has_no_other_cause() {
    let fields = [(0, 8, 4), (0, 12, 4), (0, 298, 8), (0, 231, 8), (0, 153, 8), (0, 34, 4)];
    for (rate, causes) in [(1 << 24, [1, 0, 0]), (2, [0, 1, 1])] {
        let mut decoder = Decoder::default();
        let record = row(&fields, &[0x0a00_0001, 0x0a00_0002, 1 << 20, 1 << 30, 1, rate]);
        feed(&mut decoder, &ipfix(0, &[template(300, &fields), set(300, &record)]));
        let of =
            [Refusal::Absurd, Refusal::TimeClamped, Refusal::PayloadOctets].map(|cause| decoder.counts().of(cause));
        assert_eq!(of, causes, "{rate}");
    }
}

#[test]
fn a_worker_begins_with_what_every_worker_kept() {
    let folder = tempfile::tempdir().unwrap();
    let states = States::open(folder.path(), "test").unwrap();
    let exporters = [HOME, mapped(STRANGER)];
    for (worker, from) in (0..).zip(exporters) {
        let mut decoder = Decoder::default();
        feed_at(&mut decoder, from, NOW_MS, &ipfix(0, &[template(300, &SHORT)]));
        states.save((worker, 2), &decoder.saved()).unwrap();
    }
    for worker in 0..3 {
        let mut decoder = Decoder::default();
        states.restore(worker, &mut decoder);
        let flows = ipfix(0, &[set(300, &short(1, 100))]);
        let records = exporters.map(|from| feed_at(&mut decoder, from, NOW_MS + 1000, &flows).len());
        assert_eq!(records, [1, 1], "{worker}");
    }
}

#[test]
fn states_of_former_workers_stay_until_every_worker_has_restored_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut former = Decoder::default();
    feed_at(&mut former, HOME, NOW_MS, &ipfix(0, &[template(300, &SHORT)]));
    States::open(folder.path(), "test").unwrap().save((2, 3), &former.saved()).unwrap();
    let states = States::open(folder.path(), "test").unwrap();
    let mut workers = [Decoder::default(), Decoder::default()];
    states.restore(0, &mut workers[0]);
    states.save((0, 2), &Decoder::default().saved()).unwrap();
    states.restore(1, &mut workers[1]);
    let flows = ipfix(0, &[set(300, &short(1, 100))]);
    assert_eq!(feed_at(&mut workers[1], HOME, NOW_MS + 1000, &flows).len(), 1);
    states.save((0, 2), &workers[0].saved()).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn sets_that_wait_while_their_exporter_restarts_are_counted() {
    let mut decoder = Decoder::default();
    let flows = set(256, &v9_record(UPTIME, UPTIME));
    feed(&mut decoder, &v9(10, &[flows.clone(), flows]));
    assert!(decoder.waiting_octets() > 0);
    // The template of the new run does not belong to records of the old one.
    let anew = v9_at(100, NOW + 60, 0, &[v9_template(256, &V9_FIELDS)]);
    assert!(feed_at(&mut decoder, HOME, NOW_MS + 60_000, &anew).is_empty());
    assert_eq!((decoder.counts().of(Refusal::UnknownTemplate), decoder.waiting_octets()), (2, 0));
}

#[test]
fn templates_that_a_session_changes_stay_as_they_are_for_the_other() {
    let mut decoder = Decoder::default();
    let from = |port: u16| Session { address: HOME, port, local_port: 2055, stream: false };
    let mut send = |port: u16, data: &[u8]| {
        let mut records = Vec::new();
        decoder.datagram(from(port), NOW_MS * 1_000_000, data, &mut |_, record| records.push(record.sent[0].packets));
        records
    };
    let turned = [(0, 8, 4), (0, 12, 4), (0, 1, 4), (0, 2, 4), (9999, 1, 4)];
    let fields = [&SHORT[..], &[(9999, 1, 4)]].concat();
    let record = set(300, &row(&fields, &[0x0a00_0001, 0x0a00_0002, 5, 500, 0]));
    assert_eq!(send(1, &ipfix(5000, &[template(300, &fields), record.clone()])), [5]);
    assert_eq!(send(2, &ipfix(5001, std::slice::from_ref(&record))), [5]);
    let other = set(300, &row(&turned, &[0x0a00_0001, 0x0a00_0002, 600, 6, 0]));
    assert_eq!(send(2, &ipfix(5002, &[template(300, &turned), other])), [6]);
    assert_eq!(send(1, &ipfix(5002, &[record])), [5]);
    assert_eq!(decoder.left_out().values().copied().collect::<Vec<_>>(), [4], "each record counts once");
}

#[test]
fn a_worker_prefers_its_own_state_to_an_equally_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let states = States::open(folder.path(), "test").unwrap();
    let day_ms = 86_400_000;
    let mut earlier = Decoder::default();
    feed_at(&mut earlier, HOME, NOW_MS + day_ms, &ipfix(0, &[template(300, &SHORT)]));
    states.save((0, 1), &earlier.saved()).unwrap();
    // The clock is set back by a day while the collector is down, and worker 0 hears the exporter.
    let mut workers = [Decoder::default(), Decoder::default()];
    (0..).zip(&mut workers).for_each(|(worker, decoder)| states.restore(worker, decoder));
    for number in 0..50 {
        feed_at(&mut workers[0], HOME, NOW_MS, &ipfix(number, &[set(300, &short(1, 100))]));
    }
    (0..).zip(&workers).for_each(|(worker, decoder)| states.save((worker, 2), &decoder.saved()).unwrap());
    let mut again = Decoder::default();
    states.restore(0, &mut again);
    feed_at(&mut again, HOME, NOW_MS + 1000, &ipfix(50, &[set(300, &short(1, 100))]));
    assert_eq!(again.counts().losses.lost, 0);
}

#[test]
fn a_strange_sampling_is_strange_after_a_restart() {
    let mut decoder = Decoder::default();
    let options = set(3, &[400_u16, 2, 1, 302, 4, 304, 2].map(u16::to_be_bytes).concat());
    feed(&mut decoder, &ipfix(0, &[options, set(400, &[0, 0, 0, 1, 0, 5])]));
    let state = |decoder: &Decoder| decoder.exporters().next().unwrap().sampling_state;
    assert_eq!(state(&decoder), SamplingState::NotUnderstood);
    let mut again = Decoder::default();
    again.restore(&decoder.save()).unwrap();
    assert_eq!(state(&again), SamplingState::NotUnderstood);
}

#[test]
fn templates_that_sessions_share_are_saved_once_and_shared_again() {
    let mut decoder = Decoder::default();
    let hear = |decoder: &mut Decoder, port: u16, data: &[u8]| hear(decoder, port, NOW_MS, data);
    let templates: Vec<Vec<u8>> = (256..356).map(|id| template(id, &SHORT)).collect();
    hear(&mut decoder, 30, &ipfix(5000, &templates));
    let one = decoder.save().len();
    for port in [10, 20, 40] {
        hear(&mut decoder, port, &ipfix(5000, &[]));
    }
    hear(&mut decoder, 20, &ipfix(5000, &[template(256, &TURNED)]));
    assert!(decoder.save().len() < 3 * one, "{} {one}", decoder.save().len());
    let mut again = Decoder::default();
    again.restore(&decoder.save()).unwrap();
    assert_eq!(again.save(), decoder.save());
    for port in [10, 20, 30, 40] {
        assert_eq!(hear(&mut again, port, &ipfix(5000, &[set(300, &short(1, 100))])), 1, "{port}");
    }
    let shares = |port: u16| {
        let talks = &again.exporters.iter().next().unwrap().talks;
        let of = |port: u16| &talks.iter().find(|talk| talk.session.port == port).unwrap().templates;
        of(port).is_shared_with(of(30))
    };
    assert_eq!([10, 20, 40].map(shares), [true, false, true]);
}

#[test]
fn a_template_is_withdrawn_alone_and_only_where_there_is_one() {
    let mut decoder = Decoder::default();
    let hear = |decoder: &mut Decoder, port: u16, data: &[u8]| _ = hear(decoder, port, NOW_MS, data);
    hear(&mut decoder, 1, &ipfix(5000, &[template(300, &SHORT), template(301, &SHORT)]));
    hear(&mut decoder, 2, &ipfix(5000, &[]));
    // Withdraws an unknown template, and all options: the session changes nothing, and so keeps sharing.
    let unknown = set(2, &shorts(&[999, 0]));
    hear(&mut decoder, 2, &ipfix(5000, &[unknown, set(3, &shorts(&[3, 0]))]));
    let shared = |decoder: &Decoder| {
        let talks = &decoder.exporters.iter().next().unwrap().talks;
        (talks[0].templates.is_shared_with(&talks[1].templates), talks[0].templates.len(), talks[1].templates.len())
    };
    assert_eq!(shared(&decoder), (true, 2, 2));
    hear(&mut decoder, 2, &ipfix(5000, &[set(2, &shorts(&[300, 0]))]));
    assert_eq!(shared(&decoder), (false, 2, 1));
}

/// Hears a datagram from a port; returns the number of its records.
fn hear(decoder: &mut Decoder, port: u16, ms: i64, data: &[u8]) -> usize {
    let from = Session { address: HOME, port, local_port: 2055, stream: false };
    let mut records = 0;
    decoder.datagram(from, ms * 1_000_000, data, &mut |_, _| records += 1);
    records
}

#[test]
fn sessions_that_anyone_begins_displace_none_that_goes_on() {
    let flows = |number| ipfix(number, &[set(300, &short(1, 100))]);
    let mut decoder = Decoder::default();
    hear(&mut decoder, 1, NOW_MS, &ipfix(0, &[template(300, &SHORT)]));
    (0..20).for_each(|number| _ = hear(&mut decoder, 1, NOW_MS, &flows(number)));
    for port in 1000..1100 {
        hear(&mut decoder, port, NOW_MS + 1, &ipfix(0, &[template(300, &TURNED)]));
    }
    assert_eq!(hear(&mut decoder, 1, NOW_MS + 2, &flows(20)), 1);
    // An earlier run's datagrams count.
    let mut again = Decoder::default();
    again.restore(&decoder.save()).unwrap();
    for port in 2000..2100 {
        (0..9).for_each(|number| _ = hear(&mut again, port, NOW_MS + 3, &ipfix(number, &[])));
    }
    assert_eq!(hear(&mut again, 1, NOW_MS + 4, &flows(21)), 1);
    // One that has been silent for long makes room, whatever it sent before.
    (0..200).for_each(|number| _ = hear(&mut again, 1, NOW_MS + 5, &flows(22 + number)));
    for port in 3000..3016 {
        hear(&mut again, port, NOW_MS + 700_000, &ipfix(0, &[template(300, &SHORT)]));
    }
    assert_eq!(hear(&mut again, 1, NOW_MS + 700_001, &flows(222)), 0);
}

#[test]
fn of_too_many_sessions_most_are_read() {
    let (mut decoder, mut records) = (Decoder::default(), 0);
    for number in 0..50 {
        for port in 1..=20 {
            let at_ms = NOW_MS + i64::from(number) * 100 + i64::from(port);
            if number == 0 {
                hear(&mut decoder, port, at_ms, &ipfix(0, &[template(300, &SHORT)]));
            }
            records += hear(&mut decoder, port, at_ms, &ipfix(number, &[set(300, &short(1, 100))]));
        }
    }
    assert!(records >= 15 * 50, "{records} of {}", 20 * 50);
}

#[test]
fn templates_of_made_up_exporters_displace_no_others() {
    let limits = DecodeLimits { all_fields: 2000, ..DecodeLimits::default() };
    let mut decoder = Decoder::new(limits);
    feed(&mut decoder, &ipfix(0, &[template(300, &SHORT)]));
    for exporter in 0..50_u8 {
        for id in 256..280 {
            let made_up = mapped([203, 0, 113, exporter]);
            feed_at(&mut decoder, made_up, NOW_MS, &ipfix(u32::from(id), &[template(id, &[(0, 1, 4); 20])]));
            let kept: usize =
                decoder.exporters().filter(|known| known.templates > 1).map(|known| known.templates * 28).sum();
            assert!(kept <= 2000, "{kept}");
        }
    }
    assert!(decoder.counts().of(Refusal::TemplatesForgotten) > 1000);
    assert_eq!(feed(&mut decoder, &ipfix(1, &[set(300, &short(5, 500))])).len(), 1);
}

/// An address of many.
fn stranger(number: u32) -> Address {
    mapped((0xc612_0000 | number).to_be_bytes())
}

/// IPFIX of a domain.
fn domain(number: u32, sequence: u32, sets: &[Vec<u8>]) -> Vec<u8> {
    let mut data = ipfix(sequence, sets);
    data[12..16].copy_from_slice(&number.to_be_bytes());
    data
}

/// A decoder with an exporter that sent a template and these many records, each in a datagram.
fn with_known(limits: DecodeLimits, records: u32) -> Decoder {
    let mut decoder = Decoder::new(limits);
    feed(&mut decoder, &ipfix(0, &[template(300, &SHORT)]));
    (0..records).for_each(|number| _ = feed(&mut decoder, &ipfix(number, &[set(300, &short(1, 100))])));
    decoder
}

#[test]
fn no_number_of_domains_or_addresses_costs_a_known_exporter_its_state() {
    let header = |number: u32| (mapped(STRANGER), domain(number, 0, &[]));
    let address = |number: u32| (stranger(number % 30_000), domain(number, 0, &[]));
    let often = |number: u32| (stranger(number / 9 % 30_000), domain(0, number % 9, &[]));
    let templates = |number: u32| (stranger(number), domain(0, 0, &[template(300, &[(0, 1, 4); 40])]));
    let v5 = |number: u32| (stranger(number), v5(0, UPTIME, 0, &[v5_record(6, [1, 2], UPTIME, UPTIME)]));
    type Flood<'a> = &'a dyn Fn(u32) -> (Address, Vec<u8>);
    let floods: [(&str, Flood<'_>); 5] =
        [("domains", &header), ("addresses", &address), ("often", &often), ("templates", &templates), ("v5", &v5)];
    for (name, flood) in floods {
        // Of those that send data, anyone may send as little as one datagram.
        let before = if name == "v5" { 9 } else { 1 };
        let mut decoder = with_known(DecodeLimits::default(), before);
        for number in 0..60_000 {
            let (from, data) = flood(number);
            feed_at(&mut decoder, from, NOW_MS + 1, &data);
        }
        let exporters = decoder.exporters().count();
        assert!(exporters <= 4096, "{name}: {exporters}");
        let records = feed_at(&mut decoder, HOME, NOW_MS + 2, &ipfix(before, &[set(300, &short(1, 100))]));
        assert_eq!((records.len(), decoder.counts().losses.lost), (1, 0), "{name}");
        let forgotten = decoder.counts().of(Refusal::ExportersForgotten);
        assert!(forgotten > 0, "{name}: nobody had to make room");
    }
}

#[test]
fn one_address_holds_a_part_of_the_exporters() {
    let mut decoder = Decoder::default();
    // Another exporter, which has sent its templates but no data yet.
    feed(&mut decoder, &ipfix(0, &[template(300, &SHORT)]));
    for number in 0..20_000 {
        hostile(&mut decoder, &domain(number, 0, &[]));
    }
    let held = |decoder: &Decoder| decoder.exporters().filter(|known| known.info.address == mapped(STRANGER)).count();
    assert_eq!(held(&decoder), 64);
    for number in 0..20_000 {
        hostile(&mut decoder, &domain(number, 0, &[template(300, &SHORT), set(300, &short(1, 100))]));
    }
    assert_eq!(held(&decoder), 1024 + 64);
    assert_eq!(feed(&mut decoder, &ipfix(0, &[set(300, &short(1, 100))])).len(), 1);
}

#[test]
fn an_exporter_that_was_restored_is_known() {
    let saved = with_known(DecodeLimits::default(), 1).save();
    let mut decoder = Decoder::default();
    decoder.restore(&saved).unwrap();
    (0..20_000).for_each(|number| _ = feed_at(&mut decoder, stranger(number), NOW_MS, &domain(0, 0, &[])));
    assert_eq!(feed(&mut decoder, &ipfix(1, &[set(300, &short(1, 100))])).len(), 1);
}

#[test]
fn a_known_exporter_that_is_silent_for_long_makes_room_for_one_that_sends() {
    let limits = DecodeLimits { exporters: 40, ..DecodeLimits::default() };
    let mut decoder = with_known(limits, 20);
    for number in 0..60 {
        for round in 0..20 {
            let data = domain(0, round, &[template(300, &SHORT), set(300, &short(1, 100))]);
            feed_at(&mut decoder, stranger(number), NOW_MS + 700_000, &data);
        }
    }
    assert!(decoder.exporters().all(|known| known.info.address != HOME));
}

#[test]
fn templates_and_rates_of_strangers_go_before_those_of_a_known_exporter() {
    let limits = DecodeLimits { all_fields: 20_000, all_options: 2000, ..DecodeLimits::default() };
    let mut decoder = Decoder::new(limits);
    let of_many: Vec<Vec<u8>> = (256..500).map(|id| template(id, &SHORT)).collect();
    let options = options_template(600, &[(0, 149, 4)], &[(0, 48, 1), (0, 50, 4)]);
    let rates: Vec<u8> = (0..200).flat_map(|sampler| [0, 0, 0, 7, sampler, 0, 0, 0, 2]).collect();
    feed(&mut decoder, &ipfix(0, &of_many));
    feed(&mut decoder, &ipfix(0, &[options.clone(), set(600, &rates)]));
    feed(&mut decoder, &ipfix(0, &[set(300, &short(1, 100))]));
    for number in 0..3000 {
        let few: Vec<u8> = (0..9).flat_map(|sampler| [0, 0, 0, 7, sampler, 0, 0, 0, 2]).collect();
        let data = domain(0, 0, &[template(300, &[(0, 1, 4); 20]), options.clone(), set(600, &few)]);
        feed_at(&mut decoder, stranger(number), NOW_MS, &data);
        let options: usize = decoder.exporters.iter().map(|exporter| exporter.sources.len()).sum::<usize>()
            + decoder.exporters.iter().flat_map(|of| &of.talks).map(|talk| talk.rates.count()).sum::<usize>();
        assert!(options <= 2000, "{options}");
    }
    let causes = [Refusal::TemplatesForgotten, Refusal::OptionsForgotten].map(|cause| decoder.counts().of(cause));
    assert!(causes.iter().all(|&count| count > 1000), "{causes:?}");
    let home = decoder.exporters.iter().find(|exporter| exporter.info.address == HOME).unwrap();
    assert_eq!((home.talks[0].templates.len(), home.talks[0].rates.count()), (245, 200));
}

#[test]
fn a_saved_state_has_a_bound_and_the_known_exporters_first() {
    let mut decoder = with_known(DecodeLimits::default(), 9);
    // Templates of the greatest number of fields that a decoder keeps, from exporters that sent later.
    for number in 0..60 {
        for id in 256..290 {
            let data = domain(0, u32::from(id), &[template(id, &vec![(40_000, 20_000, 4); 500])]);
            feed_at(&mut decoder, stranger(number), NOW_MS + 1000, &data);
        }
    }
    let saved = decoder.saved();
    assert!(saved.json(usize::MAX).len() > 2 << 20, "{}", saved.json(usize::MAX).len());
    let bounded = saved.json(1 << 20);
    assert!((1 << 19..=1 << 20).contains(&bounded.len()), "{}", bounded.len());
    let mut again = Decoder::default();
    again.restore(&bounded).unwrap();
    assert_eq!(feed(&mut again, &ipfix(9, &[set(300, &short(1, 100))])).len(), 1);
}

#[test]
fn sets_of_a_known_exporter_wait_however_many_strangers_there_are() {
    let mut decoder = with_known(DecodeLimits::default(), 1);
    for packets in 1..=20 {
        feed(&mut decoder, &ipfix(packets, &[set(301, &short(packets.into(), 1000))]));
    }
    (0..30_000).for_each(|at| _ = feed_at(&mut decoder, stranger(at), NOW_MS, &ipfix(0, &[set(999, &[0; 400])])));
    assert!(decoder.counts().of(Refusal::UnknownTemplate) > 20_000);
    assert_eq!(feed(&mut decoder, &ipfix(21, &[template(301, &SHORT)])).len(), 20);
}
