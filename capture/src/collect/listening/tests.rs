use super::*;
use crate::collect::cause::Causes;
use crate::collect::ears::Ears;
use crate::metrics::Metrics;
use crate::packet::{self, Address};
use crossbeam_channel::unbounded;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::rc::Rc;

const START_MS: i64 = 1_700_000_000_000;

struct Collector {
    ears: Ears,
    listening: Listening<Ears>,
    work: Receiver<Work>,
    _give_back: Sender<Flows>,
    _folder: tempfile::TempDir,
}

fn options(folder: &Path) -> CollectOptions {
    let metrics = Metrics::default();
    CollectOptions {
        identity: Identity { interval_ms: 10_000, workers: 1, ..Identity::default() },
        max_entries: 1000,
        filters: Arc::default(),
        states: States::open(folder, "test").unwrap(),
        run: RunState::default(),
        metrics: CollectMetrics::new(&metrics),
        published: PublishMetrics::new(&metrics),
        stop: Arc::default(),
    }
}

impl Collector {
    fn start() -> Collector {
        let ears = Ears { now_ms: Rc::new(Cell::new(START_MS)), ..Ears::default() };
        let folder = tempfile::tempdir().unwrap();
        let (work, to_publish) = unbounded();
        let (give_back, recycled) = unbounded();
        let listening = Listening::new(ears.clone(), None, options(folder.path()), work, recycled);
        Collector { ears, listening, work: to_publish, _give_back: give_back, _folder: folder }
    }

    /// Hears datagrams at once.
    fn hear(&mut self, datagrams: &[(u8, Vec<u8>)]) {
        let from = |&(last, ref data): &(u8, Vec<u8>)| (Session::from(address(last)), data.clone());
        self.ears.waiting.borrow_mut().extend(datagrams.iter().map(from));
        self.listening.step(Duration::ZERO).unwrap();
    }

    /// Lets seconds pass; returns what the closing records then report of exporters.
    fn pass(&mut self, seconds: i64) -> Vec<proto::Exporter> {
        self.published(seconds).1
    }

    /// Lets seconds pass; returns the number of records published, and what the closing records report of exporters.
    fn published(&mut self, seconds: i64) -> (usize, Vec<proto::Exporter>) {
        self.ears.now_ms.set(self.ears.now_ms.get() + seconds * 1000);
        self.listening.step(Duration::ZERO).unwrap();
        let (mut records, mut exporters) = (0, Vec::new());
        while let Ok(work) = self.work.try_recv() {
            match work {
                Work::Flows(flows) => records += flows.iter().map(Flows::len).sum::<usize>(),
                Work::Close(closing) => exporters.extend(closing.exporters),
                _ => {}
            }
        }
        (records, exporters)
    }
}

fn address(last: u8) -> Address {
    packet::address(Ipv4Addr::new(192, 0, 2, last).into())
}

