//! What a collector counts of exporters and of nProbes.

use super::decode::{Heard, ZmqTopic};
use crate::metrics::Metrics;
use crate::proto;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use std::net::{Ipv4Addr, Ipv6Addr};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByExporter {
    exporter: String,
    protocol: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByExporterAndCause {
    exporter: String,
    protocol: String,
    cause: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByTopic {
    topic: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByElement {
    element: String,
}

/// Records that came and that were lost, by exporter.
#[derive(Clone)]
pub struct CollectMetrics {
    records: Family<ByExporter, Counter>,
    lost: Family<ByExporter, Counter>,
    unsampled: Family<ByExporter, Counter>,
    refused: Family<ByExporterAndCause, Counter>,
    nprobe_messages: Family<ByTopic, Counter>,
    nprobe_left_out: Family<ByElement, Counter>,
}

impl CollectMetrics {
    pub fn new(metrics: &Metrics) -> CollectMetrics {
        CollectMetrics {
            records: metrics.register("exporter_records", "Records that came of an exporter"),
            lost: metrics.register(
                "exporter_lost",
                "Sent by exporters and lost: records, datagrams (netflow9), samples (sflow), messages (nprobe)",
            ),
            unsampled: metrics.register(
                "exporter_records_without_sampling_rate",
                "Records of an exporter that had not said its sampling rate",
            ),
            refused: metrics.register("exporter_refused", "What of an exporter could not be read, by cause"),
            nprobe_messages: metrics.register(
                "nprobe_messages",
                "Messages that nProbes published over ZeroMQ, by topic; records are in those of flow",
            ),
            nprobe_left_out: metrics.register(
                "nprobe_elements_left_out",
                "Values of nProbe's that have no place in a record, by element; past 256 unknown names, other",
            ),
        }
    }

    /// Counts what came from exporters.
    pub fn collected(&self, exporters: &[proto::Exporter]) {
        for exporter in exporters {
            let by = ByExporter { exporter: address(&exporter.addr), protocol: exporter.protocol.clone() };
            self.records.get_or_create(&by).inc_by(exporter.records);
            self.lost.get_or_create(&by).inc_by(exporter.lost);
            self.unsampled.get_or_create(&by).inc_by(exporter.without_sampling_rate);
            for (cause, count) in &exporter.refused {
                let ByExporter { exporter, protocol } = by.clone();
                let by = ByExporterAndCause { exporter, protocol, cause: cause.clone() };
                self.refused.get_or_create(&by).inc_by(*count);
            }
        }
    }

    /// Counts what came from nProbes since before.
    pub fn nprobes(&self, now: &Heard, before: &Heard) {
        for topic in ZmqTopic::ALL {
            let since = now.topics[topic as usize] - before.topics[topic as usize];
            if since > 0 {
                self.nprobe_messages.get_or_create(&ByTopic { topic: topic.name() }).inc_by(since);
            }
        }
        for (element, count) in &now.left_out {
            let known = before.left_out.iter().find(|(name, _)| name == element);
            let since = count - known.map_or(0, |(_, count)| *count);
            if since > 0 {
                self.nprobe_left_out.get_or_create(&ByElement { element: element.clone() }).inc_by(since);
            }
        }
    }
}

/// An exporter's address as text; empty where there is none.
fn address(octets: &[u8]) -> String {
    let (four, sixteen): (Result<[u8; 4], _>, Result<[u8; 16], _>) = (octets.try_into(), octets.try_into());
    match (four, sixteen) {
        (Ok(four), _) => Ipv4Addr::from(four).to_string(),
        (_, Ok(sixteen)) => Ipv6Addr::from(sixteen).to_string(),
        _ => String::new(),
    }
}
