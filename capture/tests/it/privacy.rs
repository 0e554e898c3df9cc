//! `[privacy]`: nothing that leaves an agent or a collector names an address. Each search first finds the addresses where
//! there is no `[privacy]`.

use crate::captures;
use crate::collect::{Collector, now_s, words};
use crate::common::probe;
use crate::testing::{self as t, ACK, SYN};
use serde_json::Value;
use std::net::{IpAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

/// Lines of the configuration; the key is a file of `folder`.
fn switched_on(folder: &Path, more: &str) -> String {
    let key = folder.join("privacy.key");
    std::fs::write(&key, "abcdefghijklmnopqrstuvwxyz012345").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    format!("[privacy]\nmode = \"cryptopan\"\nkey_file = {key:?}\n{more}")
}

/// Those of the needles that the octets hold: addresses as text or in network order, and words.
fn found<'a>(octets: &[u8], needles: &[&'a str]) -> Vec<&'a str> {
    let holds = |wanted: &[u8]| octets.windows(wanted.len()).any(|window| window == wanted);
    let named = |needle: &&&str| match needle.parse() {
        Ok(IpAddr::V4(four)) => holds(needle.as_bytes()) || holds(&four.octets()),
        Ok(IpAddr::V6(six)) => holds(needle.as_bytes()) || holds(&six.octets()),
        Err(_) => holds(needle.as_bytes()),
    };
    needles.iter().filter(named).copied().collect()
}

/// What a capture names: both ends of flows of both versions, the flow that an ICMP error quotes, and names.
const CAPTURED: [&str; 8] = [
    "198.51.100.77",
    "203.0.113.88",
    "2001:db8::77",
    "2001:db8::88",
    "192.0.2.201",
    "192.0.2.202",
    "www.example.org",
    "asked.example.net",
];

fn capture(folder: &Path) -> PathBuf {
    let ([client, server], [one, other]) =
        ([[198, 51, 100, 77], [203, 0, 113, 88]], [[192, 0, 2, 201], [192, 0, 2, 202]]);
    let http = b"GET / HTTP/1.1\r\nHost: www.example.org\r\n\r\n";
    let question =
        [&[0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"\x05asked\x07example\x03net\0", &[0, 1, 0, 1]].concat();
    let quoted = t::ipv4(one, other, 17, &t::udp((53, 1234), b""));
    let frames = [
        t::frame(0x0800, &t::ipv4(client, server, 6, &t::tcp((1000, 80), SYN, 1, 0, b""))),
        t::frame(0x0800, &t::ipv4(client, server, 6, &t::tcp((1000, 80), ACK, 2, 1, http))),
        t::frame(0x86dd, &t::ipv6(0x77, 0x88, 17, &t::udp((1001, 53), &question))),
        t::frame(0x0800, &t::ipv4(server, client, 1, &t::icmp(3, 3, &quoted))),
    ];
    let start_ns = 1_600_000_000_000_000_000;
    let packets: Vec<_> = frames.into_iter().map(|frame| t::whole(start_ns, frame)).collect();
    let path = folder.join("made.pcap");
    std::fs::write(&path, t::pcap(t::Form { nanoseconds: true, ..t::Form::default() }, &packets)).unwrap();
    path
}

/// Reads the capture with this configuration; returns the output and what collectors of IPFIX and NetFlow v9 received.
fn read(folder: &Path, config: &str) -> (Output, Vec<u8>) {
    let path = folder.join("weir-probe.toml");
    std::fs::write(&path, format!("local_networks = [\"198.51.100.0/24\"]\n{config}")).unwrap();
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    collector.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut command = probe();
    command.arg("read").arg(capture(folder)).args(["--to", "jsonl", "--keep-time", "--config"]).arg(path);
    for form in ["ipfix", "netflow-v9"] {
        command.args(["--export", &format!("{form}=udp://{}", collector.local_addr().unwrap())]);
    }
    command.args([
        "--template",
        "%IPV4_SRC_ADDR %IPV4_DST_ADDR %IPV6_SRC_ADDR %IPV6_DST_ADDR %TLS_SERVER_NAME %DNS_QUERY",
    ]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut received, mut datagram) = (Vec::new(), [0; 65_536]);
    while let Ok(length) = collector.recv(&mut datagram) {
        received.extend_from_slice(&datagram[..length]);
    }
    (output, received)
}

fn records(output: &Output) -> Vec<Value> {
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn nothing_that_a_replay_publishes_names_an_address() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, received) = read(folder.path(), "");
    assert_eq!(found(&plain.stdout, &CAPTURED), CAPTURED);
    assert_eq!(found(&received, &CAPTURED).len(), CAPTURED.len() - 2, "all but the quoted flow");
    let (hidden, received) = read(folder.path(), &switched_on(folder.path(), ""));
    for octets in [&hidden.stdout, &hidden.stderr, &received] {
        assert_eq!(found(octets, &CAPTURED), [""; 0]);
    }
    let (plain, hidden) = (records(&plain), records(&hidden));
    assert_eq!((plain.len(), hidden.len()), (3, 3));
    for (plain, hidden) in plain.iter().zip(&hidden) {
        assert_eq!((plain.get("pseudonyms"), &hidden["pseudonyms"]), (None, &Value::from("both")));
        for same in ["src_port", "dst_port", "fwd_octets", "protocol", "first_seen"] {
            assert_eq!(plain[same], hidden[same]);
        }
    }
    // The pseudonyms of one address are equal, wherever it stands.
    let icmp = hidden.iter().find(|record| record["protocol"] == 1).unwrap();
    assert_eq!((&hidden[0]["src_addr"], &hidden[0]["dst_addr"]), (&icmp["dst_addr"], &icmp["src_addr"]));
}

