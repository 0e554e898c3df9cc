//! `weir-probe collect` as a whole: the data of routers and nProbes, in its records, its metrics and its summary.

use crate::common::cluster::PATIENCE;
use crate::probe;
use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer as _};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A running collector; a test that fails kills it.
pub struct Collector {
    child: Child,
    records: PathBuf,
    log: PathBuf,
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Collector {
    /// Starts it, and waits until it listens; templates and the like are kept in `folder`.
    fn start(folder: &Path, arguments: &[&str]) -> Collector {
        Collector::start_to("jsonl", "", folder, arguments)
    }

    /// The same for records that go to `to`, with `more` lines of configuration.
    pub fn start_to(to: &str, more: &str, folder: &Path, arguments: &[&str]) -> Collector {
        let [config, records, log] = ["weir-probe.toml", "records", "log"].map(|name| folder.join(name));
        let text = format!("probe = \"edge\"\ninterval = \"1s\"\n[metrics]\nlisten = \"127.0.0.1:0\"\n{more}");
        std::fs::write(&config, text).unwrap();
        let mut command = probe();
        command.args(["collect", "--to", to, "--config"]).arg(&config).arg("--state-dir").arg(folder);
        command.args(arguments).stdout(File::create(&records).unwrap()).stderr(File::create(&log).unwrap());
        let collector = Collector { child: command.spawn().unwrap(), records, log };
        collector.until("listening on");
        collector
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// The TCP port that it listens on: that of its only socket in this state.
    fn tcp_port(&self) -> u16 {
        let listening = |text: &str| {
            let sockets: Vec<String> = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))
                .unwrap()
                .filter_map(|entry| Some(std::fs::read_link(entry.ok()?.path()).ok()?.to_string_lossy().into_owned()))
                .collect();
            text.lines().find_map(|line| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                let is_own = fields[3] == "0A" && sockets.contains(&format!("socket:[{}]", fields[9]));
                is_own.then(|| u16::from_str_radix(fields[1].split_once(':').unwrap().1, 16).unwrap())
            })
        };
        listening(&std::fs::read_to_string("/proc/net/tcp").unwrap()).unwrap()
    }

    /// Waits until it logs this.
    pub fn until(&self, needle: &str) {
        until(|| self.log().contains(needle), || format!("it does not say {needle:?} but:\n{}", self.log()));
    }

    /// The word that follows this text in its log.
    pub fn said_after(&self, needle: &str) -> String {
        let log = self.log();
        let rest = log.split_once(needle).unwrap_or_else(|| panic!("no {needle:?} in:\n{log}")).1;
        rest.split([' ', ',', '\n']).next().unwrap().to_owned()
    }

    pub fn metrics(&self) -> String {
        let address = self.said_after("metrics on http://");
        let mut stream = TcpStream::connect(address.strip_suffix("/metrics").unwrap()).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Waits until its metrics have this line.
    pub fn counts(&self, line: &str) {
        let has = || self.metrics().lines().any(|other| other == line);
        until(has, || format!("no {line:?} in:\n{}", self.metrics()));
    }

    /// Asks it to end; returns its records, and the end of its log, the summary.
    pub fn stop(mut self) -> (Vec<Value>, String) {
        self.terminate();
        self.ended()
    }

    /// The same, and asks again if it waits for Kafka.
    pub fn stop_without_kafka(mut self) -> (Vec<Value>, String) {
        self.terminate();
        std::thread::sleep(Duration::from_secs(1));
        if self.child.try_wait().unwrap().is_none() {
            self.terminate();
        }
        self.ended()
    }

    fn ended(&mut self) -> (Vec<Value>, String) {
        until(|| self.child.try_wait().unwrap().is_some(), || "it does not end".to_owned());
        let lines = std::fs::read_to_string(&self.records).unwrap();
        let records = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (records, self.log())
    }

    fn terminate(&self) {
        let status = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

/// Its summary as JSON.
fn summary(log: &str) -> Value {
    serde_json::from_str(log.lines().last().unwrap()).unwrap_or_else(|error| panic!("{error} in:\n{log}"))
}

fn until(mut is: impl FnMut() -> bool, otherwise: impl FnOnce() -> String) {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < deadline, "{}", otherwise());
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn now_s() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as u32
}

pub fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// NetFlow v5 with records of three packets and 300 octets, from ports numbered after its own number.
fn v5(records: u32, number: u32) -> Vec<u8> {
    let mut data = words(&[5 << 16 | records, 90_000, now_s(), 0, number, 0]);
    for port in 1000 + number..1000 + number + records {
        data.extend(words(&[0x0a00_0001, 0x0a00_0002, 0, 0, 3, 300, 90_000, 90_000, port << 16 | 53, 17 << 8, 0, 0]));
    }
    data
}

/// Sends the collector NetFlow v5 from this address: three records, of which some are missing in between. Returns the router,
/// and the address of the collector's first socket.
fn sends_three(collector: &Collector, address: &str, missing: u32) -> (UdpSocket, String) {
    let to = collector.said_after("listening on ");
    let router = UdpSocket::bind(address).unwrap();
    router.send_to(&v5(2, 0), &to).unwrap();
    router.send_to(&v5(1, 2 + missing), &to).unwrap();
    (router, to)
}

#[test]
fn records_of_a_router_are_published_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Collector::start(folder.path(), &["--netflow", "127.0.0.1:0", "--summary", "json"]);
    let (router, to) = sends_three(&collector, "127.0.0.2:0", 4);
    router.send_to(b"GET / HTTP/1.1", &to).unwrap();
    let of = "{exporter=\"127.0.0.2\",protocol=\"netflow5\"}";
    collector.counts(&format!("weir_probe_exporter_records_total{of} 3"));
    collector.counts(&format!("weir_probe_exporter_lost_total{of} 4"));
    collector.counts(&format!("weir_probe_exporter_records_without_sampling_rate_total{of} 3"));
    collector
        .counts("weir_probe_exporter_refused_total{exporter=\"\",protocol=\"unknown\",cause=\"unknown_version\"} 1");

    let (records, log) = collector.stop();
    let of = |record: &Value| ["exporter_addr", "src_addr", "dst_addr"].map(|key| record[key].clone());
    assert!(
        records.iter().all(|record| of(record) == [json!("127.0.0.2"), json!("10.0.0.1"), json!("10.0.0.2")]),
        "{records:?}"
    );
    let sum = |key: &str| records.iter().map(|record| record[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((records.len(), sum("fwd_packets"), sum("fwd_octets")), (3, 9, 900));
    let told = summary(&log);
    assert_eq!((&told["exporters"], &told["datagrams"], &told["records_received"]), (&json!(1), &json!(3), &json!(3)));
    assert_eq!((&told["packets"], &told["octets"], &told["records"]), (&json!(9), &json!(900), &json!(3)));
    assert_eq!(told["lost"]["records_or_datagrams"], 4);
    assert_eq!(told["without_sampling_rate"], 3);
    assert_eq!(told["refused"], json!({"unknown_version": 1}));
    assert_eq!(told["octets_received"], 24 + 48 * 2 + 24 + 48 + 14);
    assert_eq!(told["times_moved"], json!({"future": 0, "old": 0}));
}

#[test]
fn the_summary_for_people_names_what_came_beside_flows_and_what_did_not() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Collector::start(folder.path(), &["--ipfix", "127.0.0.1:0", "--netflow", "127.0.0.1:0"]);
    let (router, to) = sends_three(&collector, "127.0.0.3:0", 7);
    // Events: natEvent 1 of an address.
    let set = |id: u32, body: &[u8]| [words(&[id << 16 | (body.len() as u32 + 4)]), body.to_vec()].concat();
    let message =
        |number: u32, set: Vec<u8>| [words(&[10 << 16 | (16 + set.len() as u32), now_s(), number, 1]), set].concat();
    let template = [300, 4, 230, 1, 8, 4, 225, 4, 323, 8].map(u16::to_be_bytes).concat();
    let event = [&[1, 10, 0, 0, 1, 192, 0, 2, 9][..], &(u64::from(now_s()) * 1000).to_be_bytes()].concat();
    router.send_to(&message(0, set(2, &template)), &to).unwrap();
    router.send_to(&message(0, set(300, &event)), &to).unwrap();
    let of = "{exporter=\"127.0.0.3\",protocol=\"netflow5\"}";
    collector.counts(&format!("weir_probe_exporter_records_total{of} 3"));
    let (_, log) = collector.stop();
    for line in [
        "3 records of 2 exporters in 4 datagrams",
        "  published: 3 records, 9 packets, 900 octets, ",
        "  besides flows: 1 events of translation, 0 samples of interfaces' counters",
        "  lost before arrival, by sequence numbers: 7",
        "  without a sampling rate, counted unscaled: 3 records",
    ] {
        assert!(log.contains(line), "no {line:?} in:\n{log}");
    }
    for absent in ["dropped by exporters", "nProbe's messages", "without a place"] {
        assert!(!log.contains(absent), "{absent:?} in:\n{log}");
    }
}

#[test]
fn connections_that_carry_ipfix_are_heard_like_datagrams() {
    let folder = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let collector = Collector::start(folder.path(), &["--ipfix", &port, "--summary", "json"]);
    let template = [[2, 24, 300, 4, 8, 4, 12, 4, 1, 4, 2, 4].map(u16::to_be_bytes).concat()].concat();
    let data = [words(&[300 << 16 | 20]), words(&[0x0a00_0001, 0x0a00_0002, 100, 1])].concat();
    let body = [template, data].concat();
    let message = [words(&[10 << 16 | (16 + body.len() as u32), now_s(), 0, 1]), body].concat();
    let mut stream = TcpStream::connect(&port).unwrap();
    stream.write_all(&message).unwrap();
    collector.counts("weir_probe_exporter_records_total{exporter=\"127.0.0.1\",protocol=\"ipfix\"} 1");
    let (records, log) = collector.stop();
    assert_eq!((records.len(), &records[0]["fwd_octets"]), (1, &json!(100)));
    assert_eq!(summary(&log)["lost"]["records_or_datagrams"], 0);
}

/// An nProbe record from this port.
fn nprobe(port: u16) -> String {
    let now = now_s();
    format!(
        "{{\"IPV4_SRC_ADDR\":\"10.0.0.1\",\"IPV4_DST_ADDR\":\"10.0.0.2\",\"L4_SRC_PORT\":{port},\"L4_DST_PORT\":443,\"PROTOCOL\":6,\
         \"IN_PKTS\":3,\"IN_BYTES\":300,\"FIRST_SWITCHED\":{now},\"LAST_SWITCHED\":{now},\"FAVOURITE_COLOUR\":1}}"
    )
}

#[test]
fn messages_of_an_nprobe_over_zeromq_are_published_and_their_gaps_counted() {
    let folder = tempfile::tempdir().unwrap();
    let context = zmq::Context::new();
    let publisher = context.socket(zmq::PUB).unwrap();
    publisher.bind("tcp://127.0.0.1:*").unwrap();
    let endpoint = publisher.get_last_endpoint().unwrap().unwrap();
    let collector = Collector::start(folder.path(), &["--nprobe-zmq", &endpoint, "--summary", "json"]);
    let send = |topic: &str, number: u32, payload: &str| {
        let mut header = topic.as_bytes().to_vec();
        header.resize(16, 0);
        header.extend([2, 0]);
        header.extend((payload.len() as u16).to_be_bytes());
        header.extend(number.to_be_bytes());
        publisher.send_multipart([&header, payload.as_bytes()], 0).unwrap();
    };
    // A subscriber receives only messages published after it has connected.
    let mut number = 0;
    until(
        || {
            send("hello", number, "{}");
            number += 1;
            collector.log().contains("nProbe publishes on")
        },
        || "nobody subscribes".to_owned(),
    );
    for port in 1..=3 {
        send("flow", number + u32::from(port) - 1, &nprobe(port));
    }
    // Two are missing here.
    send("flow", number + 5, &nprobe(4));
    collector.counts("weir_probe_exporter_records_total{exporter=\"127.0.0.1\",protocol=\"nprobe\"} 4");
    collector.counts("weir_probe_exporter_lost_total{exporter=\"127.0.0.1\",protocol=\"nprobe\"} 2");
    collector.counts("weir_probe_nprobe_messages_total{topic=\"flow\"} 4");
    collector.counts("weir_probe_nprobe_elements_left_out_total{element=\"FAVOURITE_COLOUR\"} 4");
    let (records, log) = collector.stop();
    let mut ports: Vec<_> = records.iter().map(|record| record["src_port"].as_u64().unwrap()).collect();
    ports.sort_unstable();
    assert_eq!(ports, [1, 2, 3, 4]);
    let told = summary(&log);
    assert_eq!((&told["nprobe"]["messages"]["flow"], &told["lost"]["records_or_datagrams"]), (&json!(4), &json!(2)));
    assert_eq!(told["nprobe"]["elements_left_out"]["FAVOURITE_COLOUR"], 4);
}

/// Writes records to the topic `nprobe`.
fn write(cluster: &MockCluster<'static, DefaultProducerContext>, ports: std::ops::RangeInclusive<u16>) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", cluster.bootstrap_servers()).create().unwrap();
    for port in ports {
        producer.send(BaseRecord::<(), str>::to("nprobe").partition(0).payload(&nprobe(port))).unwrap();
    }
    producer.flush(PATIENCE).unwrap();
}

#[test]
fn a_topic_of_an_nprobe_is_read_once_whichever_collector_does() {
    let cluster: MockCluster<'static, DefaultProducerContext> = MockCluster::new(1).unwrap();
    cluster.create_topic("nprobe", 1, 1).unwrap();
    // Records from before the first start, which the collector must not read.
    write(&cluster, 1..=2);
    let topic = format!("{};nprobe", cluster.bootstrap_servers());
    let reading = |folder: &Path| {
        let collector = Collector::start(folder, &["--nprobe-kafka", &topic, "--summary", "json"]);
        collector.until("reading");
        // By now the collector has been assigned the partition and looks up its offset.
        std::thread::sleep(Duration::from_millis(500));
        collector
    };
    let ports_of = |ports: std::ops::RangeInclusive<u16>, count: u64| {
        let folder = tempfile::tempdir().unwrap();
        let collector = reading(folder.path());
        write(&cluster, ports);
        collector.counts(&format!(
            "weir_probe_exporter_records_total{{exporter=\"127.0.0.1\",protocol=\"nprobe\"}} {count}"
        ));
        let (records, log) = collector.stop();
        assert_eq!(summary(&log)["records_received"], count);
        let mut ports: Vec<_> = records.iter().map(|record| record["src_port"].as_u64().unwrap()).collect();
        ports.sort_unstable();
        ports
    };
    // A collector that ends before it receives a record has committed the offset at which it began.
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(reading(folder.path()).stop().0.len(), 0);
    write(&cluster, 3..=3);
    assert_eq!(ports_of(4..=5, 3), [3, 4, 5]);
    // The next collector reads records written while no collector ran.
    write(&cluster, 6..=7);
    assert_eq!(ports_of(8..=8, 3), [6, 7, 8]);
}

/// A line of each thread's status in /proc.
fn of_threads(child: &Child, key: &str) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let status =
        |thread: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(thread.unwrap().path().join("status"));
    let line = |text: String| text.lines().find_map(|line| Some(line.strip_prefix(key)?.trim().to_owned()));
    threads.filter_map(|thread| line(status(thread).ok()?)).collect()
}

