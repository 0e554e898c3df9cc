//! Publishing to Kafka: librdkafka's own mock of a cluster.

use crate::common::cluster::{PATIENCE, cluster, consume};
use crate::probe;
use crate::testing as t;
use prost::Message as _;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use std::collections::BTreeMap;
use std::io::copy;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_probe::metrics::Metrics;
use weir_probe::proto::flow_message::Body;
use weir_probe::proto::{CounterMessage, FlowMessage};
use weir_probe::publish::kafka::metrics::KafkaMetrics;
use weir_probe::publish::kafka::{Kafka, KafkaOptions, KafkaSink};
use weir_probe::publish::spool::SpoolOptions;
use weir_probe::publish::{Encoded, Sink as _};
use weir_probe::signals::Asked;

/// Passes connections on to `behind`.
fn lead(way: TcpListener, behind: String) {
    std::thread::spawn(move || {
        for near in way.incoming().flatten() {
            let Ok(far) = TcpStream::connect(&behind) else { continue };
            let (near2, far2) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            let pass = |mut from: TcpStream, mut to: TcpStream| {
                let _ = copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            };
            std::thread::spawn(move || pass(near, far));
            std::thread::spawn(move || pass(far2, near2));
        }
    });
}

fn put(sink: &mut KafkaSink, message: &FlowMessage) {
    let is_batch = matches!(message.body, Some(Body::Batch(_)));
    sink.flows(Encoded { worker: message.worker, is_batch, records: 0, octets: &message.encode_to_vec() }).unwrap();
}

/// Sends messages of 1,000 octets, as fast as there is room.
fn send(sink: &mut KafkaSink, sequences: Range<u64>) {
    for sequence in sequences {
        while sink.queued_octets() > 500_000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        put(sink, &message(sequence, 1000));
    }
}

fn sequences(values: &[Vec<u8>]) -> Vec<u64> {
    values.iter().map(|value| FlowMessage::decode(&value[..]).unwrap().sequence).collect()
}