fn by_address<T>(exporters: Vec<proto::Exporter>, of: fn(proto::Exporter) -> T) -> BTreeMap<u8, T> {
    exporters.into_iter().map(|exporter| (exporter.addr.last().copied().unwrap_or(0), of(exporter))).collect()
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// NetFlow v5 from an exporter that states no sampling.
fn v5(records: u32, number: u32) -> Vec<u8> {
    let mut data = words(&[5 << 16 | records, 90_000, (START_MS / 1000) as u32, 0, number, 0]);
    for port in 0..records {
        data.extend(words(&[0x0a00_0001, 0x0a00_0002, 0, 0, 3, 300, 80_000, 89_000, port << 16 | 53, 17 << 8, 0, 0]));
    }
    data
}

/// sFlow of an agent and a sub-agent: a sample of the same packet each.
fn sflow(agent: u32, sub_agent: u32) -> Vec<u8> {
    let head = [5, 1, 0xcb00_7100 | agent, sub_agent, 1, 90_000, 1, 1, 72];
    let packet = [1, 3, 512, 9000, 0, 5, 7, 1, 3, 32, 60, 17, 0x0a00_0001, 0x0a00_0002, 53, 999, 0, 0];
    [words(&head), words(&packet)].concat()
}

/// IPFIX with one set.
fn ipfix(number: u32, id: u16, body: &[u8]) -> Vec<u8> {
    let length = body.len() as u32 + 20;
    let head = words(&[10 << 16 | length, (START_MS / 1000) as u32, number, 7, u32::from(id) << 16 | (length - 16)]);
    [head, body.to_vec()].concat()
}

#[test]
fn a_missing_rate_is_of_the_exporter_that_did_not_say_it() {
    let mut collector = Collector::start();
    collector.hear(&[(1, v5(2, 0)), (2, v5(1, 0)), (2, v5(3, 1)), (1, v5(1, 2))]);
    let told = by_address(collector.pass(11), |exporter| (exporter.records, exporter.without_sampling_rate));
    assert_eq!(told, BTreeMap::from([(1, (3, 3)), (2, (4, 4))]));
    assert_eq!(collector.listening.finish().unwrap().without_sampling_rate, 7);
}

#[test]
fn closing_records_name_what_was_refused_and_of_whom() {
    let mut collector = Collector::start();
    collector.ears.dropped.set(7);
    collector.hear(&[(1, b"GET / HTTP/1.1".to_vec()), (2, ipfix(0, 77, &[0; 4])), (3, v5(1, 0))]);
    let told = by_address(collector.pass(11), |exporter| {
        let mut refused: Vec<_> = exporter.refused.into_iter().collect();
        refused.sort();
        refused
    });
    let named =
        |causes: &[(&str, u64)]| causes.iter().map(|&(name, count)| (name.to_owned(), count)).collect::<Vec<_>>();
    let nobody = named(&[("socket_full", 7), ("unknown_version", 1)]);
    assert_eq!(told, BTreeMap::from([(0, nobody), (2, named(&[("unknown_set", 1)])), (3, Vec::new())]));
}

#[test]
fn records_that_wait_for_a_template_are_counted_though_nothing_more_comes() {
    let mut collector = Collector::start();
    collector.hear(&[(1, ipfix(0, 300, &[0; 40]))]);
    assert_eq!(collector.pass(50).len(), 0, "they may still be read");
    let told = by_address(collector.pass(20), |exporter| exporter.refused["unknown_template"]);
    assert_eq!(told, BTreeMap::from([(1, 1)]));
}

#[test]
fn closing_records_state_that_a_rate_was_announced_and_is_not_known() {
    let mut collector = Collector::start();
    // Options with selectorAlgorithm (304) 5, which filters by properties, and flows.
    let options = [400, 2, 1, 302, 4, 304, 2].map(u16::to_be_bytes).concat();
    collector.hear(&[
        (1, ipfix(0, 3, &options)),
        (1, ipfix(0, 400, &[0, 0, 0, 1, 0, 5])),
        (1, ipfix(1, 2, &[300, 4, 8, 4, 12, 4, 1, 4, 2, 4].map(u16::to_be_bytes).concat())),
        (1, ipfix(1, 300, &words(&[0x0a00_0001, 0x0a00_0002, 100, 1]))),
    ]);
    let told = by_address(collector.pass(11), |exporter| (exporter.records, exporter.sampling));
    assert_eq!(told, BTreeMap::from([(1, (1, "not_understood".to_owned()))]));
}

#[test]
fn the_outcome_has_the_elements_that_were_left_out() {
    let mut collector = Collector::start();
    let fields = [300, 5, 8, 4, 12, 4, 1, 4, 2, 4, 206, 4].map(u16::to_be_bytes).concat();
    collector.hear(&[(1, ipfix(0, 2, &fields)), (1, ipfix(0, 300, &words(&[0x0a00_0001, 0x0a00_0002, 100, 1, 1])))]);
    let outcome = collector.listening.finish().unwrap();
    assert_eq!(outcome.elements, BTreeMap::from([("isMulticast".to_owned(), 1)]));
    assert_eq!((outcome.counts.records, outcome.exporters), (1, 1));
}

#[test]
fn agents_and_sub_agents_behind_one_forwarder_are_told_apart() {
    let mut collector = Collector::start();
    collector.hear(&[(100, sflow(1, 0)), (100, sflow(2, 0)), (100, sflow(2, 1))]);
    let (records, exporters) = collector.published(11);
    assert_eq!(records, 3);
    let mut told: Vec<_> = exporters.into_iter().map(|exporter| (exporter.addr[3], exporter.domain)).collect();
    told.sort_unstable();
    assert_eq!(told, [(1, 0), (2, 0), (2, 1)]);
}

#[test]
fn what_still_waits_at_the_end_is_counted() {
    let mut collector = Collector::start();
    collector.hear(&[(1, ipfix(0, 300, &[0; 40]))]);
    assert_eq!(collector.listening.finish().unwrap().counts.of(Refusal::UnknownTemplate), 1);
}

/// Exporters that never pause.
struct Endless;

impl Input for Endless {
    fn now_ns(&self) -> i64 {
        START_MS * 1_000_000
    }

    fn steady_ns(&self) -> i64 {
        0
    }

    fn poll(&mut self, _: Duration, take: &mut dyn FnMut(Session, i64, &[u8]) -> bool) -> io::Result<bool> {
        take(Session::from(address(1)), self.now_ns(), &v5(1, 0));
        Ok(true)
    }

    fn refused(&mut self) -> Causes {
        Causes::default()
    }
}

#[test]
fn exporters_that_never_pause_do_not_keep_it_from_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    options.stop.store(true, Ordering::Relaxed);
    let ((work, _waiting), (_, recycled)) = (unbounded(), unbounded());
    let began = Instant::now();
    let outcome = Listening::new(Endless, None, options, work, recycled).run().unwrap();
    assert!(outcome.counts.datagrams > 0 && began.elapsed() >= DRAIN);
}

