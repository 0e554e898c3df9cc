//! The checks of fuzzing, one function for each target: each takes any octets and panics if the agent breaks an
//! invariant. `fuzz_targets/` passes them to libFuzzer, and the agent's tests replay `regressions/` through them.

#![allow(missing_docs)]

pub mod captures;
pub mod fragments;
pub mod hello;
pub mod names;
pub mod netflow;
pub mod nprobe;
pub mod packet;
pub mod sflow;

use std::sync::{Arc, LazyLock};
use weir_probe::app::AppOptions;
use weir_probe::filter::FilterSets;
use weir_probe::meter::fragments::FragmentCounts;
use weir_probe::meter::{Arrival, ClosedInterval, FLOW_COST, Meter, MeterOptions};
use weir_probe::packet::{BATCH, Checksum, Frame, Packet};
use weir_probe::volume::Volume;

/// Time of an input's first packet, ns from the Unix epoch.
const START_NS: i64 = 1_600_000_000_000_000_000;

/// Empty, because filter sets are compiled only once.
static NO_FILTERS: LazyLock<Arc<FilterSets>> = LazyLock::new(Arc::default);

/// Reads an input from its start; beyond its end it returns zeros.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn octet(&mut self) -> u8 {
        self.octets(1).first().copied().unwrap_or(0)
    }

    /// Two octets, the lower one first.
    fn number(&mut self) -> u16 {
        u16::from_le_bytes([self.octet(), self.octet()])
    }

    /// At most this many octets.
    fn octets(&mut self, count: usize) -> &'a [u8] {
        let (octets, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        octets
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The bounds of a meter.
struct Bounds {
    flows: usize,
    records: usize,
    datagrams: usize,
    idle_ms: i64,
}

/// A meter, and the totals of the packets that it has received.
struct Metering {
    meter: Meter,
    bounds: Bounds,
    inner: bool,
    handed: Volume,
    newest_ns: i64,
    closed: Vec<ClosedInterval>,
}

impl Metering {
    /// A meter with such bounds; `inner`: meters the packets within tunnels.
    fn new(bounds: Bounds, inner: bool, filters: Arc<FilterSets>) -> Metering {
        let meter = Meter::new(MeterOptions {
            interval: "10s".parse().expect("a length"),
            flow_memory: bounds.flows * FLOW_COST,
            max_records: bounds.records,
            idle_ms: bounds.idle_ms,
            datagrams: bounds.datagrams,
            local_networks: vec!["10.0.0.0/8".parse().expect("a prefix")],
            filters,
            // nDPI is not ours to test.
            applications: AppOptions { ndpi: false, name_octets: 1 << 16, ..AppOptions::default() },
        });
        Metering {
            meter: meter.expect("without nDPI nothing is missing"),
            bounds,
            inner,
            handed: Volume::default(),
            newest_ns: i64::MIN,
            closed: Vec::new(),
        }
    }

    /// Meters frames as a worker does.
    fn frames(&mut self, frames: &[Frame<'_>]) {
        let mut packets = vec![Packet::default(); frames.len()];
        let mut arrivals: Vec<Arrival<'_>> = Vec::with_capacity(BATCH);
        for (frame, packet) in frames.iter().zip(&mut packets) {
            if self.meter.is_over(frame.time_ns) {
                self.meter.packets(&mut arrivals);
                arrivals.clear();
                self.meter.clock(frame.time_ns);
            }
            self.newest_ns = self.newest_ns.max(frame.time_ns);
            packet.read(frame);
            if self.inner {
                packet.enter_tunnel(frame);
            }
            let layer3 = frame.data.get(packet.layer3 as usize..).unwrap_or(&[]);
            let checksum = packet.ip.ok().map(|ip| Checksum::of(&ip, layer3));
            self.handed += Volume::one(packet.octets);
            arrivals.push(Arrival { packet, time_ns: frame.time_ns, exclude: None, layer3, checksum });
        }
        self.meter.packets(&mut arrivals);
        for interval in self.meter.take_closed() {
            self.check(&interval);
            self.closed.push(interval);
        }
    }

    /// Closes everything, checks the sums of the intervals and returns them.
    fn finish(mut self) -> Vec<ClosedInterval> {
        self.meter.clock(self.newest_ns);
        self.meter.finish(self.newest_ns);
        for interval in self.meter.take_closed() {
            self.check(&interval);
            self.closed.push(interval);
        }
        let in_order = |pair: &[ClosedInterval]| pair[0].ends_epoch || pair[0].start_ms < pair[1].start_ms;
        assert!(self.closed.windows(2).all(in_order), "time goes on within an epoch");
        let mut carried = Volume::default();
        for interval in &self.closed {
            assert_eq!(interval.tally.carried_in, carried, "what was carried out is carried in");
            carried = interval.tally.carried_out;
        }
        assert_eq!(carried, Volume::default(), "nothing waits in the end");
        let captured: Volume = self.closed.iter().map(|interval| interval.tally.captured).sum();
        assert_eq!(captured, self.handed, "every packet is in one interval");
        self.closed
    }

    /// The invariants of every interval.
    fn check(&self, interval: &ClosedInterval) {
        let tally = &interval.tally;
        let causes: Volume = tally.not_metered.iter().copied().sum();
        let records: Volume = interval.records.iter().map(|record| record.volume()).sum();
        let overflow: Volume = interval.overflow.iter().map(|record| record.volume).sum();
        assert_eq!(
            tally.captured + tally.carried_in,
            causes + records + overflow + tally.carried_out,
            "conservation: {tally:?}"
        );
        assert!(interval.records.len() <= self.bounds.records, "the bound of records");
        for record in interval.records.iter() {
            assert!(record.volume().packets > 0, "a record without packets");
            assert!(record.first_ms <= record.last_ms, "{record:?}");
        }
        assert_eq!(interval.checksums.iter().copied().sum::<Volume>() + causes, tally.captured, "checksums");
        let FragmentCounts { joined, waited, .. } = interval.fragments;
        assert!(waited.packets <= joined.packets && waited.octets <= joined.octets);
        if tally.captured.packets == 0 {
            return;
        }
        let of_sets = interval.counters.labels().filter(|&(set, _, _)| set != "protocol");
        let of_sets: Volume = of_sets.map(|(_, _, volume)| volume).sum();
        assert_eq!(of_sets, tally.captured + tally.captured + tally.captured, "every packet is in each set once");
    }
}
