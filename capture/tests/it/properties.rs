//! Properties of every input: nothing panics or hangs, and nothing is lost.

use crate::testing as t;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message as _;
use std::sync::Arc;
use weir_probe::app::AppOptions;
use weir_probe::filter::{FilterConfig, FilterSets};
use weir_probe::meter::{Arrival, FLOW_COST, Meter, MeterOptions};
use weir_probe::packet::{Cause, Checksum, Frame, LinkType, parse, parse_inner};
use weir_probe::proto::flow_message::Body;
use weir_probe::proto::{CounterMessage, FlowMessage};
use weir_probe::publish::encode::BATCH_RECORDS;
use weir_probe::publish::metered::{Closing, Publisher};
use weir_probe::publish::pace::Pace;
use weir_probe::publish::{Encoded, Identity, Sink};
use weir_probe::source::file::CaptureFile;
use weir_probe::volume::Volume;

const LINKS: [u32; 12] = [1, 101, 0, 113, 276, 9, 104, 107, 105, 127, 10, 239];

/// Valid beginnings, so that random octets do not all end as unknown EtherTypes.
fn beginnings() -> impl Strategy<Value = Vec<u8>> {
    let tcp = t::tcp((1, 2), t::SYN, 1, 2, b"x");
    let v4 = t::ipv4([1, 2, 3, 4], [5, 6, 7, 8], 6, &tcp);
    let v6 = t::ipv6(1, 2, 0, &[&[43, 0, 0xc2, 4, 0, 0, 1, 0][..], &tcp].concat());
    prop_oneof![
        Just(Vec::new()),
        Just(t::frame(0x0800, &v4)),
        Just(t::frame(0x86dd, &v6)),
        Just(t::frame(0x8100, &t::tagged(1, 0x88a8, &t::tagged(2, 0x0800, &v4)))),
        Just(t::frame(0x8847, &[&[0, 0, 1, 64][..], &v4].concat())),
        Just(t::frame(0x8864, &[&[0x11, 0, 0, 1, 0, 30, 0, 0x21][..], &v4].concat())),
        Just(t::frame(40, &[&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &v4].concat())),
        Just(t::frame(
            0x88e7,
            &[&[0, 0, 0, 1][..], &t::frame(0x8903, &[&[0, 1][..], &t::frame(0x8926, &v4)].concat())].concat()
        )),
        Just(v4),
        Just(v6),
    ]
}

/// A beginning with some octets changed and its end cut.
fn octets() -> impl Strategy<Value = Vec<u8>> {
    (
        beginnings(),
        vec(any::<u8>(), 0..64),
        vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        any::<prop::sample::Index>(),
    )
        .prop_map(|(mut octets, more, changes, cut)| {
            octets.extend(more);
            for (at, value) in changes {
                if !octets.is_empty() {
                    let at = at.index(octets.len());
                    octets[at] = value;
                }
            }
            octets.truncate(cut.index(octets.len() + 1).max(octets.len() / 2));
            octets
        })
}

/// Keeps published messages, and checks the properties on which every reader relies.
#[derive(Default)]
struct Ledger {
    next: u64,
    batches: u32,
    first_sequence: u64,
    records: u64,
    flow: Volume,
    overflow: Volume,
    captured: Volume,
    here: Volume,
    causes: Volume,
    intervals: Vec<u64>,
    last: bool,
}

fn volume(of: Option<&weir_probe::proto::Volume>) -> Volume {
    of.map_or(Volume::default(), |of| Volume { packets: of.packets, octets: of.octets })
}