#[test]
fn a_collector_gives_up_capabilities_and_system_calls() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Collector::start(folder.path(), &["--netflow", "127.0.0.1:0", "--ipfix", "127.0.0.1:0"]);
    for (key, expected) in [("CapEff:", "0000000000000000"), ("NoNewPrivs:", "1"), ("Seccomp:", "2")] {
        let all = of_threads(&collector.child, key);
        // Capabilities, and the filter, are a thread's own.
        assert!(all.len() > 4 && all.iter().all(|one| one == expected), "{key} {all:?}");
    }
    assert!(!collector.log().contains("without this protection"));
    collector.stop();
}

#[test]
fn a_hangup_changes_the_list_of_exporters_and_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Collector::start(folder.path(), &["--netflow", "127.0.0.1:0", "--summary", "json"]);
    assert!(collector.log().contains("every address may send"));
    let (router, to) = sends_three(&collector, "127.0.0.2:0", 0);
    collector.counts("weir_probe_exporter_records_total{exporter=\"127.0.0.2\",protocol=\"netflow5\"} 3");
    let config = folder.path().join("weir-probe.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}[collect]\nexporters = [\"127.0.0.3/32\"]\n")).unwrap();
    let hang_up =
        || assert!(Command::new("kill").args(["-HUP", &collector.child.id().to_string()]).status().unwrap().success());
    hang_up();
    collector.until("1 prefixes may send");
    router.send_to(&v5(1, 3), &to).unwrap();
    collector.counts(
        "weir_probe_exporter_refused_total{exporter=\"\",protocol=\"unknown\",cause=\"exporter_not_allowed\"} 1",
    );
    std::fs::write(&config, "[collect]\nexporters = [\"127.0.0.3/33\"]\n").unwrap();
    hang_up();
    collector.until("the list of exporters is unchanged");
    UdpSocket::bind("127.0.0.3:0").unwrap().send_to(&v5(1, 0), &to).unwrap();
    let (_, log) = collector.stop();
    let sums = summary(&log);
    assert_eq!((&sums["records_received"], &sums["refused"]), (&json!(4), &json!({"exporter_not_allowed": 1})));
}

#[test]
fn connections_beyond_the_limit_of_open_files_wait_without_using_the_processor() {
    let folder = tempfile::tempdir().unwrap();
    let starts = |files: u32| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\"")]);
        command.arg(probe().get_program()).args(["collect", "--to", "none", "--ipfix", "127.0.0.1:0", "--state-dir"]);
        let [records, log] = ["records", "log"].map(|name| folder.path().join(name));
        command.arg(folder.path()).stdout(File::create(&records).unwrap()).stderr(File::create(&log).unwrap());
        Collector { child: command.spawn().unwrap(), records, log }
    };
    // So few that some connections, but not the permitted number of them, can be opened.
    let collector = starts(20);
    collector.until("listening on");
    let port = collector.tcp_port();
    let connections: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    collector.until("cannot accept a connection");
    let used = |collector: &Collector| -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", collector.child.id())).unwrap();
        stat.rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|ticks| ticks.parse::<u64>().unwrap())
            .sum()
    };
    let before = used(&collector);
    std::thread::sleep(Duration::from_secs(3));
    // Of 300 ticks of a hundredth of a second.
    assert!(
        used(&collector) - before < 60,
        "{} ticks with {} connections",
        used(&collector) - before,
        connections.len()
    );
}
