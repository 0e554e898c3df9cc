//! What the agent says of itself to Prometheus.

use crate::collect::decode::{Heard, Topic};
use crate::packet::Cause;
use crate::proto;
use crate::publish::{Closing, Published};
use crate::volume::Volume;
use anyhow::Context as _;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByWorker {
    worker: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCause {
    worker: u32,
    cause: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByKind {
    worker: u32,
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    cause: String,
}

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

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByExport {
    export: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByExportAndCause {
    export: String,
    cause: &'static str,
}

type PerWorker = Family<ByWorker, Counter>;

#[derive(Default)]
struct Inner {
    registry: Registry,
    offered: PerWorker,
    captured: PerWorker,
    captured_octets: PerWorker,
    dropped: Family<ByCause, Counter>,
    not_metered: Family<ByCause, Counter>,
    late: PerWorker,
    flows: PerWorker,
    entries: Family<ByWorker, Gauge>,
    capacity: Family<ByWorker, Gauge>,
    records: Family<ByKind, Counter>,
    batches: PerWorker,
    closings: PerWorker,
    skipped: PerWorker,
    unbalanced: PerWorker,
    source_errors: PerWorker,
    delivered: Counter,
    delivered_octets: Counter,
    queue: Gauge,
    shed: Family<ByReason, Counter>,
    shed_octets: Family<ByReason, Counter>,
    spooled: Counter,
    spooled_octets: Counter,
    replayed: Counter,
    replayed_octets: Counter,
    spool: Gauge,
    spool_errors: Counter,
    kafka_errors: Family<ByReason, Counter>,
    exporter_records: Family<ByExporter, Counter>,
    exporter_lost: Family<ByExporter, Counter>,
    exporter_unsampled: Family<ByExporter, Counter>,
    exporter_refused: Family<ByExporterAndCause, Counter>,
    nprobe_messages: Family<ByTopic, Counter>,
    nprobe_left_out: Family<ByElement, Counter>,
    export_records: Family<ByExport, Counter>,
    export_messages: Family<ByExport, Counter>,
    export_octets: Family<ByExport, Counter>,
    export_shed: Family<ByExportAndCause, Counter>,
    export_errors: Family<ByExport, Counter>,
    export_queue: Family<ByExport, Gauge>,
}

/// The agent's metrics; clones are the same ones.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new("")
    }
}

impl Metrics {
    /// All metrics at 0, for the probe of this name.
    pub fn new(probe: &str) -> Metrics {
        let mut inner = Inner::default();
        let mut registry = Registry::with_prefix("weir_probe");
        let build = [("version", crate::VERSION.to_owned()), ("probe", probe.to_owned())]
            .map(|(key, value)| (key.to_owned(), value));
        registry.register("build", "Version of the agent and name of the probe", Info::new(build.to_vec()));
        let mut each = |name: &str, help: &str, family: &PerWorker| registry.register(name, help, family.clone());
        each("packets_offered", "Packets that the interface offered, dropped ones included", &inner.offered);
        each("packets_captured", "Packets taken from the source, in closed intervals", &inner.captured);
        each("octets_captured", "Layer-3 octets of packets captured", &inner.captured_octets);
        each("packets_late", "Packets older than the open interval, counted in it", &inner.late);
        each("flows", "Flows that began", &inner.flows);
        each("batches", "Batches published", &inner.batches);
        each("closing_records", "Closing records published", &inner.closings);
        each("intervals_skipped", "Empty intervals passed over because time jumped", &inner.skipped);
        each("intervals_unbalanced", "Intervals whose sums did not agree: not 0 means a bug", &inner.unbalanced);
        each("source_errors", "Times that the source failed and was tried again", &inner.source_errors);
        registry.register("packets_dropped", "Packets dropped before the agent, by cause", inner.dropped.clone());
        registry.register(
            "packets_not_metered",
            "Packets captured that are in no record, by cause",
            inner.not_metered.clone(),
        );
        registry.register("records", "Records published, by kind", inner.records.clone());
        registry.register("flow_table_entries", "Flows alive", inner.entries.clone());
        registry.register(
            "flow_table_capacity",
            "Flows that fit before the overflow ladder begins",
            inner.capacity.clone(),
        );
        registry.register("messages_delivered", "Messages that Kafka acknowledged", inner.delivered.clone());
        registry.register(
            "messages_delivered_octets",
            "Octets of those, before compression",
            inner.delivered_octets.clone(),
        );
        registry.register(
            "queue_octets",
            "Octets of messages that wait for Kafka's acknowledgement",
            inner.queue.clone(),
        );
        registry.register("messages_shed", "Messages given up, by cause", inner.shed.clone());
        registry.register("messages_shed_octets", "Octets of those", inner.shed_octets.clone());
        let mut spool = |name: &str, help: &str, counter: &Counter| registry.register(name, help, counter.clone());
        spool("messages_spooled", "Messages that went to the spool", &inner.spooled);
        spool("messages_spooled_octets", "Octets of those", &inner.spooled_octets);
        spool("messages_replayed", "Messages of the spool that Kafka acknowledged", &inner.replayed);
        spool("messages_replayed_octets", "Octets of those", &inner.replayed_octets);
        spool("spool_errors", "Times that the spool could not be used", &inner.spool_errors);
        registry.register("spool_octets", "Octets of the spool on disk", inner.spool.clone());
        registry.register("kafka_errors", "Errors that the Kafka client reported, by code", inner.kafka_errors.clone());
        registry.register("exporter_records", "Records that came of an exporter", inner.exporter_records.clone());
        registry.register(
            "exporter_lost",
            "Sent by exporters and lost: records, datagrams (netflow9), samples (sflow), messages (nprobe)",
            inner.exporter_lost.clone(),
        );
        registry.register(
            "exporter_records_without_sampling_rate",
            "Records of an exporter that had not said its sampling rate",
            inner.exporter_unsampled.clone(),
        );
        registry.register(
            "exporter_refused",
            "What of an exporter could not be read, by cause",
            inner.exporter_refused.clone(),
        );
        registry.register(
            "nprobe_messages",
            "Messages that nProbes published over ZeroMQ, by topic; records are in those of flow",
            inner.nprobe_messages.clone(),
        );
        registry.register(
            "nprobe_elements_left_out",
            "Values of nProbe's that have no place in a record, by element; past 256 unknown names, other",
            inner.nprobe_left_out.clone(),
        );
        let mut export = |name: &str, help: &str, family: &Family<ByExport, Counter>| {
            registry.register(name, help, family.clone());
        };
        export("export_records", "Records sent, by export, as its form counts them", &inner.export_records);
        export("export_messages", "Messages that they went in", &inner.export_messages);
        export("export_octets", "Octets of those", &inner.export_octets);
        export("export_errors", "Times that an export could not connect or send", &inner.export_errors);
        let shed = "Records that an export gave up, by cause";
        registry.register("export_records_shed", shed, inner.export_shed.clone());
        registry.register("export_queue_octets", "Octets that wait for an export", inner.export_queue.clone());
        inner.registry = registry;
        Metrics(Arc::new(inner))
    }

    /// Counts a closed interval; `dropped` is what the kernel dropped in it, `offered` what it offered.
    pub fn closed(&self, worker: u32, closing: &Closing, here: &Published, offered: u64, dropped: u64) {
        let inner = &self.0;
        let by = ByWorker { worker };
        let tally = &closing.interval.tally;
        let add = |family: &PerWorker, count: u64| {
            family.get_or_create(&by).inc_by(count);
        };
        add(&inner.offered, offered);
        add(&inner.captured, tally.captured.packets);
        add(&inner.captured_octets, tally.captured.octets);
        add(&inner.late, tally.late.packets);
        add(&inner.flows, tally.flows);
        add(&inner.batches, here.batches);
        add(&inner.closings, here.closings);
        add(&inner.skipped, closing.interval.skipped);
        add(&inner.unbalanced, here.unbalanced);
        inner.dropped.get_or_create(&ByCause { worker, cause: "kernel" }).inc_by(dropped);
        for cause in Cause::ALL {
            let Volume { packets, .. } = tally.not_metered[cause as usize];
            inner.not_metered.get_or_create(&ByCause { worker, cause: cause.name() }).inc_by(packets);
        }
        for (kind, count) in [("flow", here.flow_records), ("overflow", here.overflow_records)] {
            inner.records.get_or_create(&ByKind { worker, kind }).inc_by(count);
        }
        inner.entries.get_or_create(&by).set(closing.load.flow_table_entries as i64);
        inner.capacity.get_or_create(&by).set(closing.load.flow_table_capacity as i64);
    }

    /// Counts what came of exporters, and `moved` records that were counted at another time than theirs.
    pub fn collected(&self, worker: u32, exporters: &[proto::Exporter], moved: u64) {
        let inner = &self.0;
        inner.late.get_or_create(&ByWorker { worker }).inc_by(moved);
        for exporter in exporters {
            let by = ByExporter { exporter: address(&exporter.addr), protocol: exporter.protocol.clone() };
            inner.exporter_records.get_or_create(&by).inc_by(exporter.records);
            inner.exporter_lost.get_or_create(&by).inc_by(exporter.lost);
            inner.exporter_unsampled.get_or_create(&by).inc_by(exporter.without_sampling_rate);
            for (cause, count) in &exporter.refused {
                let ByExporter { exporter, protocol } = by.clone();
                let by = ByExporterAndCause { exporter, protocol, cause: cause.clone() };
                inner.exporter_refused.get_or_create(&by).inc_by(*count);
            }
        }
    }

    /// Counts what came of nProbes since before.
    pub fn nprobes(&self, now: &Heard, before: &Heard) {
        for topic in Topic::ALL {
            let since = now.topics[topic as usize] - before.topics[topic as usize];
            if since > 0 {
                self.0.nprobe_messages.get_or_create(&ByTopic { topic: topic.name() }).inc_by(since);
            }
        }
        for (element, count) in &now.left_out {
            let known = before.left_out.iter().find(|(name, _)| name == element);
            let since = count - known.map_or(0, |(_, count)| *count);
            if since > 0 {
                self.0.nprobe_left_out.get_or_create(&ByElement { element: element.clone() }).inc_by(since);
            }
        }
    }

    /// Counts what a collector published.
    pub fn published(&self, worker: u32, here: &Published) {
        let by = ByWorker { worker };
        self.0.batches.get_or_create(&by).inc_by(here.batches);
        self.0.closings.get_or_create(&by).inc_by(here.closings);
        self.0.records.get_or_create(&ByKind { worker, kind: "flow" }).inc_by(here.flow_records);
    }

    /// Counts a failure of the source.
    pub fn source_error(&self, worker: u32) {
        self.0.source_errors.get_or_create(&ByWorker { worker }).inc();
    }

    /// Counts a message that Kafka acknowledged.
    pub fn delivered(&self, octets: u64) {
        self.0.delivered.inc();
        self.0.delivered_octets.inc_by(octets);
    }

    /// Sets what waits for Kafka.
    pub fn queue(&self, octets: u64) {
        self.0.queue.set(octets as i64);
    }

    /// Counts messages that were given up.
    pub fn shed(&self, cause: &str, messages: u64, octets: u64) {
        let by = ByReason { cause: cause.to_owned() };
        self.0.shed.get_or_create(&by).inc_by(messages);
        self.0.shed_octets.get_or_create(&by).inc_by(octets);
    }

    /// Counts messages that went to the spool.
    pub fn spooled(&self, messages: u64, octets: u64) {
        self.0.spooled.inc_by(messages);
        self.0.spooled_octets.inc_by(octets);
    }

    /// Counts a message of the spool that Kafka acknowledged.
    pub fn replayed(&self, octets: u64) {
        self.0.replayed.inc();
        self.0.replayed_octets.inc_by(octets);
    }

    /// Sets what the spool has on disk.
    pub fn spool(&self, octets: u64) {
        self.0.spool.set(octets as i64);
    }

    /// Counts a failure of the spool.
    pub fn spool_error(&self) {
        self.0.spool_errors.inc();
    }

    /// Counts an error of the Kafka client.
    pub fn kafka_error(&self, code: &str) {
        self.0.kafka_errors.get_or_create(&ByReason { cause: code.to_owned() }).inc();
    }

    /// Counts messages that an export sent.
    pub fn exported(&self, export: &str, messages: u64, records: u64, octets: u64) {
        let by = ByExport { export: export.to_owned() };
        self.0.export_records.get_or_create(&by).inc_by(records);
        self.0.export_messages.get_or_create(&by).inc_by(messages);
        self.0.export_octets.get_or_create(&by).inc_by(octets);
    }

    /// Counts records that an export gave up.
    pub fn export_shed(&self, export: &str, cause: &'static str, records: u64) {
        self.0.export_shed.get_or_create(&ByExportAndCause { export: export.to_owned(), cause }).inc_by(records);
    }

    /// Counts a failure of an export.
    pub fn export_error(&self, export: &str) {
        self.0.export_errors.get_or_create(&ByExport { export: export.to_owned() }).inc();
    }

    /// Sets what waits for an export.
    pub fn export_queue(&self, export: &str, octets: u64) {
        self.0.export_queue.get_or_create(&ByExport { export: export.to_owned() }).set(octets as i64);
    }

    /// All metrics in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        match encode(&mut text, &self.0.registry) {
            Ok(()) => text,
            Err(error) => format!("# {error}\n"),
        }
    }

    /// Every metric there is: its name, type and help.
    pub fn list() -> Vec<(String, String, String)> {
        // A family is written once it has a member.
        let metrics = Metrics::default();
        metrics.closed(0, &Closing::default(), &Published::default(), 0, 0);
        metrics.source_error(0);
        metrics.shed("", 0, 0);
        metrics.kafka_error("");
        let refused = [(String::new(), 0)].into();
        metrics.collected(0, &[proto::Exporter { refused, ..Default::default() }], 0);
        metrics.exported("", 0, 0, 0);
        metrics.export_shed("", "", 0);
        metrics.export_error("");
        metrics.export_queue("", 0);
        let text = metrics.text();
        let of = |keyword: &str| -> Vec<(String, String)> {
            let lines = text.lines().filter_map(|line| line.strip_prefix(keyword)?.split_once(' '));
            lines.map(|(name, rest)| (name.to_owned(), rest.trim_end_matches('.').to_owned())).collect()
        };
        of("# HELP ").into_iter().zip(of("# TYPE ")).map(|((name, help), (_, kind))| (name, kind, help)).collect()
    }

    /// Answers `GET /metrics` on `listen` from a thread of its own until the process ends; gives the address bound.
    ///
    /// # Errors
    /// Where the address cannot be bound.
    pub fn serve(&self, listen: SocketAddr) -> anyhow::Result<SocketAddr> {
        let listener = TcpListener::bind(listen)
            .with_context(|| format!("cannot listen on {listen} for metrics: see [metrics] listen"))?;
        let bound = listener.local_addr()?;
        let metrics = self.clone();
        std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                // One at a time, each within a second: a scraper that hangs keeps others waiting no longer.
                let _ = metrics.answer(&stream);
            }
        })?;
        Ok(bound)
    }

    fn answer(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.set_write_timeout(Some(Duration::from_secs(1)))?;
        let mut reader = BufReader::new(stream.take(8192));
        let mut request = String::new();
        reader.read_line(&mut request)?;
        let mut line = String::new();
        while reader.read_line(&mut line)? > 2 {
            line.clear();
        }
        let path = request.split_whitespace().nth(1).unwrap_or("");
        let (status, body) = match path {
            "/metrics" | "/" => ("200 OK", self.text()),
            _ => ("404 Not Found", "only /metrics is here\n".to_owned()),
        };
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_over_http() {
        let metrics = Metrics::new("test");
        metrics.shed("queue_full", 1, 10);
        let bound = metrics.serve("127.0.0.1:0".parse().unwrap()).unwrap();
        let ask = |path: &str| {
            let mut stream = TcpStream::connect(bound).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let answer = ask("/metrics");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("weir_probe_messages_shed_total{cause=\"queue_full\"} 1"), "{answer}");
        assert!(answer.contains("weir_probe_build_info{"), "{answer}");
        assert!(ask("/other").starts_with("HTTP/1.1 404"));
    }
}