impl Sink for Ledger {
    fn flows(&mut self, message: Encoded<'_>) -> anyhow::Result<()> {
        let is_batch = message.is_batch;
        let message = FlowMessage::decode(message.octets)?;
        assert_eq!(matches!(message.body, Some(Body::Batch(_))), is_batch);
        assert_eq!(message.sequence, self.next, "no gap, no repeat");
        self.next += 1;
        match message.body.as_ref().unwrap() {
            Body::Batch(batch) => {
                assert!((1..=BATCH_RECORDS).contains(&batch.flows.len()));
                self.batches += 1;
                self.records += batch.flows.len() as u64;
                for flow in &batch.flows {
                    let of = Volume {
                        packets: flow.fwd_packets + flow.rev_packets,
                        octets: flow.fwd_octets + flow.rev_octets,
                    };
                    assert!(of.packets > 0, "a record without packets");
                    if flow.overflow.is_some() {
                        self.overflow += of
                    } else {
                        self.flow += of
                    }
                    if let Some(overflow) = &flow.overflow {
                        assert_eq!(overflow.distinct_sketch.len(), 128);
                        assert_eq!(flow.rev_packets, 0);
                    }
                }
            }
            Body::Closing(closing) => {
                assert_eq!(
                    (closing.first_sequence, closing.batches, closing.records),
                    (self.first_sequence, self.batches, self.records)
                );
                assert_eq!(message.sequence, closing.first_sequence + u64::from(closing.batches));
                assert_eq!(closing.first, self.intervals.is_empty());
                (self.first_sequence, self.batches, self.records) = (self.next, 0, 0);
                self.intervals.push(message.interval_start_ms);
                self.last = closing.last;
                let here = closing.interval.as_ref().unwrap();
                self.here = volume(here.captured.as_ref());
                self.captured += self.here;
                self.causes += here.not_metered.iter().map(|cause| volume(cause.volume.as_ref())).sum();
                let whole = closing.epoch_total.as_ref().unwrap();
                assert_eq!(volume(whole.captured.as_ref()), self.captured);
                assert_eq!(volume(whole.in_flow_records.as_ref()), self.flow);
                assert_eq!(volume(whole.in_overflow_records.as_ref()), self.overflow);
                assert_eq!(volume(whole.on_interface.as_ref()).packets, self.captured.packets);
            }
        }
        Ok(())
    }