#[test]
fn intervals_that_a_clock_jumps_over_are_counted_not_closed() {
    let mut collector = Collector::start();
    // The clock jumps over 100 intervals: the open one closes, and 99 are skipped.
    collector.ears.now_ms.set(START_MS + 1_000_500);
    collector.listening.step(Duration::ZERO).unwrap();
    collector.ears.now_ms.set(START_MS + 1_010_500);
    collector.listening.step(Duration::ZERO).unwrap();
    let closings = collector.work.try_iter().filter_map(|work| match work {
        Work::Close(closing) => Some((closing.start_ms - START_MS, closing.skipped)),
        _ => None,
    });
    assert_eq!(closings.collect::<Vec<_>>(), [(0, 0), (1_000_000, 99)]);
}

#[test]
fn counters_of_an_interface_are_of_the_time_between_two_samples() {
    let mut collector = Collector::start();
    // Generic counters (sFlow v5): interface 3, its speed and status, and 1,000 octets more each time.
    let sample = |number: u32| {
        let counters =
            [3, 6, 0, 1_000_000, 1, 3, 0, number * 1000, number, 0, 0, 0, 0, 0, 0, number * 500, number, 0, 0, 0, 0, 0];
        let body = [&[number, 3, 1, 1, 88][..], &counters].concat();
        let head = [5, 1, 0xcb00_7101, 4, number, number * 30_000, 1, 2, body.len() as u32 * 4];
        [words(&head), words(&body)].concat()
    };
    collector.hear(&[(1, sample(1))]);
    collector.ears.now_ms.set(START_MS + 5000);
    collector.hear(&[(1, sample(2))]);
    collector.ears.now_ms.set(START_MS + 11_000);
    collector.listening.step(Duration::ZERO).unwrap();
    let notices: Vec<Notice> = collector
        .work
        .try_iter()
        .flat_map(|work| match work {
            Work::Notices(_, notices) => notices,
            _ => Vec::new(),
        })
        .collect();
    let [Notice::Counters(told)] = &notices[..] else { panic!("{notices:?}") };
    assert_eq!((&told.exporter_addr[..], told.domain), (&[203, 0, 113, 1][..], 4));
    assert_eq!((told.interface, told.in_octets, told.out_octets, told.span_ms), (3, 1000, 500, 5000));
}