#[test]
fn names_are_kept_and_others_addresses_too_if_asked_for_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (kept, _) = read(folder.path(), &switched_on(folder.path(), "addresses = \"local\"\nnames = true"));
    let absent = ["198.51.100.77"];
    assert_eq!(found(&kept.stdout, &absent), [""; 0]);
    let present: Vec<_> = CAPTURED.into_iter().filter(|needle| !absent.contains(needle)).collect();
    assert_eq!(found(&kept.stdout, &CAPTURED), present);
    let which: Vec<_> = records(&kept).iter().map(|record| record.get("pseudonyms").cloned()).collect();
    assert_eq!(which, [Some("source".into()), Some("destination".into()), None]);
}

#[test]
fn a_configuration_that_would_publish_an_address_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |config: &str| {
        let path = folder.path().join("weir-probe.toml");
        std::fs::write(&path, config).unwrap();
        let output = probe().arg("read").arg(capture(folder.path())).arg("--config").arg(path).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let on = switched_on(folder.path(), "");
    let labelled = format!("{on}\n[filters.sets.site]\n\"to 10.1.2.3/32\" = \"dst host 10.1.2.3\"\n");
    assert!(refused(&labelled).contains("\"to 10.1.2.3/32\" names an address"));
    std::fs::remove_file(folder.path().join("privacy.key")).unwrap();
    assert!(refused(&on).contains("privacy.key_file"), "without its key, the agent publishes nothing");
}

/// What a router's messages name: both ends, next hops, both ends after translation, in flows and in events; a MAC
/// address; subscribers, and interfaces by a description.
const EXPORTED: [&str; 11] = [
    "198.51.100.77",
    "203.0.113.88",
    "192.0.2.201",
    "192.0.2.202",
    "192.0.2.203",
    "192.0.2.204",
    "198.51.100.78",
    "203.0.113.89",
    "192.0.2.205",
    "anna",
    "line of anna",
];

fn message(sets: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let sets: Vec<u8> = sets
        .iter()
        .flat_map(|(id, body)| [&id.to_be_bytes()[..], &(body.len() as u16 + 4).to_be_bytes(), body].concat())
        .collect();
    [words(&[10 << 16 | (16 + sets.len() as u32), now_s(), 0, 1]), sets].concat()
}

