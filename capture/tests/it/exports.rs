//! Exports as read by receivers that know only nProbe's formats: ntopng's part over ZeroMQ, and Kafka.

use crate::common::cluster::{PATIENCE, consume};
use crate::testing::{self as t, ACK, SYN};
use crate::{own, probe};
use flate2::read::ZlibDecoder;
use rdkafka::mocking::MockCluster;
use serde_json::Value;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

const FLOWS: u32 = 700;

/// A capture of this many flows, each with two packets forward and one back.
fn capture(folder: &Path) -> PathBuf {
    let packet = |number: u32, from: [u8; 4], to: [u8; 4], ports, flags| {
        let data = t::frame(0x0800, &t::ipv4(from, to, 6, &t::tcp(ports, flags, 1, 1, b"abc")));
        t::whole(1_600_000_000_000_000_000 + u64::from(number) * 1_000_000, data)
    };
    let packets: Vec<t::Captured> = (0..FLOWS)
        .flat_map(|number| {
            let (client, server, port) = ([10, 0, 0, 1], [192, 0, 2, 1], 10_000 + number as u16);
            [
                packet(number, client, server, (port, 80), SYN),
                packet(number, server, client, (80, port), SYN | ACK),
                packet(number, client, server, (port, 80), ACK),
            ]
        })
        .collect();
    let path = folder.join("made.pcap");
    std::fs::write(&path, t::pcap(t::Form { nanoseconds: true, ..t::Form::default() }, &packets)).unwrap();
    path
}

/// Packets and octets both ways, by nProbe's numbers or names of the elements.
fn sums(flows: &[Value], keys: [&str; 4]) -> [u64; 4] {
    keys.map(|key| flows.iter().map(|flow| flow[key].as_u64().unwrap()).sum())
}

/// The capture's volume: 43 octets per packet.
const EXPECTED: [u64; 4] = [2 * FLOWS as u64, 2 * 43 * FLOWS as u64, FLOWS as u64, 43 * FLOWS as u64];

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The messages to a subscriber while the agent reads a capture: topic and JSON of each.
fn subscribed(config: &[&str]) -> Vec<(String, Value)> {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = format!("tcp://127.0.0.1:{}", free_port());
    let mut command = probe();
    command.arg("read").arg(capture(folder.path())).args(["--export", &format!("nprobe-zmq={endpoint}")]);
    let mut child = command.args(config).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let socket = zmq::Context::new().socket(zmq::SUB).unwrap();
    socket.set_subscribe(b"").unwrap();
    socket.set_rcvtimeo(200).unwrap();
    socket.connect(&endpoint).unwrap();
    let (mut found, mut next, deadline) = (Vec::new(), 0, Instant::now() + PATIENCE);
    loop {
        let ended = child.try_wait().unwrap();
        match socket.recv_multipart(0) {
            Ok(frames) => {
                let [header, payload] = &frames[..] else { panic!("{} frames", frames.len()) };
                assert_eq!((header.len(), header[16]), (24, 2), "a header of version 2");
                let number = |octets: &[u8]| octets.iter().fold(0_usize, |sum, &octet| sum << 8 | usize::from(octet));
                assert_eq!(number(&header[18..20]), payload.len());
                assert_eq!(number(&header[20..24]), next, "no gap");
                next += 1;
                let topic: Vec<u8> = header[..16].iter().copied().take_while(|&octet| octet != 0).collect();
                let mut json = Vec::new();
                match payload.split_first() {
                    Some((0, zlib)) => drop(ZlibDecoder::new(zlib).read_to_end(&mut json).unwrap()),
                    _ => json.clone_from(payload),
                }
                found.push((String::from_utf8(topic).unwrap(), serde_json::from_slice(&json).unwrap()));
            }
            Err(_) if ended.is_some() => break,
            Err(_) => assert!(Instant::now() < deadline, "the agent does not end"),
        }
    }
    assert!(child.wait().unwrap().success());
    found
}

fn of<'a>(found: &'a [(String, Value)], topic: &'a str) -> impl Iterator<Item = &'a Value> {
    found.iter().filter(move |(of, _)| of == topic).map(|(_, json)| json)
}

#[test]
fn ntopng_is_sent_every_flow() {
    let found = subscribed(&[]);
    let flows: Vec<Value> = of(&found, "flow").flat_map(|array| array.as_array().unwrap().clone()).collect();
    assert_eq!(flows.len(), FLOWS as usize);
    assert_eq!(sums(&flows, ["2", "1", "24", "23"]), EXPECTED);
    let first = &flows[0];
    assert_eq!(
        (&first["8"], &first["12"], &first["11"], &first["4"]),
        (&"10.0.0.1".into(), &"192.0.2.1".into(), &80.into(), &6.into())
    );
    assert!(first.get("35632.118").is_some(), "{first}");
    let event = of(&found, "event").last().unwrap();
    assert_eq!((&event["packets"], &event["bytes"]), (&(3 * FLOWS).into(), &(3 * 43 * FLOWS).into()));
    assert_eq!((&event["packet_drops"], &event["zmq"]["num_flow_exports"]), (&0.into(), &FLOWS.into()));
    assert!(event["time"].as_u64() > Some(1_700_000_000) && event["iface"]["name"].is_string());
    let template = of(&found, "template").next().unwrap().as_array().unwrap();
    assert!(
        template.iter().any(|element| element["name"] == "IN_BYTES" && element["field"] == 1 && element["PEN"] == 0)
    );
}

#[test]
fn names_for_keys_and_a_template_of_ones_own() {
    let found = subscribed(&["--json-labels", "--template", "%IPV4_SRC_ADDR %IN_PKTS %IN_BYTES"]);
    let flows: Vec<Value> = of(&found, "flow").flat_map(|array| array.as_array().unwrap().clone()).collect();
    assert_eq!(sums(&flows, ["IN_PKTS", "IN_BYTES", "OUT_PKTS", "OUT_BYTES"]), EXPECTED);
    assert_eq!(flows[0].as_object().unwrap().len(), 5);
}

#[test]
fn kafka_is_sent_a_message_for_each_flow() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("nprobe", 1, 1).unwrap();
    let brokers = cluster.bootstrap_servers();
    let mut command = probe();
    command
        .arg("read")
        .arg(capture(folder.path()))
        .args(["--export", &format!("nprobe-kafka={brokers};nprobe;1;none")]);
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let messages = consume(&brokers, "nprobe", 0, |messages| messages.len() >= FLOWS as usize);
    let flows: Vec<Value> = messages.iter().map(|message| serde_json::from_slice(message).unwrap()).collect();
    assert_eq!(sums(&flows, ["2", "1", "24", "23"]), EXPECTED);
}

#[test]
fn a_wrong_export_is_told_in_one_line() {
    for (export, expected) in [
        ("ipfix=host", "not an address such as"),
        ("sflow=host:1", "use ipfix, netflow-v9, nprobe-kafka or nprobe-zmq"),
        ("nprobe-zmq=5556", "not an endpoint such as"),
        ("ipfix=tcp://127.0.0.1:9", "cannot connect to 127.0.0.1:9"),
    ] {
        let capture = own("golden"); // Never reached, or not as a capture.
        let folder = tempfile::tempdir().unwrap();
        let capture = if export.contains("tcp:") { self::capture(folder.path()) } else { capture };
        let done = probe().arg("read").arg(capture).args(["--export", export]).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!((done.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}