#[test]
fn events_and_names_are_published_beside_flows() {
    let mut collector = Collector::start();
    // natEvent (230) 1 of a source and its address after translation; interfaceName (82) of an interface.
    let event = [300, 3, 8, 4, 225, 4, 230, 2].map(u16::to_be_bytes).concat();
    let name = [400, 2, 1, 10, 4, 82, 4].map(u16::to_be_bytes).concat();
    collector.hear(&[
        (1, ipfix(0, 2, &event)),
        (1, ipfix(0, 300, &[10, 0, 0, 1, 198, 51, 100, 1, 0, 1])),
        (1, ipfix(1, 3, &name)),
        (1, ipfix(1, 400, &[&words(&[5])[..], b"eth5"].concat())),
    ]);
    collector.ears.now_ms.set(START_MS + 11_000);
    collector.listening.step(Duration::ZERO).unwrap();
    let notices = collector.work.try_iter().filter_map(|work| match work {
        Work::Notices(start_ms, notices) => Some((start_ms, notices)),
        _ => None,
    });
    let (start_ms, notices) = notices.last().unwrap();
    let [Notice::Nat(event), Notice::Name(name)] = &notices[..] else { panic!("{notices:?}") };
    assert_eq!(
        (start_ms, &event.exporter_addr[..], &event.src_addr[..]),
        (START_MS, &[192, 0, 2, 1][..], &[10, 0, 0, 1][..])
    );
    assert_eq!((&event.post_src_addr[..], event.event()), (&[198, 51, 100, 1][..], proto::nat_event::Event::Create));
    assert_eq!((name.number, &*name.name), (5, "eth5"));
    assert_eq!(collector.listening.finish().unwrap().counts.of(Refusal::InterfacesForgotten), 0);
}

#[test]
fn losses_are_in_the_unit_that_each_exporter_numbers() {
    let mut collector = Collector::start();
    collector.hear(&[(1, v5(1, 0)), (1, v5(1, 9)), (2, sflow(2, 0))]);
    let units: BTreeMap<String, (u64, String)> = collector
        .pass(11)
        .into_iter()
        .map(|exporter| (exporter.protocol, (exporter.lost, exporter.lost_unit)))
        .collect();
    assert_eq!(units["netflow5"], (8, "records".to_owned()));
    assert_eq!(units["sflow"], (0, "samples".to_owned()));
}

#[test]
fn events_leave_flows_in_their_interval() {
    let mut collector = Collector::start();
    // natEvent (230) alone: each octet is an event.
    let template = [300, 1, 230, 1].map(u16::to_be_bytes).concat();
    collector.hear(&[(1, v5(1, 0)), (2, ipfix(0, 2, &template)), (2, ipfix(0, 300, &[4; 25_000]))]);
    let notices = |work: &Receiver<Work>| -> Vec<usize> {
        let all = work.try_iter().map(|work| match work {
            Work::Notices(START_MS, notices) => notices.len(),
            _ => panic!("only notices were full"),
        });
        all.collect()
    };
    assert_eq!(notices(&collector.work), [10_000; 2]);
    collector.hear(&[(1, v5(1, 1))]);
    assert_eq!(notices(&collector.work), [0; 0]);
    let (records, exporters) = collector.published(11);
    let counted: u64 = exporters.iter().map(|exporter| exporter.records).sum();
    assert_eq!((records, counted), (1, 2));
    assert_eq!(collector.listening.finish().unwrap().counts.events, 25_000);
}

#[test]
fn records_that_split_into_many_are_handed_over_within_the_bound() {
    let Collector { ears, mut listening, work, _give_back: give_back, _folder } = Collector::start();
    let publishing = std::thread::spawn(move || {
        let (mut handed, mut waiting, mut packets) = (Vec::new(), 0, 0);
        for one in &work {
            // Gives the collector time to hand over more.
            std::thread::sleep(Duration::from_millis(5));
            waiting = waiting.max(work.len());
            let Work::Flows(all) = one else { continue };
            handed.push(all.iter().map(Flows::len).sum::<usize>());
            for flows in all {
                packets +=
                    flows.records().map(|record| record.sent()[0].packets + record.sent()[1].packets).sum::<u64>();
                let _ = give_back.send(flows);
            }
        }
        (handed, waiting, packets)
    });
    // Flows from flowStartSeconds (150) to flowEndSeconds (151), of most of an hour.
    let fields = [300, 6, 8, 4, 12, 4, 1, 4, 2, 4, 150, 4, 151, 4].map(u16::to_be_bytes).concat();
    let end = (START_MS / 1000) as u32;
    let flow = |source: u32| words(&[0x0a00_0000 + source, 0x0b00_0001, 360_000, 3600, end - 3500, end - 1]);
    let flows = |from: u32| (from..from + 40).flat_map(flow).collect::<Vec<_>>();
    let from = Session::from(address(1));
    for message in [ipfix(0, 2, &fields), ipfix(0, 300, &flows(0)), ipfix(40, 300, &flows(40))] {
        ears.waiting.borrow_mut().push_back((from, message));
    }
    // The collector reads the clock before it reads the next message.
    assert!(listening.step(Duration::ZERO).unwrap());
    assert_eq!(ears.waiting.borrow().len(), 1);
    listening.step(Duration::ZERO).unwrap();
    assert_eq!(listening.finish().unwrap().counts.records, 80);
    let (handed, waiting, packets) = publishing.join().unwrap();
    let most = handed.iter().max().unwrap();
    assert!(*most <= 1000 + 360 && handed.len() > 20, "{handed:?}");
    assert!(waiting <= 2, "{waiting} waited beside the flows that were being published");
    assert_eq!(packets, 80 * 3600);
}