/// The value of a metric without labels.
fn metric(metrics: &Metrics, name: &str) -> u64 {
    let text = metrics.text();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

fn options(brokers: &str) -> KafkaOptions {
    KafkaOptions {
        brokers: brokers.to_owned(),
        credentials: None,
        properties: BTreeMap::new(),
        probe: "lab".to_owned(),
        workers: 1,
        queue_octets: 1 << 20,
        wait: false,
        spool: None,
    }
}

fn message(sequence: u64, octets: usize) -> FlowMessage {
    let flow = weir_probe::proto::Flow { server_name: "x".repeat(octets), ..Default::default() };
    let body = Some(Body::Batch(weir_probe::proto::FlowBatch { flows: vec![flow], ..Default::default() }));
    FlowMessage { major: 1, probe: "lab".to_owned(), sequence, body, ..FlowMessage::default() }
}

#[test]
fn a_replay_arrives_in_order_with_closing_records_and_counters() {
    let cluster = cluster(2);
    let brokers = cluster.bootstrap_servers();
    let packets: Vec<_> = (0..3000u32)
        .map(|number| {
            let [_, _, high, low] = number.to_be_bytes();
            let ip = t::ipv4([10, 0, high, low], [198, 51, 100, 1], 17, &t::udp((1, 53), b"x"));
            t::whole(1_600_000_000_000_000_000 + u64::from(number) * 10_000_000, t::frame(0x0800, &ip))
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture.pcap");
    std::fs::write(&file, t::pcap(t::Form::default(), &packets)).unwrap();
    let output = probe()
        .arg("read")
        .arg(&file)
        .args(["--to", "kafka", "--probe", "lab", "--workers", "2", "--summary", "json", "--brokers", &brokers])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();

    let (mut records, mut octets, mut batches) = (0, 0, 0);
    for worker in 0..2 {
        let is_last = |value: &Vec<u8>| matches!(FlowMessage::decode(&value[..]).unwrap().body, Some(Body::Closing(closing)) if closing.last);
        let values = consume(&brokers, "weir.flows.lab", worker, |values| values.last().is_some_and(is_last));
        let mut here = 0;
        for (number, value) in values.iter().enumerate() {
            let message = FlowMessage::decode(&value[..]).unwrap();
            assert_eq!((message.major, message.worker, message.sequence), (1, worker as u32, number as u64));
            assert_eq!((message.probe.as_str(), message.interval_ms), ("lab", 10_000));
            assert_eq!(message.epoch, summary["epoch"].as_u64().unwrap());
            match message.body.unwrap() {
                Body::Batch(batch) => {
                    here += batch.flows.len() as u64;
                    batches += 1;
                    octets += batch.flows.iter().map(|flow| flow.fwd_octets + flow.rev_octets).sum::<u64>();
                }
                Body::Closing(closing) => {
                    assert_eq!((closing.records, closing.workers), (here, 2));
                    assert_eq!(closing.source, format!("file:{}", file.display()));
                    records += here;
                    here = 0;
                }
            }
        }
        let counters = consume(&brokers, "weir.counters.lab", worker, |values| values.len() == 3);
        let message = CounterMessage::decode(&counters[0][..]).unwrap();
        assert_eq!((message.worker, message.sequence), (worker as u32, 0));
        assert!(
            message
                .counters
                .iter()
                .any(|counter| counter.set == "protocol" && counter.label == "udp" && counter.packets > 0)
        );
    }
    assert_eq!((records, octets), (3000, 3000 * 29));
    assert_eq!(summary["batches"], batches);
    assert_eq!(summary["records"], records);
}

#[test]
fn a_missing_topic_is_named_with_its_cure() {
    let cluster = cluster(1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture.pcap");
    std::fs::write(&file, t::pcap(t::Form::default(), &[])).unwrap();
    let run = |more: &[&str]| {
        let brokers = cluster.bootstrap_servers();
        let output =
            probe().arg("read").arg(&file).args(["--to", "kafka", "--brokers", &brokers]).args(more).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, error) = run(&["--probe", "other"]);
    assert_eq!(status, Some(2));
    assert!(error.contains("no topic weir.flows.other") && error.contains("run `weir probe add other`"), "{error}");
    let (status, error) = run(&["--probe", "lab", "--workers", "2"]);
    assert_eq!(status, Some(2));
    assert!(error.contains("has 1 partitions for 2 workers"), "{error}");
}

#[test]
fn a_client_that_may_not_write_is_told_so() {
    let cluster = cluster(1);
    cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED; 20]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture.pcap");
    std::fs::write(&file, t::pcap(t::Form::default(), &[])).unwrap();
    let brokers = cluster.bootstrap_servers();
    let output = probe()
        .arg("read")
        .arg(&file)
        .args(["--to", "kafka", "--probe", "lab", "--brokers", &brokers])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("refuses this client for weir.") && error.contains("run `weir probe add lab`"), "{error}");
}

#[test]
fn what_was_accepted_while_kafka_was_away_arrives_once_it_is_back() {
    let cluster = cluster(1);
    // A port where nobody listens yet; a proxy to the cluster opens there later.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let kafka =
        Kafka::start(options(&address.to_string()), KafkaMetrics::new(&Metrics::default()), &Asked::default()).unwrap();
    let mut sink = kafka.sink();
    for sequence in 0..100 {
        put(&mut sink, &message(sequence, 100));
    }
    assert!(sink.queued_octets() > 10_000);
    drop(sink);
    let way = TcpListener::bind(address).unwrap();
    let behind = cluster.bootstrap_servers();
    lead(way, behind);
    kafka.finish(Some(PATIENCE)).unwrap();
    let values = consume(&cluster.bootstrap_servers(), "weir.flows.lab", 0, |values| values.len() == 100);
    assert_eq!(sequences(&values), (0..100).collect::<Vec<u64>>());
}

#[test]
fn past_the_bound_messages_are_shed_and_counted() {
    let metrics = Metrics::default();
    let asked = Asked::default();
    let nobody = KafkaOptions { queue_octets: 10_000, ..options("127.0.0.1:1") };
    let kafka = Kafka::start(nobody, KafkaMetrics::new(&metrics), &asked).unwrap();
    let mut sink = kafka.sink();
    for sequence in 0..100 {
        put(&mut sink, &message(sequence, 1000));
    }
    assert!(sink.queued_octets() <= 10_000);
    // There is still room for a closing record, so the reader learns what is missing.
    let closing = FlowMessage { body: Some(Body::Closing(Default::default())), ..message(100, 0) };
    let before = sink.queued_octets();
    put(&mut sink, &closing);
    assert!(sink.queued_octets() > before);
    let text = metrics.text();
    assert!(text.contains("weir_probe_messages_shed_total{cause=\"queue_full\"} 91"), "{text}");
    drop(sink);
    asked.give_up.store(true, Ordering::Relaxed);
    let error = kafka.finish(Some(PATIENCE)).unwrap_err();
    assert!(error.to_string().contains("10 messages"), "{error}");
}

fn with_spool(brokers: &str, folder: &Path) -> KafkaOptions {
    let spool = SpoolOptions { folder: folder.to_owned(), max_octets: 64 << 20 };
    KafkaOptions { spool: Some(spool), ..options(brokers) }
}

#[test]
fn nothing_is_written_to_disk_while_kafka_takes_messages() {
    let cluster = cluster(1);
    let folder = tempfile::tempdir().unwrap();
    let metrics = Metrics::default();
    let options = with_spool(&cluster.bootstrap_servers(), folder.path());
    let kafka = Kafka::start(options, KafkaMetrics::new(&metrics), &Asked::default()).unwrap();
    let mut sink = kafka.sink();
    let delivered = |count: u64| {
        let deadline = Instant::now() + PATIENCE;
        while metric(&metrics, "weir_probe_messages_delivered_total") < count {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    // The first ones may wait on disk until the brokers are found.
    put(&mut sink, &message(0, 1000));
    delivered(1);
    let before = metric(&metrics, "weir_probe_messages_spooled_total");
    for sequence in 1..100 {
        put(&mut sink, &message(sequence, 1000));
        delivered(sequence + 1);
    }
    assert_eq!(metric(&metrics, "weir_probe_messages_spooled_total"), before);
    drop(sink);
    kafka.finish(Some(PATIENCE)).unwrap();
}

#[test]
fn what_memory_had_no_room_for_waits_on_disk_and_arrives_once_and_in_order() {
    let cluster = cluster(1);
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let metrics = Metrics::default();
    let options = with_spool(&address.to_string(), folder.path());
    let kafka = Kafka::start(options, KafkaMetrics::new(&metrics), &Asked::default()).unwrap();
    let mut sink = kafka.sink();
    send(&mut sink, 0..5000);
    assert!(sink.spooled_octets() > 4_000_000);
    lead(TcpListener::bind(address).unwrap(), cluster.bootstrap_servers());
    send(&mut sink, 5000..6000);
    // While the spool holds messages, new messages are appended to it.
    let deadline = Instant::now() + PATIENCE;
    while metric(&metrics, "weir_probe_messages_delivered_total") < 5000 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(10));
    }
    send(&mut sink, 6000..6100);
    drop(sink);
    kafka.finish(Some(PATIENCE)).unwrap();
    let values = consume(&cluster.bootstrap_servers(), "weir.flows.lab", 0, |values| values.len() >= 6100);
    assert_eq!(sequences(&values), (0..6100).collect::<Vec<u64>>());
    let (spooled, replayed) =
        (metric(&metrics, "weir_probe_messages_spooled_total"), metric(&metrics, "weir_probe_messages_replayed_total"));
    assert!(spooled >= 4500 && spooled == replayed, "{spooled}, {replayed}");
    assert_eq!(metric(&metrics, "weir_probe_spool_octets"), 0);
    assert!(!metrics.text().contains("messages_shed_total{"));
}

#[test]
fn kafka_may_go_away_and_the_agent_too_and_nothing_is_missing() {
    let cluster = cluster(1);
    let brokers = cluster.bootstrap_servers();
    let folder = tempfile::tempdir().unwrap();
    let metrics = Metrics::default();
    let kafka =
        Kafka::start(with_spool(&brokers, folder.path()), KafkaMetrics::new(&metrics), &Asked::default()).unwrap();
    let mut sink = kafka.sink();
    send(&mut sink, 0..100);
    consume(&brokers, "weir.flows.lab", 0, |values| values.len() >= 100);
    cluster.broker_down(1).unwrap();
    send(&mut sink, 100..1000);
    drop(sink);
    // The sink does not wait for the whole time limit if Kafka is away and all messages are on disk.
    kafka.finish(Some(PATIENCE)).unwrap();
    assert!(metric(&metrics, "weir_probe_messages_spooled_total") >= 900);

    cluster.broker_up(1).unwrap();
    let metrics = Metrics::default();
    let kafka =
        Kafka::start(with_spool(&brokers, folder.path()), KafkaMetrics::new(&metrics), &Asked::default()).unwrap();
    let mut sink = kafka.sink();
    send(&mut sink, 1000..1100);
    drop(sink);
    kafka.finish(Some(PATIENCE)).unwrap();
    let values = consume(&brokers, "weir.flows.lab", 0, |values| sequences(values).last() == Some(&1099));
    // Messages in flight when Kafka went away may have arrived: readers drop repeats.
    let mut once = sequences(&values);
    let mut newest = None;
    once.retain(|sequence| {
        newest.replace(newest.map_or(*sequence, |newest: u64| newest.max(*sequence))) < Some(*sequence)
    });
    assert_eq!(once, (0..1100).collect::<Vec<u64>>());
    assert_eq!(metric(&metrics, "weir_probe_spool_octets"), 0);
}

#[test]
fn a_full_spool_gives_up_its_oldest_messages_and_counts_them() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = Metrics::default();
    let spool = SpoolOptions { folder: folder.path().to_owned(), max_octets: 1 << 20 };
    let options = KafkaOptions { spool: Some(spool), ..options("127.0.0.1:1") };
    let kafka = Kafka::start(options, KafkaMetrics::new(&metrics), &Asked::default()).unwrap();
    let mut sink = kafka.sink();
    send(&mut sink, 0..3000);
    drop(sink);
    kafka.finish(Some(PATIENCE)).unwrap();
    assert!(metric(&metrics, "weir_probe_spool_octets") <= 1 << 20);
    assert!(metric(&metrics, "weir_probe_messages_shed_total{cause=\"spool_full\"}") >= 1000);
}

#[test]
fn a_spool_that_cannot_be_written_is_said_and_messages_wait_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let cluster = cluster(1);
    let brokers = cluster.bootstrap_servers();
    let metrics = Metrics::default();
    let kafka = Kafka::start(with_spool(&brokers, &file), KafkaMetrics::new(&metrics), &Asked::default()).unwrap();
    let mut sink = kafka.sink();
    send(&mut sink, 0..100);
    drop(sink);
    kafka.finish(Some(PATIENCE)).unwrap();
    assert_eq!(consume(&brokers, "weir.flows.lab", 0, |values| values.len() >= 100).len(), 100);
    assert_eq!(metric(&metrics, "weir_probe_spool_errors_total"), 1);
}
