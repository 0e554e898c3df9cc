//! A collector's counters on exporters and nProbes.

use super::decode::{Heard, ZmqTopic};
use crate::metrics::{CounterBy, Metrics};
use crate::proto;
use prometheus_client::metrics::counter::Counter;
use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Addresses of exporters that have a label of their own: those that sent data, and those that did not.
const MOST_LABELS: usize = 1024;
const MOST_STRANGERS: usize = 64;
/// The label of all others.
const OTHER: &str = "other";

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
    /// The addresses that have a label: of exporters that sent data, and of others.
    labelled: Arc<Mutex<[HashSet<String>; 2]>>,
}

impl CollectMetrics {
    pub fn new(metrics: &Metrics) -> CollectMetrics {
        let exporter = metrics.by(["exporter", "protocol"]);
        let cause = metrics.by(["exporter", "protocol", "cause"]);
        let topic = metrics.by(["topic"]);
        let element = metrics.by(["element"]);
        CollectMetrics {
            records: exporter.register(
                "exporter_records",
                "Records received from an exporter; past 1,024 exporters, and 64 without data, other",
            ),
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
            labelled: Arc::default(),
        }
    }

    pub fn collected(&self, exporters: &[proto::Exporter]) {
        for exporter in exporters {
            let (address, protocol) = (self.label(exporter), &exporter.protocol);
            self.records.of([&address, protocol]).inc_by(exporter.records);
            self.lost.of([&address, protocol]).inc_by(exporter.lost);
            self.unsampled.of([&address, protocol]).inc_by(exporter.without_sampling_rate);
            for (cause, count) in &exporter.refused {
                self.refused.of([&address, protocol, cause]).inc_by(*count);
            }
        }
    }

    /// An exporter's address, if there is room for another label.
    fn label(&self, exporter: &proto::Exporter) -> String {
        let address = address(&exporter.addr);
        let [with_data, without] = &mut *self.labelled.lock().unwrap_or_else(PoisonError::into_inner);
        if address.is_empty() || with_data.contains(&address) {
            return address;
        }
        let (labels, most) = if exporter.records > 0 { (with_data, MOST_LABELS) } else { (without, MOST_STRANGERS) };
        let has_room = labels.len() < most || labels.contains(&address);
        if has_room {
            labels.insert(address.clone());
        }
        if has_room { address } else { OTHER.to_owned() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exporters_have_a_bounded_number_of_labels() {
        let registry = Metrics::new("test");
        let metrics = CollectMetrics::new(&registry);
        let exporter = |number: u32, records| proto::Exporter {
            addr: number.to_be_bytes().to_vec(),
            protocol: "ipfix".to_owned(),
            records,
            refused: [("unknown_set".to_owned(), 1)].into(),
            ..Default::default()
        };
        let known = exporter(1, 5);
        metrics.collected(std::slice::from_ref(&known));
        for number in 0..30_000 {
            metrics.collected(&[exporter(0x0a00_0000 + number, 0), exporter(0x0b00_0000 + number, 2)]);
        }
        metrics.collected(&[known]);
        let text = registry.text();
        let lines = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
        assert_eq!(lines("weir_probe_exporter_records_total"), MOST_LABELS + MOST_STRANGERS + 1);
        for line in [
            "weir_probe_exporter_records_total{exporter=\"0.0.0.1\",protocol=\"ipfix\"} 10",
            &format!(
                "weir_probe_exporter_refused_total{{exporter=\"other\",protocol=\"ipfix\",cause=\"unknown_set\"}} {}",
                60_002 - 2 - MOST_STRANGERS - (MOST_LABELS - 1)
            ),
        ] {
            assert!(text.contains(line), "{line}");
        }
    }
}