#[test]
fn routes_leave_flows_in_their_interval_and_an_early_hand_over_is_counted() {
    // NetFlow v5: 20 records, each with another next hop; of one flow, or of 20.
    let routed = |number: u32, one_flow: bool| {
        let mut data = words(&[5 << 16 | 20, 90_000, (START_MS / 1000) as u32, 0, number, 0]);
        for at in number..number + 20 {
            let ports = if one_flow { 53 } else { at << 16 | 53 };
            data.extend(words(&[0x0a00_0001, 0x0a00_0002, 0x0a01_0000 + at, 0, 3, 300, 80_000, 89_000, ports]));
            data.extend(words(&[17 << 8, 0, 0]));
        }
        data
    };
    for (one_flow, expected) in [(true, (1, 0)), (false, (3000, 3))] {
        let mut collector = Collector::start();
        let early = collector.listening.options.metrics.handed_over_early(0);
        let mut handed_over = 0;
        for number in (0..3000).step_by(20) {
            collector.hear(&[(1, routed(number, one_flow))]);
            // The publisher sends at once whatever it receives.
            let works: Vec<Work> = collector.work.try_iter().collect();
            for work in works {
                let Work::Flows(all) = work else { panic!() };
                handed_over += all.iter().map(Flows::len).sum::<usize>();
                all.into_iter().for_each(|flows| collector._give_back.send(flows).unwrap());
            }
        }
        let records = handed_over + collector.published(11).0;
        assert_eq!((records, early.get()), expected, "one flow: {one_flow}");
    }
}

/// More sFlow agents than a collector keeps, which send counters of an interface.
fn many_agents() -> Vec<(u8, Vec<u8>)> {
    let counters = [&[2, 108, 1, 5, 1, 1, 88][..], &[7; 22]].concat();
    let of = |agent: u32| words(&[&[5, 1, 0xcb00_0000 | agent, 0, 1, 90_000, 1][..], &counters].concat());
    (0..4200_u32).map(|agent| (2 + (agent % 250) as u8, of(agent))).collect()
}

#[test]
fn what_a_forgotten_exporter_sent_is_reported_once() {
    let mut collector = Collector::start();
    let template = ipfix(0, 2, &[300, 4, 8, 4, 12, 4, 1, 4, 2, 4].map(u16::to_be_bytes).concat());
    let record = |number| ipfix(number, 300, &words(&[0x0a00_0001, 0x0a00_0002, 100, 1]));
    let sums = |exporters: Vec<proto::Exporter>| -> Vec<(usize, u64, u64, u64)> {
        let of = |exporter: proto::Exporter| {
            let refused = exporter.refused.get("unknown_set").copied().unwrap_or_default();
            (exporter.addr.len(), exporter.records, exporter.without_sampling_rate, refused)
        };
        exporters.into_iter().map(of).filter(|sums| sums.1 + sums.3 > 0).collect()
    };
    let refused = |number| ipfix(number, 77, &[0; 4]);
    collector.hear(&[(1, template.clone()), (1, record(0)), (1, refused(1))]);
    assert_eq!(sums(collector.pass(11)), [(4, 1, 1, 1)]);
    // One more of each, then more exporters that send data than a collector keeps.
    collector.hear(&[(1, record(1)), (1, refused(2))]);
    collector.hear(&many_agents());
    assert_eq!(sums(collector.pass(10)), [(0, 1, 1, 1)], "of nobody that is still known");
    collector.hear(&[(1, template.clone()), (1, record(2))]);
    assert_eq!(sums(collector.pass(10)), [(4, 1, 1, 0)]);
}