/// Templates, a flow, an event, and the name of an interface.
fn exported() -> Vec<Vec<u8>> {
    let shorts = |numbers: &[u16]| numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>();
    let flow = [8, 4, 12, 4, 15, 4, 18, 4, 225, 4, 226, 4, 56, 6, 4, 1, 7, 2, 11, 2, 2, 4, 1, 4];
    let event = [230, 1, 8, 4, 225, 4, 12, 4, 371, 4, 323, 8];
    let name = [300 + 2, 3, 1, 10, 4, 82, 8, 83, 12];
    let templates = [shorts(&[300, 12]), shorts(&flow), shorts(&[301, 6]), shorts(&event)].concat();
    let address = |needle: &str| match needle.parse().unwrap() {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
    };
    let ends = EXPORTED[..6].iter().flat_map(|needle| address(needle)).collect::<Vec<u8>>();
    let counts = [&[2, 0x11, 0x22, 0x33, 0x44, 0x55, 17][..], &shorts(&[1000, 53]), &words(&[3, 300])].concat();
    let translated = [address(EXPORTED[6]), address(EXPORTED[8]), address(EXPORTED[7])].concat();
    let at = (u64::from(now_s()) * 1000).to_be_bytes();
    vec![
        message(&[(2, templates), (3, shorts(&name))]),
        message(&[(300, [ends, counts].concat())]),
        message(&[(301, [&[4][..], &translated, EXPORTED[9].as_bytes(), &at].concat())]),
        message(&[(302, [&words(&[7])[..], b"xe-0/0/1", EXPORTED[10].as_bytes()].concat())]),
    ]
}

/// Everything that a collector leaves: its output, its log, its metrics, its saved state and the spool.
fn collected(to: &str, privacy: bool) -> (Vec<u8>, Vec<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let more = if privacy { switched_on(folder.path(), "") } else { String::new() };
    // Kafka is away.
    let more = format!("{more}\n[kafka]\nbrokers = \"127.0.0.1:1\"\n");
    let collector = Collector::start_to(to, &more, folder.path(), &["--ipfix", "127.0.0.1:0"]);
    let router = UdpSocket::bind("127.0.0.9:0").unwrap();
    for datagram in exported() {
        router.send_to(&datagram, collector.said_after("listening on ")).unwrap();
    }
    collector.counts("weir_probe_exporter_records_total{exporter=\"127.0.0.9\",protocol=\"ipfix\"} 1");
    let metrics = collector.metrics();
    std::thread::sleep(Duration::from_millis(2500)); // Two intervals: what was received is published.
    let (records, log) = collector.stop_without_kafka();
    let (mut files, mut octets) = (Vec::new(), [metrics.into_bytes(), log.into_bytes()].concat());
    captures(folder.path(), &mut files);
    for file in files.iter().filter(|file| file.file_name().is_none_or(|name| name != "weir-probe.toml")) {
        octets.extend(std::fs::read(file).unwrap());
    }
    (octets, records)
}

#[test]
fn nothing_that_a_collector_leaves_names_an_address() {
    let (plain, records) = collected("jsonl", false);
    // JSON lines hold no events.
    assert_eq!(found(&plain, &EXPORTED), EXPORTED[..6]);
    assert!(records[0]["src_mac"].as_u64().unwrap() > 0);
    let (hidden, records) = collected("jsonl", true);
    assert_eq!(found(&hidden, &EXPORTED), [""; 0]);
    assert_eq!((records[0].get("src_mac"), &records[0]["exporter_addr"]), (None, &Value::from("127.0.0.9")));
    let (plain, _) = collected("kafka", false);
    assert_eq!(found(&plain, &EXPORTED), EXPORTED, "in the spool");
    let (hidden, _) = collected("kafka", true);
    assert_eq!(found(&hidden, &EXPORTED), [""; 0], "in the spool");
    assert_eq!(found(&hidden, &["127.0.0.9", "af_packet", "collect:"]).len(), 2, "the spool was searched");
}
