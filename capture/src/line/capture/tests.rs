use super::*;
use crate::metrics::Metrics;
use crate::proto;
use crate::publish::{Encoded, NoSink};
use std::sync::atomic::AtomicU64;

/// A sink whose messages wait in memory, this many octets.
struct Waiting(Arc<AtomicU64>);

impl Sink for Waiting {
    fn flows(&mut self, message: Encoded<'_>) -> anyhow::Result<()> {
        NoSink.flows(message)
    }

    fn counters(&mut self, message: &proto::CounterMessage) -> anyhow::Result<()> {
        NoSink.counters(message)
    }

    fn queued_octets(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn an_interfaces_counters_are_those_of_now() {
    let counters = InterfaceCounters::open("lo").unwrap();
    let (watched, base) = (WatchedInterface::default(), InterfaceStatistics::default());
    let mut witness = InterfaceWitness { counters, watched, loopback: true, base };
    let before_ms = wall_clock_ns() / 1_000_000;
    let counted = witness.count().unwrap();
    assert!((before_ms..before_ms + 60_000).contains(&counted.at_ms), "{} {before_ms}", counted.at_ms);
    assert_eq!(counted.packets, counted.statistics.rx_packets, "each packet of the loopback is sent and received");
}

#[test]
fn the_gap_after_a_kill_begins_where_messages_were_safe() {
    let folder = tempfile::tempdir().unwrap();
    let (run, _) = RunState::open(folder.path(), "a").unwrap();
    let (metrics, waiting) = (Metrics::default(), Arc::new(AtomicU64::new(0)));
    let mut publishing = CapturePublishing {
        worker: 0,
        publisher: Publisher::new(Identity::default(), Arc::default()),
        pace: Pace::Unpaced,
        metrics: CaptureMetrics::new(&metrics),
        published: PublishMetrics::new(&metrics),
        sink: Box::new(Waiting(Arc::clone(&waiting))),
        run,
        interface: Some(WatchedInterface::default()),
        throttle: Throttle::default(),
    };
    let (give_back, _recycled) = crossbeam_channel::unbounded();
    let mut close = |packets: u64, octets: u64| {
        waiting.store(octets, Ordering::Relaxed);
        let counted = InterfaceCount { statistics: InterfaceStatistics::default(), packets, at_ms: 5 };
        let handed_over = HandedOver { closing: Closing::default(), counted: Some(counted) };
        publishing.publish(handed_over, &give_back).unwrap();
        publishing.keep();
        RunState::open(folder.path(), "a").unwrap().1.packets
    };
    assert_eq!([close(1000, 0), close(2000, 7), close(3000, 7), close(4000, 0)], [1000, 1000, 1000, 4000]);
}