#[test]
fn losses_of_an_exporter_that_was_forgotten_since_are_reported() {
    let mut collector = Collector::start();
    collector.hear(&[(1, v5(1, 0)), (1, v5(1, 41))]);
    collector.hear(&many_agents());
    let lost: u64 = collector.pass(11).iter().map(|exporter| exporter.lost).sum();
    assert_eq!((lost, collector.listening.finish().unwrap().counts.losses.lost), (40, 40));
}

#[test]
fn an_exporter_that_just_started_keeps_its_templates_though_the_clock_is_set_as_it_speaks() {
    for by_ms in [3_600_000, 10 * 365 * 86_400_000, -86_400_000] {
        let mut collector = Collector::start();
        let head = |number: u32, uptime: u32| words(&[9 << 16 | 1, uptime, (START_MS / 1000) as u32, number, 7]);
        let template = [0, 24, 300, 4, 8, 4, 12, 4, 1, 4, 2, 4].map(u16::to_be_bytes).concat();
        let record = words(&[300 << 16 | 20, 0x0a00_0001, 0x0a00_0002, 100, 1]);
        collector.hear(&[(1, [head(0, 90_000), template].concat())]);
        collector.hear(&[(1, [head(1, 90_100), record.clone()].concat())]);
        // The clock is set while the collector waits.
        collector.ears.step_ms.set(by_ms);
        collector.hear(&[(1, [head(2, 90_200), record.clone()].concat())]);
        let outcome = collector.listening.finish().unwrap();
        assert_eq!((outcome.counts.records, outcome.counts.losses.restarts), (2, 0), "{by_ms}");
    }
}

#[test]
fn sets_wait_for_their_template_though_the_clock_is_set_as_that_comes() {
    let mut collector = Collector::start();
    collector.hear(&[(1, ipfix(0, 300, &words(&[0x0a00_0001, 0x0a00_0002, 100, 1])))]);
    collector.ears.step_ms.set(3_600_000);
    collector.hear(&[(1, ipfix(1, 2, &[300, 4, 8, 4, 12, 4, 1, 4, 2, 4].map(u16::to_be_bytes).concat()))]);
    let outcome = collector.listening.finish().unwrap();
    assert_eq!((outcome.counts.records, outcome.counts.of(Refusal::UnknownTemplate)), (1, 0));
}

#[test]
fn a_disk_that_hangs_does_not_keep_a_collector_from_receiving() {
    let mut collector = Collector::start();
    let pipe = collector._folder.path().join("test-exporters-0.new");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let reader = pipe.clone();
    // If the collector saves its state itself, it waits until somebody reads the pipe.
    let (done, ended) = crossbeam_channel::bounded::<()>(1);
    let rescue = std::thread::spawn(move || {
        let rescued = ended.recv_timeout(Duration::from_secs(10)).is_err();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut std::fs::File::open(reader).unwrap(), &mut text).unwrap();
        (rescued, text)
    });
    collector.hear(&[(1, v5(1, 0))]);
    assert_eq!(collector.pass(11).len(), 1);
    collector.hear(&[(1, v5(2, 1))]);
    assert_eq!(collector.pass(10)[0].records, 2);
    done.send(()).unwrap();
    let (rescued, text) = rescue.join().unwrap();
    assert!(!rescued, "it waited for the disk");
    assert!(text.contains("192.0.2.1"), "{text}");
}

#[test]
fn exporters_that_never_sent_data_are_reported_one_by_one_up_to_a_bound() {
    let mut collector = Collector::start();
    let refused = |number: u32, domain: u32| {
        let mut message = ipfix(number, 77, &[0; 4]);
        message[12..16].copy_from_slice(&domain.to_be_bytes());
        message
    };
    for round in 1..3 {
        let all: Vec<(u8, Vec<u8>)> = (0..200_u8).map(|last| (last, refused(round, u32::from(last)))).collect();
        collector.hear(&all);
        let told = collector.pass(11);
        let causes: u64 = told.iter().map(|exporter| exporter.refused["unknown_set"]).sum();
        assert_eq!((told.len(), causes), (65, 200));
    }
    // One that begins to send data is reported by itself, and nothing twice.
    collector.hear(&[(199, v5(1, 0)), (199, refused(3, 199))]);
    let told = collector.pass(11);
    let of: Vec<(usize, u64, usize)> =
        told.iter().map(|exporter| (exporter.addr.len(), exporter.records, exporter.refused.len())).collect();
    assert_eq!(of, [(4, 1, 0), (0, 0, 1)]);
}
