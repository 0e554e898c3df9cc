//! A collector's counters on exporters and nProbes.

use super::decode::{Heard, ZmqTopic};
use crate::metrics::{CounterBy, Metrics};
use crate::proto;
use prometheus_client::metrics::counter::Counter;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Records received and lost, by exporter.
#[derive(Clone)]
pub struct CollectMetrics {
    records: CounterBy<2>,
    lost: CounterBy<2>,
    unsampled: CounterBy<2>,
    refused: CounterBy<3>,
    nprobe_messages: CounterBy<1>,
    nprobe_left_out: CounterBy<1>,
    early: CounterBy<1>,
}

impl CollectMetrics {
    pub fn new(metrics: &Metrics) -> CollectMetrics {
        let exporter = metrics.by(["exporter", "protocol"]);
        let cause = metrics.by(["exporter", "protocol", "cause"]);
        let topic = metrics.by(["topic"]);
        let element = metrics.by(["element"]);
        CollectMetrics {
            records: exporter.register("exporter_records", "Records received from an exporter"),
            lost: exporter.register(
                "exporter_lost",
                "Losses by sequence numbers: records, datagrams (netflow9), samples (sflow), messages (nprobe)",
            ),
            unsampled: exporter
                .register("exporter_records_without_sampling_rate", "Records received without a known sampling rate"),
            refused: cause.register("exporter_refused", "Unreadable or corrected data of an exporter, by cause"),
            nprobe_messages: topic.register(
                "nprobe_messages",
                "Messages that nProbes published over ZeroMQ, by topic; records are in messages of the topic flow",
            ),
            nprobe_left_out: element.register(
                "nprobe_elements_left_out",
                "Values in nProbe's records that have no field in Weir's, by element; past 256 unknown names, other",
            ),
            early: metrics.by(["worker"]).register(
                "handed_over_early",
                "How often flows were published before their interval ended because limits.max_records_per_interval was reached",
            ),
        }
    }

    pub fn collected(&self, exporters: &[proto::Exporter]) {
        for exporter in exporters {
            let (address, protocol) = (address(&exporter.addr), &exporter.protocol);
            self.records.of([&address, protocol]).inc_by(exporter.records);
            self.lost.of([&address, protocol]).inc_by(exporter.lost);
            self.unsampled.of([&address, protocol]).inc_by(exporter.without_sampling_rate);
            for (cause, count) in &exporter.refused {
                self.refused.of([&address, protocol, cause]).inc_by(*count);
            }
        }
    }

    /// How often a worker's table was full.
    pub fn handed_over_early(&self, worker: u32) -> Counter {
        self.early.of([&worker])
    }

    pub fn nprobes(&self, now: &Heard, before: &Heard) {
        for topic in ZmqTopic::ALL {
            let since = now.topics[topic as usize] - before.topics[topic as usize];
            if since > 0 {
                self.nprobe_messages.of([&topic.name()]).inc_by(since);
            }
        }
        for (element, count) in &now.left_out {
            let known = before.left_out.iter().find(|(name, _)| name == element);
            let since = count - known.map_or(0, |(_, count)| *count);
            if since > 0 {
                self.nprobe_left_out.of([element]).inc_by(since);
            }
        }
    }
}

/// An exporter's address as text; empty for counts that belong to no exporter.
fn address(octets: &[u8]) -> String {
    let (four, sixteen): (Result<[u8; 4], _>, Result<[u8; 16], _>) = (octets.try_into(), octets.try_into());
    match (four, sixteen) {
        (Ok(four), _) => Ipv4Addr::from(four).to_string(),
        (_, Ok(sixteen)) => Ipv6Addr::from(sixteen).to_string(),
        _ => String::new(),
    }
}