    fn counters(&mut self, message: &CounterMessage) -> anyhow::Result<()> {
        assert_eq!(message.sequence + 1, self.intervals.len() as u64, "one for each closing record");
        for set in ["cast", "ip_version", "size"] {
            let of_set = message.counters.iter().filter(|counter| counter.set == set);
            let sum = of_set.map(|counter| Volume { packets: counter.packets, octets: counter.octets }).sum::<Volume>();
            assert_eq!(sum, self.here, "every packet is in set {set} once");
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_octets_parse(data in octets(), length: u32, link in prop::sample::select(&LINKS[..]), vlan in prop::option::of(0u16..4096)) {
        let link = LinkType::from_number(link).unwrap();
        let packet = parse(&Frame { time_ns: 0, link, data: &data, length, vlan });
        prop_assert!(packet.octets <= 1 << 19);
        let inner = parse_inner(&Frame { time_ns: 0, link, data: &data, length, vlan });
        prop_assert!(inner.octets <= packet.octets && inner.layer3 >= packet.layer3);
        if let Ok(ip) = packet.ip {
            let least = if ip.version == 4 { 20 } else { 40 };
            prop_assert!(packet.octets >= least);
            prop_assert!(!ip.is_later_fragment() || (ip.src_port, ip.dst_port, ip.tcp) == (0, 0, None));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_file_ends(form in any::<(bool, bool, bool)>(), ng: bool, packets in vec(octets(), 0..8), changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..8), cut: prop::sample::Index) {
        let (big_endian, nanoseconds, modified) = form;
        let mut file = if ng {
            let mut file = [t::section(big_endian), t::interface(big_endian, 1, Some(6)), t::interface(big_endian, 101, Some(0xff))].concat();
            for (number, data) in packets.iter().enumerate() {
                file.extend(match number % 3 {
                    0 => t::enhanced(big_endian, 0, u64::MAX / 3, data),
                    1 => t::old_packet(big_endian, 1, 7, data),
                    _ => t::simple(big_endian, data),
                });
            }
            file
        } else {
            let packets: Vec<_> = packets.into_iter().map(|data| t::whole(1 << 60, data)).collect();
            t::pcap(t::Form { big_endian, nanoseconds, modified, link: 1 }, &packets)
        };
        for (at, value) in changes {
            let at = at.index(file.len());
            file[at] = value;
        }
        file.truncate(cut.index(file.len() + 1).max(file.len() / 2));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("capture");
        std::fs::write(&path, &file).unwrap();
        if let Ok(opened) = CaptureFile::open(&path) {
            let mut reader = opened.reader();
            let mut count = 0;
            while let Ok(Some(packet)) = reader.next(opened.octets()) {
                count += 1;
                prop_assert!(packet.data.len() <= file.len());
            }
            prop_assert_eq!(count, opened.survey.packets);
        }
    }

    #[test]
    fn nothing_is_lost(
        packets in vec((octets(), -40_000_000_000i64..200_000_000_000, 0u32..3000, 0u8..40, any::<bool>()), 0..300),
        max_flows in 1usize..40,
        max_records in 1usize..40,
        idle_ms in 0i64..100_000,
    ) {
        let filters = Arc::new(FilterSets::compile(&FilterConfig::default()).unwrap());
        let mut meter = Meter::new(MeterOptions {
            interval: "10s".parse().unwrap(),
            flow_memory: max_flows * FLOW_COST,
            max_records,
            idle_ms,
            datagrams: max_flows,
            local_networks: vec!["5.0.0.0/8".parse().unwrap()],
            filters: Arc::clone(&filters),
            applications: AppOptions::default(),
        })
        .unwrap();
        let mut publisher = Publisher::new(Identity { probe: "p".to_owned(), workers: 1, interval_ms: 10_000, ..Identity::default() }, filters);
        let mut ledger = Ledger::default();
        let start = 1_600_000_000_000_000_000;
        let (mut handed, mut handed_octets) = (0u64, 0u64);
        let mut epochs_end = Vec::new();
        for (mut data, offset, length, variety, own) in packets {
            if let Some(octet) = data.get_mut(29) {
                *octet = variety;
            }
            let time_ns = start + offset;
            let mut packet = parse(&Frame { time_ns, link: LinkType::Ethernet, data: &data, length, vlan: None });
            meter.clock(time_ns);
            let layer3 = data.get(packet.layer3 as usize..).unwrap_or(&[]);
            let checksum = packet.ip.ok().map(|ip| Checksum::of(&ip, layer3));
            let exclude = own.then_some(Cause::OwnExport);
            meter.packets(&mut [Arrival { packet: &mut packet, time_ns, exclude, layer3, checksum }]);
            handed += 1;
            handed_octets += u64::from(packet.octets);
            for interval in meter.take_closed() {
                epochs_end.push(interval.ends_epoch);
                publisher.publish(&mut Closing { interval, ..Closing::default() }, &Pace::Unpaced, &mut ledger).unwrap();
            }
        }
        meter.finish(start);
        let closed = meter.take_closed();
        let count = closed.len();
        for (index, interval) in closed.into_iter().enumerate() {
            let last = index + 1 == count;
            epochs_end.push(interval.ends_epoch);
            publisher.publish(&mut Closing { interval, last, ..Closing::default() }, &Pace::Unpaced, &mut ledger).unwrap();
        }
        prop_assert!(ledger.last);
        let in_order = |(pair, ends): (&[u64], &bool)| *ends || pair[0] < pair[1];
        prop_assert!(ledger.intervals.windows(2).zip(&epochs_end).all(in_order), "{:?}", ledger.intervals);
        prop_assert_eq!(ledger.captured, Volume { packets: handed, octets: handed_octets });
        prop_assert_eq!(ledger.flow + ledger.overflow + ledger.causes, ledger.captured);
        prop_assert_eq!(publisher.published().unbalanced, 0);
    }
}
